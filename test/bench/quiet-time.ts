// `node --expose-gc quiet-time.ts [ticks]`: how many times as long `process.nextTick` takes after a
// quiet time in which V8 has collected everything several times.

import { setTimeout } from 'node:timers/promises'

const TICKS = 20_000
const PROBES = 12

if (process.argv[2]) await import('../../src/http/ticks.ts')
const before = await probe()
for (let i = 0; i < 6; i++) {
  globalThis.gc?.()
  await setTimeout(10)
}
console.log((await probe()) / before)

/** The least of several times. */
async function probe(): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < PROBES; i++) {
    const started = performance.now()
    for (let tick = 0; tick < TICKS; tick++) process.nextTick(() => {})
    times.push(performance.now() - started)
    // Time to be compiled.
    await setTimeout(50)
  }
  return Math.min(...times)
}
