// How long a failed sign-in takes: as long as any other, whether its password was hashed or not (LG1).

import { setTimeout } from 'node:timers/promises'

/** Failures that are remembered, for those that hash nothing to take as long. */
const REMEMBERED = 50
/** Milliseconds, at random: what differs by less than a few of them cannot be told apart. */
const SPREAD = 20
/** Milliseconds: longer than it takes to check any hash that can be imported. */
const EVEN = 1000

export function createPace() {
  const times: number[] = []

  const until = (time: number) =>
    setTimeout(Math.max(0, time + Math.random() * SPREAD - performance.now()))

  /** After a failure that began then (`performance.now()`), and was hashed. */
  async function hold(began: number): Promise<void> {
    const now = performance.now()
    times.push(now - began)
    if (times.length > REMEMBERED) times.shift()
    await until(now)
  }

  /** After one that was not; false when nobody knows yet how long it should take. */
  async function pretend(began: number): Promise<boolean> {
    const time = times[Math.floor(Math.random() * times.length)]
    if (time !== undefined) await until(began + time)
    return time !== undefined
  }

  /** Where some passwords take another time to check than others: to the next whole second. */
  async function even(began: number): Promise<undefined> {
    const seconds = Math.ceil((performance.now() - began) / EVEN)
    await until(began + seconds * EVEN)
  }

  return { hold, pretend, even }
}
