// From an empty store to a verdict: baseline, a fault and the recovery from it, or several, and the
// ledger.

import { setTimeout } from 'node:timers/promises'
import { check, keysOf } from './check.ts'
import { Ledger } from './ledger.ts'
import { type Nodes, startNodes } from './nodes.ts'
import { first, openStage, type Stage, type StageKind } from './stage.ts'
import { type Sample, Traffic } from './traffic.ts'
import { Workload } from './workload.ts'

export interface Fault {
  id: string
  name: string
  stage: StageKind
  /** What stands in usher.yaml. */
  usher?: object
  /** Nothing is out of order: no request may get a 503 either. */
  isHarmless?: boolean
  /** Losses are what this one is known for: they are counted, and do not fail. */
  isLossy?: boolean
  /** Must be acknowledged while the fault lasts. */
  goesOn?: string[]
  /** How long it lasts; some end by themselves. */
  seconds?: number
  /** Does harm and ends it; resolves when nothing is in the way of recovery any more. */
  inject(stage: Ground, seconds: number): Promise<void>
}

type Ground = Stage & {
  nodes: Nodes
  /** Resolves when all that must go on has been acknowledged since the fault began, or after a while. */
  proof(): Promise<void>
}

export interface Seconds {
  baseline: number
  /** In place of the faults' own. */
  fault?: number
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
  /** By letter. */
  violations: Record<string, number>
  details: string[]
  /** What should have been acknowledged while the fault lasted, and was not. */
  missed: string[]
  /** What took longest, and what was acknowledged during the fault. */
  slowest: string
  done: Record<string, number>
  verdict: 'ok' | 'stated' | 'FAILED'
}

const PEOPLE = Array.from({ length: 16 }, (_, i) => `ada${i + 1}`)
/** Of a fault that says nothing else. */
const SECONDS = 5
/** Milliseconds in which all nodes are to be ready again after the recovery. */
const READY = 10_000

/** One after another, to the same nodes; what the ledger says in the end is told with the last. */
export async function runFaults(faults: Fault[], seconds: Seconds): Promise<Outcome[]> {
  const { stage: kind, usher } = first(faults)
  const stage = await openStage(kind)
  let nodes: Nodes | undefined
  try {
    nodes = await startNodes({ store: stage.url, usernames: PEOPLE, usher })
    const keys = await keysOf(nodes)
    const ledger = new Ledger(PEOPLE)
    const traffic = new Traffic(nodes.issuer)
    const workload = new Workload(traffic, ledger, nodes.addresses)
    await workload.prepare()

    const running = workload.run()
    const failing = running.then(() => Promise.reject(new Error('the workload ended too early')))
    const windows: Window[] = []
    await setTimeout(seconds.baseline * 1000)
    for (const fault of faults) {
      const began = performance.now()
      const proof = () => untilDone(fault, ledger, began)
      await Promise.race([inject(fault, { ...stage, nodes, proof }, seconds.fault), failing])
      const ended = performance.now()
      await setTimeout(seconds.recovery * 1000)
      windows.push({ fault, began, ended, over: performance.now() })
    }
    workload.stop()
    failing.catch(() => {})
    await running
    const isReady = await nodes.ready(READY)
    await check(ledger, nodes, keys)

    const last = windows.at(-1)
    if (last) last.over = Number.POSITIVE_INFINITY
    const outcomes = windows.map(window => outcome(window, ledger, traffic.samples))
    return isReady ? outcomes : outcomes.map(one => ({ ...one, verdict: 'FAILED' }))
  } finally {
    await nodes?.close()
    await stage.close()
  }
}

function inject(fault: Fault, ground: Ground, seconds?: number) {
  return fault.inject(ground, seconds ?? fault.seconds ?? SECONDS)
}

async function untilDone({ goesOn = [] }: Fault, { lines }: Ledger, began: number) {
  const isDone = (what: string) => lines.some(line => line.at >= began && line.what === what)
  for (let i = 0; i < 100 && !goesOn.every(isDone); i++) await setTimeout(100)
}

interface Window {
  fault: Fault
  began: number
  ended: number
  over: number
}

function outcome({ fault, began, ended, over }: Window, ledger: Ledger, all: Sample[]): Outcome {
  const { id, name, isLossy, isHarmless, goesOn = [] } = fault
  const isWithin = ({ at }: { at: number }) => at >= began && at < over
  // By when they were over: what the next fault holds up is its own.
  const samples = all.filter(({ at, ms }) => isWithin({ at: at + ms }))
  const count = (test: (status: number) => boolean) =>
    samples.filter(({ status }) => test(status)).length
  const done = tally(ledger.lines.filter(({ at }) => at >= began && at < ended).map(l => l.what))
  const broken = ledger.violations.filter(isWithin)
  const wrong = ledger.wrong.filter(isWithin).map(({ detail }) => detail)
  const missed = goesOn.filter(what => !done[what])
  const otherErrors = count(status => status >= 500 && (isHarmless || status !== 503))
  const isFine = !otherErrors && !missed.length
  const isKept = !broken.length && !wrong.length
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
    anew: ledger.anew.filter(isWithin).length,
    wrong,
    violations: tally(broken.map(({ letter }) => letter)),
    details: broken.map(({ letter, detail }) => `${letter} ${detail}`),
    missed,
    verdict: isFine && isKept ? 'ok' : isFine && isLossy ? 'stated' : 'FAILED',
  }
}

function tally(names: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
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
