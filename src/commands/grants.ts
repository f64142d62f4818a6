// `usher grants`: the access that a user has allowed applications.

import { timeOf } from '../config/schema/values.ts'
import type { Consent } from '../oidc/consents.ts'
import { type Invocation, requireOne } from './command.ts'
import { openAccount } from './open-account.ts'
import { hint, printList } from './output.ts'

/** `grants list ACCOUNT`. */
export async function listConsents({ flags, args: [name = ''] }: Invocation) {
  const { id, username, consents } = await openAccount(name)
  const allowed = await consents.list(id)
  const none = `${username} has allowed no application access.`
  printList(flags, allowed, describeConsent, none)
}

/**
 * `grants withdraw ACCOUNT CLIENT_ID`: does the same as *Remove access* of the
 * account pages.
 */
export async function withdrawConsent({
  args: [name = '', clientId = ''],
}: Invocation) {
  const { id, username, consents, audit } = await openAccount(name)
  const allowed = await consents.list(id)
  // Also when nothing is listed: an earlier attempt may have been interrupted.
  await consents.withdraw(id, clientId)
  requireOne(`Access of ${username} for`, clientId, allowed, 'client_id')
  await audit('access_removed', { client_id: clientId, account: id })
  hint(
    `${clientId} has no access to the account of ${username}; its tokens are revoked.`,
  )
}

function describeConsent({
  client_id,
  scopes,
  details = [],
  since,
  lastUsed,
}: Consent): string {
  const allowed = [...scopes, ...details.map(({ detail }) => detail.type)].join(
    ', ',
  )
  return `${client_id}  ${allowed}\n    since ${timeOf(since)}, last used ${timeOf(lastUsed)}`
}
