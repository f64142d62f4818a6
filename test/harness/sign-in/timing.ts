// Measures whether the duration of a failed sign-in reveals its reason.

import { setTimeout } from 'node:timers/promises'
import { PASSWORD } from '../../support/usher.ts'
import { median } from '../bench/statistics.ts'
import type { Deployment } from '../deployment.ts'
import { attempt, openSignInPage, PROXY, type SignInPage, WRONG } from './sign-in-page.ts'

/** Accounts of each kind: enough that none reaches the limit. */
const ACCOUNTS = 8
const LIMIT = 100
export const TIMING_SETTINGS = {
  ...PROXY,
  security: { account_attempts: LIMIT, network_attempts: 100_000 },
}
/** Turns that are not measured. */
const WARM_UP = 5

type Kind = (turn: number) => [username: string, password: string]
const KINDS: Record<string, Kind> = {
  'wrong password': turn => [`wrong-${turn % ACCOUNTS}`, WRONG],
  'unknown name': turn => [`unknown-${turn % ACCOUNTS}`, WRONG],
  disabled: turn => [`disabled-${turn % ACCOUNTS}`, PASSWORD],
  throttled: () => ['throttled', PASSWORD],
}

interface Timing {
  kind: string
  median: number
  /** The difference to the median of a wrong password, in milliseconds. */
  difference: number
  auc: number
}

/** Time between the starts of two sign-ins. They overlap, because a failure takes a second. */
const INTERVAL_MS = 60

/** Measures `n` failed sign-ins of each kind, in random order. */
export async function measureTiming(deployment: Deployment, n: number): Promise<Timing[]> {
  const page = await prepare(deployment)
  const times = Object.values(KINDS).map((): number[] => [])
  async function measure(i: number, kind: Kind, turn: number) {
    const started = performance.now()
    const { status } = await attempt(deployment.node(0), page, ...kind(turn))
    if (status !== 400) throw new Error(`${Object.keys(KINDS)[i]}: ${status}`)
    if (turn >= WARM_UP) times[i]?.push(performance.now() - started)
  }
  const running: Promise<void>[] = []
  for (let turn = 0; turn < WARM_UP + n; turn++) {
    for (const [i, kind] of shuffled(Object.values(KINDS).entries())) {
      running.push(measure(i, kind, turn))
      await setTimeout(INTERVAL_MS)
    }
  }
  await Promise.all(running)
  return compare(times)
}

/** A random order: the kind before a sign-in has an effect on its duration. */
function shuffled<T>(all: Iterable<T>): T[] {
  const keyed = Array.from(all, one => ({ one, order: Math.random() }))
  return keyed.sort((a, b) => a.order - b.order).map(({ one }) => one)
}

function prepare(deployment: Deployment): Promise<SignInPage> {
  return deployment.open(async ({ records, directory }) => {
    for (let i = 0; i < ACCOUNTS; i++) {
      await directory.add({ username: `wrong-${i}` }, PASSWORD)
      const { id } = await directory.add({ username: `disabled-${i}` }, PASSWORD)
      await directory.change(id, account => ({ ...account, enabled: false }))
    }
    const { id } = await directory.add({ username: 'throttled' }, PASSWORD)
    // This many failed sign-ins cause the longest wait.
    const count = { count: LIMIT + 20, at: Date.now() }
    await records.of('Attempts').change(`account ${id}`, () => count)
    return await openSignInPage(deployment)
  })
}

function compare(times: number[][]): Timing[] {
  const [wrong = []] = times
  return Object.keys(KINDS).map((kind, i) => {
    const own = times[i] ?? []
    return {
      kind,
      median: median(own),
      difference: median(own) - median(wrong),
      auc: i === 0 ? 0.5 : auc(own, wrong),
    }
  })
}

/**
 * The area under the ROC curve: the probability that a time of one sample is longer than a time of the
 * other. 0.5 means that the samples cannot be distinguished.
 */
function auc(first: number[], second: number[]): number {
  let longer = 0
  for (const a of first) {
    for (const b of second) {
      if (a > b) longer += 1
      if (a === b) longer += 0.5
    }
  }
  const share = longer / (first.length * second.length)
  return Math.max(share, 1 - share)
}
