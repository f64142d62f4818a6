// Signed-in browsers of an account and their applications, for the account page
// and for operators.

import type { ClientInfo } from '../oidc/adapter/session-record.ts'
import type { Sessions } from '../oidc/adapter/sessions.ts'
import type { Consents } from '../oidc/consents.ts'
import type { Words } from '../pages/words.ts'
import type { Records } from '../store/records.ts'

/** The state from which signed-in browsers are read. */
interface State {
  records: Records
  sessions: Sessions
  consents: Consents
}

/** A browser in which an account is signed in. */
export type SignedInBrowser = Awaited<ReturnType<typeof browsersOf>>[number]

/**
 * Returns the browsers in which an account is signed in. The browser used last
 * comes first.
 */
export async function browsersOf(
  { records, sessions, consents }: State,
  accountId: string,
) {
  const [all, allowed] = await Promise.all([
    sessions.listOfAccount(accountId),
    consents.list(accountId),
  ])
  const allowedClients = new Set(allowed.map(({ client_id }) => client_id))
  const hashOf = (purpose: string, text: string) =>
    records.keyedHash(purpose, `${accountId} ${text}`).toString('hex')
  return all
    .map(
      ({
        uid,
        loginTs: since = 0,
        lastUsed = since,
        clientInfo,
        authorizations = {},
      }) => ({
        /** Public name of the session for one account. It gives no access. */
        handle: hashOf('session handle', uid),
        /**
         * Public name of the sessions of equal browsers in one network. It
         * gives no access.
         */
        group: hashOf('session group', JSON.stringify(clientInfo ?? {})),
        /** Never shown. */
        uid,
        /**
         * Epoch seconds of the sign-in and, in `lastUsed`, of the latest use.
         */
        since,
        lastUsed,
        clientInfo,
        /**
         * The `client_id` of each client that the session signed in to and that
         * still has a consent.
         */
        clients: Object.keys(authorizations).filter(id =>
          allowedClients.has(id),
        ),
      }),
    )
    .sort((a, b) => b.lastUsed - a.lastUsed)
}

/**
 * Returns a network as users read it: 203.0.113.x for 203.0.113.0/24, and
 * 2001:db8:1234:x for 2001:db8:1234::/48.
 */
export const shownNetwork = (network: string) =>
  network.replace(/\.0\/24$/, '.x').replace(/:{1,2}\/48$/, ':x')

/** Returns the name of a browser and its system as text. */
export function nameOf(
  { t }: Words,
  { browser, system }: Partial<ClientInfo> = {},
): string {
  if (browser && system) return t('sessions.browser', { browser, system })
  return browser ?? system ?? t('sessions.unknown')
}
