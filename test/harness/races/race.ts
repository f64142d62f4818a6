// A race: `n` callers send concurrent requests for one artefact, and each response is checked.

import { setTimeout } from 'node:timers/promises'
import type { Browser } from '../../support/browser.ts'
import type { Reply } from '../../support/wire.ts'
import { word } from '../clients.ts'
import type { Deployment } from '../deployment.ts'
import { webUser } from '../users.ts'

export interface Race {
  artefact: string
  /** The behaviour, as a sentence. */
  proves: string
  /** The `refresh_token_grace` in usher.yaml; 30 s by default. */
  grace?: '0 s'
  /** The number of callers that must succeed, or of decisions that are accepted. */
  winners: 'one' | 'all'
  /** Matches every permitted response to the other callers. Without it there are none. */
  losers?: RegExp
  /** The round reuses a refresh token: the log must report one theft. */
  isTheft?: true
  /** The race causes a fault: 503 is permitted, and the caller retries. */
  isFault?: true
  play(scene: Scene, n: number, round: Round): Promise<void>
}

/** A deployment with a signed-in user. */
interface Scene extends Pick<Deployment, 'node'> {
  deployment: Deployment
  /** The browser of Ada, who has allowed everything to the client web. */
  ada: Browser
  /** The number of the round. */
  turn: number
}

/** The result of one round. */
export class Round {
  winners = 0
  losers: string[] = []
  problems: string[] = []

  /** Sorts the replies. Returns those of the winners. */
  sort(replies: Reply[], isWinner: (reply: Reply) => boolean): Reply[] {
    const won = replies.filter(isWinner)
    this.winners += won.length
    this.losers.push(...replies.filter(reply => !isWinner(reply)).map(word))
    return won
  }

  must(holds: boolean, problem: string) {
    if (!holds) this.problems.push(problem)
  }
}

export interface Result {
  /** The minimum and maximum of a round. */
  winners: [number, number]
  /** The number of each answer to the others. */
  losers: Map<string, number>
  /** Responses of 500 and above. */
  faults: number
  violations: string[]
}

export function atOnce<T>(n: number, act: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: n }, (_, i) => act(i)))
}

/** Plays `rounds` rounds of a race, with a user who has just signed in. */
export async function playRounds(
  race: Race,
  deployment: Deployment,
  n: number,
  rounds: number,
): Promise<Result> {
  const result: Result = {
    winners: [Number.POSITIVE_INFINITY, 0],
    losers: new Map(),
    faults: 0,
    violations: [],
  }
  const before = deployment.counts()
  const ada = await webUser(deployment)
  const { node } = deployment
  for (let turn = 0; turn < rounds; turn++) {
    const round = new Round()
    const scene = { deployment, node, ada, turn }
    await race.play(scene, n, round).catch(error => round.must(false, String(error)))
    checkRound(race, n, round)
    addRound(result, round, turn)
  }
  const expected = race.isTheft ? rounds : 0
  await until(() => deployment.counts().thefts - before.thefts >= expected)
  const after = deployment.counts()
  const thefts = after.thefts - before.thefts
  if (thefts !== expected) result.violations.push(`${thefts} thefts in the log, not ${expected}`)
  result.faults = after.faults - before.faults
  if (!race.isFault) result.faults += after.unavailable - before.unavailable
  if (result.faults) {
    const latest = deployment.latestFaults.join(' ')
    result.violations.push(`${result.faults} responses of 500 and above: ${latest}`)
  }
  return result
}

function checkRound({ winners, losers }: Race, n: number, round: Round) {
  const expected = winners === 'one' ? 1 : n
  round.must(round.winners === expected, `${round.winners} winners, not ${expected}`)
  const unexpected = round.losers.find(answer => !losers?.test(answer))
  round.must(unexpected === undefined, `a loser received ${unexpected}`)
}

function addRound(result: Result, { winners, losers, problems }: Round, turn: number) {
  const [min, max] = result.winners
  result.winners = [Math.min(min, winners), Math.max(max, winners)]
  for (const answer of losers) result.losers.set(answer, (result.losers.get(answer) ?? 0) + 1)
  if (problems.length) result.violations.push(`round ${turn}: ${problems.join('; ')}`)
}

/** Waits up to two seconds for log lines, which may follow the response. The caller then counts them. */
export async function until(holds: () => boolean) {
  for (let i = 0; i < 100 && !holds(); i++) await setTimeout(20)
}
