// What put.lua is told of writes, and what it answers.

import { now, type Put } from '../store.ts'
import type { Argument } from './connection.ts'

export interface Write {
  key: string
  until: string
  /** Indexes in which it has been noted, up to then. */
  entered: string[]
  value: Buffer
  /** What else there is to tell. */
  told: string
}

/** Of several, how many were written; and the indexes in which the next has to be noted first. */
export type Made = [count: number, missing: string | null]

/** `id`: a repeat is known by it. `areOne`: indexes are at hand where the record is. */
export function prepare(
  { key, value, expires, version, consumed, indexes = [] }: Put,
  id: string,
  areOne: boolean,
): Write {
  // What is written over again and again is noted for longer than it lives now: not every time.
  const margin = version !== undefined ? Math.max((expires ?? 0) - now(), 0) : 0
  const until = expires === undefined ? 'inf' : String(expires + margin)
  return {
    key,
    until,
    // What is written over most likely stands in its indexes already.
    entered: version || areOne ? [] : indexes,
    value: Buffer.from(value.buffer, value.byteOffset, value.length),
    told: [id, expires, version, until, consumed, indexes.join(' '), ''].join('\n'),
  }
}

/** Of each group as many as there are, up to one that is refused. An argument takes its time: each has two. */
export function argumentsOf(groups: Write[][]): Argument[] {
  const sizes = groups.map(({ length }) => length).join(' ')
  const writes = groups.flat()
  return [sizes, ...writes.flatMap(({ value, told, entered }) => [value, told + entered.join(' ')])]
}

/** Of each group in turn. */
export function madeOf(answer: unknown): Made[] {
  const made = answer as Made[number][]
  return made.flatMap((count, i) => (i % 2 ? [] : [[count, made[i + 1]] as Made]))
}
