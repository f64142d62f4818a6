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
import { readSettings, type Settings } from './config/load.ts'
import { ConfigError, toRecord } from './config/report/finding.ts'
import { isAboutAttribute } from './config/report/wording.ts'
import type { SigningKey } from './oidc/dependencies.ts'
import type { Environment } from './operation/environment.ts'
import {
  type FolderState,
  forgetFolderState,
  saveConfigLoad,
  saveFolderState,
} from './operation/folder-state.ts'
import type { Readiness } from './operation/health.ts'
import { openSigningKeys } from './operation/signing-keys.ts'
import type { Queue } from './store/delivery-queue.ts'
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
  const built = await build(first, context, readiness)
  const running = new Running(built, context, readiness)
  running.begin()
  await forgetFolderState(context.records)
  await saveConfigLoad(context.records, now())

  // One at a time: each builds on the result of the one before.
  const inOrder = pLimit(1)
  // An unavailable store is logged by the requests that need it.
  const failed = (what: string) => (error: unknown) => {
    if (!(error instanceof StoreUnavailable))
      context.log.error({ reason: String(error) }, what)
  }
  void repeat(KEYS_EVERY_MS, () =>
    inOrder(() => running.checkKeys()).catch(
      failed('signing keys were not read'),
    ),
  )
  for (const queue of ['new', 'again'] as const) {
    const deliver = () =>
      running.deliver(queue).catch(failed('notifications were not sent'))
    const round = () =>
      Promise.race([
        deliver(),
        setTimeout(MAX_ROUND_MS, undefined, { ref: false }),
      ])
    void repeat(NOTIFY_EVERY_MS[queue], round)
  }
  return {
    accounts: built.accounts,
    handle: (...request: Parameters<RequestListener>) =>
      running.handle(...request),
    /**
     * Reads the configuration folder again. Never rejects: findings are logged.
     */
    reload: () => inOrder(() => running.reloadOrRefuse()),
  }
}

/** The configuration in force, and how the folder differs from it. */
class Running {
  readonly #context: Context
  readonly #readiness: Readiness
  #inForce: Built
  /** The number of the configuration in force. */
  #generation = 1
  /** The lines about the folder as it is that were logged. */
  #logged = new Set<string>()
  /** The store was unavailable during the latest reload, which is repeated. */
  #isPending = false
  /**
   * Differences that commands for operators must know, because they read the
   * folder.
   */
  #folder: FolderState = {}

  constructor(first: Built, context: Context, readiness: Readiness) {
    this.#inForce = first
    this.#context = context
    this.#readiness = readiness
  }

  /** Logs and counts the first configuration. */
  begin(): void {
    this.#context.metrics.configuration(this.#generation, true)
    this.#logOnce(this.#inForce.settings)
  }

  handle(...request: Parameters<RequestListener>) {
    return this.#inForce.handle(...request)
  }

  deliver(queue: Queue): Promise<void> {
    return this.#inForce.deliver(queue)
  }

  /** Reads the folder again. Never rejects. */
  reloadOrRefuse(): Promise<void> {
    return this.#reload().catch(error => this.#refuse(error))
  }

