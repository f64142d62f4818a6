// What is in force while the service runs: a configuration and signing keys, built into an app. A
// change is read, judged and built aside before it takes their place, and requests in flight finish
// where they began; what is wrong changes nothing.

import type { RequestListener } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { createApp } from './app.ts'
import { differences, fixedDifferences, keepFixed } from './config/diff.ts'
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError, type Finding, toRecord } from './config/report/finding.ts'
import { createTeller } from './features/logout/backchannel.ts'
import { createAudit } from './http/audit.ts'
import type { Readiness } from './http/health.ts'
import type { SigningKey } from './keys/make.ts'
import { openSigningKeys } from './keys/signing-keys.ts'
import type { Environment } from './provider/configuration.ts'
import type { Queue } from './state/delivery-queue.ts'
import { StoreUnavailable } from './storage/store.ts'

/** How often it looks whether another key has its turn, in milliseconds. */
const LOOK = 10_000
/** How often it looks for sign-outs that applications have to be told of, and to be told of again. */
const SIGN_OUTS = 1_000
const SIGN_OUTS_AGAIN = 20_000

type Surroundings = Omit<Environment, 'settings' | 'keys'>

interface Running {
  handle: RequestListener
  /** Takes in what the folder says now; reports what is wrong, and never throws. */
  reload(): Promise<void>
}

/**
 * Throws a `ConfigError` for a configuration that cannot be in force. `news` is the log for what
 * several processes would say alike.
 */
export async function run(
  first: Settings,
  surroundings: Surroundings,
  readiness: Readiness,
  news: Logger = surroundings.log,
): Promise<Running> {
  const { log, metrics } = surroundings
  const audit = createAudit(news)
  const tellWarnings = warningsTo(news)
  const tellFixed = fixedTo(news)
  let inForce = await build(first, surroundings, readiness)
  let generation = 1
  metrics.configuration(generation, true)
  tellWarnings(first)

  async function reload() {
    const wanted = readSettings()
    tellFixed(fixedDifferences(inForce.settings, wanted))
    const next = keepFixed(inForce.settings, wanted)
    const changes = differences(inForce.settings, next)
    if (changes.length) {
      inForce = await build(next, surroundings, readiness)
      generation++
    }
    tellWarnings(wanted)
    readiness.config = 'ok'
    metrics.configuration(generation, true)
    audit.info({ event: 'config_loaded', generation, changes }, 'configuration in force')
  }

  function refused(error: unknown) {
    readiness.config = 'warning'
    metrics.configuration(generation, false)
    const isReport = error instanceof ConfigError
    const findings = isReport ? error.findings.map(toRecord) : [{ message: String(error) }]
    const teller = isReport ? news : log
    teller.error({ event: 'config_refused', generation, findings }, 'configuration not taken')
  }

  async function lookAtKeys() {
    if (kidsOf(await inForce.signingKeys.load()) === kidsOf(inForce.keys)) return
    inForce = await build(inForce.settings, surroundings, readiness)
    audit.info(
      { event: 'keys_changed', kids: inForce.keys.map(({ kid }) => kid) },
      'signing keys in force',
    )
  }

  // One at a time: each builds on what the one before has left.
  let turn = Promise.resolve()
  const inTurn = (work: () => Promise<void>) => {
    turn = turn.then(work)
    return turn
  }
  const reloadInTurn = () => inTurn(() => reload().catch(refused))

  // A store that is away is told by the requests that need it; here it is asked again.
  const failed = (what: string) => (error: unknown) => {
    if (!(error instanceof StoreUnavailable)) log.error({ reason: String(error) }, what)
  }
  const keysRefused = failed('signing keys not taken')
  setInterval(() => inTurn(() => lookAtKeys().catch(keysRefused)), LOOK).unref()
  const untold = failed('sign-outs not told')
  const tell = (queue: Queue) => inForce.tellSignOuts(queue).catch(untold)
  repeat(SIGN_OUTS, () => tell('new'))
  repeat(SIGN_OUTS_AGAIN, () => tell('again'))
  return { handle: (req, res) => inForce.handle(req, res), reload: reloadInTurn }
}

/** A configuration with all that is made of it. */
async function build(settings: Settings, surroundings: Surroundings, readiness: Readiness) {
  const signingKeys = await openSigningKeys(surroundings.records, settings)
  const keys = await signingKeys.load()
  const app = await createApp({ ...surroundings, settings, keys }, readiness)
  const { records, log, metrics } = surroundings
  metrics.signingKeys(await signingKeys.list())
  const tellSignOuts = createTeller(app, records, log, metrics)
  return { settings, signingKeys, keys, tellSignOuts, handle: app.callback() }
}

/** For as long as the process lives, and never twice at once. */
async function repeat(pause: number, work: () => Promise<void>): Promise<never> {
  for (;;) {
    await setTimeout(pause, undefined, { ref: false })
    await work()
  }
}

const kidsOf = (keys: SigningKey[]) => keys.map(({ kid }) => kid).join(' ')

/** Each once, for as long as it stands. */
function warningsTo(log: Logger) {
  let told = new Set<string>()
  const nameOf = ({ rule, file, key }: Finding) => [rule, file, key].join()
  return ({ warnings }: Settings) => {
    for (const warning of warnings.filter(warning => !told.has(nameOf(warning)))) {
      const { message, ...fields } = toRecord(warning)
      log.warn({ event: 'config_warning', ...fields }, message)
    }
    told = new Set(warnings.map(nameOf))
  }
}

/** Once for the same keys. */
function fixedTo(log: Logger) {
  let told = ''
  return (keys: string[]) => {
    if (keys.length && told !== keys.join())
      log.warn({ event: 'config_needs_restart', keys }, 'these are taken in at the next start')
    told = keys.join()
  }
}
