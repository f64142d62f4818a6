// `usher store backup` and `usher store restore`. A backup has no tombstones,
// and only records whose kind is declared with `{ backup: true }`
// (store/records.ts). Old copies of others would make a used code or
// invitation, an ended session, a rotated token or a retired key valid again,
// or repeat a notification. A new kind is not in backups, until it is known to
// be safe.
//
// A backup file is text, one JSON value a line: a head, the records, and how
// many those are.

import { createWriteStream, existsSync, statSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readStoreSettings } from '../config/load.ts'
import { type Factors, restored } from '../features/factors/factors.ts'
import { openRecord, sealRecord } from '../store/records.ts'
import { createSeal, NAMING_KEY, type Seal } from '../store/seal.ts'
import type { Entry, Store } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import { Failure, type Invocation } from './command.ts'
import { openAt, openState } from './open-store.ts'
import { hint, recordsAre } from './output.ts'
import { fill, findSecret, textOf } from './store.ts'

const BACKUP_FORMAT = 2
const WITHOUT =
  'Sessions, codes, tokens, grants and replay records are not part of a backup, nor are invitations and ' +
  'signing keys, because an old copy would make used ones valid again: users sign in again, and ' +
  'applications request new tokens. The next start makes new signing keys.'
const REVIVED = `All else is as on the day of the backup: passwords (also temporary ones that were used), consents,
links to upstream issuers, second factors, accounts and clients that were disabled or removed since. End them again:
accounts password, accounts disable, accounts unlink, accounts factors, grants withdraw, clients remove.
Recovery codes are not valid any more: users make new ones.
After a leak of a key that signs now: keys rotate --now, then keys retire KID.`

/** `store backup FILE [--overwrite]`: works while the service runs. */
export async function writeBackup({ flags, args: [file = ''] }: Invocation) {
  requireWritable(file)
  const { store, seal } = await openState('refuse')
  const backup = new Backup(store, seal)
  const partial = `${file}.partial`
  try {
    // A link that another user has put there is removed, and never followed.
    await rm(partial, { force: true })
    const options = { mode: 0o600, flags: 'wx', flush: true }
    await pipeline(backup.lines(), createWriteStream(partial, options))
    await backup.requireIdentity()
    if (!flags.overwrite) await requireReplaceable(file, backup.names, seal)
    await rename(partial, file)
  } finally {
    await rm(partial, { force: true })
  }
  const count = recordsAre(backup.names.size)
  hint(
    `${count} in ${file}, encrypted with USHER_SECRET: keep that too.\n${WITHOUT}`,
  )
  if (backup.damaged)
    throw new Failure(
      `Records that USHER_SECRET cannot decrypt: ${backup.damaged}, left out.`,
    )
}

/** Throws a `Failure` for a path at which no file can be written. */
function requireWritable(file: string): void {
  if (!existsSync(dirname(file)))
    throw new Failure(`Folder ${dirname(file)} not found.`)
  // A device or a pipe would be replaced by a file.
  if (existsSync(file) && !statSync(file).isFile())
    throw new Failure(`${file} is not a file.`)
}

/** The records of a store that a backup has, and their names once written. */
class Backup {
  readonly names = new Set<string>()
  /** The number of records that no secret decrypts. */
  damaged = 0
  readonly #store: Store
  readonly #seal: Seal

  constructor(store: Store, seal: Seal) {
    this.#store = store
    this.#seal = seal
  }

