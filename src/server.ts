// One process: opens the store, builds the app, listens, reports readiness, and
// drains at the end.

import cluster from 'node:cluster'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Held, heldOf, losses } from './config/diff.ts'
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError } from './config/report/finding.ts'
import { portOf } from './config/rules/usher.ts'
import { currentRequest } from './oidc/adapter/request.ts'
import { type AuditEvent, createAudit } from './operation/audit.ts'
import type { Readiness } from './operation/health.ts'
import { shareAmong } from './operation/limits.ts'
import { createListener } from './operation/listener.ts'
import { logRejections } from './operation/log.ts'
import { createLog, flushed } from './operation/logger.ts'
import { type Metrics, NO_METRICS, serveMetrics } from './operation/metrics.ts'
import { takeAuditEvents } from './operation/operator-events.ts'
import { run, watchFolder } from './reload.ts'
import { InvalidAccount } from './sign-in/account.ts'
import type { AccountStore, OwnAccounts } from './sign-in/directory.ts'
import { openStore, requireTrust, unlock } from './store/open.ts'
import type { Records } from './store/records.ts'
import type { Check } from './store/store.ts'

/** The signals that end the service. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const
/**
 * Time between the 503 of /readyz and the first refused connection. Ctrl-C does
 * not wait.
 */
const NOTICE_MS = { SIGTERM: 1_000, SIGINT: 0 }
const DRAIN_MS = 10_000
const CLOSE_IDLE_EVERY_MS = 100
const CHECK_EVERY_MS = 5_000

/**
 * Reads the settings, and serves in this process. Rejects with an error for the
 * operator.
 */
export async function start() {
  const held = cluster.isWorker ? await heldByOthers() : undefined
  const settings = await readSettings()
  const lost = held ? losses(held, settings) : []
  if (lost.length) throw new ConfigError(lost)
  // The first worker: see `supervise` in main.ts.
  if (cluster.isWorker && !held) process.send?.(heldOf(settings))
  await serve({ ...settings, ...held })
}

/**
 * Returns the settings that the other workers keep until a restart; undefined
 * in the first one.
 */
async function heldByOthers(): Promise<Held | undefined> {
  const [message] = await once(process, 'message')
  return message.held
}

/** Loads the metrics, with their library, only where they can be read. */
async function openMetrics({ metrics }: Settings): Promise<Metrics> {
  if (!metrics) return NO_METRICS
  const { createMetrics } = await import('./operation/prometheus.ts')
  return createMetrics()
}

async function serve(settings: Settings) {
  const worker = cluster.worker?.id
  const log = createLog(worker)
  logRejections(log)
  const audit = createAudit(log)
  const metrics = await openMetrics(settings)
  shareAmong(settings.workers)

  const { store: location, secrets, redis } = settings
  const store = await openStore(location, redis, metrics.storeCommand)
  requireTrust(await store.check())
  const installation = await unlock(store, location, secrets, currentRequest)
  const { records } = installation
  const probes = records.of('Probe')
  const writeProbe = () => probes.change('ready', () => ({}), { ttl: 60 })
  const probe = () => writeProbe().then(Boolean, () => false)
  const readiness: Readiness = { state: 'ready', probe, checks: [] }
  await watchStore(records, readiness, audit, metrics)
  const { accounts, handle, reload } = await run(
    settings,
    { ...installation, log, audit, metrics },
    readiness,
  )
  const listeners = createListeners(settings, handle, log)
  const servers = listeners.map(({ server }) => server)

  process.on('SIGHUP', reload)
  void watchFolder(settings.folder, reload)
  let drained: Promise<void> | undefined
  for (const signal of SIGNALS) {
    process.on(signal, async () => {
      // A second signal joins the first.
      drained ??= drain(servers, readiness, NOTICE_MS[signal]).then(() =>
        store.close(),
      )
      await drained.finally(() => process.exit(0))
    })
  }
  if (worker) metrics.answerPrimary()
  else await serveMetrics(settings, metrics.text)
  for (const { server, address } of listeners)
    await once(server.listen(address), 'listening')
  // The first worker reports for all.
  if (!worker || worker === 1) await greet(settings, accounts)
}

/** Finishes the requests in flight. */
async function drain(
  servers: Server[],
  readiness: Readiness,
  noticeMs: number,
) {
  // Load balancers read /readyz and send no more requests. Until then every
  // request is answered.
  readiness.state = 'draining'
  await setTimeout(noticeMs)
  readiness.state = 'closing'
  const stopped = Promise.all(servers.map(stopAccepting))
  // To Node, a connection that was just accepted and has no request yet looks
  // idle.
  await setTimeout(noticeMs / 2)
  const closeIdle = () => servers.map(server => server.closeIdleConnections())
  closeIdle()
  setInterval(closeIdle, CLOSE_IDLE_EVERY_MS).unref()
  await Promise.race([stopped, setTimeout(DRAIN_MS)])
}

