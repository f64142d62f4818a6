// `npm run test:operation -- --only reloads` runs the operations of an operator under load.

import { parseArgs } from 'node:util'
import { exitOnSignals } from '../../support/program.ts'
import { memory } from './memory.ts'
import { reloads } from './reloads.ts'
import { restarts } from './restarts.ts'
import { rotation } from './rotation.ts'

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, seconds: { type: 'string', default: '600' } },
})
const RUNS: Record<string, () => Promise<string[]>> = {
  rotation,
  reloads,
  restarts: () => restarts(),
  memory: () => memory(Number(values.seconds)),
}

exitOnSignals()

let failed = 0
for (const [name, run] of Object.entries(RUNS)) {
  if (!name.includes(values.only)) continue
  try {
    for (const line of await run()) console.log(`${name}: ${line}`)
  } catch (error) {
    console.error(`${name} FAILED: ${error instanceof Error ? error.message : error}`)
    failed++
  }
}
process.exit(failed ? 1 : 0)
