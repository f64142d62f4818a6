// Consents: the scopes that a user has allowed a client. A consent outlives
// sessions. The library's grants are made from it, and withdrawing it revokes
// them all.

import { isDeepStrictEqual } from 'node:util'
import type { Decide, Found, Name, Records } from '../store/records.ts'
import { now } from '../store/store.ts'
import { revokeGrants } from './adapter/grants.ts'

/** An authorization detail as a client sends it (RFC 9396 §2). */
export type Detail = { type: string; [property: string]: unknown }

/** The consent of one account for one client. */
export interface Consent {
  accountId: string
  client_id: string
  /** Keys from `keyOf`. */
  scopes: string[]
  /**
   * Requested and refused. The consent page does not ask again until the
   * application is removed.
   */
  declined: string[]
  /**
   * Allowed authorization details (RFC 9396), the latest first, each with its
   * time in epoch seconds.
   */
  details?: { detail: Detail; at: number }[]
  /**
   * Clients that exchanged tokens of this client, the latest first (RFC 8693).
   */
  actors?: string[]
  /**
   * Hash of the client name and hosts that the user saw (`appearanceOf` in
   * oidc/grants.ts).
   */
  appearance?: string
  /** Epoch seconds. */
  since: number
  lastUsed: number
  /** See `withdrawalOf`. */
  withdrawn?: number
}

/** The answer of a user to a consent page. */
export interface Decision
  extends Pick<Consent, 'scopes' | 'declined' | 'appearance'> {
  details?: Detail[]
  /** Version of the consent record when the page was shown. */
  version: number
}

/**
 * Returns the key of a scope of an API in a consent: `URI read`. The key of
 * another scope is the scope.
 */
export const keyOf = (scope: string, resource: string) => `${resource} ${scope}`

/** Returns the scope of a key. Neither a scope nor a URI contains a space. */
export function readKey(key: string): { scope: string; resource?: string } {
  const [first = '', second] = key.split(' ')
  return second === undefined
    ? { scope: first }
    : { scope: second, resource: first }
}

/** Consents of all accounts. */
export type Consents = ReturnType<typeof createConsents>

/** Minimum time between two updates of `lastUsed`, each of which is a write. */
const TOUCH_INTERVAL_SECONDS = 3600
const CONSENT_TTL_SECONDS = 365 * 24 * 3600
/** Allowed authorization details that the account page lists for one client. */
const MAX_DETAILS = 20
/** Longer than any page stays open. */
const TOMBSTONE_TTL_SECONDS = 24 * 3600

/** Returns the name of an account's record. */
const accountName = (id: string): Name => ['Account', id]

/**
 * Returns when the user last removed the client (epoch seconds), also if a
 * later decision has allowed it again; 0 if that is longer ago than
 * `TOMBSTONE_TTL_SECONDS`, or never was.
 */
export function withdrawalOf({ value, tombstone }: Found<Consent>): number {
  if (value) return value.withdrawn ?? 0
  return tombstone === undefined ? 0 : tombstone - TOMBSTONE_TTL_SECONDS
}

/** Returns the consents in a store. */
export function createConsents(records: Records) {
  const consents = records.of<Consent>('Consent', { backup: true })
  const idOf = (accountId: string, clientId: string) =>
    `${accountId} ${clientId}`

  /** `version` is stored with a consent page, and compared with its answer. */
  const read = (accountId: string, clientId: string) =>
    consents.read(idOf(accountId, clientId))

  /** Changes a consent; `decide` returns undefined to leave it as it is. */
  const change = (
    accountId: string,
    clientId: string,
    decide: Decide<Consent>,
  ) =>
    consents.change(idOf(accountId, clientId), decide, {
      ttl: CONSENT_TTL_SECONDS,
      indexes: [['consents of account', accountId]],
    })

  /**
   * Reads an account and a consent at the same time. The request keeps both
   * until it writes.
   */
  async function readWithAccount(
    accountId: string,
    clientId: string,
  ): Promise<void> {
    await consents.read(idOf(accountId, clientId), accountName(accountId))
  }

  const find = async (accountId: string, clientId: string) =>
    (await read(accountId, clientId)).value

  const list = (accountId: string) =>
    consents.list('consents of account', accountId)

  /**
   * Records a decision. Declining a scope that was allowed before revokes every
   * grant. Returns false if access was removed while the page was open: the
   * removal wins, and the user is asked again.
   */
  async function decide(
    accountId: string,
    clientId: string,
    { scopes, declined, details = [], appearance, version }: Decision,
  ): Promise<boolean> {
    const isLess = (stored?: Consent) =>
      stored?.scopes.some(scope => declined.includes(scope))
    const { before: replaced, after } = await change(
      accountId,
      clientId,
      async found => {
        if (!found.value && found.version !== version) return undefined
        const {
          since = now(),
          scopes: before = [],
          declined: refused = [],
        } = found.value ?? {}
        // Also before the decision: once it is recorded, its repetition after a
        // fault declines nothing.
        if (isLess(found.value))
          await revokeGrants(records, accountId, clientId)
        const allowed = new Set(
          [...before, ...scopes].filter(scope => !declined.includes(scope)),
        )
        return {
          accountId,
          client_id: clientId,
          scopes: [...allowed],
          declined: [...new Set([...refused, ...declined])].filter(
            scope => !allowed.has(scope),
          ),
          details: remembered(details, found.value?.details),
          actors: found.value?.actors,
          appearance,
          since,
          lastUsed: now(),
          withdrawn: withdrawalOf(found) || undefined,
        }
      },
    )
    if (after && isLess(replaced))
      await revokeGrants(records, accountId, clientId)
    return after !== undefined
  }

  /** Updates `lastUsed`, at most once an hour. */
  const touch = (accountId: string, clientId: string) =>
    change(accountId, clientId, ({ value }) => {
      const isDue = value && now() - value.lastUsed >= TOUCH_INTERVAL_SECONDS
      return isDue ? { ...value, lastUsed: now() } : undefined
    })

  /**
   * When it returns, no code or opaque token of that client for that account is
   * valid.
   */
  async function withdraw(accountId: string, clientId: string): Promise<void> {
    // The grants end before the consent, too: if the process dies in between,
    // the application stays listed, and the user can repeat the withdrawal.
    await revokeGrants(records, accountId, clientId)
    // Requests in flight can make new grants until the consent is removed.
    await consents.remove(idOf(accountId, clientId), TOMBSTONE_TTL_SECONDS)
    await revokeGrants(records, accountId, clientId)
  }

  async function removeAll(accountId: string): Promise<void> {
    for (const { client_id } of await list(accountId))
      await withdraw(accountId, client_id)
  }

  return {
    read,
    readWithAccount,
    find,
    list,
    change,
    decide,
    touch,
    withdraw,
    removeAll,
  }
}

function remembered(
  allowed: Detail[],
  before: Consent['details'] = [],
): Consent['details'] {
  const isNew = ({ detail }: { detail: Detail }) =>
    !allowed.some(other => isDeepStrictEqual(other, detail))
  const all = [
    ...allowed.map(detail => ({ detail, at: now() })),
    ...before.filter(isNew),
  ]
  return all.length ? all.slice(0, MAX_DETAILS) : undefined
}