  /** Yields the lines of the file. */
  async *lines(): AsyncGenerator<string> {
    yield lineOf({ usher_backup: BACKUP_FORMAT, at: new Date().toISOString() })
    for await (const entry of this.#store.scan()) {
      const name = nameInBackup(entry)
      if (!entry.value || this.names.has(name)) continue
      const isPart = isBackedUp(entry, this.#seal)
      if (isPart === undefined) this.damaged++
      if (!isPart) continue
      this.names.add(name)
      yield lineOf({ ...entry, value: textOf(entry.value) })
    }
    yield lineOf({ records: this.names.size })
  }

  /**
   * Throws a `Failure` if the store was emptied meanwhile: it has lost its
   * identity.
   */
  async requireIdentity(): Promise<void> {
    const identity = await this.#store.get(NAMING_KEY)
    if (identity && this.names.has(nameInBackup(identity))) return
    throw new Failure('USHER_STORE became another installation meanwhile.')
  }
}

/**
 * Throws a `Failure` for a file that is no backup, one of another installation,
 * or one of more records.
 */
async function requireReplaceable(
  file: string,
  names: Set<string>,
  seal: Seal,
) {
  if (!existsSync(file) || statSync(file).size === 0) return
  const parts = Readable.from(entriesOf(file)).filter(
    entry => isBackedUp(entry, seal) !== false,
  )
  const before: Entry[] | undefined = await parts
    .toArray()
    .catch(() => undefined)
  const problem = replacementProblem(before, names)
  if (problem)
    throw new Failure(`${file} ${problem}. To replace it: --overwrite`)
}

/**
 * Returns why a backup must not replace the records `before`; undefined if it
 * may. `names`: those of the backup.
 */
function replacementProblem(
  before: Entry[] | undefined,
  names: Set<string>,
): string | undefined {
  if (!before) return 'is no backup of Usher, or not all of one'
  const isSame = before.some(entry => names.has(nameInBackup(entry)))
  if (!isSame) return 'is a backup of another installation'
  if (before.length <= names.size) return undefined
  return `has more records: ${before.length}, and the new backup ${names.size}`
}

/**
 * A name that two backups have in common only if they are of the same
 * installation.
 */
const nameInBackup = ({ key, value }: Pick<Entry, 'key' | 'value'>) =>
  key === NAMING_KEY ? String(textOf(value)) : key

/**
 * Whether a backup has the record. Undefined for one that no secret decrypts.
 */
function isBackedUp(entry: Entry, seal: Seal): boolean | undefined {
  const record = openRecord(seal, entry)
  return record && (entry.key === NAMING_KEY || record.isInBackup)
}

const lineOf = (value: object) => `${JSON.stringify(value)}\n`

/** `store restore FILE`: fills an empty store, while no node runs on it. */
export async function restoreBackup({ args: [file = ''] }: Invocation) {
  if (!existsSync(file)) throw new Failure(`File ${file} not found.`)
  const { store: location } = readStoreSettings()
  const { secrets } = findSecret(location)
  if (!secrets.length)
    throw new Failure(
      'Set USHER_SECRET, or USHER_SECRET_FILE, to the secret of the store.',
    )
  const seal = createSeal(secrets)
  const namingKey = await requireWhole(file, seal)
  if (!namingKey) throw new Failure(`${file} holds no installation.`)
  const store = await openAt('USHER_STORE', location)
  // A backup of an earlier version has other records as well.
  const entries = Readable.from(entriesOf(file)).filter(
    entry => isBackedUp(entry, seal) === true,
  )
  const count = await fill(
    store,
    'USHER_STORE',
    namingKey,
    entries.map(withoutUsed(seal)),
  )
  hint(`${recordsAre(count)} restored.\n${WITHOUT}\n${REVIVED}`)
}

/**
 * Reads all of a backup, before anything is written. Returns its naming key.
 * Throws a `Failure` that names the first line that is damaged.
 */
async function requireWhole(
  file: string,
  seal: Seal,
): Promise<Uint8Array | undefined> {
  let namingKey: Uint8Array | undefined
  let line = 1
  let opened = 0
  let damaged: { line: number; error: unknown } | undefined
  for await (const { key, value } of entriesOf(file)) {
    line++
    if (key === NAMING_KEY) namingKey = value
    try {
      if (value) seal.open(key, value)
      opened++
    } catch (error) {
      damaged ??= { line, error }
    }
  }
  if (!damaged) return namingKey
  // No line at all: it is another secret.
  if (!opened) throw damaged.error
  throw new Failure(
    `${file}: ${damagedLine(damaged.line)}, or another USHER_SECRET encrypted it.`,
  )
}

const damagedLine = (line: number) =>
  `line ${line} is damaged: this is not all of the backup. Nothing was written`

const withoutUsed = (seal: Seal) => (entry: Entry) => {
  const record = openRecord(seal, entry)
  if (record?.kind !== 'Factors') return entry
  const value = restored(record.value as Factors)
  return { ...entry, value: sealRecord(seal, entry.key, { ...record, value }) }
}

/** Base64, as `lineOf` writes it. */
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The records of a backup. Throws a `Failure` where it is not whole. */
async function* entriesOf(file: string): AsyncGenerator<Entry> {
  const none = `${file} is no backup of Usher, or not all of one.`
  if (!statSync(file).isFile()) throw new Failure(none)
  let line = 0
  let count = 0
  /** The number of records, as the last line has it. */
  let end: number | undefined
  for await (const text of (await open(file)).readLines()) {
    line++
    const part = mapOf(readJson(text))
    if (line === 1) {
      if (part.usher_backup !== BACKUP_FORMAT) throw new Failure(none)
      continue
    }
    if (end !== undefined) throw new Failure(`${file}: ${damagedLine(line)}.`)
    if (Number.isInteger(part.records)) {
      end = Number(part.records)
      continue
    }
    const entry = readEntry(part)
    if (!entry) throw new Failure(`${file}: ${damagedLine(line)}.`)
    count++
    yield entry
  }
  if (end !== count) throw new Failure(none)
}

/** Returns the record of a line; undefined for another line. */
function readEntry({
  key,
  value,
  version,
  ...rest
}: Record<string, unknown>): Entry | undefined {
  const isRecord =
    typeof key === 'string' && typeof value === 'string' && BASE64.test(value)
  if (!isRecord || !Number.isInteger(version)) return undefined
  const bytes = Buffer.from(value, 'base64')
  return { ...rest, key, value: bytes, version: Number(version) }
}
