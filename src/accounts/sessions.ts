// Signed-in browsers of an account and their applications, for the account page and for operators.

import type { ClientInfo } from '../http/client-info.ts'
import { createSessions } from '../state/sessions.ts'
import type { Records } from '../storage/records.ts'
import { createConsents } from './consents.ts'

/** A browser in which an account is signed in. */
export interface SignedInBrowser {
  /** Public name of the session for one account. It gives no access. */
  handle: string
  /** Never shown. */
  uid: string
  /** Epoch seconds of the sign-in and, in `lastUsed`, of the latest use. */
  since: number
  lastUsed: number
  clientInfo?: ClientInfo
  /** The `client_id` of each client that the session signed in to and that still has a consent. */
  clients: string[]
}

/** Signed-in browsers of all accounts. */
export type AccountSessions = ReturnType<typeof createAccountSessions>

/** Returns the signed-in browsers in a store. */
export function createAccountSessions(records: Records) {
  const sessions = createSessions(records)
  const consents = createConsents(records)

  const handleOf = (accountId: string, uid: string) =>
    records.prove('session handle', `${accountId} ${uid}`).toString('hex')

  /** The browser used last comes first. */
  async function list(accountId: string): Promise<SignedInBrowser[]> {
    const [all, allowed] = await Promise.all([sessions.list(accountId), consents.list(accountId)])
    const allowedClients = new Set(allowed.map(({ client_id }) => client_id))
    return all
      .map(({ uid, loginTs: since = 0, lastUsed = since, clientInfo, authorizations = {} }) => ({
        handle: handleOf(accountId, uid),
        uid,
        since,
        lastUsed,
        clientInfo,
        clients: Object.keys(authorizations).filter(id => allowedClients.has(id)),
      }))
      .sort((a, b) => b.lastUsed - a.lastUsed)
  }

  /** Returns undefined unless the handle belongs to a session of this account. */
  async function find(accountId: string, handle: string): Promise<SignedInBrowser | undefined> {
    return (await list(accountId)).find(browser => browser.handle === handle)
  }

  return { list, find, end: sessions.end }
}
