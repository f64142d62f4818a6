// Runs one or more faults: an empty store, a baseline, each fault with its recovery, and the check of the
// ledger.

import { setTimeout } from 'node:timers/promises'
import { type Deployment, type Shape, withDeployment } from '../deployment.ts'
import { first } from '../stores.ts'
import { check, keysOf } from './check.ts'
import type { Fault } from './faults.ts'
import { Ledger } from './ledger.ts'
import { type Sample, Traffic } from './traffic.ts'
import { Workload } from './workload.ts'

interface Seconds {
  baseline: number
  /** Replaces the duration of the faults. */
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
  /** The number of violations by letter. */
  violations: Record<string, number>
  details: string[]
  /** Operations of `goesOn` that were not acknowledged during the fault. */
  missed: string[]
  /** The slowest request. */
  slowest: string
  /** The number of operations acknowledged during the fault, by name. */
  done: Record<string, number>
  verdict: 'ok' | 'stated' | 'FAILED'
}

const USERNAMES = Array.from({ length: 16 }, (_, i) => `ada${i + 1}`)
/** The default duration of a fault. */
const FAULT_SECONDS = 5
/** A fault and its recovery have at least so many requests, and last longer on a busy machine. */
const MIN_REQUESTS = 60
/** All nodes must be ready within this time after the recovery. */
const READY_TIMEOUT_MS = 10_000

/** Runs faults one after another with the same nodes. The last outcome includes the final check. */
export function runFaults(faults: Fault[], seconds: Seconds): Promise<Outcome[]> {
  const { store, usher } = first(faults)
  const name = '3 processes behind a load balancer'
  const shape: Shape = { name, processes: 3, store, isBalanced: true }
  return withDeployment(shape, usher ?? {}, deployment => runIn(deployment, faults, seconds))
}

async function runIn(deployment: Deployment, faults: Fault[], seconds: Seconds) {
  await deployment.addAccounts(USERNAMES.map(username => ({ username })))
  const keys = await keysOf(deployment)
  const ledger = new Ledger(USERNAMES)
  const traffic = new Traffic(deployment.issuer)
  const workload = new Workload(traffic, ledger, deployment.nodes)
  await workload.prepare()

  const running = workload.run()
  const failing = running.then(() => Promise.reject(new Error('the workload ended too early')))
  const windows: Window[] = []
  await setTimeout(seconds.baseline * 1000)
  for (const fault of faults) {
    const began = performance.now()
    const proof = () => untilDone(fault, ledger, began)
    const duration = seconds.fault ?? fault.seconds ?? FAULT_SECONDS
    await Promise.race([fault.inject(deployment, duration, proof), failing])
    const ended = performance.now()
    await setTimeout(seconds.recovery * 1000)
    await untilMany(traffic, began)
    windows.push({ fault, began, ended, over: performance.now() })
  }
  workload.stop()
  failing.catch(() => {})
  await running
  const isReady = await deployment.isReadyWithin(READY_TIMEOUT_MS)
  await check(ledger, deployment, keys)

  const last = windows.at(-1)
  if (last) last.over = Number.POSITIVE_INFINITY
  const outcomes = windows.map(window => outcomeOf(window, ledger, traffic.samples))
  return isReady ? outcomes : outcomes.map((one): Outcome => ({ ...one, verdict: 'FAILED' }))
}

async function untilDone({ goesOn = [] }: Fault, { lines }: Ledger, began: number) {
  const isDone = (name: string) => lines.some(line => line.at >= began && line.operation === name)
  for (let i = 0; i < 100 && !goesOn.every(isDone); i++) await setTimeout(100)
}

/** Waits for the end of so many requests, or a minute. */
async function untilMany({ samples }: Traffic, began: number) {
  const ended = () => samples.filter(({ at, ms }) => at + ms >= began).length
  for (let i = 0; i < 600 && ended() < MIN_REQUESTS; i++) await setTimeout(100)
}

interface Window {
  fault: Fault
  began: number
  ended: number
  over: number
}

function outcomeOf({ fault, began, ended, over }: Window, ledger: Ledger, all: Sample[]): Outcome {
  const { id, name, isLossy, isHarmless, goesOn = [] } = fault
  const isWithin = ({ at }: { at: number }) => at >= began && at < over
  // The end of a request decides to which fault it belongs.
  const samples = all.filter(({ at, ms }) => isWithin({ at: at + ms }))
  const count = (test: (status: number) => boolean) =>
    samples.filter(({ status }) => test(status)).length
  const isDuring = ({ at }: { at: number }) => at >= began && at < ended
  const done = tally(ledger.lines.filter(isDuring).map(({ operation }) => operation))
  const broken = ledger.violations.filter(isWithin)
  const wrong = ledger.wrong.filter(isWithin).map(({ detail }) => detail)
  const missed = goesOn.filter(operation => !done[operation])
  const otherErrors = count(status => status >= 500 && (isHarmless || status !== 503))
  const isFine = !otherErrors && !missed.length
  const isKept = !broken.length && !wrong.length
  const unanswered = samples.filter(({ at, status }) => at > ended && isUnavailable(status))
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
    verdict: verdictOf(isFine, isKept, isLossy),
  }
}

/** `stated`: the documents say that this fault loses writes. */
function verdictOf(isFine: boolean, isKept: boolean, isLossy = false) {
  if (!isFine) return 'FAILED'
  if (isKept) return 'ok'
  return isLossy ? 'stated' : 'FAILED'
}

function tally(names: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

const isUnavailable = (status: number) => status === 0 || status >= 500

/** The longest time between two successful responses of any node. */
function longestGap(samples: Sample[], began: number): number {
  const successes = samples.filter(({ status }) => status >= 200 && status < 400)
  const times = [began, ...successes.map(({ at, ms }) => at + ms).sort((a, b) => a - b)]
  const last = samples.reduce((latest, { at, ms }) => Math.max(latest, at + ms), began)
  const gaps = [...times, last].map((time, i, list) => time - (list[i - 1] ?? time))
  return Math.round(Math.max(...gaps))
}
