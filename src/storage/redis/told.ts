// What scripts say of records (tell, in record.lua), as entries.

import type { Entry } from '../store.ts'

/** A byte. */
const LINE_END = 10

export type Told = Buffer[]

export const entriesOf = (told: Told): Entry[] => told.map(entryOf)

function entryOf(told: Buffer): Entry {
  const end = told.indexOf(LINE_END)
  const line = told.toString('utf8', 0, end < 0 ? told.length : end)
  const [key = '', version, consumed] = line.split(' ')
  const entry: Entry = { key, version: Number(version) }
  if (end >= 0) entry.value = told.subarray(end + 1)
  if (consumed) entry.consumed = Number(consumed)
  return entry
}

export const namesIn = (told: Buffer | undefined) => String(told).match(/\S+/g) ?? []
