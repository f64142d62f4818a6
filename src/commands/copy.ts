// Moves an installation to another store, or to a file and back, or to another secret. Names stay hashed and contents
// encrypted, so the same USHER_SECRET opens the copy.
//
//   1  the target is checked, as at a start: a Redis that evicts records is refused
//   2  the target is cleared of what an unfinished copy left there
//   3  everything but the naming key is written
//   4  the naming key is written: from here on the target is an installation, and refuses a copy
//
// A copy keeps versions and tombstones: by them, a removal wins over a consent page that was open before
// it. A backup has no tombstones, and leaves out some kinds of records.
//
// A backup file is text, one JSON value a line: a head, the records, and how many those are.

import { createWriteStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readJson } from '../config/schema/values.ts'
import { createSeal, NAMING_KEY } from '../storage/seal.ts'
import { type Entry, requireTrust, type Store } from '../storage/store.ts'
import { Failure, reportProgress } from './command.ts'

/** Records in flight, of some kB each. */
const CONCURRENCY = 100
const BACKUP_FORMAT = 1

/**
 * Kinds of records that a backup leaves out. An old copy would make a used code, an ended session or a
 * rotated or revoked token valid again, or repeat a notification.
 */
const LEFT_OUT = new Set(
  (
    'AccessToken AuthorizationCode BackchannelAuthenticationRequest ClientCredentials DeviceCode ' +
    'Grant Interaction OperatorFact Ping Probe PushedAuthorizationRequest RefreshToken ' +
    'ReplayDetection Session SessionCookie SignOut UserCode'
  ).split(' '),
)

/** Returns the entry of the naming key. Throws a `Failure` for a store without one. */
export async function readNamingKey(from: Store, name = '--from'): Promise<Entry> {
  const entry = await from.get(NAMING_KEY)
  if (!entry?.value) throw new Failure(`${name} holds no installation.`)
  return entry
}

/**
 * Copies a store; no other process may write to either one. Repeats an unfinished copy from the start.
 * Returns the number of records, without tombstones.
 */
export async function copyStore(from: Store, to: Store): Promise<number> {
  return fill(to, '--to', await readNamingKey(from), from.scan())
}

/** Writes the records of a store to a file, while the service runs. Returns their number. */
export async function backUpStore(from: Store, secrets: Uint8Array[], file: string) {
  await readNamingKey(from, 'USHER_STORE')
  const seal = createSeal(secrets)
  const partial = `${file}.partial`
  /** The kind of a record stands before the first line end of its contents (records.ts). */
  const kindOf = (key: string, value: Uint8Array) => String(seal.open(key, value)).split('\n', 1)[0]
  const seen = new Set<string>()
  async function* lines() {
    yield lineOf({ usher_backup: BACKUP_FORMAT, at: new Date().toISOString() })
    for await (const { value, ...entry } of from.scan()) {
      const { key } = entry
      if (!value || seen.has(key)) continue
      if (key !== NAMING_KEY && LEFT_OUT.has(kindOf(key, value) ?? '')) continue
      seen.add(key)
      yield lineOf({ ...entry, value: textOf(value) })
    }
    yield lineOf({ records: seen.size })
  }
  try {
    await pipeline(lines, createWriteStream(partial, { mode: 0o600, flush: true }))
    await rename(partial, file)
    return seen.size
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

const lineOf = (value: object) => `${JSON.stringify(value)}\n`

/** Fills an empty store from a file of `backUpStore`. No node may run on it. Returns the number of records. */
export async function restoreStore(file: string, secrets: Uint8Array[], to: Store) {
  let namingKey: Entry | undefined
  for await (const entry of entriesOf(file)) if (entry.key === NAMING_KEY) namingKey = entry
  if (!namingKey?.value) throw new Failure(`${file} holds no installation.`)
  createSeal(secrets).open(NAMING_KEY, namingKey.value)
  return fill(to, 'USHER_STORE', namingKey, entriesOf(file))
}

/** The records of a backup; throws where it is not whole. */
async function* entriesOf(file: string): AsyncGenerator<Entry> {
  // The first line is the head.
  let [count, end] = [-1, -2]
  for await (const line of (await open(file)).readLines()) {
    const { usher_backup, records, value, ...entry } = readJson(line) ?? {}
    if (count === -1 && usher_backup !== BACKUP_FORMAT) break
    if (records !== undefined) end = records
    else if (count++ >= 0) yield { ...entry, value: Buffer.from(value, 'base64') }
  }
  if (end !== count) throw new Failure(`${file} is no backup of Usher, or not all of one.`)
}

/** `name`: what the operator calls the target. */
async function fill(to: Store, name: string, namingKey: Entry, entries: AsyncIterable<Entry>) {
  const { key, value = new Uint8Array() } = namingKey
  const found = await to.get(key)
  if (found) {
    const which = textOf(found.value) === textOf(value) ? 'this' : 'another'
    throw new Failure(
      `${name} already holds ${which} installation; choose an empty store ` +
        '(another file, database or redis.key_prefix).',
    )
  }
  requireTrust(await to.check())
  await forEach(to.scan(), ({ key }) => to.restore({ key, version: 1, expires: 0 }))
  let records = 1
  await forEach(entries, async entry => {
    await to.restore(entry)
    if (entry.value) reportProgress('copied', ++records)
  })
  const { failed } = await to.write([{ key, value, version: 0 }])
  if (failed === undefined) return records
  throw new Failure(`${name} became an installation meanwhile: Usher was started on it.`)
}

/** Works on everything but the naming key, some at a time. */
const forEach = (entries: AsyncIterable<Entry>, work: (entry: Entry) => Promise<void>) =>
  Readable.from(entries)
    .filter(({ key }: Entry) => key !== NAMING_KEY)
    .forEach(work, { concurrency: CONCURRENCY })

const textOf = (bytes?: Uint8Array) => bytes && Buffer.from(bytes).toString('base64')

/**
 * Seals everything anew that was not sealed with the first secret, and answers how many records that
 * were. Afterwards the other secrets open nothing.
 */
export async function resealAll(store: Store, secrets: Uint8Array[]): Promise<number> {
  const seal = createSeal(secrets)
  let [read, count] = [0, 0]
  for await (const scanned of store.scan()) {
    // Read again when another writer came in between.
    let entry: Entry | undefined = scanned
    while (entry?.value && !seal.isCurrent(entry.value)) {
      const { key, version, expires } = entry
      const value = seal.seal(key, seal.open(key, entry.value))
      const { failed } = await store.write([{ key, value, version, expires }])
      if (failed === undefined) count++
      entry = await store.get(key)
    }
    reportProgress('records read', ++read)
  }
  return count
}
