// Whether a failed sign-in reveals its reason, how many guesses are checked, and how long other requests wait while
// many users or attackers sign in.

import {
  type Deployment,
  ON_REDIS,
  ON_SQLITE,
  type Shape,
  THREE_ON_REDIS,
  withDeployment,
} from '../deployment.ts'
import type { Experiment, Options, Row } from '../experiment.ts'
import { FLOOD_SETTINGS, measureFlood } from './flood.ts'
import { GUESSES_SETTINGS, measureGuesses } from './guesses.ts'
import { measureMorning } from './morning.ts'
import { PROXY } from './sign-in-page.ts'
import { measureTiming, TIMING_SETTINGS } from './timing.ts'

/** `difference` in milliseconds, `auc` the area under the ROC curve, `slower` a factor. */
const LIMITS = { difference: 3, auc: 0.55, slower: 2 }

/** Users who sign in at the same moment: so many are served in so many seconds, the others get the page that says so. */
const MORNINGS = [
  { browsers: 200, atLeast: 200, seconds: 3 },
  { browsers: 2000, atLeast: 400, seconds: 5 },
]

interface Measurement {
  name: string
  shapes: Shape[]
  /** The content of usher.yaml. */
  usher: object
  titles: string[]
  /** The cells follow the name of the deployment. */
  measure(deployment: Deployment, options: Options): Promise<Row[]>
}

const timing: Measurement = {
  name: 'timing',
  shapes: [ON_SQLITE, ON_REDIS],
  usher: TIMING_SETTINGS,
  titles: ['failed sign-in', 'median ms', 'from wrong password', 'AUC'],
  async measure(deployment, { rounds = 500 }) {
    const times = await measureTiming(deployment, rounds)
    return times.map(({ kind, median, difference, auc }) => ({
      cells: [kind, median.toFixed(1), difference.toFixed(2), auc.toFixed(3)],
      isFine: Math.abs(difference) < LIMITS.difference && auc < LIMITS.auc,
    }))
  },
}

const guesses: Measurement = {
  name: 'guesses',
  shapes: [ON_SQLITE, ON_REDIS, THREE_ON_REDIS],
  usher: GUESSES_SETTINGS,
  titles: ['concurrent guesses', 'checked', 's', 'sign-ins of the user', 'succeeded'],
  async measure(deployment) {
    const { guesses, checked, allowed, seconds, tried, succeeded } =
      await measureGuesses(deployment)
    const cells = [guesses, checked, seconds.toFixed(1), tried, succeeded]
    return [{ cells, isFine: checked <= allowed && succeeded === tried }]
  },
}

const flood: Measurement = {
  name: 'flood',
  shapes: [ON_SQLITE, ON_REDIS],
  usher: FLOOD_SETTINGS,
  titles: [
    '200 sign-ins a second',
    '/token p50 ms, calm',
    'flooded',
    'p99, calm',
    'flooded',
    'answers',
  ],
  async measure(deployment, { seconds: [seconds = 20] }) {
    const floods = await measureFlood(deployment, seconds)
    return floods.map(({ aim, calm, flooded, answers }) => {
      const counts = Object.entries(answers).map(([answer, count]) => `${count} × ${answer}`)
      const times = [calm.p50, flooded.p50, calm.p99, flooded.p99].map(time => time.toFixed(1))
      const isFine = flooded.p99 <= calm.p99 * LIMITS.slower
      return { cells: [aim, ...times, counts.join(', ')], isFine }
    })
  },
}

const mornings = MORNINGS.map(
  ({ browsers, atLeast, seconds: most }): Measurement => ({
    name: 'morning',
    shapes: [ON_SQLITE, ON_REDIS],
    usher: PROXY,
    titles: ['browsers at once', 'served', 's until those wanted', 'refused', 'UserInfo p99 ms'],
    async measure(deployment) {
      const { served, seconds, refused, p99 } = await measureMorning(deployment, browsers, atLeast)
      const isFine = served >= atLeast && seconds <= most && served + refused === browsers
      return [{ cells: [browsers, served, seconds.toFixed(1), refused, p99.toFixed(0)], isFine }]
    },
  }),
)

export const SIGN_IN: Experiment[] = [timing, guesses, flood, ...mornings].flatMap(onEachShape)

function onEachShape({ name, shapes, usher, titles, measure }: Measurement): Experiment[] {
  return shapes.map(shape => ({
    name: `${name}, ${shape.name}`,
    titles: ['deployment', ...titles],
    async run(options) {
      const act = (deployment: Deployment) => measure(deployment, options)
      const rows = await withDeployment(shape, usher, act)
      return rows.map(row => ({ ...row, cells: [shape.name, ...row.cells] }))
    },
  }))
}
