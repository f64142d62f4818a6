// How often a password may be tried. Attempts are counted before the password is looked at, by all
// nodes together (LG4). What comes too early is not counted and writes nothing, so that a flood of it
// has nothing to contend for. Nothing is ever locked: the wait doubles, and what was counted is
// forgotten by and by (LG5).

import type { Records } from '../storage/records.ts'

export interface Limit {
  /** So many at once, without waiting. */
  attempts: number
  /** Seconds: the longest wait for the next one, and the time in which one is forgotten. */
  slowest: number
}

export type Counter = [name: string, limit: Limit]

interface Count {
  /** Less than was counted by what is forgotten since: no whole number. */
  count: number
  /** Epoch milliseconds of the latest attempt. */
  at: number
}

/** Seconds, after the last attempt that is free; twice as long after each further one. */
const FIRST_WAIT = 5

export function createAttempts(records: Records) {
  const inTurn = createTurns()

  const update = (name: string, limit: Limit, change: (found?: Count) => Count | undefined) =>
    inTurn(name, () =>
      records.update<Count>('Attempts', name, ({ value }) => change(value), {
        // Nobody gets further above the limit than the longest wait lets them.
        ttl: 2 * (limit.attempts + 10) * limit.slowest,
      }),
    )

  async function isFree([name, limit]: Counter): Promise<boolean> {
    const { value } = await records.read<Count>('Attempts', name)
    return isDue(value, limit)
  }

  /** False when it came too early for one of them: what has to wait in one count is charged to none. */
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

  /** It was no guess. */
  async function takeBack(counters: Counter[]): Promise<void> {
    const less = (found?: Count) => found && { ...found, count: Math.max(found.count - 1, 0) }
    await Promise.all(counters.map(([name, limit]) => update(name, limit, less)))
  }

  /** As if there had been none. */
  async function forget(name: string): Promise<void> {
    await records.remove('Attempts', name, 1)
  }

  return { count, takeBack, forget }
}

const secondsSince = ({ at }: Count) => (Date.now() - at) / 1000

/** Not forgotten yet. */
function leftOf(found: Count | undefined, { slowest }: Limit): number {
  return found ? Math.max(found.count - secondsSince(found) / slowest, 0) : 0
}

function isDue(found: Count | undefined, limit: Limit): boolean {
  if (!found || leftOf(found, limit) <= limit.attempts - 1) return true
  const wait = FIRST_WAIT * 2 ** Math.round(found.count - limit.attempts)
  return secondsSince(found) >= Math.min(wait, limit.slowest)
}

/**
 * One after another for each name, or they would all read what only one of them can then write. What
 * fails for one fails for those who stand behind it: nobody waits for a store that is away twice.
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
