// One fault, from an empty store to a verdict: baseline, fault, recovery, and the ledger.

import { setTimeout } from 'node:timers/promises'
import { check, keysOf } from './check.ts'
import { Ledger, type Letter } from './ledger.ts'
import { type Nodes, startNodes } from './nodes.ts'
import { openStage, type Stage, type StageKind } from './stage.ts'
import { type Sample, Traffic } from './traffic.ts'
import { Workload } from './workload.ts'

export interface Fault {
  id: string
  name: string
  stage: StageKind
  /** What stands under `redis` in usher.yaml. */
  durability?: 'replicated' | 'primary'
  /** Losses are what this one is known for: they are counted, and do not fail. */
  isLossy?: boolean
  /** Must be acknowledged while the fault lasts. */
  goesOn?: string[]
  /** Does harm and ends it; resolves when nothing is in the way of recovery any more. */
  inject(stage: Stage & { nodes: Nodes }): Promise<void>
}

/** Of the baseline and the recovery. */
export interface Seconds {
  baseline: number
  recovery: number
}

export interface Outcome {
  id: string
  name: string
  /** Milliseconds. */
  gap: number
  highest: number
  back: number
  requests: number
  unavailable: number
  cut: number
  otherErrors: number
  anew: number
  wrong: string[]
  violations: Partial<Record<Letter, number>>
  details: string[]
  /** What should have been acknowledged while the fault lasted, and was not. */
  missed: string[]
  /** What took longest, and what was acknowledged during the fault. */
  slowest: string
  done: Record<string, number>
  verdict: 'ok' | 'stated' | 'FAILED'
}

const PEOPLE = Array.from({ length: 16 }, (_, i) => `ada${i + 1}`)
/** Milliseconds in which all nodes are to be ready again after the recovery. */
const READY = 10_000

export async function runFault(fault: Fault, { baseline, recovery }: Seconds): Promise<Outcome> {
  const { stage: kind, durability } = fault
  const stage = await openStage(kind)
  let nodes: Nodes | undefined
  try {
    const usher = durability && { redis: { durability } }
    nodes = await startNodes({ store: stage.url, usernames: PEOPLE, usher })
    const keys = await keysOf(nodes)
    const ledger = new Ledger(PEOPLE)
    const traffic = new Traffic(nodes.issuer)
    const workload = new Workload(traffic, ledger, nodes.addresses)
    await workload.prepare()

    const running = workload.run()
    await setTimeout(baseline * 1000)
    const began = performance.now()
    const ended = await Promise.race([
      fault.inject({ ...stage, nodes }).then(() => performance.now()),
      running.then(() => Promise.reject(new Error('the workload ended before the fault'))),
    ])
    await setTimeout(recovery * 1000)
    workload.stop()
    await running
    const isReady = await nodes.ready(READY)
    await check(ledger, nodes, keys)

    const during = ledger.lines.filter(({ at }) => at >= began && at < ended)
    const done: Record<string, number> = {}
    for (const { what } of during) done[what] = (done[what] ?? 0) + 1
    const missed = (fault.goesOn ?? []).filter(what => !done[what])
    if (!isReady) missed.push(`all nodes ready ${READY} ms later`)
    return outcome(fault, ledger, traffic.samples, { began, ended, missed, done })
  } finally {
    await nodes?.close()
    await stage.close()
  }
}

function outcome(
  { id, name, isLossy }: Fault,
  ledger: Ledger,
  all: Sample[],
  {
    began,
    ended,
    missed,
    done,
  }: Pick<Outcome, 'missed' | 'done'> & Record<'began' | 'ended', number>,
): Outcome {
  const samples = all.filter(({ at }) => at >= began)
  const count = (test: (status: number) => boolean) =>
    samples.filter(({ status }) => test(status)).length
  const violations: Outcome['violations'] = {}
  for (const { letter } of ledger.violations) violations[letter] = (violations[letter] ?? 0) + 1
  const otherErrors = count(status => status >= 500 && status !== 503)
  const isFine = !otherErrors && !missed.length
  const isKept = !ledger.violations.length && !ledger.wrong.length
  const unanswered = samples.filter(({ at, status }) => at > ended && isAway(status))
  const slowest = samples.toSorted((one, other) => other.ms - one.ms)[0]
  return {
    id,
    name,
    gap: longestGap(samples, began),
    highest: Math.round(slowest?.ms ?? 0),
    slowest: `${slowest?.path} ${slowest?.status}`,
    done,
    back: Math.round(Math.max(0, ...unanswered.map(({ at, ms }) => at + ms - ended))),
    requests: samples.length,
    unavailable: count(status => status === 503),
    cut: count(status => status === 0),
    otherErrors,
    anew: ledger.anew,
    wrong: ledger.wrong,
    violations,
    details: ledger.violations.map(({ letter, detail }) => `${letter} ${detail}`),
    missed,
    verdict: isFine && isKept ? 'ok' : isFine && isLossy ? 'stated' : 'FAILED',
  }
}

const isAway = (status: number) => status === 0 || status >= 500

/** Between two successes, wherever they came from. */
function longestGap(samples: Sample[], began: number): number {
  const successes = samples.filter(({ status }) => status >= 200 && status < 400)
  const times = [began, ...successes.map(({ at, ms }) => at + ms).sort((a, b) => a - b)]
  const last = samples.reduce((latest, { at, ms }) => Math.max(latest, at + ms), began)
  const gaps = [...times, last].map((time, i, list) => time - (list[i - 1] ?? time))
  return Math.round(Math.max(...gaps))
}
