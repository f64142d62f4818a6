// What scripts say of records (tell, in record.lua), as entries.

import type { Entry } from '../store.ts'

/** Numbers are what they are. */
export type Told = (Buffer | number | null)[]

/** Of each in turn: name, version, value, when consumed. */
export function entriesOf(told: Told): Entry[] {
  const found: Entry[] = []
  for (let i = 0; i < told.length; i += 4) {
    const [key, version, value, consumed] = told.slice(i, i + 4)
    found.push({
      key: String(key),
      version: Number(version),
      ...(value instanceof Buffer && { value }),
      ...(consumed !== null && { consumed: Number(consumed) }),
    })
  }
  return found
}

export const namesIn = (told: Told[number] | undefined) => String(told).match(/\S+/g) ?? []
