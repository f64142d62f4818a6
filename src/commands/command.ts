// What every command is given, and how it gives back.

import { text } from 'node:stream/consumers'
import { isTime } from '../config/client-secret.ts'
import { readStoreSettings } from '../config/load.ts'
import { readDuration } from '../config/schema/values.ts'
import type { FactName } from '../http/audit.ts'
import { queueAuditEvent } from '../state/operator-facts.ts'
import { openInstallation } from '../storage/open.ts'
import type { Records } from '../storage/records.ts'
import { now } from '../storage/store.ts'

export interface Invocation {
  values: Record<string, unknown>
  positionals: string[]
}

export interface Command {
  /** `noun verb`. */
  name: string
  usage: string
  about: string
  options: Record<string, { type: 'string' | 'boolean' }>
  run(invocation: Invocation): Promise<void>
}

/** Something the operator can put right: its message is all they need. */
export class Failure extends Error {
  override name = 'Failure'
}

/** Leaves a fact for the audit log. */
export type Leave = (event: FactName, about?: object) => Promise<void>

/** Opens what the server uses, beside it if it is running, and closes it after `work`. */
export async function withRecords<T>(
  work: (records: Records, leave: Leave) => Promise<T>,
): Promise<T> {
  const settings = readStoreSettings()
  if (settings.store === 'sqlite::memory:') {
    throw new Failure(
      'The memory store lives inside the running server: nothing else can reach it.',
    )
  }
  const { store, records } = await openInstallation(
    settings.store,
    settings.secrets,
    settings.redis,
  )
  const leave: Leave = (event, about) => queueAuditEvent(records, event, about)
  return work(records, leave).finally(() => store.close())
}

/** For people to read, or with `--json` for programs. */
export function print(values: Invocation['values'], data: object, lines: string[]): void {
  const output = values.json ? JSON.stringify(data, null, 2) : lines.join('\n')
  process.stdout.write(`${output}\n`)
}

/** What to do next, beside the output. */
export function hint(message: string): void {
  process.stderr.write(`${message}\n`)
}

/** Says after every 10,000 records how far long work has come. */
export function sayProgress(step: string, done: number): void {
  if (done && done % 10_000 === 0) hint(`${done} ${step} …`)
}

/** A secret from a pipe, without the line break behind it; never from the arguments, which `ps` shows. */
export async function readStdin(): Promise<string> {
  const input = await text(process.stdin)
  return input.replace(/\r?\n$/, '')
}

/** The one word behind the command; nothing is done to a second one in silence. */
export function argument(invocation: Invocation, name: string): string {
  const value = optionalArgument(invocation, name)
  if (!value) throw new Failure(`Say which: ${name} is missing.`)
  return value
}

export function optionalArgument({ positionals }: Invocation, name: string): string | undefined {
  const [value, ...others] = positionals
  if (others.length) throw new Failure(`One ${name} at a time: ${others.join(' ')} is too much.`)
  return value
}

/** `--until` in epoch seconds: `7d`, `2026-12-01`, `2026-12-01T12:00Z`. `advice` is for a time that is over. */
export function readUntil(given: unknown, advice = ''): number | undefined {
  if (given === undefined) return undefined
  const text = String(given)
  const duration = readDuration(text)
  const until = duration ? now() + duration : isTime(text) && Math.floor(Date.parse(text) / 1000)
  if (!until) throw new Failure('--until takes a duration, or a time in UTC: 7d, 2026-12-01T00:00Z')
  if (until <= now()) throw new Failure(`--until: ${text} is over.${advice}`)
  return until
}

/** The command with its first word alone, and with those behind it. */
export function firstWord({ values, positionals: [word, ...others] }: Invocation) {
  const first: Invocation = { values, positionals: word === undefined ? [] : [word] }
  return { first, rest: { values, positionals: others } }
}

/** Epoch seconds, to the minute. */
export const moment = (time: number) =>
  new Date(time * 1000).toISOString().slice(0, 16).replace('T', ' ')
