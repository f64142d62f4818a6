// The frame of every command: its words, the error that an operator can fix,
// and how single words are read.

import { text } from 'node:stream/consumers'
import { didYouMean } from '../config/report/wording.ts'
import { isTime, readDuration } from '../config/schema/values.ts'
import { now } from '../store/store.ts'
import type { Flags } from './output.ts'

/** Options with a value, by name. Undefined: the option is absent. */
export type Values = Record<string, string | undefined>

/** The words after the name of a command. */
export interface Invocation {
  values: Values
  flags: Flags
  /**
   * Arguments, in the order of the table. Those that it requires are present.
   */
  args: string[]
}

/** An error that the operator can fix. Its message is all that is shown. */
export class Failure extends Error {
  override name = 'Failure'
}

/** The failure for a name that does not exist, with the nearest that does. */
export function notFound(
  what: string,
  name: string,
  known: string[] = [],
  advice = '',
): Failure {
  return new Failure(
    `${what} ${name} not found${didYouMean(name, known) || '.'}${advice}`,
  )
}

/**
 * Returns the one that has this name under `key`. Throws the failure `notFound`
 * without one.
 */
export function requireOne<K extends string, T extends Record<K, string>>(
  what: string,
  name: string,
  all: T[],
  key: K,
  advice = '',
): T {
  const found = all.find(one => one[key] === name)
  if (found) return found
  const names = all.map(one => one[key])
  throw notFound(what, name, names, advice)
}

/**
 * Standard input as text, without the line break at its end. Secrets come from
 * there: `ps` shows arguments.
 */
export async function readStdin(): Promise<string> {
  return (await text(process.stdin)).replace(/\r?\n$/, '')
}

/**
 * `--until` in epoch seconds: `7d`, `2026-12-01`, `2026-12-01T12:00Z`. Throws a
 * `Failure` for another text, and for a time that has passed, with `advice`.
 */
export function readUntil(
  given: string | undefined,
  advice = '',
): number | undefined {
  if (given === undefined) return undefined
  const until = timeIn(given)
  if (!until)
    throw new Failure(
      '--until takes a duration, or a time in UTC: 7d, 2026-12-01T00:00Z',
    )
  if (until <= now())
    throw new Failure(`--until: ${given} has passed.${advice}`)
  return until
}

function timeIn(given: string): number | undefined {
  const duration = readDuration(given)
  if (duration) return now() + duration
  return isTime(given) ? Math.floor(Date.parse(given) / 1000) : undefined
}
