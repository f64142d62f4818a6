// The configuration and signing keys in force, and the app that is built from
// them. A change is read, validated and built before it replaces them. Requests
// in flight finish in the app where they began. A change with an error changes
// nothing.

import cluster from 'node:cluster'
import { readdirSync, statSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import pLimit from 'p-limit'
import { createApp } from './app.ts'
import {
  differences,
  fixedDifferences,
  fixedOf,
  losses,
} from './config/diff.ts'
import { allKeys } from './config/key-list.ts'
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError, toRecord } from './config/report/finding.ts'
import { isAboutAttribute } from './config/report/wording.ts'
import type { SigningKey } from './oidc/dependencies.ts'
import type { Environment } from './operation/environment.ts'
import {
  type FolderState,
  forgetFolderState,
  saveFolderState,
} from './operation/folder-state.ts'
import type { Readiness } from './operation/health.ts'
import { openSigningKeys } from './operation/signing-keys.ts'
import { reasonOf } from './store/reasons.ts'
import { now, StoreUnavailable } from './store/store.ts'
import { pause } from './store/turns.ts'

/** Interval of the checks of the signing keys. */
const KEYS_EVERY_MS = 10_000
/**
 * Intervals of the delivery queue: for new notifications, and for those that
 * are due for a retry.
 */
const NOTIFY_EVERY_MS = { new: 1_000, again: 20_000 }
/**
 * A round of the delivery queue waits this long for slow receivers, which do
 * not keep the next round waiting.
 */
const MAX_ROUND_MS = 1_000

type Context = Omit<Environment, 'settings' | 'keys'>

/**
 * Builds the app and keeps it up to date. Rejects with a `ConfigError` for an
 * invalid configuration.
 */
export async function run(
  first: Settings,
  context: Context,
  readiness: Readiness,
) {
  const { log, audit, metrics } = context
  let inForce = await build(first, context, readiness)
  // A report of a reload needs this list. It takes too long to make while
  // requests wait.
  allKeys()
  const turn = cluster.worker ? cluster.worker.id % first.workers : 0
  let generation = 1
  let logged = new Set<string>()
  /** The store was unavailable during the latest reload, which is repeated. */
  let isPending = false
  /**
   * Differences that commands for operators must know, because they read the
   * folder.
   */
  let folder: FolderState = {}
  metrics.configuration(generation, true)
  logOnce(first)
  await forgetFolderState(context.records)

  async function reload() {
    isPending = false
    // One worker after another, so that the others answer meanwhile. Each takes
    // about 1 ms for a client.
    await setTimeout(turn * inForce.settings.clients.length)
    const wanted = await readSettings()
    const lost = losses(inForce.settings, wanted)
    if (lost.length) throw new ConfigError(lost)
    const next = { ...wanted, ...fixedOf(inForce.settings) }
    const changes = await differences(inForce.settings, next)
    if (changes.length) {
      inForce = await build(next, context, readiness)
      generation++
    }
    logOnce(wanted)
    const wasRefused = readiness.config === 'warning'
    readiness.config = 'ok'
    const keys = fixedDifferences(inForce.settings, wanted)
    const since = folder.restart?.since ?? now()
    await noteFolder({ restart: keys.length ? { since, keys } : undefined })
    metrics.configuration(generation, true)
    // Without a change, nothing was loaded. After a refused edit the line says
    // that all is well again.
    if (!changes.length && !wasRefused) return
    audit.info(
      { event: 'config_loaded', generation, changes },
      'configuration in force',
    )
  }

  /**
   * Logs warnings, and the keys of settings that need a restart, once until
   * they change.
   */
  function logOnce(wanted: Settings) {
    const lines = new Map<
      string,
      { event: string; message: string; keys?: string[] }
    >()
    for (const warning of wanted.warnings.filter(
      one => !isAboutAttribute(one),
    )) {
      const { rule, file, key } = warning
      lines.set([rule, file, key].join(), {
        event: 'config_warning',
        ...toRecord(warning),
      })
    }
    const keys = fixedDifferences(inForce.settings, wanted)
    const message = 'these settings take effect after a restart'
    if (keys.length)
      lines.set(keys.join(), { event: 'config_needs_restart', keys, message })
    for (const [name, { message, ...fields }] of lines) {
      if (!logged.has(name)) log.warn(fields, message)
    }
    logged = new Set(lines.keys())
  }

  function refuse(error: unknown) {
    isPending = error instanceof StoreUnavailable
    readiness.config = 'warning'
    metrics.configuration(generation, false)
    const isReport = error instanceof ConfigError
    const findings = isReport
      ? error.findings.map(toRecord)
      : [{ message: reasonOf(error) }]
    const message = isPending
      ? 'the store is unavailable: the configuration is not in force yet'
      : 'the configuration has errors and is not in force'
    log.error({ event: 'config_refused', generation, findings }, message)
    const since = folder.refused?.since ?? now()
    return noteFolder({ ...folder, refused: { since, findings } })
  }

  /**
   * Tells the commands for operators how the folder differs from what this
   * process uses. Never rejects.
   */
  async function noteFolder(next: FolderState) {
    const isSame = JSON.stringify(next) === JSON.stringify(folder)
    folder = next
    // `checkKeys` repeats this, also for a store that was unavailable.
    if (!isSame) await saveFolderState(context.records, folder).catch(() => {})
  }

  async function checkKeys() {
    const isDifferent = folder.refused ?? folder.restart
    if (isDifferent)
      await saveFolderState(context.records, folder).catch(() => {})
    if (isPending) return reload().catch(refuse)
    if (kidsOf(await inForce.signingKeys.load()) === kidsOf(inForce.keys))
      return
    inForce = await build(inForce.settings, context, readiness)
    const kids = inForce.keys.map(({ kid }) => kid)
    audit.info({ event: 'keys_changed', kids }, 'signing keys in force')
  }

  // One at a time: each builds on the result of the one before.
  const inOrder = pLimit(1)
  // An unavailable store is logged by the requests that need it.
  const failed = (what: string) => (error: unknown) => {
    if (!(error instanceof StoreUnavailable))
      log.error({ reason: String(error) }, what)
  }
  repeat(KEYS_EVERY_MS, () =>
    inOrder(checkKeys).catch(failed('signing keys were not read')),
  )
  for (const kind of ['new', 'again'] as const) {
    const deliver = () =>
      inForce.deliver(kind).catch(failed('notifications were not sent'))
    const round = () =>
      Promise.race([
        deliver(),
        setTimeout(MAX_ROUND_MS, undefined, { ref: false }),
      ])
    repeat(NOTIFY_EVERY_MS[kind], round)
  }
  return {
    accounts: inForce.accounts,
    handle: (...request: Parameters<RequestListener>) =>
      inForce.handle(...request),
    /**
     * Reads the configuration folder again. Never rejects: findings are logged.
     */
    reload: () => inOrder(reload).catch(refuse),
  }
}

