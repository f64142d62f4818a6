// `npm run test:sign-in` measures whether a failed sign-in reveals its reason, how many guesses are checked,
// and the latency of other requests in a flood of sign-ins. It prints tables, and exits with 1 if a limit is
// exceeded.

import { parseArgs } from 'node:util'
import { exitOnSignals, isChosen, tableHead, tableRow } from '../../support/program.ts'
import { ON_REDIS, ON_SQLITE, THREE_ON_REDIS } from '../races/deployment.ts'
import { measureFlood } from './flood.ts'
import { measureGuesses } from './guesses.ts'
import { measureMorning } from './morning.ts'
import { measureTiming } from './timing.ts'

const { values } = parseArgs({
  options: {
    n: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '20' },
    only: { type: 'string', default: '' },
  },
})

/** `difference` in milliseconds, `auc` the area under the ROC curve, `slower` a factor. */
const LIMITS = { difference: 3, auc: 0.55, slower: 2 }

/** Users who sign in at the same moment: so many are served in so many seconds, the others get the page that says so. */
const MORNINGS = [
  { browsers: 200, atLeast: 200, seconds: 3 },
  { browsers: 2000, atLeast: 400, seconds: 5 },
]

let failed = false
const row = (isFine: boolean, ...cells: (string | number)[]) => {
  if (!isFine) failed = true
  console.log(tableRow([...cells, isFine ? 'yes' : '**no**']))
}
const head = (...cells: string[]) => console.log(`\n${tableHead([...cells, 'holds'])}`)
const chosen = (name: string) => isChosen(values.only, name)
exitOnSignals()

for (const shape of chosen('timing') ? [ON_SQLITE, ON_REDIS] : []) {
  head(`timing, ${shape.name}`, 'median ms', 'from wrong password', 'AUC')
  for (const { kind, median, difference, auc } of await measureTiming(Number(values.n), shape)) {
    const isFine = Math.abs(difference) < LIMITS.difference && auc < LIMITS.auc
    row(isFine, kind, median.toFixed(1), difference.toFixed(2), auc.toFixed(3))
  }
}

if (chosen('guesses')) {
  head('guesses', 'concurrent', 'checked', 's', 'sign-ins of the user', 'succeeded')
  for (const shape of [ON_SQLITE, ON_REDIS, THREE_ON_REDIS]) {
    const result = await measureGuesses(shape)
    const { deployment, guesses, checked, allowed, seconds, tried, succeeded } = result
    const isFine = checked <= allowed && succeeded === tried
    row(isFine, deployment, guesses, checked, seconds.toFixed(1), tried, succeeded)
  }
}

for (const shape of chosen('flood') ? [ON_SQLITE, ON_REDIS] : []) {
  const columns = ['/token p50 ms, calm', 'flooded', 'p99 ms, calm', 'flooded', 'answers']
  head(`flood, ${shape.name}: 200 sign-ins a second`, ...columns)
  for (const { aim, calm, flooded, answers } of await measureFlood(shape, Number(values.seconds))) {
    const counts = Object.entries(answers).map(([answer, count]) => `${count} × ${answer}`)
    const times = [calm.p50, flooded.p50, calm.p99, flooded.p99].map(time => time.toFixed(1))
    row(flooded.p99 <= calm.p99 * LIMITS.slower, aim, ...times, counts.join(', '))
  }
}

for (const shape of chosen('morning') ? [ON_SQLITE, ON_REDIS] : []) {
  const columns = ['served', 's until those wanted', 'refused', 'UserInfo p99 ms']
  head(`${shape.name}: browsers at once`, ...columns)
  for (const { browsers, atLeast, seconds: most } of MORNINGS) {
    const { served, seconds, refused, p99 } = await measureMorning(shape, browsers, atLeast)
    const isFine = served >= atLeast && seconds <= most && served + refused === browsers
    row(isFine, browsers, served, seconds.toFixed(1), refused, p99.toFixed(0))
  }
}

process.exitCode = failed ? 1 : 0
