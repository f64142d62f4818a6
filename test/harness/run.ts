// `npm run harness -- PROGRAM` runs experiments with deployments of Usher, one after another. It prints tables, and
// exits with 1 if something does not hold.

import { parseArgs } from 'node:util'
import { exitOnSignals, isChosen, tableHead, tableRow } from '../support/program.ts'
import type { Experiment, Options, Row } from './experiment.ts'
import { FAULTS } from './faults/experiments.ts'
import { OPERATION } from './operation/experiments.ts'
import { RACES } from './races/experiments.ts'
import { SIGN_IN } from './sign-in/experiments.ts'
import { WORKERS } from './workers.ts'

const PROGRAMS: Record<string, Experiment[]> = {
  races: RACES,
  faults: FAULTS,
  operation: OPERATION,
  'sign-in': SIGN_IN,
  workers: WORKERS,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Words of names, with commas between them. */
    only: { type: 'string', default: '' },
    rounds: { type: 'string' },
    seconds: { type: 'string', default: '' },
  },
})
const [program = ''] = positionals
const experiments = PROGRAMS[program]
if (!experiments) throw new Error(`usage: npm run harness -- ${Object.keys(PROGRAMS).join('|')}`)
const options: Options = { seconds: values.seconds.split(',').filter(Boolean).map(Number) }
if (values.rounds !== undefined) options.rounds = Number(values.rounds)
for (const number of [options.rounds ?? 1, ...options.seconds]) {
  if (!(number > 0)) throw new Error('--rounds and --seconds: numbers above 0')
}

const chosen = experiments.filter(({ name }) => isChosen(values.only, name))
if (!chosen.length) throw new Error(`--only ${values.only}: no experiment has these words`)

exitOnSignals()

let titles = ''
let isFine = true
for (const experiment of chosen) {
  printTitles(experiment.titles)
  for (const row of await rowsOf(experiment)) print(row)
}
process.exit(isFine ? 0 : 1)

/** An experiment that throws has one row, with the error below. */
async function rowsOf({ name, run }: Experiment): Promise<Row[]> {
  try {
    return await run(options)
  } catch (error) {
    const notes = [String(error instanceof Error ? error.stack : error)]
    return [{ cells: [name], isFine: false, notes }]
  }
}

/** Prints the head of a table, where the experiment before had another. */
function printTitles(next: string[]) {
  const head = tableHead([...next, 'holds'])
  if (head !== titles) console.log(`\n${head}`)
  titles = head
}

function print(row: Row) {
  console.log(tableRow([...row.cells, row.isFine ? 'yes' : '**no**']))
  for (const note of new Set(row.notes)) console.log(`    ${note}`)
  isFine &&= row.isFine
}