/** A configuration, its signing keys and its app. */
async function build(
  settings: Settings,
  context: Context,
  readiness: Readiness,
) {
  const signingKeys = await openSigningKeys(context.records, settings)
  const keys = await signingKeys.load()
  const app = await createApp({ ...context, settings, keys }, readiness)
  context.metrics.signingKeys(await signingKeys.list())
  return { settings, signingKeys, keys, ...app }
}

/**
 * Repeats work until the process ends. Each run starts after the one before has
 * ended.
 */
async function repeat(
  pauseMs: number,
  work: () => Promise<void>,
): Promise<never> {
  for (;;) {
    await setTimeout(pauseMs, undefined, { ref: false })
    await work()
  }
}

const kidsOf = (keys: SigningKey[]) => keys.map(({ kid }) => kid).join(' ')

/** Changes are reported when nothing else changed for this long. */
const SETTLE_MS = 1000

/**
 * Polls the config folder: unlike file notifications, this works for mounts and
 * links. Calls `changed`, which never rejects, once for all files that are
 * saved together. Never ends.
 */
export function watchFolder(
  folder: string,
  changed: () => Promise<void>,
): Promise<never> {
  // An edit that was saved after the settings were read at the start is read at
  // the first look.
  let inForce = ''
  let last = inForce
  return repeat(SETTLE_MS, async () => {
    const seen = await fingerprint(folder)
    const isSettled = seen === last
    last = seen
    if (!isSettled || seen === inForce) return
    inForce = seen
    await changed()
  })
}

/**
 * Returns a text that changes with every file that is read. Hidden files
 * (editors, git) are not read.
 */
async function fingerprint(path: string, depth = 2): Promise<string> {
  await pause()
  try {
    const stat = statSync(path)
    const names = depth > 0 && stat.isDirectory() ? readdirSync(path) : []
    const below: string[] = []
    for (const name of names.filter(name => !name.startsWith('.'))) {
      below.push(await fingerprint(join(path, name), depth - 1))
    }
    return [path, stat.ino, stat.size, stat.mtimeMs, ...below].join()
  } catch {
    // The reader of the file reports the problem.
    return path
  }
}
