// Operations of an operator under load: no request fails.

import { ON_REDIS, ON_SQLITE } from '../deployment.ts'
import type { Experiment, Options, Row } from '../experiment.ts'
import { measureMemory } from './memory.ts'
import { reload } from './reloads.ts'
import { restart } from './restarts.ts'
import { rotateKeys } from './rotation.ts'

const titles = ['operation', 'result']

const RUNS: [name: string, run: (options: Options) => Promise<Row>][] = [
  ['rotation', rotateKeys],
  ['reloads', reload],
  ['restarts', restart],
  [`memory, ${ON_SQLITE.name}`, options => measureMemory(ON_SQLITE, options)],
  [`memory, ${ON_REDIS.name}`, options => measureMemory(ON_REDIS, options)],
]

export const OPERATION: Experiment[] = RUNS.map(([name, run]) => ({
  name,
  titles,
  async run(options) {
    const row = await run(options)
    return [{ ...row, cells: [name, ...row.cells] }]
  },
}))
