// The primary of several processes: starts as many workers as the configuration says, replaces one that
// ends, and each in turn when it is told to (SIGUSR2). It opens no store, keeps no secret, and answers
// nothing but /metrics.
//
// It takes connections and hands them to the workers in turn: unlike with listeners of their own
// (SO_REUSEPORT), one that leaves loses none that waited for it.

import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Held } from './config/diff.ts'
import { watchFolder } from './config/watch.ts'
import { createLog } from './http/log.ts'
import { createMetricsListener } from './http/metrics.ts'
import { createTotals } from './http/totals.ts'
import type { Told } from './worker.ts'

/** Milliseconds before another takes the place of one that ended: doubling, from the shortest on. */
const PAUSE = { shortest: 250, longest: 30_000 }
/** Who lived for as long did not end because of how it began. */
const CALM = 60_000
/** For what a worker is told to do, and for the end of all of them. */
const PATIENCE = 30_000
const END = 13_000
/** For the numbers of one that is busy: without them, those it gave last are taken. */
const GLANCE = 1_000

interface Place {
  worker: Worker
  since: number
  /** Of those who were here before, in a row. */
  failures: number
}

/** Resolves when all of them are ready; ends the process when one cannot begin. */
export async function supervise(held: Held, folder: string) {
  const log = createLog(0)
  const totals = createTotals()
  const cache = getCompileCacheDir()
  const places = new Map<number, Place>()
  let state: 'starting' | 'running' | 'restarting' | 'ending' = 'starting'

  cluster.on('exit', worker => {
    totals.left(worker.id)
    if (state === 'starting') giveUp(worker)
    const [number, place] = [...places].find(([, place]) => place.worker === worker) ?? []
    if (number && place) replace(number, place)
  })

  // The first alone: what is wrong with more than the folder is said once.
  const workers = [await begin(1)]
  const others = Array.from({ length: held.workers - 1 }, (_, i) => begin(i + 2))
  workers.push(...(await Promise.all(others)))
  for (const [i, worker] of workers.entries()) {
    await insist(worker, { order: 'listen' })
    places.set(i + 1, { worker, since: performance.now(), failures: 0 })
  }
  if (held.metrics) await once(createMetricsListener(text).listen(held.metrics), 'listening')
  state = 'running'
  process.on('SIGHUP', reload)
  process.on('SIGUSR2', restart)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => end(signal))
  watchFolder(folder, reload)
  await Promise.all(workers.slice(0, 1).map(first => ask(first, { order: 'greet' })))

  async function begin(number: number): Promise<Worker> {
    const worker = cluster.fork(cache && { NODE_COMPILE_CACHE: dirname(cache) })
    await insist(worker, { order: 'begin', number, held })
    return worker
  }

  /** A worker that cannot begin has said why; one that was killed has not. */
  function giveUp({ process: { signalCode } }: Worker) {
    if (signalCode) process.stderr.write(`Usher cannot start: a worker ended by ${signalCode}\n`)
    process.exit(1)
  }

  /** From now on it is that worker's place, should it end too. */
  async function fill(number: number, failures: number) {
    const worker = await begin(number)
    await insist(worker, { order: 'listen' })
    const place = { worker, since: performance.now(), failures }
    places.set(number, place)
    log.info({ event: 'worker_ready', worker: number }, 'a worker takes its place')
    if (worker.isDead()) replace(number, place)
  }

  async function replace(number: number, place: Place) {
    const isCalm = performance.now() - place.since > CALM
    const { exitCode, signalCode } = place.worker.process
    let [failures, reason] = [isCalm ? 0 : place.failures, signalCode ?? `exit ${exitCode}`]
    for (; state !== 'ending'; failures++) {
      const pause = Math.min(PAUSE.shortest * 2 ** failures, PAUSE.longest)
      totals.lost()
      log.error({ event: 'worker_lost', worker: number, reason, pause }, 'a worker ended')
      await setTimeout(pause)
      if (places.get(number) !== place) return
      try {
        return await fill(number, failures + 1)
      } catch (error) {
        reason = String(error)
      }
    }
  }

  function reload() {
    for (const worker of running()) ask(worker, { order: 'reload' }).catch(() => {})
  }

  /** One after another: the next is ready before one leaves. */
  async function restart() {
    if (state !== 'running') return
    state = 'restarting'
    try {
      for (const [number, { worker }] of [...places]) {
        if (worker.isDead()) continue
        await fill(number, 0)
        const leaving = insist(worker, { order: 'leave' })
        await leaving.then(
          values => totals.heard(worker.id, values),
          () => {},
        )
      }
      log.info({ event: 'workers_restarted' }, 'all workers are new')
    } catch (error) {
      log.error({ event: 'restart_stopped', reason: String(error) }, 'the others stay')
    }
    if (state === 'restarting') state = 'running'
  }

  async function end(signal: 'SIGTERM' | 'SIGINT') {
    if (state === 'ending') return
    state = 'ending'
    const ended = running().map(worker => once(worker, 'exit'))
    for (const worker of running()) ask(worker, { order: 'drain', signal }).catch(() => {})
    await Promise.race([Promise.all(ended), setTimeout(END)])
    process.exit(0)
  }

  async function text(): Promise<string> {
    const all = running().map(async worker => {
      const values = ask(worker, { order: 'metrics' }).catch(() => undefined)
      totals.heard(worker.id, await Promise.race([values, setTimeout(GLANCE)]))
    })
    await Promise.all(all)
    const alive = [...places.values()].filter(({ worker }) => isRunning(worker))
    return await totals.text(alive.length)
  }
}

const running = () => Object.values(cluster.workers ?? {}).filter(isRunning)
const isRunning = (worker?: Worker): worker is Worker => worker !== undefined && !worker.isDead()

/** One that does not do it in time is no use. */
async function insist(worker: Worker, order: Told): Promise<unknown> {
  const limit = new AbortController()
  setTimeout(PATIENCE, undefined, { ref: false, signal: limit.signal }).then(
    () => worker.process.kill('SIGKILL'),
    () => {},
  )
  return await ask(worker, order).finally(() => limit.abort())
}

let asked = 0

/** Rejects when the worker ends instead of answering. */
function ask(worker: Worker, order: Told): Promise<unknown> {
  const id = ++asked
  const over = new AbortController()
  const answer = new Promise<unknown>((resolve, reject) => {
    const ended = () => reject(new Error('the worker ended'))
    const hear = (message: { id: number; answer: unknown }) => {
      if (message.id === id) resolve(message.answer)
    }
    worker.on('message', hear).once('exit', ended)
    over.signal.addEventListener('abort', () => worker.off('message', hear).off('exit', ended))
    worker.send({ id, ...order }, error => error && ended())
  })
  return answer.finally(() => over.abort())
}
