// The id of a session, as the cookie has it: its uid, which stays, and a secret. Each secret follows from
// the one before, by a keyed hash that only the nodes of this installation can make: requests that
// replace an id at once make the same one, and of all that there were only the latest has to be kept.

import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { Records } from '../storage/records.ts'

/** Characters of the uid and of the secret: 16 bytes each. */
const LENGTH = 22
/** By which two ids may be apart. */
export const STEPS = 8

const random = () => randomBytes(16).toString('base64url')

export const uidOf = (id: string) => id.slice(0, LENGTH)

interface SignedIn {
  uid: string
  accountId?: string
  loginTs?: number
}

export type SessionIds = ReturnType<typeof createSessionIds>

export function createSessionIds({ prove }: Pick<Records, 'prove'>) {
  const proofOf = (text: string, purpose = 'session id') =>
    prove(purpose, text).toString('base64url')

  /** Of a session that is nobody's yet, or another's successor. */
  const first = () => random() + random()

  /** The next one of the same sign-in. */
  const successor = (id: string) => uidOf(id) + proofOf(id)

  /** No id from before a sign-in leads to what comes after it (session fixation). */
  function afterSignIn({ uid, accountId, loginTs }: SignedIn): string {
    return uid + proofOf(`${uid} sign-in ${accountId} ${loginTs}`)
  }

  /** What an application calls the session (`sid`): the same as long as it lasts, another for each. */
  const sidOf = (uid: string, clientId: string) => proofOf(`${uid} ${clientId}`, 'sid')

  /** After how many replacements the one became the other: 0 is the same, -1 another. */
  function stepsTo(one: string, other: string): number {
    let id = one
    for (let steps = 0; steps <= STEPS; steps++) {
      if (isSame(id, other)) return steps
      id = successor(id)
    }
    return -1
  }

  return { first, successor, afterSignIn, sidOf, stepsTo }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
