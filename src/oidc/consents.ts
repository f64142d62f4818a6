// Consents: the scopes that a user has allowed a client. A consent outlives
// sessions. The library's grants are made from it, and withdrawing it revokes
// them all.

import { isDeepStrictEqual } from 'node:util'
import type {
  Collection,
  Decide,
  Found,
  Name,
  Records,
} from '../store/records.ts'
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

/** Minimum time between two updates of `lastUsed`, each of which is a write. */
const TOUCH_INTERVAL_SECONDS = 3600
const CONSENT_TTL_SECONDS = 365 * 24 * 3600
/** Allowed authorization details that the account page lists for one client. */
const MAX_DETAILS = 20
/** Longer than any page stays open. */
const TOMBSTONE_TTL_SECONDS = 24 * 3600

/**
 * Returns when the user last removed the client (epoch seconds), also if a
 * later decision has allowed it again; 0 if that is longer ago than
 * `TOMBSTONE_TTL_SECONDS`, or never was.
 */
export function withdrawalOf({ value, tombstone }: Found<Consent>): number {
  if (value) return value.withdrawn ?? 0
  return tombstone === undefined ? 0 : tombstone - TOMBSTONE_TTL_SECONDS
}

/** The consents of all accounts. */
export class Consents {
  readonly #records: Records
  readonly #consents: Collection<Consent>

  constructor(records: Records) {
    this.#records = records
    this.#consents = records.of<Consent>('Consent', { backup: true })
  }

  /**
   * `version` is stored with a consent page, and compared with its answer. Reads
   * `others` at the same time, for later reads of this request.
   */
  read(
    accountId: string,
    clientId: string,
    ...others: Name[]
  ): Promise<Found<Consent>> {
    return this.#consents.read(idOf(accountId, clientId), ...others)
  }

  async find(
    accountId: string,
    clientId: string,
  ): Promise<Consent | undefined> {
    const { value } = await this.read(accountId, clientId)
    return value
  }

  /** Returns the consents of an account. */
  list(accountId: string): Promise<Consent[]> {
    return this.#consents.list('consents of account', accountId)
  }

  /** Changes a consent; `decide` returns undefined to leave it as it is. */
  change(accountId: string, clientId: string, decide: Decide<Consent>) {
    return this.#consents.change(idOf(accountId, clientId), decide, {
      ttl: CONSENT_TTL_SECONDS,
      indexes: [['consents of account', accountId]],
    })
  }

  /**
   * Records a decision. Declining a scope that was allowed before revokes every
   * grant. Returns false if access was removed while the page was open: the
   * removal wins, and the user is asked again.
   */
  async decide(
    accountId: string,
    clientId: string,
    decision: Decision,
  ): Promise<boolean> {
    const revoke = () => revokeGrants(this.#records, accountId, clientId)
    const isLess = (stored?: Consent) =>
      stored?.scopes.some(scope => decision.declined.includes(scope))
    const { before, after } = await this.change(
      accountId,
      clientId,
      async found => {
        if (!found.value && found.version !== decision.version) return undefined
        // Also before the decision: once it is recorded, its repetition after a
        // fault declines nothing.
        if (isLess(found.value)) await revoke()
        return afterDecision(accountId, clientId, decision, found)
      },
    )
    if (after && isLess(before)) await revoke()
    return after !== undefined
  }

  /** Updates `lastUsed`, at most once an hour. */
  touch(accountId: string, clientId: string) {
    return this.change(accountId, clientId, ({ value }) => {
      const isDue = value && now() - value.lastUsed >= TOUCH_INTERVAL_SECONDS
      return isDue ? { ...value, lastUsed: now() } : undefined
    })
  }

  /**
   * When it returns, no code or opaque token of that client for that account is
   * valid.
   */
  async withdraw(accountId: string, clientId: string): Promise<void> {
    // The grants end before the consent, too: if the process dies in between,
    // the application stays listed, and the user can repeat the withdrawal.
    await revokeGrants(this.#records, accountId, clientId)
    // Requests in flight can make new grants until the consent is removed.
    const id = idOf(accountId, clientId)
    await this.#consents.remove(id, TOMBSTONE_TTL_SECONDS)
    await revokeGrants(this.#records, accountId, clientId)
  }

  /** Withdraws every consent of an account. */
  async removeAll(accountId: string): Promise<void> {
    for (const { client_id } of await this.list(accountId))
      await this.withdraw(accountId, client_id)
  }
}

const idOf = (accountId: string, clientId: string) => `${accountId} ${clientId}`

/** Returns the consent that a decision leaves. */
function afterDecision(
  accountId: string,
  clientId: string,
  { scopes, declined, details = [], appearance }: Decision,
  found: Found<Consent>,
): Consent {
  const before = found.value
  const allowed = new Set(
    [...(before?.scopes ?? []), ...scopes].filter(
      scope => !declined.includes(scope),
    ),
  )
  const refused = new Set([...(before?.declined ?? []), ...declined])
  return {
    accountId,
    client_id: clientId,
    scopes: [...allowed],
    declined: [...refused.difference(allowed)],
    details: remembered(details, before?.details),
    actors: before?.actors,
    appearance,
    since: before?.since ?? now(),
    lastUsed: now(),
    withdrawn: withdrawalOf(found) || undefined,
  }
}

/** Returns the authorization details to keep, the latest first. */
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
