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
import { fixedOf, losses } from './config/diff.ts'
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError } from './config/report/finding.ts'
import { createLog } from './operation/log.ts'
import { createClusterMetrics, serveMetrics } from './operation/metrics.ts'
import { SIGNALS, serve } from './server.ts'
import { reasonOf } from './store/reasons.ts'

/**
 * The wait before a worker is replaced. Doubles while the replacements end
 * early, too.
 */
const RESTART_MS = { min: 250, max: 30_000 }
/** After a longer run, the wait begins at its minimum again. */
const STABLE_MS = 60_000
/** Time for all workers to drain. */
const DRAIN_MS = 13_000

async function main() {
  // A reload that comes too early must not end the process. The folder is read
  // below.
  process.on('SIGHUP', () => {})
  // A worker that starts later takes the settings that the others keep until a
  // restart.
  const [held] = cluster.isPrimary ? [] : await once(process, 'message')
  const settings = await readSettings()
  if (cluster.isPrimary)
    return settings.workers > 1 ? supervise(settings) : serve(settings)
  const lost = losses(held, settings)
  if (lost.length) throw new ConfigError(lost)
  await serve({ ...settings, ...held })
}

/**
 * Serves in several processes. Resolves when the first of them serves and the
 * others were started.
 */
async function supervise(settings: Settings) {
  const log = createLog(0)
  const metrics = createClusterMetrics()
  // All workers share these. Each worker reads the secrets itself.
  const { secrets: _, ...fixed } = fixedOf(settings)
  const held = { ...fixed, sources: settings.sources }
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
      metrics.workerLost()
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
  // once.
  keepWorker()
  await once(cluster, 'listening')
  state = 'serving'
  for (let i = 1; i < settings.workers; i++) keepWorker()
  await serveMetrics(settings, metrics.text)
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
 * Runs a worker with these settings. Resolves when it has ended. Rejects if it
 * was not created.
 */
async function runWorker(held: object) {
  // An error, such as EAGAIN or EPIPE, must not end the primary process.
  const worker = cluster.fork().on('error', () => {})
  // Without a process, the error follows.
  if (worker.process.pid) worker.send(held)
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
