// Turns of the event loop: long work takes several, and requests take them
// together.

import { setImmediate } from 'node:timers/promises'

/** The longest turn of long work. */
const MAX_TURN_MS = 5

let next: Promise<void> | undefined
/** When the latest turn that something waited for began. */
let began = 0

/**
 * Resolves in the next turn of the event loop. All that wait for it go on
 * together: each step of a request runs for all of them while its code is in
 * the cache of the processor.
 */
export function nextTurn(): Promise<void> {
  next ??= setImmediate().then(() => {
    next = undefined
    began = performance.now()
  })
  return next
}

/**
 * Lets the event loop take a turn every few milliseconds. Long work waits for
 * this before each step.
 */
export async function pause(): Promise<void> {
  if (performance.now() - began > MAX_TURN_MS) await nextTurn()
}
