// A race: something is made ready, `n` callers want it at once, and what each was answered is judged.

import { setTimeout } from 'node:timers/promises'
import type { Browser } from '../support/browser.ts'
import type { Reply } from '../support/wire.ts'
import { word } from './clients.ts'
import type { Deployment } from './deployment.ts'
import { allowWeb, signIn } from './person.ts'

export interface Race {
  artefact: string
  /** The behaviour, as a sentence. */
  proves: string
  /** As in usher.yaml. */
  grace: '0 s' | '30 s'
  /** How many must have it: of the callers, or of the things that were decided. */
  winners: 'one' | 'all'
  /** What those who did not get it may be told, and nothing else. */
  losers: RegExp
  /** How many of the rounds it gets, where 1 is usual. */
  weight: number
  /** A round in which a used refresh token comes again: the log has to say so once. */
  theft?: true
  /** Something is broken on purpose: 503 is an answer, to be tried again. */
  isFault?: true
  play(scene: Scene, n: number, round: Round): Promise<void>
}

/** A deployment with somebody signed in at it. */
export interface Scene {
  deployment: Deployment
  /** Ada, who has allowed web everything. */
  ada: Browser
  /** Counts the rounds. */
  turn: number
}

/** What came of one round. */
export class Round {
  winners = 0
  losers: string[] = []
  problems: string[] = []

  /** Sorts the answers; gives those of the winners. */
  sort(replies: Reply[], isWinner: (reply: Reply) => boolean): Reply[] {
    const won = replies.filter(isWinner)
    this.winners += won.length
    this.losers.push(...replies.filter(reply => !isWinner(reply)).map(word))
    return won
  }

  must(holds: boolean, what: string) {
    if (!holds) this.problems.push(what)
  }
}

/** One line of the table. */
export interface Result {
  artefact: string
  deployment: string
  n: number
  rounds: number
  /** The fewest and the most in a round. */
  winners: [number, number]
  losers: Map<string, number>
  faults: number
  violations: string[]
}

export function atOnce<T>(n: number, act: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: n }, (_, i) => act(i)))
}

export const isOk = ({ status }: Reply) => status === 200
export const hasCode = ({ location }: Reply) => location?.searchParams.has('code') ?? false

export async function setScene(deployment: Deployment): Promise<Scene> {
  const ada = await signIn(deployment)
  await allowWeb(deployment.node(0), ada)
  return { deployment, ada, turn: 0 }
}

/** Plays a race as often as it is told, with somebody who has just signed in. */
export async function playRounds(
  race: Race,
  deployment: Deployment,
  n: number,
  rounds: number,
): Promise<Result> {
  const result: Result = {
    artefact: race.artefact,
    deployment: deployment.name,
    n,
    rounds,
    winners: [Number.POSITIVE_INFINITY, 0],
    losers: new Map(),
    faults: 0,
    violations: [],
  }
  const before = counts(deployment)
  const scene = await setScene(deployment)
  for (; scene.turn < rounds; scene.turn++) {
    const round = new Round()
    await race.play(scene, n, round).catch(error => round.must(false, String(error)))
    judge(race, n, round)
    note(result, round, scene.turn)
  }
  const expected = race.theft ? rounds : 0
  await until(() => deployment.thefts() - before.thefts >= expected)
  const after = counts(deployment)
  const thefts = after.thefts - before.thefts
  if (thefts !== expected) result.violations.push(`${thefts} thefts in the log, not ${expected}`)
  result.faults = after.faults - before.faults
  if (!race.isFault) result.faults += after.unavailable - before.unavailable
  if (result.faults) {
    const latest = deployment.latestFaults().join(' ')
    result.violations.push(`${result.faults} answers of 500 and above: ${latest}`)
  }
  return result
}

const counts = ({ thefts, faults, unavailable }: Deployment) => ({
  thefts: thefts(),
  faults: faults(),
  unavailable: unavailable(),
})

function judge({ winners, losers }: Race, n: number, round: Round) {
  const expected = winners === 'one' ? 1 : n
  round.must(round.winners === expected, `${round.winners} winners, not ${expected}`)
  const odd = round.losers.find(answer => !losers.test(answer))
  round.must(odd === undefined, `a loser was told ${odd}`)
}

function note(result: Result, { winners, losers, problems }: Round, turn: number) {
  const [fewest, most] = result.winners
  result.winners = [Math.min(fewest, winners), Math.max(most, winners)]
  for (const answer of losers) result.losers.set(answer, (result.losers.get(answer) ?? 0) + 1)
  if (problems.length) result.violations.push(`round ${turn}: ${problems.join('; ')}`)
}

/** For log lines, which may come a moment after the answer; what never comes is found out after. */
export async function until(holds: () => boolean) {
  for (let i = 0; i < 100 && !holds(); i++) await setTimeout(20)
}
