// `npm run test:sign-in`: what a failed sign-in gives away, how many guesses count, and what a flood of
// them does to everybody else. Prints tables; exits with 1 when anything was not as it must be.

import { parseArgs } from 'node:util'
import { ON_REDIS, ON_SQLITE, THREE_ON_REDIS } from '../races/deployment.ts'
import { measureAlike } from './alike.ts'
import { measureFlood } from './flood.ts'
import { measureGuesses } from './guesses.ts'

const { values } = parseArgs({
  options: {
    n: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '20' },
    only: { type: 'string', default: '' },
  },
})

/** Limits: milliseconds, area under the curve, and times as slow. */
const LIMITS = { difference: 3, auc: 0.55, slower: 2 }

let failed = false
const row = (isFine: boolean, ...cells: (string | number)[]) => {
  if (!isFine) failed = true
  process.stdout.write(`| ${cells.join(' | ')} | ${isFine ? 'yes' : '**no**'} |\n`)
}
const head = (...cells: string[]) =>
  process.stdout.write(
    `\n| ${[...cells, 'holds'].join(' | ')} |\n|${'---|'.repeat(cells.length + 1)}\n`,
  )
const chosen = (name: string) => values.only === '' || values.only.split(',').includes(name)

// The processes end with this one, whichever way that goes.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

for (const shape of chosen('timing') ? [ON_SQLITE, ON_REDIS] : []) {
  head(`timing, ${shape.name}`, 'median ms', 'from wrong password', 'AUC')
  for (const { kind, median, difference, auc } of await measureAlike(Number(values.n), shape)) {
    const isFine = Math.abs(difference) < LIMITS.difference && auc < LIMITS.auc
    row(isFine, kind, median.toFixed(1), difference.toFixed(2), auc.toFixed(3))
  }
}

if (chosen('guesses')) {
  head('guesses', 'at once', 'checked', 's', 'sign-ins of the owner meanwhile', 'got in')
  for (const shape of [ON_SQLITE, ON_REDIS, THREE_ON_REDIS]) {
    const result = await measureGuesses(shape)
    const { deployment, guesses, looked, allowed, seconds, tried, in: got } = result
    const isFine = looked <= allowed && got === tried
    row(isFine, deployment, guesses, looked, seconds.toFixed(1), tried, got)
  }
}

for (const shape of chosen('flood') ? [ON_SQLITE, ON_REDIS] : []) {
  const columns = ['/token p50 ms, calm', 'flooded', 'p99 ms, calm', 'flooded', 'answers']
  head(`flood, ${shape.name}: 200 sign-ins a second`, ...columns)
  for (const { aim, calm, flooded, answers } of await measureFlood(shape, Number(values.seconds))) {
    const told = Object.entries(answers).map(([answer, count]) => `${count} × ${answer}`)
    const times = [calm.p50, flooded.p50, calm.p99, flooded.p99].map(time => time.toFixed(1))
    row(flooded.p99 <= calm.p99 * LIMITS.slower, aim, ...times, told.join(', '))
  }
}

process.exitCode = failed ? 1 : 0
