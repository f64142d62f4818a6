// What a person has allowed applications.

import { type Consent, createConsents } from '../accounts/consents.ts'
import { didYouMean } from '../config/report/wording.ts'
import { argument, Failure, firstWord, hint, type Invocation, moment, print } from './command.ts'
import { withAccount } from './directory.ts'

export async function list(invocation: Invocation) {
  await withAccount(invocation, async ({ id, username }, records) => {
    const consents = await createConsents(records).list(id)
    const none = [`${username} has allowed no application anything.`]
    print(invocation.values, consents, consents.length ? consents.map(inWords) : none)
  })
}

/** The same as *Remove access* of the account pages. */
export async function withdraw(invocation: Invocation) {
  const { first, rest } = firstWord(invocation)
  const clientId = argument(rest, 'CLIENT_ID')
  await withAccount(first, async ({ id, username }, records, leave) => {
    const consents = createConsents(records)
    const allowed = (await consents.list(id)).map(({ client_id }) => client_id)
    // Also when nothing is listed: an earlier try may have been cut off in the middle.
    await consents.withdraw(id, clientId)
    if (!allowed.includes(clientId)) {
      const slip = didYouMean(clientId, allowed)
      throw new Failure(`${username} has allowed ${clientId} nothing${slip}`)
    }
    await leave('access_removed', { client_id: clientId, account: id })
    hint(`${clientId} has no access for ${username} any more; every token of it is dead.`)
  })
}

const inWords = ({ client_id, scopes, details = [], since, lastUsed }: Consent) =>
  `${client_id}  ${[...scopes, ...details.map(({ detail }) => detail.type)].join(', ')}\n    since ${moment(since)}, last used ${moment(lastUsed)} UTC`
