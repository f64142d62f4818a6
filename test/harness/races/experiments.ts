// Rounds of every race on every kind of deployment, and of every kind of retry.

import {
  BEHIND_LINKS,
  ON_REDIS,
  ON_SQLITE,
  type Shape,
  THREE_ON_REDIS,
  withDeployment,
} from '../deployment.ts'
import type { Experiment, Row } from '../experiment.ts'
import { PAGE_RACES } from './page-races.ts'
import { playRounds, type Race, type Result } from './race.ts'
import { hungRedis, RETRIES } from './retries.ts'
import { SESSION_RACES } from './session-races.ts'
import { TOKEN_RACES } from './token-races.ts'

/** Concurrent callers, and their share of the rounds. */
const SHARES = new Map([
  [2, 0.55],
  [8, 0.35],
  [50, 0.1],
])
/** Rounds of each race on each deployment, and of each kind of retry. */
const ROUNDS = { race: 200, retry: 500 }
/** Clients that refresh while Redis hangs. */
export const CLIENTS_WHILE_HUNG = 20
const SHAPES = [ON_SQLITE, ON_REDIS, THREE_ON_REDIS]
const MAX_NOTES = 8

const TITLES = ['artefact', 'deployment', 'N', 'rounds', 'winners per round']
const titles = [...TITLES, "losers' answers", '5xx', 'violations']

export const ALL_RACES = [...TOKEN_RACES, ...PAGE_RACES, ...SESSION_RACES]

/** The settings of a race in usher.yaml. */
export const settingsOf = ({ grace }: Race) => ({
  lifetimes: { refresh_token_grace: grace ?? '30 s' },
})

/** The number of concurrent clients in a retry. */
export const clientsOf = (retry: Race) => (retry === hungRedis ? CLIENTS_WHILE_HUNG : 1)

export const RACES: Experiment[] = [
  ...ALL_RACES.flatMap(race => SHAPES.map(shape => raceOn(shape, race))),
  ...RETRIES.map(behindLinks),
]

function raceOn(shape: Shape, race: Race): Experiment {
  return {
    name: `${race.artefact}, ${shape.name}`,
    titles,
    run({ rounds = ROUNDS.race }) {
      const turns = [...SHARES].map(([n, share]): Turn => [n, atLeastOne(rounds * share)])
      return playTurns(race, shape, turns)
    },
  }
}

function behindLinks(race: Race): Experiment {
  const n = clientsOf(race)
  return {
    name: `${race.artefact}, ${BEHIND_LINKS.name}`,
    titles,
    run: ({ rounds = ROUNDS.retry }) =>
      playTurns(race, BEHIND_LINKS, [[n, atLeastOne(rounds / n)]]),
  }
}

const atLeastOne = (rounds: number) => Math.max(1, Math.round(rounds))

/** A number of callers and of rounds. */
type Turn = [n: number, rounds: number]

function playTurns(race: Race, shape: Shape, turns: Turn[]): Promise<Row[]> {
  return withDeployment(shape, settingsOf(race), async deployment => {
    const rows: Row[] = []
    for (const [n, rounds] of turns) {
      const result = await playRounds(race, deployment, n, rounds)
      rows.push(rowOf([race.artefact, shape.name, n, rounds], result))
    }
    return rows
  })
}

function rowOf(start: Row['cells'], { winners, losers, faults, violations }: Result): Row {
  const [fewest, most] = winners
  const answers = [...losers].toSorted().map(([answer, count]) => `${count} × ${answer}`)
  const winning = fewest === most ? most : `${fewest} to ${most}`
  return {
    cells: [...start, winning, answers.join(', ') || 'none', faults, violations.length],
    isFine: violations.length === 0,
    notes: violations.slice(0, MAX_NOTES),
  }
}
