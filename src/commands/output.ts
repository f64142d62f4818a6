// Prints records and hints: for users as lines, and with `--json` for programs.

import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { timeOf } from '../config/schema/values.ts'
import { forTerminal } from '../oidc/display-text.ts'
import { isMap } from '../store/values.ts'

/**
 * Options without a value, by name. Undefined: the option is absent.
 * `--no-NAME` is false.
 */
export type Flags = Record<string, boolean | undefined>

/** Prints a record: with `--json` all of it, otherwise `lines`. */
export function print(
  flags: Flags,
  record: object,
  lines = outline(record),
): void {
  if (flags.json) printJson(record)
  else process.stdout.write(`${forTerminal(lines.join('\n'))}\n`)
}

/**
 * Prints a list of records: with `--json` all of them, otherwise a description
 * of each, or `none` without one.
 */
export function printList<T extends object>(
  flags: Flags,
  records: T[],
  describe: (record: T) => string,
  none: string,
): void {
  const lines = records.length ? records.map(describe) : [none]
  print(flags, records, lines)
}

/** Texts that are read ahead, while a slow reader takes the ones before. */
const TEXTS_AHEAD = 4

/**
 * Prints texts as they come. The next ones are read while these are written.
 * Ends early when the reader of a pipe has read enough.
 */
export async function printTexts(texts: AsyncIterable<string>): Promise<void> {
  const source = Readable.from(texts, { highWaterMark: TEXTS_AHEAD })
  await pipeline(source, process.stdout, { end: false }).catch(
    (error: NodeJS.ErrnoException) => {
      // A reader such as `head` closes the pipe when it has read enough.
      if (error.code !== 'EPIPE') throw error
    },
  )
}

/** Prints a record as JSON. */
export function printJson(record: object): void {
  process.stdout.write(`${jsonForTerminal(JSON.stringify(record, null, 2))}\n`)
}

/** Prints to standard error: what was done, and what to do next. */
export function hint(message: string): void {
  process.stderr.write(`${forTerminal(message)}\n`)
}

/** JSON that a terminal shows as text, with the same values. */
export const jsonForTerminal = (json: string) =>
  json.replace(/[\p{C}--\n]/gv, found =>
    found.replace(
      /[\s\S]/g,
      unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  )

const TIMES = [
  'created',
  'updated',
  'ended',
  'since',
  'last_used',
  'change_password_by',
]
const LABEL_WIDTH = 40

/**
 * Returns a record as indented lines, without what is empty. The place of a
 * value `{ value, from }` stands behind it.
 */
export function outline(record: object, indent = ''): string[] {
  return Object.entries(record).flatMap(([name, part]) => {
    if (isEmpty(part)) return []
    const label = `${indent}${name}`
    const column = label.padEnd(LABEL_WIDTH)
    if (TIMES.includes(name) && typeof part === 'number')
      return [`${column} ${timeOf(part)}`]
    if (!isMap(part)) return [`${column} ${shown(part)}`]
    if ('value' in part && 'from' in part)
      return [`${column} ${shown(part.value)}  (${part.from})`]
    return [label, ...outline(part, `${indent}  `), '']
  })
}

function isEmpty(part: unknown): boolean {
  const json = JSON.stringify(part)
  return json === undefined || json === '[]' || json === '{}'
}

/** Returns a value in one line. */
export function shown(value: unknown): string {
  if (value === undefined) return 'not set'
  if (isMap(value)) return JSON.stringify(value)
  if (Array.isArray(value)) return value.map(shown).join(', ') || 'none'
  return String(value).replaceAll('\n', '?')
}

/** Returns epoch seconds as `2026-12-01T12:00:00Z`. */
export const secondOf = (seconds: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`

/**
 * Returns a word as a shell reads it: in quotes where it has other characters
 * than names have.
 */
export const shellWord = (word: string) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** Returns `1 record is` or `2 records are`. */
export const recordsAre = (count: number) =>
  count === 1 ? '1 record is' : `${count} records are`

/** Reports progress after every 10,000 records. */
export function reportProgress(step: string, done: number): void {
  if (done && done % 10_000 === 0) hint(`${done} ${step} …`)
}

/**
 * Reports progress on a terminal only: a command that often runs from a script
 * prints nothing else there.
 */
export function showProgress(step: string, done: number): void {
  if (process.stderr.isTTY) reportProgress(step, done)
}
