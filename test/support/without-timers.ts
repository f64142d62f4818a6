// Preloaded into a process of Usher (`--import`): no timer of a second or more fires, so that requests alone
// run code.

import { syncBuiltinESMExports } from 'node:module'
import promises from 'node:timers/promises'

const MIN_MS = 1_000
/** The longest time that Node takes: 24 days. */
const NEVER_MS = 2 ** 31 - 1
const orNever = (ms = 0) => (ms >= MIN_MS ? NEVER_MS : ms)

const { setTimeout: wait } = promises
const { setInterval: repeat, setTimeout: later } = globalThis
Object.assign(promises, {
  setTimeout: (ms?: number, ...rest: [unknown?, object?]) => wait(orNever(ms), ...rest),
})
Object.assign(globalThis, {
  setInterval: (work: () => void, ms?: number) => repeat(work, orNever(ms)),
  setTimeout: (work: () => void, ms?: number) => later(work, orNever(ms)),
})
syncBuiltinESMExports()
