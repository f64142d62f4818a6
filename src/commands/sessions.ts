// `usher sessions`: the browsers in which a user is signed in.

import {
  browsersOf,
  type SignedInBrowser,
} from '../account/signed-in-browsers.ts'
import { timeOf } from '../config/schema/values.ts'
import { type Invocation, requireOne } from './command.ts'
import { openAccount } from './open-account.ts'
import { hint, printList } from './output.ts'

/** `sessions list ACCOUNT`. */
export async function listSessions({ flags, args: [name = ''] }: Invocation) {
  const { id, username, ...state } = await openAccount(name)
  const browsers = await browsersOf(state, id)
  const shown = browsers.map(({ uid: _, ...browser }) => browser)
  printList(flags, shown, describeSession, `${username} is not signed in.`)
}

/**
 * `sessions end ACCOUNT [SESSION]`: signs the user out. Refresh tokens stay
 * valid.
 */
export async function endSessions({ args: [name = '', handle] }: Invocation) {
  const { id, username, audit, ...state } = await openAccount(name)
  const all = await browsersOf(state, id)
  const advice = ` List the sessions: npm run usher -- sessions list ${username}`
  // An empty handle, as of a variable that is not set, does not mean all of
  // them.
  const ending =
    handle === undefined
      ? all
      : [requireOne('Session', handle, all, 'handle', advice)]
  for (const { uid } of ending) await state.sessions.end(uid)
  if (ending.length)
    await audit('signed_out', { account: id, sessions: ending.length })
  hint(
    `Ended sessions of ${username}: ${ending.length}. Applications with offline access keep it:`,
  )
  hint(`npm run usher -- grants list ${username}`)
}

function describeSession(session: Omit<SignedInBrowser, 'uid'>): string {
  const { handle, since, lastUsed, clientInfo, clients } = session
  const { browser: name, system, network } = clientInfo ?? {}
  const where = [name, system, network].filter(Boolean).join(', ')
  const times = `since ${timeOf(since)}, last used ${timeOf(lastUsed)}`
  return `${handle}  ${where}\n    ${times}; applications: ${clients.join(', ') || 'none'}`
}
