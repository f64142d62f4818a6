// `npm run test:races` plays thousands of rounds of every race on every kind of deployment. It prints a table,
// and exits with 1 if there was a violation.

import { parseArgs } from 'node:util'
import { exitOnSignals } from '../../support/program.ts'
import {
  BEHIND_LINKS,
  type Deployment,
  deploy,
  ON_REDIS,
  ON_SQLITE,
  type Shape,
  THREE_ON_REDIS,
} from './deployment.ts'
import { PAGE_RACES } from './page-races.ts'
import { playRounds, type Race, type Result } from './race.ts'
import { CLIENTS_AT_ONCE, RETRIES } from './retries.ts'
import { SESSION_RACES } from './session-races.ts'
import { formatTable, formatViolations, markdownOf } from './table.ts'
import { TOKEN_RACES } from './token-races.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12000' },
    each: { type: 'string' },
    only: { type: 'string', default: '' },
    markdown: { type: 'boolean', default: false },
  },
})
const total = Number(values.rounds)
if (!(total >= 1)) throw new Error('--rounds N: the total number of rounds must be at least 1')

const each = values.each === undefined ? undefined : Number(values.each)
if (each !== undefined && !(each >= 1))
  throw new Error('--each N: the number of rounds of each race must be at least 1')

/** Rounds of each kind of retry, with the default of --rounds. */
const RETRY_ROUNDS = 500
/** Concurrent callers, and their share of the rounds. */
const SHARES = new Map([
  [2, 0.55],
  [8, 0.35],
  [50, 0.1],
])
const RACES = [...TOKEN_RACES, ...PAGE_RACES, ...SESSION_RACES]
const SHAPES = [ON_SQLITE, ON_REDIS, THREE_ON_REDIS]

/** A race with a number of callers and of rounds. */
interface Turn {
  race: Race
  n: number
  rounds: number
}

interface Stage {
  shape: Shape
  grace: Race['grace']
  turns: Turn[]
}

function plan(): Stage[] {
  const weights = RACES.reduce((sum, { weight }) => sum + weight, 0) * SHAPES.length
  const turnsOf = (race: Race) => {
    if (each !== undefined) return [{ race, n: 50, rounds: each }]
    return [...SHARES].map(([n, share]) => ({
      race,
      n,
      rounds: atLeastOne(total, (race.weight * share) / weights),
    }))
  }
  const races = SHAPES.flatMap(shape =>
    (['30 s', '0 s'] as const).map(grace => ({
      shape,
      grace,
      turns: RACES.filter(race => race.grace === grace).flatMap(turnsOf),
    })),
  )
  const retries = RETRIES.map(race => {
    const n = CLIENTS_AT_ONCE.get(race) ?? 1
    return { race, n, rounds: atLeastOne(RETRY_ROUNDS / n, total / 12_000) }
  })
  return [...races, { shape: BEHIND_LINKS, grace: '30 s', turns: retries }]
}

const atLeastOne = (rounds: number, share: number) => Math.max(1, Math.round(rounds * share))

async function perform({ shape, grace, turns }: Stage): Promise<Result[]> {
  const chosen = turns.filter(({ race }) => race.artefact.includes(values.only))
  if (!chosen.length) return []
  const deployment = await deploy(shape, { refresh_token_grace: grace })
  const results: Result[] = []
  for (const turn of chosen) results.push(await performTurn(deployment, turn))
  await deployment.stop()
  return results
}

async function performTurn(deployment: Deployment, { race, n, rounds }: Turn): Promise<Result> {
  const started = performance.now()
  const result = await playRounds(race, deployment, n, rounds)
  const seconds = Math.round((performance.now() - started) / 1000)
  const outcome = result.violations.length ? `${result.violations.length} VIOLATIONS` : 'fine'
  const { artefact } = race
  process.stderr.write(
    `${deployment.name}: ${artefact}, ${n} callers, ${rounds} rounds, ${seconds} s: ${outcome}\n`,
  )
  return result
}

exitOnSignals()

const results: Result[] = []
for (const stage of plan()) results.push(...(await perform(stage)))
// Sorts by race, and within a race by deployment.
const order = [...RACES, ...RETRIES].map(({ artefact }) => artefact)
results.sort((a, b) => order.indexOf(a.artefact) - order.indexOf(b.artefact))
process.stdout.write(`${(values.markdown ? markdownOf : formatTable)(results)}\n`)
const violations = formatViolations(results)
process.stdout.write(violations ? `\n${violations}\n` : '\nNo violations.\n')
process.exitCode = violations ? 1 : 0
