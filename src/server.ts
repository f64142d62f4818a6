// One process: opens the store, builds the app, listens, reports readiness, and drains at the end.

import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { addDemoAccount } from './accounts/directory.ts'
import type { Settings } from './config/load.ts'
import { portOf } from './config/rules/provider.ts'
import { createAudit } from './http/audit.ts'
import type { Readiness } from './http/health.ts'
import { createQuota, shareAmong } from './http/limits.ts'
import { createListener } from './http/listener.ts'
import { faultOf } from './http/log.ts'
import type { Metrics } from './http/metrics.ts'
import { run } from './reload.ts'
import { takeAuditEvents } from './state/operator-facts.ts'
import { openStore, unlock } from './storage/open.ts'
import type { Records } from './storage/records.ts'
import type { Check } from './storage/store.ts'

/** Time between the 503 of /readyz and the first refused connection. Ctrl-C does not wait. */
const NOTICE_MS = { SIGTERM: 1_000, SIGINT: 0 }
const DRAIN_MS = 10_000
const CLOSE_IDLE_EVERY_MS = 100
const CHECK_EVERY_MS = 5_000
const MAX_REJECTION_LINES_PER_SECOND = 10

/** Opens the store and builds the app, without listening. Rejects with an error for the operator. */
export async function openServer(settings: Settings, log: Logger, metrics: Metrics) {
  shareAmong(settings.workers)
  logRejections(log)
  const audit = createAudit(log)
  const { store: location, secrets, redis } = settings
  const store = await openStore(location, redis, metrics.storeCommand)
  const probe = () => records.save('Probe', 'ready', {}, { ttl: 60 })
  const readiness: Readiness = { state: 'ready', probe, checks: [] }
  let check = () => store.check()
  await watchStore(() => check(), readiness, audit)
  const installation = await unlock(store, location, secrets)
  const { records } = installation
  check = records.check
  const { handle, reload } = await run(settings, { ...installation, log, metrics }, readiness)
  const listeners = createListeners(settings, handle, log)
  let drained: Promise<void> | undefined

  return {
    /** Reads the configuration again. An error is logged and changes nothing. */
    reload,

    async listen() {
      for (const { server, host, port } of listeners) {
        await once(server.listen({ host, port }), 'listening')
      }
      const report = () =>
        takeAuditEvents(records, fact => {
          metrics.fact(fact.event)
          audit.info(fact)
        }).catch(() => {})
      report()
      setInterval(report, CHECK_EVERY_MS).unref()
    },

    /** Writes the issuer to stderr, and in development the demo account and command. */
    greet: () => greet(settings, records),

    /** Finishes the requests in flight and closes the store. A second call joins the first. */
    drain(signal: keyof typeof NOTICE_MS) {
      drained ??= drain(NOTICE_MS[signal])
      return drained
    },
  }

  async function drain(noticeMs: number) {
    // Load balancers read /readyz and send no more requests. Until then every request is answered.
    readiness.state = 'draining'
    await setTimeout(noticeMs)
    const servers = listeners.map(({ server }) => server)
    readiness.state = 'closing'
    const stopped = Promise.all(servers.map(stopAccepting))
    // To Node, a connection that was just accepted and has no request yet looks idle.
    await setTimeout(noticeMs / 2)
    const closeIdle = () => servers.map(server => server.closeIdleConnections())
    closeIdle()
    const closing = setInterval(closeIdle, CLOSE_IDLE_EVERY_MS)
    await Promise.race([stopped, setTimeout(DRAIN_MS)])
    clearInterval(closing)
    await store.close()
  }
}

/** Logs unhandled rejections. They are faults of Usher, but must not end the other requests. */
function logRejections(log: Logger) {
  const hasRoom = createQuota(MAX_REJECTION_LINES_PER_SECOND, 1, left_out =>
    log.warn({ event: 'log_limited', left_out }, 'rejected promises were not logged'),
  )
  process.on('unhandledRejection', error => {
    if (hasRoom()) log.error({ fault: faultOf(error) }, 'promise rejected')
  })
}

/** Checks the store now and every few seconds. Rejects if the first checks find it `wrong`. */
async function watchStore(runChecks: () => Promise<Check[]>, readiness: Readiness, audit: Logger) {
  let isUnavailable = false
  const check = async () => {
    const before = readiness.checks
    const checks = await runChecks()
    readiness.checks = checks
    for (const { name, state, found, fix } of checks) {
      if (state === (before.find(check => check.name === name)?.state ?? 'ok')) continue
      const wrong = name === 'identity' ? 'error' : 'warn'
      const level = state === 'ok' ? 'info' : wrong
      audit[level]({ event: 'store_check', check: name, state, found, fix }, 'store')
    }
    if (isUnavailable) audit.info({ event: 'store_back' }, 'the store answers again')
    isUnavailable = false
    return checks.filter(({ state }) => state === 'wrong')
  }
  const wrong = await check()
  if (wrong.length) {
    const lines = wrong.map(({ name, found, fix }) => `\n  ${name}: ${found}\n    → ${fix}`)
    throw new Error(`the store cannot be trusted${lines.join('')}`)
  }
  // The requests that need the store log the reason.
  const reportUnavailable = () => {
    if (!isUnavailable) audit.warn({ event: 'store_away' }, 'the store does not answer')
    isUnavailable = true
  }
  setInterval(() => check().catch(reportUnavailable), CHECK_EVERY_MS).unref()
}

/** The main listener, and one for `client_certificates.origin`, so that browsers need no certificate. */
function createListeners(settings: Settings, handle: RequestListener, log: Logger) {
  const { listen, features, client_certificates } = settings
  const { host, port, tls, keep_alive } = listen
  const origin = tls && features.mtls ? client_certificates.origin : undefined
  const listener = (port: number, requestCert: boolean) => ({
    server: createListener(handle, { keep_alive, tls: tls && { ...tls, requestCert } }, log),
    host,
    port,
  })
  const listeners = [listener(port, features.mtls && !origin)]
  return origin ? [...listeners, listener(portOf(new URL(origin)), true)] : listeners
}

/** Unlike `server.close`, leaves idle connections open: a request may be in flight to one of them. */
function stopAccepting(server: Server): Promise<void> {
  return new Promise(resolve => {
    NetServer.prototype.close.call(server, () => resolve())
  })
}

async function greet(settings: Settings, records: Records) {
  const { issuer, listen, workers, development, accounts, clients } = settings
  const several = workers > 1 ? `, with ${workers} workers` : ''
  const lines = [
    `Usher is ready at ${issuer}, listening on ${listen.host}:${listen.port}${several}`,
  ]
  if (development && !accounts.module) lines.push(await addDemoAccount(records))
  if (development && clients.some(({ client_id }) => client_id === 'demo')) {
    const variable = issuer === 'http://localhost:3000' ? '' : `ISSUER=${issuer} `
    lines.push(
      `Try it with: ${variable}npm run demo, in another terminal; then open http://localhost:4000`,
    )
  }
  process.stderr.write(`\n${lines.map(line => `  ${line}\n`).join('')}\n`)
}
