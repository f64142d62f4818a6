// Turns of the event loop: long work takes several, and requests take them together.

import { setImmediate } from 'node:timers/promises'

/** The work of one turn of the event loop. */
const SLICE_MS = 5

/** Work that can pause at each `yield`. */
export type Steps<T> = Generator<unknown, T, void>

let next: Promise<void> | undefined

/**
 * Resolves in the next turn of the event loop. All that wait for it go on together: each step of a request runs
 * for all of them while its code is in the cache of the processor.
 */
export function nextTurn(): Promise<void> {
  next ??= setImmediate().then(() => {
    next = undefined
  })
  return next
}

/** Runs all steps at once: at the start and in commands, where no request waits. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Runs the steps, and lets the event loop take a turn every few milliseconds. */
export async function inSlices<T>(steps: Steps<T>): Promise<T> {
  for (let began = performance.now(); ; ) {
    const { done, value } = steps.next()
    if (done) return value
    if (performance.now() - began < SLICE_MS) continue
    await setImmediate()
    began = performance.now()
  }
}
