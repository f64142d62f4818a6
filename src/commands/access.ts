// `usher sessions` and `usher grants`: the browsers in which a user is signed in, and the access that the user has
// allowed applications.

import { type Consent, createConsents } from '../accounts/consents.ts'
import { createAccountSessions, type SignedInBrowser } from '../accounts/sessions.ts'
import {
  hint,
  type Invocation,
  notFound,
  openAccount,
  print,
  requireEntry,
  timeOf,
} from './command.ts'

/** `sessions list ACCOUNT`. */
export async function listSessions({ values, args: [name = ''] }: Invocation) {
  const { id, username, records } = await openAccount(name)
  const browsers = await createAccountSessions(records).list(id)
  const shown = browsers.map(({ uid: _, ...browser }) => browser)
  print(values, shown, browsers.map(describeSession), `${username} is not signed in.`)
}

/** `sessions end ACCOUNT [SESSION]`: signs the user out. Refresh tokens stay valid. */
export async function endSession({ args: [name = '', handle] }: Invocation) {
  const { id, username, records, audit } = await openAccount(name)
  const sessions = createAccountSessions(records)
  const all = new Map((await sessions.list(id)).map(browser => [browser.handle, browser]))
  const advice = ` List the sessions: npm run usher -- sessions list ${username}`
  const one = handle === undefined ? undefined : requireEntry('Session', handle, all, advice)
  const ending = one ? [one] : [...all.values()]
  for (const { uid } of ending) await sessions.end(uid)
  if (ending.length) await audit('signed_out', { account: id, sessions: ending.length })
  hint(`Ended sessions of ${username}: ${ending.length}. Applications with offline access keep it:`)
  hint(`npm run usher -- grants list ${username}`)
}

function describeSession(session: SignedInBrowser): string {
  const { handle, since, lastUsed, clientInfo, clients } = session
  const { browser: name, system, network } = clientInfo ?? {}
  const where = [name, system, network].filter(Boolean).join(', ')
  const times = `since ${timeOf(since)}, last used ${timeOf(lastUsed)}`
  return `${handle}  ${where}\n    ${times}; applications: ${clients.join(', ') || 'none'}`
}

/** `grants list ACCOUNT`. */
export async function listGrants({ values, args: [name = ''] }: Invocation) {
  const { id, username, records } = await openAccount(name)
  const consents = await createConsents(records).list(id)
  const none = `${username} has allowed no application access.`
  print(values, consents, consents.map(describeConsent), none)
}

/** `grants withdraw ACCOUNT CLIENT_ID`: does the same as *Remove access* of the account pages. */
export async function withdraw({ args: [name = '', clientId = ''] }: Invocation) {
  const { id, username, records, audit } = await openAccount(name)
  const consents = createConsents(records)
  const allowed = (await consents.list(id)).map(({ client_id }) => client_id)
  // Also when nothing is listed: an earlier attempt may have been interrupted.
  await consents.withdraw(id, clientId)
  if (!allowed.includes(clientId)) throw notFound(`Access of ${username} for`, clientId, allowed)
  await audit('access_removed', { client_id: clientId, account: id })
  hint(`${clientId} has no access to the account of ${username}; its tokens are revoked.`)
}

function describeConsent({ client_id, scopes, details = [], since, lastUsed }: Consent): string {
  const allowed = [...scopes, ...details.map(({ detail }) => detail.type)].join(', ')
  return `${client_id}  ${allowed}\n    since ${timeOf(since)}, last used ${timeOf(lastUsed)}`
}
