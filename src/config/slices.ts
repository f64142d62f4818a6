// Long work in slices, so that a running service answers requests in between.

import { setImmediate } from 'node:timers/promises'

/** The work of one turn of the event loop. */
const SLICE_MS = 5

/** Work that can pause at each `yield`. */
export type Steps<T> = Generator<unknown, T, void>

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
