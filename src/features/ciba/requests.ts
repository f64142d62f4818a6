// CIBA requests that wait for their user. One record lists the requests of each
// user:
//
//   AccessRequests accountId → [request]    open requests, and denied ones within their lifetime
//   AccessRequests HINT → [request]         the same by the hint with which the client named the user
//
// `security.ciba_requests` limits both, even if a request ended early: no
// client can flood a user with requests. The record of the library has the
// decision.

import type { Settings } from '../../config/load.ts'
import { createDeliveryQueue } from '../../store/delivery-queue.ts'
import type { Records } from '../../store/records.ts'
import { now } from '../../store/store.ts'

/** A request for access that waits for its user. */
export interface AccessRequest {
  /** The `auth_req_id`, which only the client knows. */
  id: string
  /** The record that counts the requests with this hint. */
  hint?: string
  /** Its name in the addresses of pages, which gives no access. */
  handle: string
  client_id: string
  /** Keys from `keyOf` (oidc/consents.ts). */
  scopes: string[]
  message?: string
  /** Epoch seconds. */
  since: number
  until: number
  /** The user must have signed in after this time (epoch seconds). */
  signedIn?: number
  /** The `acr` that the user must have signed in with, if any is requested. */
  acrs?: string[]
  /** True if no other `acr` suffices. Otherwise any later sign-in does. */
  isAcrEssential?: boolean
  /** The version of the consent that the answer builds on. */
  version: number
  isDenied?: true
}

/** A ping (CIBA §10.2): the request has its result. */
type Ping = { accountId: string } & Pick<AccessRequest, 'id' | 'client_id'>

/** A request expires soon. */
const PING_PAUSES_SECONDS = [10, 30, 60, 180]

/** See `createAccessRequests`. */
export type AccessRequests = ReturnType<typeof createAccessRequests>

/** Returns the functions that add, list and close requests. */
export function createAccessRequests(
  records: Records,
  { lifetimes, security }: Pick<Settings, 'lifetimes' | 'security'>,
) {
  const lists = records.of<AccessRequest[]>('AccessRequests')
  const ttl = lifetimes.interaction

  return {
    /**
     * Adds a request to a list. Returns false when it has too many requests of
     * this client.
     */
    async ask(list: string, request: AccessRequest): Promise<boolean> {
      const addRequest = ({ value: all = [] }: { value?: AccessRequest[] }) => {
        const counted = all.filter(({ since }) => since + ttl > now())
        const ofClient = counted.filter(
          ({ client_id }) => client_id === request.client_id,
        )
        return ofClient.length < security.ciba_requests
          ? [...counted, request]
          : undefined
      }
      const { isWritten } = await lists.change(list, addRequest, { ttl })
      return isWritten
    },

    /**
     * Returns open requests; `ended`: epoch seconds up to which all access of
     * this account has ended.
     */
    async list(accountId: string, ended = 0): Promise<AccessRequest[]> {
      const { value: all = [] } = await lists.read(accountId)
      return all.filter(
        ({ isDenied, since, until }) =>
          !isDenied && until > now() && since > ended,
      )
    },

    /** Removes a request that was allowed. One that was denied still counts. */
    async close(list: string, id: string, outcome: 'allowed' | 'denied') {
      const closeRequest = ({
        value: all = [],
      }: {
        value?: AccessRequest[]
      }) =>
        outcome === 'allowed'
          ? all.filter(request => request.id !== id)
          : all.map(request =>
              request.id === id
                ? { ...request, isDenied: true as const }
                : request,
            )
      await lists.change(list, closeRequest, { ttl })
    },

    pings: createDeliveryQueue<Ping>(records, {
      names: ['Ping', 'pings'],
      idOf: ({ id }) => id,
      pauses: PING_PAUSES_SECONDS,
    }),
  }
}
