// The service in one process, alone or one of several: store → app → listen → drain. Who runs it
// says when.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import { Server as NetServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Logger } from 'pino'
import { createDirectory } from './accounts/directory.ts'
import type { Settings } from './config/load.ts'
import { portOf } from './config/rules/client-authorities.ts'
import { createAudit } from './http/audit.ts'
import type { Readiness } from './http/health.ts'
import { createListener, KEEP_ALIVE } from './http/listener.ts'
import { createMetrics } from './http/metrics.ts'
import { createQuota, shareAmong } from './http/quota.ts'
import { faultOf } from './http/request-log.ts'
import { run } from './reload.ts'
import { takeFacts } from './state/operator-facts.ts'
import { openStore, unlock } from './storage/open.ts'
import type { Records } from './storage/records.ts'
import type { Store } from './storage/store.ts'

/** Milliseconds; who pressed Ctrl-C is not kept waiting. */
export const NOTICE = { SIGTERM: 1_000, SIGINT: 0 }
const DRAIN = 10_000
const LOOK = 5_000
/** A second, that have lines in the log. */
const REJECTIONS = 10
const DEMO = {
  username: 'demo',
  name: 'Demo Person',
  email: 'demo@example.org',
  email_verified: true,
}

export type Service = Awaited<ReturnType<typeof prepare>>

/** All but listening; throws what has to be mended. `news` is for what every process would say alike. */
export async function prepare(settings: Settings, log: Logger, news: Logger) {
  shareAmong(settings.workers)
  surviveRejections(log)
  const metrics = createMetrics()
  const { store: location, secrets, redis } = settings
  const store = await openStore(location, redis, metrics.storeCommand)
  const probe = () => records.save('Probe', 'ready', {}, { ttl: 60 })
  const readiness: Readiness = { state: 'ready', probe, checks: [] }
  await watchStore(store, readiness, createAudit(news))
  const installation = await unlock(store, location, secrets)
  const { records } = installation
  const running = await run(settings, { ...installation, log, metrics }, readiness, news)
  const listeners = createListeners(settings, running.handle, news)
  let closed: Promise<unknown> | undefined
  let finished: Promise<void> | undefined

  return {
    metrics,
    reload: running.reload,

    async listen() {
      for (const { server, host, port } of listeners) {
        await once(server.listen({ host, port }), 'listening')
      }
      tellFacts(createAudit(log))
      flushCompileCache()
      setImmediate(collect)
    },

    /** Says that it is ready, and what to try in development. */
    greet: () => greet(settings, records),

    /** Makes way for another process behind the same listener: of its connections, none is cut. */
    async leave() {
      readiness.state = 'leaving'
      await Promise.race([close(), setTimeout(KEEP_ALIVE)])
      await finish(0)
    },

    /** Balancers look at /readyz and stop sending, while all is answered. */
    drain: (signal: keyof typeof NOTICE) => finish(NOTICE[signal]),
  }

  /** Takes no more connections; resolves when those that there are have ended. */
  function close() {
    closed ??= Promise.all(listeners.map(({ server }) => closeSocket(server)))
    return closed
  }

  function finish(notice: number) {
    finished ??= drain(notice)
    return finished
  }

  /** Requests in flight finish; who is not done in time is cut off. */
  async function drain(notice: number) {
    readiness.state = 'draining'
    await setTimeout(notice)
    for (const { server } of listeners) server.closeIdleConnections()
    await Promise.race([close(), setTimeout(DRAIN)])
    await store.close()
  }

  /** What operators did on their command line. */
  function tellFacts(audit: ReturnType<typeof createAudit>) {
    const tell = () =>
      takeFacts(records, fact => {
        metrics.fact(fact.event)
        audit.info(fact)
      }).catch(() => {})
    tell()
    setInterval(tell, LOOK).unref()
  }
}

/**
 * What starting has left, 16 MB of 124: V8 leaves it there for as long as nothing is asked. Who asks right
 * now waits for 60 ms, once in the life of a process; before listening, every start would.
 */
