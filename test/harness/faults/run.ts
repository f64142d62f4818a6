// `npm run test:faults -- --only F1,F6 --seconds 10,20` runs the faults one after another, and prints a table.

import { parseArgs } from 'node:util'
import { exitOnSignals, isChosen, tableRow } from '../../support/program.ts'
import { type Outcome, runFaults } from './experiment.ts'
import { FAULTS } from './faults.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '4,8' },
    details: { type: 'boolean', default: false },
  },
})
const [baseline = 4, recovery = 8] = values.seconds.split(',').map(Number)
const chosen = FAULTS.filter(({ id }) => isChosen(values.only, id))
exitOnSignals()

const COLUMNS: [string, (outcome: Outcome) => string | number][] = [
  ['fault', ({ id, name }) => `${id} ${name}`],
  ['gap ms', ({ gap }) => gap],
  ['highest ms', ({ highest }) => highest],
  ['back ms', ({ back }) => back],
  ['requests', ({ requests }) => requests],
  ['503', ({ unavailable }) => unavailable],
  ['cut', ({ cut }) => cut],
  ['other 5xx', ({ otherErrors }) => otherErrors],
  ['anew', ({ anew }) => anew],
  ['wrong 4xx', ({ wrong }) => wrong.length],
  [
    'violations',
    ({ violations }) =>
      Object.entries(violations)
        .sort()
        .map(([letter, count]) => `${letter}${count}`)
        .join(' ') || '-',
  ],
  ['verdict', ({ verdict }) => verdict],
]

const WIDTHS = COLUMNS.map(([title], i) => (i === 0 ? 34 : Math.max(title.length, 6)))
const row = (cells: (string | number)[]) =>
  tableRow(cells.map((cell, i) => String(cell)[i ? 'padStart' : 'padEnd'](WIDTHS[i] ?? 0)))

console.log(`baseline ${baseline} s, recovery ${recovery} s`)
console.log(row(COLUMNS.map(([title]) => title)))
console.log(`|${WIDTHS.map(width => '-'.repeat(width + 2)).join('|')}|`)
let failed = 0
for (const fault of chosen) {
  try {
    const [outcome] = await runFaults([fault], { baseline, recovery })
    if (outcome) show(outcome)
    if (outcome?.verdict === 'FAILED') failed++
  } catch (error) {
    console.log(`${fault.id} ${fault.name}: ${error instanceof Error ? error.stack : error}`)
    failed++
  }
}
process.exit(failed ? 1 : 0)

function show(outcome: Outcome) {
  console.log(row(COLUMNS.map(([, value]) => value(outcome))))
  const { missed, wrong, details, slowest, done } = outcome
  const story = `slowest request: ${slowest}; acknowledged: ${JSON.stringify(done)}`
  const more = values.details ? [story, ...missed, ...details, ...wrong] : missed
  for (const line of new Set(more)) console.log(`    ${line}`)
}
