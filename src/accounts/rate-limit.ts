// How often a password, or another secret, may be tried. All nodes count together, before the secret is
// checked. An attempt that comes too early is not counted and writes nothing, so that a flood of them
// causes no contention. Nothing is ever locked: the wait doubles, and counted attempts expire one by one.

import type { Records } from '../storage/records.ts'

export interface Limit {
  /** Without waiting. */
  attempts: number
  /** Seconds: the longest wait for the next attempt, and the time in which one expires. */
  slowest: number
}

export type Counter = [name: string, limit: Limit]

interface Count {
  /** Attempts that have not expired; a fraction, because they expire evenly. */
  count: number
  /** Epoch milliseconds of the latest attempt. */
  at: number
}

/** After the last attempt without waiting. Doubles with each further one. */
const FIRST_WAIT_SECONDS = 5

/** Counters by name, in the store. */
export function createRateLimit(records: Records) {
  const inTurn = createTurns()

  const update = (name: string, limit: Limit, change: (found?: Count) => Count | undefined) =>
    inTurn(name, () =>
      records.update<Count>('Attempts', name, ({ value }) => change(value), {
        // The longest wait bounds how far a count exceeds the limit.
        ttl: 2 * (limit.attempts + 10) * limit.slowest,
      }),
    )

  async function isFree([name, limit]: Counter): Promise<boolean> {
    const { value } = await records.read<Count>('Attempts', name)
    return isDue(value, limit)
  }

  /** Returns false, and counts nothing, when the attempt came too early for one of the counters. */
  async function count(counters: Counter[]): Promise<boolean> {
    const free = await Promise.all(counters.map(isFree))
    if (free.includes(false)) return false
    const counted = await Promise.all(counters.map(countOne))
    return !counted.includes(false)
  }

  function countOne([name, limit]: Counter): Promise<boolean> {
    return update(name, limit, found => {
      if (!isDue(found, limit)) return undefined
      return { count: leftOf(found, limit) + 1, at: Date.now() }
    })
  }

  /** The attempt was no guess. */
  async function takeBack(counters: Counter[]): Promise<void> {
    const less = (found?: Count) => found && { ...found, count: Math.max(found.count - 1, 0) }
    await Promise.all(counters.map(([name, limit]) => update(name, limit, less)))
  }

  /** Sets the counter to zero. */
  async function forget(name: string): Promise<void> {
    await records.remove('Attempts', name, 1)
  }

  return { count, takeBack, forget }
}

const secondsSince = ({ at }: Count) => (Date.now() - at) / 1000

/** Attempts that have not expired; a fraction. */
function leftOf(found: Count | undefined, { slowest }: Limit): number {
  return found ? Math.max(found.count - secondsSince(found) / slowest, 0) : 0
}

function isDue(found: Count | undefined, limit: Limit): boolean {
  if (!found || leftOf(found, limit) <= limit.attempts - 1) return true
  const wait = FIRST_WAIT_SECONDS * 2 ** Math.round(found.count - limit.attempts)
  return secondsSince(found) >= Math.min(wait, limit.slowest)
}

/**
 * Runs the updates of one name one after another, because only one of several could write what it read.
 * If one fails, those that wait behind it fail as well: nobody waits twice for an unavailable store.
 */
function createTurns() {
  const last = new Map<string, Promise<unknown>>()

  return <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const turn = (last.get(name) ?? Promise.resolve()).then(work)
    const leave = () => {
      if (last.get(name) === turn) last.delete(name)
    }
    last.set(name, turn)
    turn.then(leave, leave)
    return turn
  }
}
