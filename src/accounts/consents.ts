// What a person has allowed an application. It outlives sessions and devices; the library's grants
// are made from it, and withdrawing it ends them all.

import { revokeGrants } from '../store/grants.ts'
import type { Records } from '../store/records.ts'

export interface Consent {
  accountId: string
  client_id: string
  scopes: string[]
  /** Asked for, and refused: not asked for again until the application is removed. */
  declined: string[]
  /** Epoch seconds. */
  since: number
  lastUsed: number
}

export interface Decision {
  scopes: string[]
  declined: string[]
  /** Of the consent when it was asked for. */
  version: number
}

export interface Consents {
  find(accountId: string, clientId: string): Promise<Consent | undefined>
  /** Changes whenever the consent does: shown with a page, and given back with its answer. */
  version(accountId: string, clientId: string): Promise<number>
  list(accountId: string): Promise<Consent[]>
  /**
   * Adds what was decided. False when the access was removed while the page was open: the removal
   * wins, and the person is asked anew.
   */
  decide(accountId: string, clientId: string, decision: Decision): Promise<boolean>
  /** Notes a use, at most once a minute. */
  touch(accountId: string, clientId: string): Promise<void>
  /** When it returns, no code or token of that client for that account works. */
  withdraw(accountId: string, clientId: string): Promise<void>
  removeAll(accountId: string): Promise<void>
}

const YEAR = 365 * 24 * 3600
/** Longer than any page stays open. */
const REMEMBER_REMOVAL = 24 * 3600

const now = () => Math.floor(Date.now() / 1000)
const idOf = (accountId: string, clientId: string) => `${accountId} ${clientId}`

export function createConsents(records: Records): Consents {
  const update = (
    accountId: string,
    clientId: string,
    change: Parameters<typeof records.update<Consent>>[2],
  ) =>
    records.update<Consent>('Consent', idOf(accountId, clientId), change, {
      ttl: YEAR,
      indexes: [['consents of account', accountId]],
    })

  const consents: Consents = {
    async find(accountId, clientId) {
      return (await records.read<Consent>('Consent', idOf(accountId, clientId))).value
    },

    async version(accountId, clientId) {
      return (await records.read<Consent>('Consent', idOf(accountId, clientId))).version
    },

    list: accountId => records.list<Consent>('consents of account', accountId),

    decide: (accountId, clientId, { scopes, declined, version }) =>
      update(accountId, clientId, found => {
        if (!found.value && found.version !== version) return undefined
        const { since = now(), scopes: before = [], declined: refused = [] } = found.value ?? {}
        const allowed = new Set([...before, ...scopes].filter(scope => !declined.includes(scope)))
        return {
          accountId,
          client_id: clientId,
          scopes: [...allowed],
          declined: [...new Set([...refused, ...declined])].filter(scope => !allowed.has(scope)),
          since,
          lastUsed: now(),
        }
      }),

    async touch(accountId, clientId) {
      await update(accountId, clientId, ({ value }) =>
        value && now() - value.lastUsed >= 60 ? { ...value, lastUsed: now() } : undefined,
      )
    },

    async withdraw(accountId, clientId) {
      // First the consent, so that no new grant can be made from it; then those that were.
      await records.remove('Consent', idOf(accountId, clientId), REMEMBER_REMOVAL)
      await revokeGrants(records, accountId, clientId)
    },

    async removeAll(accountId) {
      for (const { client_id } of await consents.list(accountId)) {
        await consents.withdraw(accountId, client_id)
      }
    },
  }
  return consents
}
