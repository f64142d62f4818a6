// Signed-in browsers of an account and their applications, for the account page and for operators.

import { createSessions } from '../state/sessions.ts'
import type { Records } from '../storage/records.ts'
import { createConsents } from './consents.ts'

/** Signed-in browsers of all accounts. */
type AccountSessions = ReturnType<typeof createAccountSessions>

/** A browser in which an account is signed in. */
export type SignedInBrowser = Awaited<ReturnType<AccountSessions['list']>>[number]

/** Returns the signed-in browsers in a store. */
export function createAccountSessions(records: Records, sessions = createSessions(records)) {
  const consents = createConsents(records)

  /** The browser used last comes first. */
  async function list(accountId: string) {
    const [all, allowed] = await Promise.all([sessions.list(accountId), consents.list(accountId)])
    const allowedClients = new Set(allowed.map(({ client_id }) => client_id))
    const hashOf = (purpose: string, text: string) =>
      records.keyedHash(purpose, `${accountId} ${text}`).toString('hex')
    return all
      .map(({ uid, loginTs: since = 0, lastUsed = since, clientInfo, authorizations = {} }) => ({
        /** Public name of the session for one account. It gives no access. */
        handle: hashOf('session handle', uid),
        /** Public name of the sessions of equal browsers in one network. It gives no access. */
        group: hashOf('session group', JSON.stringify(clientInfo ?? {})),
        /** Never shown. */
        uid,
        /** Epoch seconds of the sign-in and, in `lastUsed`, of the latest use. */
        since,
        lastUsed,
        clientInfo,
        /** The `client_id` of each client that the session signed in to and that still has a consent. */
        clients: Object.keys(authorizations).filter(id => allowedClients.has(id)),
      }))
      .sort((a, b) => b.lastUsed - a.lastUsed)
  }

  return { list, end: sessions.end }
}
