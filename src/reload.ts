// The configuration and signing keys in force, and the app that is built from them. A change is read,
// validated and built before it replaces them. Requests in flight finish in the app where they began. A
// change with an error changes nothing.

import type { RequestListener } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { createApp } from './app.ts'
import { differences, fixedDifferences, keepFixed } from './config/diff.ts'
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError, toRecord } from './config/report/finding.ts'
import { createAudit } from './http/audit.ts'
import type { Readiness } from './http/health.ts'
import type { SigningKey } from './keys/signing-keys.ts'
import { openSigningKeys } from './keys/signing-keys.ts'
import type { Environment } from './provider/configuration.ts'
import { StoreUnavailable } from './storage/store.ts'

/** Interval of the checks of the signing keys. */
const KEYS_EVERY_MS = 10_000
/** Intervals of the delivery queue: for new notifications, and for those that are due for a retry. */
const NOTIFY_EVERY_MS = { new: 1_000, again: 20_000 }

type Context = Omit<Environment, 'settings' | 'keys'>

interface Running {
  handle: RequestListener
  /** Reads the configuration folder again. Never rejects: findings are logged. */
  reload(): Promise<void>
}

/** Builds the app and keeps it up to date. Rejects with a `ConfigError` for an invalid configuration. */
export async function run(
  first: Settings,
  context: Context,
  readiness: Readiness,
): Promise<Running> {
  const { log, metrics } = context
  const audit = createAudit(log)
  let inForce = await build(first, context, readiness)
  let generation = 1
  let restartKeys = ''
  const logWarnings = createWarningLog(log)
  metrics.configuration(generation, true)
  logWarnings(first)

  async function reload() {
    const wanted = readSettings()
    noteRestartKeys(fixedDifferences(inForce.settings, wanted))
    const next = keepFixed(inForce.settings, wanted)
    const changes = differences(inForce.settings, next)
    if (changes.length) {
      inForce = await build(next, context, readiness)
      generation++
    }
    logWarnings(wanted)
    readiness.config = 'ok'
    metrics.configuration(generation, true)
    audit.info({ event: 'config_loaded', generation, changes }, 'configuration in force')
  }

  /** Logs the keys of settings that need a restart, once for the same keys. */
  function noteRestartKeys(keys: string[]) {
    if (keys.length && restartKeys !== keys.join())
      log.warn(
        { event: 'config_needs_restart', keys },
        'these settings take effect after a restart',
      )
    restartKeys = keys.join()
  }

  function refused(error: unknown) {
    readiness.config = 'warning'
    metrics.configuration(generation, false)
    const isReport = error instanceof ConfigError
    const findings = isReport ? error.findings.map(toRecord) : [{ message: String(error) }]
    log.error(
      { event: 'config_refused', generation, findings },
      'the configuration has errors and is not in force',
    )
  }

  async function checkKeys() {
    if (kidsOf(await inForce.signingKeys.load()) === kidsOf(inForce.keys)) return
    inForce = await build(inForce.settings, context, readiness)
    const kids = inForce.keys.map(({ kid }) => kid)
    audit.info({ event: 'keys_changed', kids }, 'signing keys in force')
  }

  // One at a time: each builds on the result of the one before.
  let queue = Promise.resolve()
  const enqueue = (work: () => Promise<void>) => {
    queue = queue.then(work)
    return queue
  }
  // An unavailable store is logged by the requests that need it.
  const failed = (what: string) => (error: unknown) => {
    if (!(error instanceof StoreUnavailable)) log.error({ reason: String(error) }, what)
  }
  const logKeys = failed('signing keys were not read')
  const logNotify = failed('notifications were not sent')
  repeat(KEYS_EVERY_MS, () => enqueue(() => checkKeys().catch(logKeys)))
  for (const kind of ['new', 'again'] as const) {
    repeat(NOTIFY_EVERY_MS[kind], () => inForce.deliver(kind).catch(logNotify))
  }
  return {
    handle: (req, res) => inForce.handle(req, res),
    reload: () => enqueue(() => reload().catch(refused)),
  }
}

/** A configuration, its signing keys and its app. */
async function build(settings: Settings, context: Context, readiness: Readiness) {
  const signingKeys = await openSigningKeys(context.records, settings)
  const keys = await signingKeys.load()
  const app = await createApp({ ...context, settings, keys }, readiness)
  context.metrics.signingKeys(await signingKeys.list())
  return { settings, signingKeys, keys, ...app }
}

/** Repeats work until the process ends. Each run starts after the one before has ended. */
async function repeat(pauseMs: number, work: () => Promise<void>): Promise<never> {
  for (;;) {
    await setTimeout(pauseMs, undefined, { ref: false })
    await work()
  }
}

const kidsOf = (keys: SigningKey[]) => keys.map(({ kid }) => kid).join(' ')

/** Logs each warning of the configuration once, until it disappears. */
function createWarningLog(log: Logger) {
  let logged = new Set<string>()
  return ({ warnings }: Settings) => {
    const named = new Map(warnings.map(one => [[one.rule, one.file, one.key].join(), one]))
    for (const [name, warning] of named) {
      const { message, ...fields } = toRecord(warning)
      if (!logged.has(name)) log.warn({ event: 'config_warning', ...fields }, message)
    }
    logged = new Set(named.keys())
  }
}
