// Sign-outs that applications have still to be told of: kept as a session ends, taken by whichever node
// comes first, and tried again.
//
//   SignOut `uid attempt` → clients, due    one record an attempt, indexed as 'new' or 'again'
//
// Whoever takes one puts `due` off: should that node die, another takes it up then. So everybody is
// told at least once, and twice where a node died between telling and saying so.

import pLimit from 'p-limit'
import { ACCOUNT_CLIENT } from '../config/client-schema.ts'
import type { Records } from './records.ts'
import { now } from './store.ts'

export interface SignOut {
  /** Of the session that ended. */
  uid: string
  accountId: string
  /** Each with what it calls the session (`sid`). */
  clients: [client_id: string, sid: string][]
  attempt: number
  /** Epoch seconds before which nobody takes it. */
  due: number
}

/** Those of the first attempt, and all others. */
export type Queue = 'new' | 'again'

/** Seconds after each attempt but the last: five within an hour or so. */
const PAUSES = [60, 300, 900, 2400]
export const LAST_ATTEMPT = PAUSES.length + 1
/** Seconds that a node has for those it took; longer than the slowest application is waited for. */
const LEASE = 30
/** Seconds. */
const KEPT = 2 * 3600
/** Of one node: how many sign-outs it tells of at once, and takes before it looks again. */
const AT_ONCE = 50
const MOST = 200

interface Ended {
  uid: string
  accountId?: string
  authorizations?: Record<string, { sid?: string }>
}

/** Before the session ends, so that a crash in between leaves nobody untold. */
export async function leaveSignOut(records: Records, session: Ended): Promise<void> {
  const { uid, accountId, authorizations = {} } = session
  const clients = Object.entries(authorizations).flatMap(([id, { sid }]): SignOut['clients'] =>
    sid && id !== ACCOUNT_CLIENT ? [[id, sid]] : [],
  )
  if (accountId && clients.length) {
    await put(records, { uid, accountId, clients, attempt: 1, due: now() })
  }
}

/** `tell` answers with the clients that have to be told again; after the last attempt nobody is. */
export async function takeSignOuts(
  records: Records,
  queue: Queue,
  tell: (signOut: SignOut) => Promise<SignOut['clients']>,
): Promise<void> {
  const attempt = async (signOut: SignOut) => {
    if (!(await take(records, signOut))) return
    const clients = await tell(signOut)
    const pause = PAUSES[signOut.attempt - 1]
    if (pause !== undefined && clients.length) {
      const next = { ...signOut, clients, attempt: signOut.attempt + 1, due: now() + pause }
      await put(records, next)
    }
    await records.remove('SignOut', idOf(signOut))
  }
  const due: SignOut[] = []
  for await (const signOut of records.walk<SignOut>('sign-outs', queue)) {
    if (signOut.due <= now()) due.push(signOut)
    if (due.length === MOST) break
  }
  const turn = pLimit(AT_ONCE)
  await Promise.all(due.map(signOut => turn(() => attempt(signOut))))
}

const idOf = ({ uid, attempt }: SignOut) => `${uid} ${attempt}`

/** Once: who ends a session that is being ended adds nothing. */
async function put(records: Records, signOut: SignOut) {
  const queue: Queue = signOut.attempt === 1 ? 'new' : 'again'
  await records.save('SignOut', idOf(signOut), signOut, {
    ttl: KEPT,
    version: 0,
    indexes: [['sign-outs', queue]],
  })
}

/** True for one node, until its time is over. */
function take(records: Records, signOut: SignOut): Promise<boolean> {
  return records.update<SignOut>(
    'SignOut',
    idOf(signOut),
    ({ value }) => (value && value.due <= now() ? { ...value, due: now() + LEASE } : undefined),
    { ttl: KEPT },
  )
}
