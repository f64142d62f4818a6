// What scripts say of records (tell, in record.lua), as entries.

import type { Entry } from '../store.ts'

/** Numbers are what they are. */
export type Told = (Buffer | number | null)[]

/** Of each in turn: name, version, value, when consumed. */
export function entriesOf(told: Told): Entry[] {
  const found: Entry[] = []
  for (let i = 0; i < told.length; i += 4) {
    const entry: Entry = { key: String(told[i]), version: Number(told[i + 1]) }
    const [value, consumed] = [told[i + 2], told[i + 3]]
    if (value instanceof Buffer) entry.value = value
    if (consumed !== null) entry.consumed = Number(consumed)
    found.push(entry)
  }
  return found
}

export const namesIn = (told: Told[number] | undefined) => String(told).match(/\S+/g) ?? []
