// What applications have asked people for, away from any browser (CIBA). All nodes look at one record of
// each person:
//
//   AccessRequests accountId → { requests }    those that are open, and those that hold their place still
//
// A request that was not allowed holds its place for as long as one can be open, however soon it ended or
// was refused: nobody can be flooded with questions. The library's record of it says what was decided.

import type { Settings } from '../../config/load.ts'
import type { Found, Records } from '../../storage/records.ts'
import { now } from '../../storage/store.ts'

export interface AccessRequest {
  /** The library's, known to the application alone. */
  id: string
  client_id: string
  /** As a consent names them. */
  scopes: string[]
  message?: string
  /** Epoch seconds. */
  since: number
  until: number
  /** A sign-in before this (epoch seconds) does not count for it. */
  signedIn?: number
  /** Of the consent that the answer builds on. */
  version: number
}

export interface OpenRequest extends AccessRequest {
  /** What it is called on our pages: opens nothing. */
  handle: string
}

interface Kept extends AccessRequest {
  /** Epoch seconds to which it holds its place. */
  held: number
  isOver?: true
}

interface Asked {
  requests: Kept[]
}

export type AccessRequests = ReturnType<typeof createAccessRequests>

export function createAccessRequests(
  records: Records,
  { lifetimes, security }: Pick<Settings, 'lifetimes' | 'security'>,
) {
  const longest = lifetimes.interaction

  const update = (accountId: string, change: (found: Found<Asked>) => Asked | undefined) =>
    records.update<Asked>('AccessRequests', accountId, change, { ttl: longest })
  const handleOf = (id: string) => records.prove('access request', id).toString('hex')

  /** False when there is no place for one more. */
  function ask(accountId: string, request: AccessRequest): Promise<boolean> {
    return update(accountId, ({ value }) => {
      const held = (value?.requests ?? []).filter(other => other.held > now())
      const places = held.filter(({ client_id }) => client_id === request.client_id)
      if (places.length >= security.ciba_requests) return undefined
      return { requests: [...held, { ...request, held: now() + longest }] }
    })
  }

  /** `ended`: epoch seconds up to which everything of this account has ended. */
  async function list(accountId: string, ended = 0): Promise<OpenRequest[]> {
    const { value } = await records.read<Asked>('AccessRequests', accountId)
    return (value?.requests ?? [])
      .filter(({ isOver, since, until }) => !isOver && until > now() && since > ended)
      .map(request => ({ ...request, handle: handleOf(request.id) }))
  }

  /** It was answered; what was allowed makes place for another. */
  async function close(accountId: string, id: string, outcome: 'allowed' | 'denied') {
    const change = (request: Kept): Kept[] => {
      if (request.id !== id) return [request]
      return outcome === 'allowed' ? [] : [{ ...request, isOver: true }]
    }
    await update(accountId, ({ value }) => value && { requests: value.requests.flatMap(change) })
  }

  return { ask, list, close }
}

interface Answerable {
  grantId?: string
  error?: unknown
  [key: string]: unknown
}

const ANSWERED = 'BackchannelAuthenticationRequest'

/** Writes the library's records, which it looks at before: what a person answers first stays. */
export function answerOnce(
  records: Records,
  { alreadyUsed }: { alreadyUsed(model: string): Error },
) {
  return async (id: string, payload: Answerable, ttl?: number): Promise<void> => {
    const change = ({ value, version }: Found<Answerable>) => {
      const isOpen = value ? !(value.grantId || value.error) : version === 0
      return isOpen ? payload : undefined
    }
    if (!(await records.update(ANSWERED, id, change, { ttl }))) throw alreadyUsed(ANSWERED)
  }
}
