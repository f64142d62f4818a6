// Sign-outs that applications have still to be told of: kept as a session ends, and told by news.ts.

import { ACCOUNT_CLIENT } from '../../config/schema/client.ts'
import { createNews, type News, type Queue } from '../../state/delivery-queue.ts'
import { createSessionIds } from '../../state/session-ids.ts'
import type { Records } from '../../storage/records.ts'

interface Left {
  /** Of the session that ended. */
  uid: string
  accountId: string
  /** Each with what it calls the session (`sid`). */
  clients: [client_id: string, sid: string][]
}

export type SignOut = Left & News

/** Seconds after each attempt but the last: five within an hour or so. */
const PAUSES = [60, 300, 900, 2400]
export const LAST_SIGN_OUT = PAUSES.length + 1

interface Ended {
  uid: string
  accountId?: string
  authorizations?: Record<string, unknown>
}

const signOuts = (records: Records) =>
  createNews<Left>(records, {
    names: ['SignOut', 'sign-outs'],
    idOf: ({ uid }) => uid,
    pauses: PAUSES,
  })

/** Before the session ends, so that a crash in between leaves nobody untold. */
export async function leaveSignOut(records: Records, session: Ended): Promise<void> {
  const { uid, accountId, authorizations = {} } = session
  const { sidOf } = createSessionIds(records)
  const clients = Object.keys(authorizations)
    .filter(id => id !== ACCOUNT_CLIENT)
    .map((id): SignOut['clients'][number] => [id, sidOf(uid, id)])
  // Once: who ends a session that is being ended adds nothing.
  if (accountId && clients.length) await signOuts(records).leave({ uid, accountId, clients })
}

/** `tell` answers with the clients that have to be told again; after the last attempt nobody is. */
export function takeSignOuts(
  records: Records,
  queue: Queue,
  tell: (signOut: SignOut) => Promise<SignOut['clients']>,
): Promise<void> {
  return signOuts(records).take(queue, async signOut => {
    const clients = await tell(signOut)
    return clients.length ? { ...signOut, clients } : undefined
  })
}