  async #reload(): Promise<void> {
    this.#isPending = false
    const { settings } = this.#inForce
    // One worker after another, so that the others answer meanwhile. Each takes
    // about 1 ms for a client.
    const turn = cluster.worker ? cluster.worker.id % settings.workers : 0
    await setTimeout(turn * settings.clients.length)
    const wanted = await readSettings()
    const lost = losses(settings, wanted)
    if (lost.length) throw new ConfigError(lost)
    const next = { ...wanted, ...fixedOf(settings) }
    const changes = await differences(settings, next)
    if (changes.length) await this.#replace(next)
    this.#logOnce(wanted)
    await this.#accept(wanted, changes)
  }

  /** Puts a configuration in force. */
  async #replace(next: Settings): Promise<void> {
    this.#inForce = await build(next, this.#context, this.#readiness)
    this.#generation++
    // Only `usher status` shows this time: the configuration is in force
    // without it.
    await saveConfigLoad(this.#context.records, now()).catch(() => {})
  }

  /** Reports that the folder has no errors. */
  async #accept(wanted: Settings, changes: string[]): Promise<void> {
    const { audit, metrics } = this.#context
    const generation = this.#generation
    const wasRefused = this.#readiness.config === 'warning'
    this.#readiness.config = 'ok'
    const keys = fixedDifferences(this.#inForce.settings, wanted)
    const since = this.#folder.restart?.since ?? now()
    await this.#noteFolder({
      restart: keys.length ? { since, keys } : undefined,
    })
    metrics.configuration(generation, true)
    // Without a change, nothing was loaded. After a refused edit the line says
    // that all is well again.
    if (!changes.length && !wasRefused) return
    audit.info(
      { event: 'config_loaded', generation, changes },
      'configuration in force',
    )
  }

  /** Reports why the folder is not in force. */
  #refuse(error: unknown): Promise<void> {
    const { log, metrics } = this.#context
    const generation = this.#generation
    this.#isPending = error instanceof StoreUnavailable
    this.#readiness.config = 'warning'
    metrics.configuration(generation, false)
    const isReport = error instanceof ConfigError
    const findings = isReport
      ? error.findings.map(toRecord)
      : [{ message: reasonOf(error) }]
    const message = this.#isPending
      ? 'the store is unavailable: the configuration is not in force yet'
      : 'the configuration has errors and is not in force'
    log.error({ event: 'config_refused', generation, findings }, message)
    const since = this.#folder.refused?.since ?? now()
    return this.#noteFolder({ ...this.#folder, refused: { since, findings } })
  }

  /**
   * Logs warnings, and the keys of settings that need a restart, once until
   * they change.
   */
  #logOnce(wanted: Settings): void {
    const keys = fixedDifferences(this.#inForce.settings, wanted)
    const lines = linesAbout(wanted, keys)
    for (const [name, { message, ...fields }] of lines) {
      if (!this.#logged.has(name)) this.#context.log.warn(fields, message)
    }
    this.#logged = new Set(lines.keys())
  }

  /**
   * Tells the commands for operators how the folder differs from what this
   * process uses. Never rejects.
   */
  async #noteFolder(next: FolderState): Promise<void> {
    const isSame = JSON.stringify(next) === JSON.stringify(this.#folder)
    this.#folder = next
    if (!isSame) await this.#saveFolder()
  }

  /** `checkKeys` repeats this, also for a store that was unavailable. */
  #saveFolder(): Promise<void> {
    return saveFolderState(this.#context.records, this.#folder).catch(() => {})
  }

  /** Builds the app again when its signing keys have changed in the store. */
  async checkKeys(): Promise<void> {
    const { refused, restart } = this.#folder
    if (refused || restart) await this.#saveFolder()
    if (this.#isPending) return this.reloadOrRefuse()
    const { settings, signingKeys, keys } = this.#inForce
    if (kidsOf(await signingKeys.load()) === kidsOf(keys)) return
    this.#inForce = await build(settings, this.#context, this.#readiness)
    const kids = this.#inForce.keys.map(({ kid }) => kid)
    this.#context.audit.info(
      { event: 'keys_changed', kids },
      'signing keys in force',
    )
  }
}

/** A line of the log about the folder. */
type Line = { event: string; message: string; keys?: string[] }

/**
 * Returns the lines about a configuration, by what they are about. `keys`: those
 * that take effect after a restart.
 */
function linesAbout({ warnings }: Settings, keys: string[]): Map<string, Line> {
  const lines = new Map<string, Line>()
  for (const warning of warnings) {
    if (isAboutAttribute(warning)) continue
    const { rule, file, key } = warning
    const line = { event: 'config_warning', ...toRecord(warning) }
    lines.set([rule, file, key].join(), line)
  }
  const message = 'these settings take effect after a restart'
  if (keys.length)
    lines.set(keys.join(), { event: 'config_needs_restart', keys, message })
  return lines
}

type Built = Awaited<ReturnType<typeof build>>

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
