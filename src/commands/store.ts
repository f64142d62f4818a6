// `usher store`: moves an installation to another store, or to another secret.
// Names stay hashed and contents encrypted, so the same USHER_SECRET opens the
// copy. backup.ts writes and reads files.
//
//   1  the target is checked, as at a start: a Redis that evicts records is refused
//   2  the target is cleared of what an unfinished copy left there
//   3  everything but the naming key is written
//   4  the naming key is written: from here on the target is an installation, and refuses a copy
//
// A copy keeps versions and tombstones: by them, a removal wins over a consent
// page that was open before it.

import { existsSync } from 'node:fs'
import { Readable } from 'node:stream'
import { readStoreSettings } from '../config/load.ts'
import { usherSchema } from '../config/schema/usher.ts'
import { queueAuditEvent } from '../operation/operator-events.ts'
import {
  readSecret,
  requireTrust,
  secretFile,
  storeExists,
  storeFile,
} from '../store/open.ts'
import { reasonOf } from '../store/reasons.ts'
import { openRecords } from '../store/records.ts'
import { NAMING_KEY, type Seal } from '../store/seal.ts'
import type { Entry, Store } from '../store/store.ts'
import { Failure, type Invocation, type Values } from './command.ts'
import { openAt, openState, refuseMemory } from './open-store.ts'
import { hint, recordsAre, reportProgress } from './output.ts'

/** Records in flight, of some kB each. */
const CONCURRENCY = 100

/** `store reseal`: encrypts every record with the first of USHER_SECRET. */
export async function resealStore() {
  if (!readStoreSettings().secrets.length) {
    throw new Failure(
      'Set USHER_SECRET, or USHER_SECRET_FILE, to the new secret and the former one.',
    )
  }
  const { store, seal, audit } = await openState('refuse')
  const count = await resealAll(store, seal)
  await audit('store_resealed', { records: count })
  // A process with another first value goes on writing records that only that
  // one decrypts.
  const next =
    'If every process started with this USHER_SECRET, it needs only its first value now.'
  hint(`${recordsAre(count)} encrypted again. ${next}`)
}

/**
 * Encrypts all other records with the first secret, and returns their number.
 * Afterwards the other secrets decrypt nothing.
 */
export async function resealAll(store: Store, seal: Seal): Promise<number> {
  let [read, count] = [0, 0]
  for await (const scanned of store.scan()) {
    // Read again when another writer came in between.
    let entry: Entry | undefined = scanned
    while (entry?.value && !seal.isCurrent(entry.value)) {
      const { key, version, expires } = entry
      const value = seal.seal(key, seal.open(key, entry.value))
      if (await store.write({ key, value, version, expires })) count++
      entry = await store.get(key)
    }
    reportProgress('records read', ++read)
  }
  return count
}

/** `store copy --from STORE --to STORE`: while no node runs on either store. */
export async function copyToStore({ values }: Invocation) {
  const [from, to] = [readLocation(values, 'from'), readLocation(values, 'to')]
  if (from === to) throw new Failure('--from and --to name the same store.')
  if (!storeExists(from))
    throw new Failure(`--from: file ${storeFile(from)} not found.`)
  const source = await openAt('--from', from)
  // A source without an installation is refused before the file of the target
  // is made.
  await readNamingKey(source)
  const target = await openAt('--to', to)
  const records = await copyStore(source, target)
  const { secrets, file } = findSecret(from)
  // The copy is opened as its nodes will open it.
  const problem = secrets.length
    ? await openRecords(target, secrets)
        .then(copied => queueAuditEvent(copied, 'store_copied', { records }))
        .catch(error => `, but ${reasonOf(error)}`)
    : '; set USHER_SECRET or USHER_SECRET_FILE to have it checked as well'
  hint(`${recordsAre(records)} copied${problem ?? ''}.`)
  // A Redis URL may contain a password, and is not printed.
  const store =
    storeFile(to) === undefined
      ? 'USHER_STORE as --to was'
      : `USHER_STORE=${to}`
  const variable = file ? `USHER_SECRET_FILE=${file}` : 'the same USHER_SECRET'
  hint(
    `Next: start every node with ${store} and ${variable}, and none on --from.`,
  )
}

/**
 * Copies a store; no other process may write to either one. Repeats an
 * unfinished copy from the start. Returns the number of records, without
 * tombstones.
 */
export async function copyStore(from: Store, to: Store): Promise<number> {
  return fill(to, '--to', await readNamingKey(from), from.scan())
}

/**
 * Returns the value of the naming key. Throws a `Failure` for a store without
 * one.
 */
async function readNamingKey(from: Store): Promise<Uint8Array> {
  const entry = await from.get(NAMING_KEY)
  if (!entry?.value) throw new Failure('--from holds no installation.')
  return entry.value
}

/**
 * Fills an empty store. `name`: what the operator calls it. `value`: the naming
 * key, encrypted. Returns the number of records, without tombstones.
 */
export async function fill(
  to: Store,
  name: string,
  value: Uint8Array,
  entries: AsyncIterable<Entry>,
) {
  const found = await to.get(NAMING_KEY)
  if (found) {
    const which = textOf(found.value) === textOf(value) ? 'this' : 'another'
    throw new Failure(
      `${name} already holds ${which} installation; choose an empty store ` +
        '(another file, database or redis.key_prefix).',
    )
  }
  requireTrust(await to.check())
  await forEach(to.scan(), ({ key }) =>
    to.restore({ key, version: 1, expires: 0 }),
  )
  let records = 1
  await forEach(entries, async entry => {
    await to.restore(entry)
    if (entry.value) reportProgress('copied', ++records)
  })
  if (await to.write({ key: NAMING_KEY, value, version: 0 })) return records
  throw new Failure(
    `${name} became an installation meanwhile: Usher was started on it.`,
  )
}

/** Works on everything but the naming key, some at a time. */
const forEach = (
  entries: AsyncIterable<Entry>,
  work: (entry: Entry) => Promise<void>,
) =>
  Readable.from(entries)
    .filter(({ key }: Entry) => key !== NAMING_KEY)
    .forEach(work, { concurrency: CONCURRENCY })

/** Bytes as base64. */
export const textOf = (bytes?: Uint8Array) =>
  bytes && Buffer.from(bytes).toString('base64')

function readLocation(values: Values, option: string): string {
  const value = values[option]
  if (value === undefined)
    throw new Failure(`--${option} is missing: sqlite:PATH or redis://…`)
  const { success, data, error } = usherSchema.shape.store.safeParse(value)
  if (!success) throw new Failure(`--${option}: ${error.issues[0]?.message}`)
  refuseMemory(`--${option}`, data)
  return data
}

/**
 * Returns the secrets of the environment, or those in the file beside an
 * embedded store, with that file.
 */
export function findSecret(location: string): {
  secrets: Uint8Array[]
  file?: string
} {
  const { secrets } = readStoreSettings()
  const store = storeFile(location)
  const file = store && secretFile(store)
  if (secrets.length || !file || !existsSync(file)) return { secrets }
  return { secrets: [readSecret(file)], file }
}
