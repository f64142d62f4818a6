// How many passwords are hashed at once, and how many may wait for it, so that a flood of sign-ins
// leaves everything else the time it needs (LG7). One hash is 20 ms of a core, and 19 MiB.

import { availableParallelism } from 'node:os'
import pLimit, { type LimitFunction } from 'p-limit'
import { shareOf } from '../http/quota.ts'

/** A core is left to requests, and one of the four threads of Node's pool to files and names. */
const AT_ONCE = Math.max(1, Math.min(availableParallelism() - 1, 3))
const WAITING = 64

let turn: LimitFunction | undefined
let admitted = 0

/** One hash, when it is its turn. */
export function hashInTurn<T>(hash: () => Promise<T>): Promise<T> {
  turn ??= pLimit(shareOf(AT_ONCE))
  return turn(hash)
}

/** Throws 503 when too many wait already, before anything was read or counted for this one. */
export async function admit<T>(attempt: () => Promise<T>): Promise<T> {
  if (admitted >= shareOf(AT_ONCE) + shareOf(WAITING)) throw new TooMany()
  admitted++
  try {
    return await attempt()
  } finally {
    admitted--
  }
}

class TooMany extends Error {
  override name = 'TooMany'
  override message = 'too many passwords are waiting to be checked'
  error = 'temporarily_unavailable'
  error_description = 'too many people are signing in at this moment'
  status = 503
  expose = true
}
