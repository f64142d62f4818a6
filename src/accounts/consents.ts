// What a person has allowed an application. It outlives sessions and devices; the library's grants
// are made from it, and withdrawing it ends them all.

import { isDeepStrictEqual } from 'node:util'
import type { Detail } from '../config/schema/details.ts'
import { revokeGrants } from '../state/grants.ts'
import type { Found, Id, Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'
import type { Account } from './account.ts'

export interface Consent {
  accountId: string
  client_id: string
  /** As `keyOf` names them. */
  scopes: string[]
  /** Asked for, and refused: not asked for again until the application is removed. */
  declined: string[]
  /** Authorization details that were allowed, the last one first; each was asked for by itself. */
  details?: { detail: Detail; at: number }[]
  /** The name and hosts that the user was shown, as provider/policy.ts hashes them. */
  appearance?: string
  /** Epoch seconds. */
  since: number
  lastUsed: number
}

export interface Decision {
  scopes: string[]
  declined: string[]
  details?: Detail[]
  appearance?: string
  /** Of the consent when it was asked for. */
  version: number
}

/** Scopes of claims.yaml stand for themselves, those of an API behind its identifier: `URI read`. */
export const keyOf = (scope: string, resource?: string) =>
  resource === undefined ? scope : `${resource} ${scope}`

/** No scope has a space in it, and no URI. */
export function readKey(key: string): { scope: string; resource?: string } {
  const [first = '', second] = key.split(' ')
  return second === undefined ? { scope: first } : { scope: second, resource: first }
}

export type Consents = ReturnType<typeof createConsents>

/** Seconds between two notes of a use. */
export const TOUCH = 60
const YEAR = 365 * 24 * 3600
/** Of those that were allowed, how many are remembered, for people to see. */
const MOST_DETAILS = 20
/** Longer than any page stays open. */
const REMEMBER_REMOVAL = 24 * 3600

/** Where the record of an account is; its consents are in the same slot. */
export const accountName = (id: string): [kind: string, id: Id] => ['Account', { slot: id, id }]

/** Where the record of a consent is. */
export function consentName(accountId: string, clientId: string): [kind: string, id: Id] {
  return ['Consent', { slot: accountId, id: `${accountId} ${clientId}` }]
}

export function createConsents(records: Records) {
  const read = (accountId: string, clientId: string) =>
    records.read<Consent>(...consentName(accountId, clientId))

  const update = (
    accountId: string,
    clientId: string,
    change: (found: Found<Consent>) => Consent | undefined,
    found?: Found<Consent>,
  ) =>
    records.update<Consent>(...consentName(accountId, clientId), change, {
      ttl: YEAR,
      indexes: [['consents of account', accountId]],
      found,
    })

  /** Reads an account and a consent in one command; the request remembers both until it writes. */
  async function readAhead(accountId: string, clientId: string): Promise<void> {
    await records.readMany<[Account, Consent]>([
      accountName(accountId),
      consentName(accountId, clientId),
    ])
  }

  async function find(accountId: string, clientId: string): Promise<Consent | undefined> {
    return (await read(accountId, clientId)).value
  }

  /** Changes whenever the consent does: shown with a page, and given back with its answer. */
  async function version(accountId: string, clientId: string): Promise<number> {
    return (await read(accountId, clientId)).version
  }

  function list(accountId: string): Promise<Consent[]> {
    return records.list<Consent>('consents of account', accountId)
  }

  /**
   * Adds what was decided; what is taken back is taken from every grant there is. False when the
   * access was removed while the page was open: the removal wins, and the person is asked anew.
   */
  async function decide(
    accountId: string,
    clientId: string,
    { scopes, declined, details = [], appearance, version }: Decision,
  ): Promise<boolean> {
    let isLess = false
    const isRecorded = await update(accountId, clientId, found => {
      if (!found.value && found.version !== version) return undefined
      const { since = now(), scopes: before = [], declined: refused = [] } = found.value ?? {}
      isLess = before.some(scope => declined.includes(scope))
      const allowed = new Set([...before, ...scopes].filter(scope => !declined.includes(scope)))
      return {
        accountId,
        client_id: clientId,
        scopes: [...allowed],
        declined: [...new Set([...refused, ...declined])].filter(scope => !allowed.has(scope)),
        details: remembered(details, found.value?.details),
        appearance,
        since,
        lastUsed: now(),
      }
    })
    if (isRecorded && isLess) await revokeGrants(records, accountId, clientId)
    return isRecorded
  }

  /** Notes a use, at most once a minute; `found` is what was read a moment ago. */
  async function touch(accountId: string, clientId: string, found?: Found<Consent>): Promise<void> {
    const use = ({ value }: Found<Consent>) =>
      value && now() - value.lastUsed >= TOUCH ? { ...value, lastUsed: now() } : undefined
    await update(accountId, clientId, use, found)
  }

  /** When it returns, no code or token of that client for that account works. */
  async function withdraw(accountId: string, clientId: string): Promise<void> {
    // First the consent, so that no new grant can be made from it; then those that were.
    await records.remove(...consentName(accountId, clientId), REMEMBER_REMOVAL)
    await revokeGrants(records, accountId, clientId)
  }

  async function removeAll(accountId: string): Promise<void> {
    for (const { client_id } of await list(accountId)) await withdraw(accountId, client_id)
  }

  return { read, readAhead, find, version, list, decide, touch, withdraw, removeAll }
}

function remembered(allowed: Detail[], before: Consent['details'] = []): Consent['details'] {
  const isNew = ({ detail }: { detail: Detail }) =>
    !allowed.some(other => isDeepStrictEqual(other, detail))
  const all = [...allowed.map(detail => ({ detail, at: now() })), ...before.filter(isNew)]
  return all.length ? all.slice(0, MOST_DETAILS) : undefined
}
