// What is in force while the service runs: a configuration and signing keys, built into an app. A
// change is read, judged and built aside before it takes their place, and requests in flight finish
// where they began; what is wrong changes nothing.

import { readdirSync, statSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { createApp } from './app.ts'
import { differences, fixedDifferences, keepFixed } from './config/difference.ts'
import { ConfigError, type Finding, toRecord } from './config/report.ts'
import { readSettings, type Settings } from './config/settings.ts'
import type { Readiness } from './http/health.ts'
import type { SigningKey } from './keys/make.ts'
import { openSigningKeys } from './keys/signing-keys.ts'
import type { Environment } from './oidc/provider.ts'

/** Milliseconds for which nothing may change before what was saved is taken in. */
const SETTLE = 1000
/** How often it looks whether another key has its turn, in milliseconds. */
const LOOK = 10_000

type Surroundings = Omit<Environment, 'settings' | 'keys'>

export interface Running {
  handle: RequestListener
  /** Takes in what the folder says now; reports what is wrong, and never throws. */
  reload(): Promise<void>
}

/** Throws a `ConfigError` for a configuration that cannot be in force. */
export async function run(
  first: Settings,
  surroundings: Surroundings,
  readiness: Readiness,
): Promise<Running> {
  const { log, metrics, records } = surroundings
  let settings = first
  let signingKeys = await openSigningKeys(records, first)
  let keys = await signingKeys.load()
  let handler = await build(first, keys)
  let generation = 1
  metrics.configuration(generation, true)

  async function build(of: Settings, using: SigningKey[]): Promise<RequestListener> {
    const app = await createApp({ ...surroundings, settings: of, keys: using }, readiness)
    return app.callback()
  }

  let warned = new Set<string>()
  /** Each once, for as long as it stands. */
  function tellWarnings({ warnings }: Settings) {
    const nameOf = ({ rule, file, key }: Finding) => [rule, file, key].join()
    for (const warning of warnings.filter(warning => !warned.has(nameOf(warning)))) {
      const { message, ...fields } = toRecord(warning)
      log.warn({ event: 'config_warning', ...fields }, message)
    }
    warned = new Set(warnings.map(nameOf))
  }
  tellWarnings(first)

  let told = ''
  function tellFixed(keys: string[]) {
    if (keys.length && told !== keys.join())
      log.warn({ event: 'config_needs_restart', keys }, 'these are taken in at the next start')
    told = keys.join()
  }

  async function reload() {
    const wanted = readSettings()
    tellFixed(fixedDifferences(settings, wanted))
    const next = keepFixed(settings, wanted)
    const changes = differences(settings, next)
    if (changes.length) {
      const nextSigningKeys = await openSigningKeys(records, next)
      const nextKeys = await nextSigningKeys.load()
      handler = await build(next, nextKeys)
      settings = next
      signingKeys = nextSigningKeys
      keys = nextKeys
      generation++
    }
    tellWarnings(wanted)
    readiness.config = 'ok'
    metrics.configuration(generation, true)
    log.info({ event: 'config_loaded', generation, changes }, 'configuration in force')
  }

  function refused(error: unknown) {
    readiness.config = 'warning'
    metrics.configuration(generation, false)
    const isReport = error instanceof ConfigError
    const findings = isReport ? error.findings.map(toRecord) : [{ message: String(error) }]
    log.error({ event: 'config_refused', generation, findings }, 'configuration not taken')
  }

  async function lookAtKeys() {
    const found = await signingKeys.load()
    if (kidsOf(found) === kidsOf(keys)) return
    handler = await build(settings, found)
    keys = found
    log.info({ event: 'keys_changed', kids: found.map(({ kid }) => kid) }, 'signing keys in force')
  }

  // One at a time: each builds on what the one before has left.
  let turn = Promise.resolve()
  const inTurn = (work: () => Promise<void>) => {
    turn = turn.then(work)
    return turn
  }
  const reloadInTurn = () => inTurn(() => reload().catch(refused))

  // A store that is away is told by the requests that need it; the keys are looked at again.
  setInterval(() => inTurn(() => lookAtKeys().catch(() => {})), LOOK).unref()
  watchFolder(settings.folder, reloadInTurn)
  return { handle: (req, res) => handler(req, res), reload: reloadInTurn }
}

const kidsOf = (keys: SigningKey[]) => keys.map(({ kid }) => kid).join(' ')

/** Calls `changed` once for what was saved together. Looking works where notifications do not: mounts, links. */
function watchFolder(folder: string, changed: () => void): void {
  let inForce = fingerprint(folder)
  let last = inForce
  setInterval(() => {
    const seen = fingerprint(folder)
    const isSettled = seen === last
    last = seen
    if (!isSettled || seen === inForce) return
    inForce = seen
    changed()
  }, SETTLE).unref()
}

/** Changes whenever a file of the folder does. */
function fingerprint(path: string): string {
  const { ino, size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {}
  const names = readNames(path)
  return [path, ino, size, mtimeMs, ...names.map(name => fingerprint(join(path, name)))].join()
}

function readNames(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
