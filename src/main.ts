// Starts Usher: one process, or several behind one listener (`workers` in
// usher.yaml).
//
//   SIGHUP           reads the configuration again
//   SIGTERM, SIGINT  drains: requests in flight finish, then the process exits with 0
//
// With several, the primary process takes connections and hands them to the
// workers in turn. It opens no store, holds no secret, and serves nothing but
// /metrics. A worker that ends is replaced.

import cluster from 'node:cluster'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import type { Held } from './config/diff.ts'
import { configFolder } from './config/environment.ts'
import { ConfigError } from './config/report/finding.ts'
import { hasWorkers } from './config/workers.ts'
import { createLog, faultOf } from './operation/logger.ts'
import type { ClusterMetrics } from './operation/prometheus.ts'
import { reasonOf } from './store/reasons.ts'

/** The signals that end the service. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const
/**
 * The wait before a worker is replaced. Doubles while the replacements end
 * early, too.
 */
const RESTART_MS = { min: 250, max: 30_000 }
/** After a longer run, the wait begins at its minimum again. */
const STABLE_MS = 60_000
/** Time for all workers to drain. */
const DRAIN_MS = 13_000
/**
 * Growth of the heap until V8 collects all garbage, in percent of what was in
 * use. V8 would let it grow to several times of that, and keep the freed memory.
 */
const HEAP_GROWTH_PERCENT = 100

async function main() {
  // NODE_OPTIONS does not take this flag, which V8 reads at each collection.
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
  // A reload that comes too early must not end the process. The folder is read
  // below.
  process.on('SIGHUP', () => {})
  if (cluster.isPrimary && hasWorkers(configFolder())) return supervise()
  // Loaded here: the primary process of several needs nothing of the service.
  const { start } = await import('./server.ts')
  await start()
}

/**
 * Serves in several processes. Resolves when the first of them serves and the
 * others were started.
 */
async function supervise() {
  const log = createLog(0)
  process.on('unhandledRejection', error =>
    log.error({ fault: faultOf(error) }, 'promise rejected'),
  )
  let held: Held | undefined
  let metrics: ClusterMetrics | undefined
  let state: 'starting' | 'serving' | 'ending' = 'starting'

  /** Starts a worker, and another one when it ends. Never rejects. */
  async function keepWorker() {
    for (
      let wait = RESTART_MS.min;
      ;
      wait = Math.min(2 * wait, RESTART_MS.max)
    ) {
      const started = performance.now()
      const ended = await runWorker(held).catch(error => ({
        reason: reasonOf(error),
      }))
      if (state === 'starting') exitAtStart(ended.reason)
      if (state === 'ending') return
      if (performance.now() - started > STABLE_MS) wait = RESTART_MS.min
      metrics?.workerLost()
      log.error({ event: 'worker_lost', ...ended, wait }, 'a worker ended')
      await setTimeout(wait)
      if (state !== 'serving') return
    }
  }

  async function end(signal: NodeJS.Signals) {
    if (state === 'ending') return
    state = 'ending'
    const ended = workers().map(worker => once(worker, 'exit'))
    signalWorkers(signal)
    await Promise.race([Promise.allSettled(ended), setTimeout(DRAIN_MS)])
    process.exit(0)
  }

  for (const signal of SIGNALS) process.on(signal, end)
  process.on('SIGHUP', signalWorkers)
  // The first worker starts alone, so that an error at the start is reported
  // once. It reads the settings, which it sends to this process.
  const message = once(cluster, 'message')
  const listening = once(cluster, 'listening')
  void keepWorker()
  const [, settings] = await message
  held = settings as Held
  await listening
  state = 'serving'
  if (held.metrics) {
    const { createClusterMetrics } = await import('./operation/prometheus.ts')
    metrics = createClusterMetrics()
  }
  for (let i = 1; i < held.workers; i++) void keepWorker()
  if (!metrics) return
  const { serveMetrics } = await import('./operation/metrics.ts')
  await serveMetrics(held, metrics.text)
}

/**
 * Ends the process because a worker did not start. A worker that exits by
 * itself has written the reason to stderr.
 */
function exitAtStart(reason: string): never {
  if (!reason.startsWith('exit')) {
    process.stderr.write(`Usher cannot start: a worker ended by ${reason}\n`)
  }
  process.exit(1)
}

/**
 * Runs a worker. `held`: the settings that all workers keep until a restart;
 * undefined for the first one, which reads them. Resolves when it has ended.
 * Rejects if it was not created.
 */
async function runWorker(held?: Held) {
  // An error, such as EAGAIN or EPIPE, must not end the primary process.
  const worker = cluster.fork().on('error', () => {})
  // Without a process, the error follows.
  if (worker.process.pid) worker.send({ held })
  const [code, signal] = await once(worker, 'exit')
  return { worker: worker.id, reason: String(signal ?? `exit ${code}`) }
}

/** The workers that were created and have not ended. */
const workers = () =>
  Object.values(cluster.workers ?? {}).flatMap(worker =>
    worker?.process.pid ? [worker] : [],
  )

function signalWorkers(signal: NodeJS.Signals) {
  for (const worker of workers()) worker.process.kill(signal)
}

main().catch((error: unknown) => {
  const reason = reasonOf(error)
  const isReport = error instanceof ConfigError
  const ports = /EADDRINUSE/.test(reason)
    ? '. Choose another port: PORT, USHER_METRICS_PORT'
    : ''
  const text = isReport
    ? `${reason}\nNothing was started.`
    : `Usher cannot start: ${reason}`
  process.stderr.write(`${text}${ports}\n`)
  process.exit(1)
})
