// npm run test:operation -- --only reloads: what operators do while people sign in, at length.

import { parseArgs } from 'node:util'
import { memory } from './memory.ts'
import { reloads } from './reloads.ts'
import { restarts } from './restarts.ts'
import { rotation } from './rotation.ts'

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, seconds: { type: 'string', default: '600' } },
})
const PROOFS: Record<string, () => Promise<string[]>> = {
  rotation,
  reloads,
  restarts: () => restarts(),
  memory: () => memory(Number(values.seconds)),
}

// So that what was started is ended, whoever ends this.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => process.exit(130))
}

let failed = 0
for (const [name, prove] of Object.entries(PROOFS)) {
  if (!name.includes(values.only)) continue
  try {
    for (const line of await prove()) console.log(`${name}: ${line}`)
  } catch (error) {
    console.error(`${name} FAILED: ${error instanceof Error ? error.message : error}`)
    failed++
  }
}
process.exit(failed ? 1 : 0)
