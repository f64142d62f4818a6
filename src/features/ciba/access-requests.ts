// CIBA requests that wait for a user. One record lists those of each user:
//
//   AccessRequests accountId → [request]    open ones, and denied ones that still count
//
// A request that was not allowed counts for as long as one can be open, however soon it ended: no client
// can flood a user with questions. The record of the library says what was decided.

import { randomUUID } from 'node:crypto'
import type { Settings } from '../../config/load.ts'
import { taggedId } from '../../state/grants.ts'
import type { Found, Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'

/** A request for access that waits for its user. */
export interface AccessRequest {
  /** The `auth_req_id`, which only the client knows. */
  id: string
  client_id: string
  /** As a consent names them. */
  scopes: string[]
  message?: string
  /** Epoch seconds. */
  since: number
  until: number
  /** The user must have signed in after this time (epoch seconds). */
  signedIn?: number
  /** The version of the consent that the answer builds on. */
  version: number
}

/** A request with its name in the addresses of pages, which gives no access. */
export type OpenRequest = AccessRequest & { handle: string }

type Counted = OpenRequest & { isDenied?: true }

/** See `createAccessRequests`. */
export type AccessRequests = ReturnType<typeof createAccessRequests>

/** Returns the functions that add, list and close requests. */
export function createAccessRequests(
  records: Records,
  { lifetimes, security }: Pick<Settings, 'lifetimes' | 'security'>,
) {
  const kind = 'AccessRequests'
  const ttl = lifetimes.interaction
  const update = (accountId: string, change: (counted: Counted[]) => Counted[] | undefined) =>
    records.update<Counted[]>(kind, accountId, ({ value = [] }) => change(value), { ttl })

  return {
    /** Adds a request. Returns false when too many requests of this client count. */
    ask: (accountId: string, request: AccessRequest): Promise<boolean> =>
      update(accountId, before => {
        const counted = before.filter(({ since }) => since + ttl > now())
        const ofClient = counted.filter(({ client_id }) => client_id === request.client_id)
        if (ofClient.length >= security.ciba_requests) return undefined
        return [...counted, { ...request, handle: randomUUID() }]
      }),

    /** Returns open requests; `ended`: epoch seconds up to which all access of this account has ended. */
    async list(accountId: string, ended = 0): Promise<OpenRequest[]> {
      const { value = [] } = await records.read<Counted[]>(kind, accountId)
      return value.filter(
        ({ isDenied, since, until }) => !isDenied && until > now() && since > ended,
      )
    },

    /** Removes a request that was allowed; one that was denied still counts. */
    close: (accountId: string, id: string, outcome: 'allowed' | 'denied') =>
      update(accountId, counted =>
        counted.flatMap(request => {
          if (request.id !== id) return [request]
          return outcome === 'allowed' ? [] : [{ ...request, isDenied: true }]
        }),
      ),
  }
}

interface Answerable {
  grantId?: string
  error?: unknown
  [key: string]: unknown
}

const ANSWERED = 'BackchannelAuthenticationRequest'

/** Returns an upsert for the library's record that accepts the first answer of the user only. */
export function answerOnce(
  records: Records,
  { alreadyUsed }: { alreadyUsed(model: string): Error },
) {
  return async (id: string, payload: Answerable, ttl?: number): Promise<void> => {
    const change = ({ value, version }: Found<Answerable>) => {
      const isOpen = value ? !(value.grantId || value.error) : version === 0
      return isOpen ? payload : undefined
    }
    if (!(await records.update(ANSWERED, taggedId(id), change, { ttl })))
      throw alreadyUsed(ANSWERED)
  }
}
