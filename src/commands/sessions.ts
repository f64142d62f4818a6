// Where a person is signed in.

import { createAccountSessions, type SignedInBrowser } from '../accounts/sessions.ts'
import {
  Failure,
  firstWord,
  hint,
  type Invocation,
  moment,
  optionalArgument,
  print,
} from './command.ts'
import { withAccount } from './directory.ts'

export async function list(invocation: Invocation) {
  await withAccount(invocation, async ({ id, username }, records) => {
    const browsers = await createAccountSessions(records).list(id)
    const lines = browsers.length ? browsers.flatMap(inWords) : [`${username} is not signed in.`]
    print(invocation.values, browsers.map(visible), lines)
  })
}

/** As if the person had signed out there: offline access goes on. */
export async function end(invocation: Invocation) {
  const { first, rest } = firstWord(invocation)
  const handle = optionalArgument(rest, 'SESSION')
  await withAccount(first, async ({ id, username }, records, leave) => {
    const sessions = createAccountSessions(records)
    const open = await sessions.list(id)
    const ending = open.filter(browser => handle === undefined || browser.handle === handle)
    if (handle !== undefined && !ending.length) {
      throw new Failure(`There is no such session: npm run usher -- sessions list ${username}`)
    }
    for (const { uid } of ending) await sessions.end(uid)
    if (ending.length) await leave('signed_out', { account: id, sessions: ending.length })
    const count = ending.length === 1 ? '1 session' : `${ending.length} sessions`
    hint(
      `${count} of ${username} ended. Applications with offline access go on: ` +
        `npm run usher -- grants list ${username}`,
    )
  })
}

const visible = ({ uid: _, ...browser }: SignedInBrowser) => browser

function inWords({ handle, since, lastUsed, clientInfo, clients }: SignedInBrowser): string[] {
  const { browser, system, network } = clientInfo ?? {}
  const where = [browser, system, network].filter(Boolean).join(', ')
  return [
    `${handle}  ${where}`.trimEnd(),
    `    since ${moment(since)}, last used ${moment(lastUsed)} UTC; ` +
      `applications: ${clients.join(', ') || 'none'}`,
  ]
}
