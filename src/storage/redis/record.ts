// The arguments of scripts/write.lua, and the format of records in Redis.

import { randomBytes } from 'node:crypto'
import { type Change, type Entry, type Put, type Removal, StoreUnavailable } from '../store.ts'
import type { Argument } from './connection.ts'

/** A change, with the indexes that the script needs. */
export interface Write {
  change: Change
  indexes: string[]
  /** Epoch seconds until which the record is noted in all of `indexes`; absent: unknown. */
  noted?: number
}

/** The first line of a record, as scripts/write.lua describes it. */
interface Head {
  v: number
  o: string
  e?: number
  c?: number
  i?: string
  n?: number
  t?: 1
}

/** Returns a new id, by which the script recognises a write that is sent again. */
export const operationId = () => randomBytes(6).toString('base64url')

/** Returns the arguments for a change, in the order of scripts/write.lua. */
export function argumentsOf({ change, indexes, noted }: Write): Argument[] {
  const given: Partial<Put & Removal> = change
  const { value, version, expires, consumed, tombstone } = given
  const action = value ? 'put' : tombstone === undefined ? 'consume' : 'remove'
  const bytes = value && Buffer.from(value)
  const all = [bytes, version, tombstone ?? expires, consumed, indexes.join(' '), noted]
  return [action, ...all.map(argument => argument ?? '')]
}

/** Returns the bytes of a record. `noted`: epoch seconds until which it is noted in its indexes. */
export function packedOf(entry: Entry, noted: number): Buffer {
  const { value, version, consumed, expires, indexes } = entry
  const head: Head = {
    v: version,
    o: operationId(),
    e: expires,
    c: consumed,
    ...(indexes && { i: indexes.join(' '), n: noted }),
    ...(!value && { t: 1 }),
  }
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), value ?? Buffer.alloc(0)])
}

/** Throws for a value that another version of Usher, or another program, has written. */
export function entryOf(key: string, packed: Buffer | null | undefined): Entry | undefined {
  if (!packed) return undefined
  const lineEnd = packed.indexOf('\n')
  const { v: version, c: consumed, e: expires, i, t } = headOf(packed.toString('utf8', 0, lineEnd))
  const value = t ? undefined : packed.subarray(lineEnd + 1)
  return { key, value, version, consumed, expires, indexes: i ? i.split(' ') : undefined }
}

function headOf(line: string): Head {
  try {
    return JSON.parse(line)
  } catch {
    throw new StoreUnavailable(
      'Redis: a key holds no record of this version of Usher; ' +
        'start with an empty store (another database or redis.key_prefix)',
    )
  }
}
