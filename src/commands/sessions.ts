// `usher sessions`: the browsers in which a user is signed in.

import { createAccountSessions, type SignedInBrowser } from '../accounts/sessions.ts'
import { hint, type Invocation, notFound, printList, timeOf } from './command.ts'
import { withAccount } from './directory.ts'

/** `sessions list ACCOUNT`. */
export async function list({ values, args: [name = ''] }: Invocation) {
  await withAccount(name, async ({ id, username }, records) => {
    const browsers = await createAccountSessions(records).list(id)
    const shown = browsers.map(({ uid: _, ...browser }) => browser)
    printList(values, shown, describe, `${username} is not signed in.`)
  })
}

/** `sessions end ACCOUNT [SESSION]`: signs the user out. Refresh tokens stay valid. */
export async function end({ args: [name = '', handle] }: Invocation) {
  await withAccount(name, async ({ id, username }, records, audit) => {
    const sessions = createAccountSessions(records)
    const all = await sessions.list(id)
    const ending = all.filter(browser => handle === undefined || browser.handle === handle)
    if (handle !== undefined && !ending.length) {
      const advice = ` List the sessions: npm run usher -- sessions list ${username}`
      throw notFound('Session', handle, [], advice)
    }
    for (const { uid } of ending) await sessions.end(uid)
    if (ending.length) await audit('signed_out', { account: id, sessions: ending.length })
    hint(
      `${ending.length} ${ending.length === 1 ? 'session' : 'sessions'} of ${username} ended. ` +
        'Applications with offline access keep it: ' +
        `npm run usher -- grants list ${username}`,
    )
  })
}

type Shown = Omit<SignedInBrowser, 'uid'>
function describe({ handle, since, lastUsed, clientInfo, clients }: Shown): string {
  const { browser, system, network } = clientInfo ?? {}
  const where = [browser, system, network].filter(Boolean).join(', ')
  const times = `since ${timeOf(since)}, last used ${timeOf(lastUsed)}`
  return `${handle}  ${where}\n    ${times}; applications: ${clients.join(', ') || 'none'}`
}