/**
 * Checks the store, and logs audit events of the command line, now and every
 * few seconds.
 */
function watchStore(
  records: Records,
  readiness: Readiness,
  audit: Logger,
  metrics: Metrics,
) {
  let isUnavailable = false
  const reported = new Set<string>()
  const checkStore = async () => {
    // Writes: the store thus knows when an outage begins and ends, also in a
    // process without requests.
    await readiness.probe()
    try {
      noteChecks(await records.check(), readiness, audit)
      if (isUnavailable)
        audit.info({ event: 'store_available' }, 'the store answers again')
      isUnavailable = false
    } catch {
      // The requests that need the store log the reason.
      if (!isUnavailable)
        audit.warn({ event: 'store_unavailable' }, 'the store does not answer')
      isUnavailable = true
    }
    const write = (event: AuditEvent) => {
      metrics.auditEvent(event.event)
      audit.info(event)
    }
    const unreadable = (key: string, reason: string) => {
      if (!reported.has(key))
        audit.error({ event: 'operator_event_unreadable', reason }, 'store')
      reported.add(key)
    }
    const flush = () => flushed(audit)
    await takeAuditEvents(records, write, { flush, unreadable }).catch(() => {})
  }
  setInterval(checkStore, CHECK_EVERY_MS).unref()
  return checkStore()
}

/**
 * Keeps the results of checks of the store for `/readyz`, and logs those that
 * differ from before.
 */
function noteChecks(checks: Check[], readiness: Readiness, audit: Logger) {
  for (const { name, state, found, fix } of checks) {
    const before =
      readiness.checks.find(check => check.name === name)?.state ?? 'ok'
    if (state !== before) {
      audit[levelOf(name, state)](
        { event: 'store_check', check: name, state, found, fix },
        'store',
      )
    }
  }
  readiness.checks = checks
}

/**
 * The level of the log line: two installations must never be in use at once.
 */
function levelOf(name: string, state: Check['state']) {
  if (state === 'ok') return 'info'
  return name === 'identity' ? 'error' : 'warn'
}

/**
 * The main listener, and one for `client_certificates.origin`, so that browsers
 * need no certificate.
 */
function createListeners(
  settings: Settings,
  handle: RequestListener,
  log: Logger,
) {
  const { listen, features, client_certificates } = settings
  const { host, port, tls } = listen
  const origin = tls && features.mtls ? client_certificates.origin : undefined
  const ports = [{ port, requestCert: features.mtls && !origin }]
  if (origin) ports.push({ port: portOf(new URL(origin)), requestCert: true })
  return ports.map(({ port, requestCert }) => {
    // Without a host, Node listens on all addresses: of both families, or of
    // IPv4 where IPv6 is switched off.
    const address = { port, host: host === '::' ? undefined : host }
    return {
      server: createListener(handle, { ...listen, requestCert }, log),
      address,
    }
  })
}

/**
 * Unlike `server.close`, leaves idle connections open: a request may be in
 * flight to one of them.
 */
function stopAccepting(server: Server) {
  NetServer.prototype.close.call(server)
  return once(server, 'close')
}

async function greet(settings: Settings, accounts: AccountStore) {
  const { issuer, listen, workers, development, clients } = settings
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host
  const several = workers > 1 ? `, with ${workers} workers` : ''
  const lines = [
    `Usher is ready at ${issuer}, listening on ${host}:${listen.port}${several}`,
  ]
  if (development && accounts.isOwn) lines.push(await addDemoAccount(accounts))
  if (development && clients.some(({ client_id }) => client_id === 'demo')) {
    const variable =
      issuer === 'http://localhost:3000' ? '' : `ISSUER=${issuer} `
    lines.push(
      `Try it with: ${variable}npm run demo, in another terminal; then open http://localhost:4000`,
    )
  }
  process.stderr.write(`\n${lines.map(line => `  ${line}\n`).join('')}\n`)
}

/**
 * Adds the demo account to an empty store. Returns a sentence with its
 * password, which is not stored.
 */
async function addDemoAccount(directory: OwnAccounts): Promise<string> {
  for await (const _ of directory.all()) {
    return 'Sign in with an account of yours; a new password: npm run usher -- accounts password NAME'
  }
  const password = randomBytes(12).toString('base64url')
  const email = 'demo@example.org'
  const demo = {
    username: 'demo',
    name: 'Demo User',
    email,
    email_verified: true,
  }
  try {
    await directory.add(demo, password)
  } catch (error) {
    if (!(error instanceof InvalidAccount)) throw error
    return 'Sign in as demo with the password that another node has just shown'
  }
  return `Sign in as demo with the password ${password} (shown only now)`
}
