// Each fault with a deployment of its own: what clients notice, and whether everything that was acknowledged holds.

import type { Experiment, Options, Row } from '../experiment.ts'
import { type Fault, FAULTS as LIST } from './faults.ts'
import { type Outcome, runFaults } from './run-faults.ts'

const TITLES = ['fault', 'gap ms', 'highest ms', 'back ms', 'requests', '503', 'cut']
/** The titles of the table. */
export const titles = [...TITLES, 'other 5xx', 'anew', 'wrong 4xx', 'violations', 'verdict']

export const FAULTS: Experiment[] = LIST.map(fault => ({
  name: `${fault.id} ${fault.name}`,
  titles,
  run: options => run(fault, options),
}))

async function run(
  fault: Fault,
  { seconds: [baseline = 4, recovery = 8] }: Options,
): Promise<Row[]> {
  const outcomes = await runFaults([fault], { baseline, recovery })
  return outcomes.map(rowOf)
}

/** The row of a fault in the table. */
export function rowOf({ id, name, verdict, wrong, ...outcome }: Outcome): Row {
  const { gap, highest, back, requests, unavailable, cut, otherErrors, anew } = outcome
  const { violations, missed, details, slowest, done } = outcome
  const letters = Object.entries(violations).sort()
  const counts = letters.map(([letter, count]) => `${letter}${count}`).join(' ') || '-'
  const load = [requests, unavailable, cut, otherErrors, anew, wrong.length]
  const story = `slowest request: ${slowest}; acknowledged: ${JSON.stringify(done)}`
  return {
    cells: [`${id} ${name}`, gap, highest, back, ...load, counts, verdict],
    isFine: verdict !== 'FAILED',
    notes: verdict === 'ok' ? [] : [story, ...missed, ...details, ...wrong],
  }
}
