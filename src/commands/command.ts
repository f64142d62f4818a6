// The frame of every command: arguments, output for users and for programs, and the store.

import { text } from 'node:stream/consumers'
import { isTime } from '../config/client-secret.ts'
import { readStoreSettings } from '../config/load.ts'
import { didYouMean } from '../config/report/wording.ts'
import { readDuration } from '../config/schema/values.ts'
import type { FactName } from '../http/audit.ts'
import { queueAuditEvent } from '../state/operator-facts.ts'
import { openInstallation } from '../storage/open.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

/** Options and arguments of a command. */
export interface Invocation {
  /** Options. */
  values: Record<string, unknown>
  /** Arguments, in the order of `usage`. Those that `usage` requires are present. */
  args: string[]
}

/** A row of the command table in cli.ts. */
export interface Command {
  /** `noun verb`. */
  name: string
  /** Arguments, then options: `ACCOUNT [SESSION] [--json]`. */
  usage: string
  about: string
  options: Record<string, { type: 'string' | 'boolean' }>
  run(invocation: Invocation): Promise<void>
}

/** An error that the operator can fix. Its message is all that is shown. */
export class Failure extends Error {
  override name = 'Failure'
}

/** Records an audit event, which a running node writes to its log. */
export type Audit = (event: FactName, about?: object) => Promise<void>

/** Returns the arguments. Throws a `Failure` when one is missing, or is not in `usage`. */
export function readArguments({ name, usage }: Command, args: string[]): string[] {
  const [described = ''] = usage.split(/\[?--/)
  const all = described.match(/\[[^\]]+\]|\S+/g) ?? []
  const missing = all.filter(argument => !argument.startsWith('['))[args.length]
  const surplus = args.slice(all.length).join(' ')
  if (!missing && !surplus) return args
  const problem = missing ? `${missing} is missing.` : `${surplus} is too much.`
  throw new Failure(`${problem}\n\nusage: npm run usher -- ${name} ${usage}`)
}

/** Opens the store of the configuration, beside a running service, and closes it after `work`. */
export async function withRecords<T>(
  work: (records: Records, audit: Audit) => Promise<T>,
): Promise<T> {
  const { store: location, secrets, redis } = readStoreSettings()
  if (location === 'sqlite::memory:') {
    throw new Failure(
      'The store (sqlite::memory:) is inside the running service, and commands cannot reach it: ' +
        'set `store` in usher.yaml, or USHER_STORE, to a file or a Redis.',
    )
  }
  const { store, records } = await openInstallation(location, secrets, redis)
  const audit: Audit = (event, about) => queueAuditEvent(records, event, about)
  return work(records, audit).finally(() => store.close())
}

/** Prints `lines`, or with `--json` the data. */
export function print({ json }: Invocation['values'], data: object, lines: string[]): void {
  process.stdout.write(`${json ? JSON.stringify(data, null, 2) : lines.join('\n')}\n`)
}

/** Prints a list as `print` does; `none` where it is empty. */
export function printList<T>(
  values: Invocation['values'],
  items: T[],
  describe: (item: T) => string,
  none: string,
): void {
  print(values, items, items.length ? items.map(describe) : [none])
}

/** Prints to standard error: what was done, and what to do next. */
export function hint(message: string): void {
  process.stderr.write(`${message}\n`)
}

/** Reports progress after every 10,000 records. */
export function reportProgress(step: string, done: number): void {
  if (done && done % 10_000 === 0) hint(`${done} ${step} …`)
}

/** The failure for a name that does not exist, with the nearest that does. */
export function notFound(what: string, name: string, known: string[] = [], advice = ''): Failure {
  return new Failure(`${what} ${name} not found${didYouMean(name, known) || '.'}${advice}`)
}

/** A secret from standard input, without the line break at its end: `ps` shows arguments. */
export async function readStdin(): Promise<string> {
  return (await text(process.stdin)).replace(/\r?\n$/, '')
}

/**
 * `--until` in epoch seconds: `7d`, `2026-12-01`, `2026-12-01T12:00Z`. Throws a `Failure` for another
 * text, and for a time that has passed, with `advice`.
 */
export function readUntil(given: unknown, advice = ''): number | undefined {
  if (given === undefined) return undefined
  const text = String(given)
  const duration = readDuration(text)
  const until = duration ? now() + duration : isTime(text) && Math.floor(Date.parse(text) / 1000)
  if (!until) throw new Failure('--until takes a duration, or a time in UTC: 7d, 2026-12-01T00:00Z')
  if (until <= now()) throw new Failure(`--until: ${text} has passed.${advice}`)
  return until
}

/** Epoch seconds as `2026-12-01 12:00 UTC`. */
export const timeOf = (seconds: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`