function collect() {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  // With other flags than before, what was compiled would not be taken for what is imported later.
  setFlagsFromString('--no-expose-gc')
}

/** What nobody waited for is a fault of ours, and no reason to leave those who wait (LOG5). */
function surviveRejections(log: Logger) {
  const hasRoom = createQuota(REJECTIONS, 1, left_out =>
    log.warn({ event: 'log_limited', left_out }, 'rejected promises have no line'),
  )
  process.on('unhandledRejection', error => {
    if (hasRoom()) log.error({ fault: faultOf(error) }, 'promise rejected')
  })
}

/** Refuses a store that cannot be trusted, and goes on looking; throws what has to be mended. */
async function watchStore(store: Store, readiness: Readiness, audit: Logger) {
  let isAway = false
  const look = async () => {
    const before = readiness.checks
    const checks = await store.check()
    readiness.checks = checks
    for (const { name, state, found, mend } of checks) {
      if (state === (before.find(check => check.name === name)?.state ?? 'ok')) continue
      const level = state === 'ok' ? 'info' : 'warn'
      audit[level]({ event: 'store_check', check: name, state, found, mend }, 'store')
    }
    if (isAway) audit.info({ event: 'store_back' }, 'the store answers again')
    isAway = false
    return checks.filter(({ state }) => state === 'wrong')
  }
  const wrong = await look()
  if (wrong.length) {
    const lines = wrong.map(({ name, found, mend }) => `\n  ${name}: ${found}\n    → ${mend}`)
    throw new Error(`its store cannot be trusted${lines.join('')}`)
  }
  // Why is told by the requests that need it.
  const away = () => {
    if (!isAway) audit.warn({ event: 'store_away' }, 'the store does not answer')
    isAway = true
  }
  setInterval(() => look().catch(away), LOOK).unref()
}

/** Where clients with certificates come by a port of their own, nobody else is asked for one. */
function createListeners(settings: Settings, handle: RequestListener, log: Logger) {
  const { listen, features, client_certificates } = settings
  const { host, port, tls } = listen
  const origin = tls && features.mtls ? client_certificates.origin : undefined
  const listener = (port: number, requestCert: boolean) => ({
    server: createListener(handle, tls && { ...tls, requestCert }, log),
    host,
    port,
  })
  const listeners = [listener(port, features.mtls && !origin)]
  return origin ? [...listeners, listener(portOf(new URL(origin)), true)] : listeners
}

/** Unlike its own `close`, which cuts idle connections off: a request may be on its way by one. */
function closeSocket(server: Server): Promise<void> {
  return new Promise(resolve => {
    NetServer.prototype.close.call(server, () => resolve())
  })
}

async function greet(settings: Settings, records: Records) {
  const { issuer, listen, workers, development, clients } = settings
  const several = workers > 1 ? `, with ${workers} workers` : ''
  const lines = [
    `Usher is ready at ${issuer}, listening on ${listen.host}:${listen.port}${several}`,
  ]
  if (development && !settings.accounts.http) lines.push(await demoAccount(records))
  if (development && clients.some(({ client_id }) => client_id === 'demo'))
    lines.push(tryIt(issuer))
  process.stderr.write(`\n${lines.map(line => `  ${line}\n`).join('')}\n`)
}

function tryIt(issuer: string): string {
  const environment = issuer === 'http://localhost:3000' ? '' : `ISSUER=${issuer} `
  return `Try it with: ${environment}npm run demo, in another terminal; then open http://localhost:4000`
}

/** Made once, on an empty store: its password is shown this one time and kept nowhere. */
async function demoAccount(records: Records): Promise<string> {
  const directory = createDirectory(records)
  if (!(await directory.isEmpty())) {
    return 'Sign in with an account of yours; a new password: npm run usher -- accounts password NAME'
  }
  const password = randomBytes(12).toString('base64url')
  await directory.add(DEMO, password)
  return `Sign in as ${DEMO.username} with the password ${password} (shown only now)`
}
