// Start: config → store → app → listen. SIGHUP reloads, SIGTERM and SIGINT drain.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { type Logger, pino } from 'pino'
import { createDirectory } from './accounts/directory.ts'
import { portOf } from './config/client-authorities.ts'
import { ConfigError } from './config/report.ts'
import { readSettings, type Settings } from './config/settings.ts'
import { createAudit } from './http/audit.ts'
import type { Readiness } from './http/health.ts'
import { createListener } from './http/listener.ts'
import { createMetrics, createMetricsListener } from './http/metrics.ts'
import { createQuota } from './http/quota.ts'
import { faultOf } from './http/request-log.ts'
import { run } from './reload.ts'
import { openStore, unlock } from './store/open.ts'
import { takeFacts } from './store/operator-facts.ts'
import type { Records } from './store/records.ts'
import { reasonOf, type Store } from './store/store.ts'

/** Milliseconds. */
const NOTICE = 1_000
const DRAIN = 10_000
const LOOK = 5_000
/** A second, that have lines in the log. */
const REJECTIONS = 10
/** Of the log: bytes that are written at once, and milliseconds that a line waits for others. */
const LINES = { minLength: 4096, periodicFlush: 100 }
const DEMO = {
  username: 'demo',
  name: 'Demo Person',
  email: 'demo@example.org',
  email_verified: true,
}

async function main() {
  const settings = readSettings()
  const log = pino(
    { base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ sync: false, ...LINES }),
  )
  surviveRejections(log)
  const metrics = createMetrics()
  const { store: location, secrets, redis } = settings
  const store = await openStore(location, redis, metrics.storeCommand)
  const probe = () => records.save('Probe', 'ready', {}, { ttl: 60 })
  const readiness: Readiness = { state: 'ready', probe, checks: [] }
  await watchStore(store, readiness, log)
  const installation = await unlock(store, location, secrets)
  const { records } = installation

  const running = await run(settings, { ...installation, log, metrics }, readiness)
  process.on('SIGHUP', running.reload)
  const listeners = createListeners(settings, running.handle, log)
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, async () => {
      if (readiness.state === 'draining') return
      readiness.state = 'draining'
      // Balancers look at /readyz and stop sending; who pressed Ctrl-C is not kept waiting.
      if (signal === 'SIGTERM') await setTimeout(NOTICE)
      await Promise.all(listeners.map(({ server }) => drain(server)))
      await store.close().finally(() => process.exit(0))
    })
  }
  if (settings.metrics) {
    await once(createMetricsListener(metrics).listen(settings.metrics), 'listening')
  }
  for (const { server, host, port } of listeners) {
    await once(server.listen({ host, port }), 'listening')
  }
  await greet(settings, records)

  const audit = createAudit(log)
  const tellFacts = () =>
    takeFacts(records, fact => {
      metrics.fact(fact.event)
      audit.info(fact)
    }).catch(() => {})
  await tellFacts()
  setInterval(tellFacts, LOOK).unref()
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
async function watchStore(store: Store, readiness: Readiness, log: Logger) {
  const look = async () => {
    const before = readiness.checks
    const checks = await store.check()
    readiness.checks = checks
    for (const { name, state, found, mend } of checks) {
      const isNews = state !== (before.find(check => check.name === name)?.state ?? 'ok')
      if (isNews)
        log[state === 'ok' ? 'info' : 'warn']({ check: name, state, found, mend }, 'store')
    }
    return checks.filter(({ state }) => state === 'wrong')
  }
  const wrong = await look()
  if (wrong.length) {
    const lines = wrong.map(({ name, found, mend }) => `\n  ${name}: ${found}\n    → ${mend}`)
    throw new Error(`its store cannot be trusted${lines.join('')}`)
  }
  // What does not answer is told by the requests that need it.
  setInterval(() => look().catch(() => {}), LOOK).unref()
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

/** Requests in flight finish; whoever is not done in time is cut off. */
function drain(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    setTimeout(DRAIN, undefined, { ref: false }).then(() => server.closeAllConnections())
  })
}

async function greet(settings: Settings, records: Records) {
  const { issuer, listen, development, clients } = settings
  const lines = [`Usher is ready at ${issuer}, listening on ${listen.host}:${listen.port}`]
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

main().catch((error: unknown) => {
  const message = reasonOf(error)
  const isReport = error instanceof ConfigError
  process.stderr.write(
    isReport ? `${message}\nNothing was started.\n` : `Usher cannot start: ${message}\n`,
  )
  process.exit(1)
})
