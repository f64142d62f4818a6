// Rate limit for attempts at a password or another secret. All nodes share the
// counters, and count before the secret is checked. An attempt that comes too
// early is refused without a write, so that a flood causes no contention.
// Accounts are never locked: the wait doubles, and attempts expire one by one.

import type { Records } from '../store/records.ts'

/** The limit of one counter. */
export interface Limit {
  /** Attempts without a wait. */
  attempts: number
  /**
   * The longest wait for the next attempt, and the time in which one attempt
   * expires.
   */
  maxWaitSeconds: number
}

/** A counter in the store, with its limit. */
export type Counter = [name: string, limit: Limit]

/** The rate limit of an installation. */
export type RateLimit = ReturnType<typeof createRateLimit>

interface Count {
  /** Attempts that have not expired; a fraction, because they expire evenly. */
  count: number
  /** Epoch milliseconds of the latest attempt. */
  at: number
}

/**
 * The wait after the last attempt without one. Doubles with each further
 * attempt.
 */
const FIRST_WAIT_SECONDS = 5

/** Returns the rate limit, with counters by name in the store. */
export function createRateLimit(records: Records) {
  const counts = records.of<Count>('Attempts')

  /**
   * A counter expires with its last attempt: names of strangers do not fill the
   * store for long.
   */
  function changeCount(
    [name, { maxWaitSeconds }]: Counter,
    decide: (found?: Count) => Count | undefined,
  ) {
    const options = ({ count }: Count) => ({ ttl: count * maxWaitSeconds })
    return counts.change(name, ({ value }) => decide(value), options)
  }

  /**
   * Returns the time from which the next attempt is accepted (epoch
   * milliseconds), possibly past.
   */
  async function dueTime([name, limit]: Counter): Promise<number> {
    const { value } = await counts.read(name)
    return dueTimeOf(value, limit)
  }

  /** Returns false without counting if it is too early. */
  async function countOne(counter: Counter): Promise<boolean> {
    const [, limit] = counter
    const { isWritten } = await changeCount(counter, found => {
      if (dueTimeOf(found, limit) > Date.now()) return undefined
      return { count: leftOf(found, limit) + 1, at: Date.now() }
    })
    return isWritten
  }

  /**
   * Counts an attempt. Returns false without counting if it is too early for
   * one of the counters. They are changed one after another, so that a parallel
   * attempt that the first refuses costs nothing at the others.
   */
  async function count(counters: Counter[]): Promise<boolean> {
    const due = await Promise.all(counters.map(dueTime))
    if (Math.max(...due) > Date.now()) return false
    for (const [i, counter] of counters.entries()) {
      if (await countOne(counter)) continue
      await takeBack(counters.slice(0, i))
      return false
    }
    return true
  }

  /** Removes one attempt, after a correct password. */
  async function takeBack(counters: Counter[]): Promise<void> {
    const less = (found?: Count) =>
      found && { ...found, count: Math.max(found.count - 1, 0) }
    await Promise.all(counters.map(counter => changeCount(counter, less)))
  }

  /** Sets the counter to zero. */
  const forget = (name: string) => counts.remove(name, 1)

  return { count, takeBack, forget, dueTime }
}

/** Attempts that have not expired; a fraction. */
function leftOf(found: Count | undefined, { maxWaitSeconds }: Limit): number {
  return found
    ? Math.max(found.count - (Date.now() - found.at) / 1000 / maxWaitSeconds, 0)
    : 0
}

/** After the wait, or when enough attempts have expired. */
function dueTimeOf(
  found: Count | undefined,
  { attempts, maxWaitSeconds }: Limit,
): number {
  if (!found) return 0
  const wait = FIRST_WAIT_SECONDS * 2 ** Math.round(found.count - attempts)
  const expiry = (found.count - attempts + 1) * maxWaitSeconds
  return found.at + 1000 * Math.min(wait, expiry, maxWaitSeconds)
}
