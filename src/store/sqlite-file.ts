// The file of the embedded store: its tables, the statements on them, and
// whether it can be trusted.
//
//   records  key → value (NULL: tombstone), version, consumed, expires
//   entries  name of an index, key of a record; deleted together with the record

import { closeSync, mkdirSync, openSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { type Check, type Entry, ok, warning } from './store.ts'

/**
 * How long an operation waits for another process that has locked the file, and
 * the pause between tries.
 */
const BUSY_TIMEOUT_MS = 800
const RETRY_MS = 1
/** The lower byte of all of SQLite's codes for a file that is locked. */
const SQLITE_BUSY = 5
const MIN_FREE_BYTES = 256 * 2 ** 20
/**
 * Version of the tables, kept as `user_version` of the file. Raise it when they
 * change.
 */
const FORMAT = 3

/**
 * `synchronous`: a commit is on the disk when it returns. `cache_size`: 16 MiB
 * of pages, instead of 2. `mmap_size`: reads come from the page cache of the
 * system without a copy, up to 64 MiB of the file. The kernel counts them as
 * memory of the process. `wal_autocheckpoint`: a page that changes often is
 * copied to the file less often. The log has up to 32 MiB.
 */
const SETTINGS = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA cache_size = -16384;
  PRAGMA mmap_size = 67108864;
  PRAGMA wal_autocheckpoint = 8000;
`

/**
 * In a transaction: a process that opens the file meanwhile finds all of it, or
 * nothing.
 */
const SCHEMA = `
  BEGIN IMMEDIATE;
  CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, value BLOB, version INTEGER NOT NULL, consumed INTEGER, expires INTEGER
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS records_expires ON records (expires) WHERE expires IS NOT NULL;
  CREATE TABLE IF NOT EXISTS entries (
    name TEXT, key TEXT REFERENCES records ON DELETE CASCADE, PRIMARY KEY (name, key)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS entries_key ON entries (key);
  PRAGMA user_version = ${FORMAT};
  COMMIT;
`

/** A row of `records`, in a scan with the names of its indexes. */
export type Row = {
  [name in Exclude<keyof Entry, 'key' | 'version'>]: Entry[name] | null
} & {
  key: string
  version: number
  indexes?: string | null
}

/**
 * Opens a path, made with its folders when missing, or `:memory:`. Throws for
 * another format.
 */
export async function openFile(file: string): Promise<DatabaseSync> {
  if (file !== ':memory:') {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    closeSync(openSync(file, 'a', 0o600))
  }
  const db = new DatabaseSync(file)
  await unlessBusy(() => db.exec(SETTINGS))
  await unlessBusy(() => isNew(db) && db.exec(SCHEMA))
  return db
}

/** Repeats work that finds the file locked, without blocking the process. */
export async function unlessBusy<T>(work: () => T): Promise<T> {
  const until = performance.now() + BUSY_TIMEOUT_MS
  for (;;) {
    try {
      return work()
    } catch (problem) {
      const { errcode = 0 } = problem as { errcode?: number }
      if ((errcode & 0xff) !== SQLITE_BUSY || performance.now() >= until)
        throw problem
    }
    await setTimeout(RETRY_MS)
  }
}

/** Whether the file has no tables yet. Throws for a file with other tables. */
function isNew(db: DatabaseSync): boolean {
  if (!db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'records'").get())
    return true
  const { user_version } = db.prepare('PRAGMA user_version').get() ?? {}
  if (user_version === FORMAT) return false
  db.close()
  throw new Error(
    'it was written by another version of Usher, in a format that this one does not read; ' +
      'name another file, or move this one away',
  )
}

/** Every statement, prepared once. */
export function prepare(db: DatabaseSync) {
  const live = '(r.expires IS NULL OR r.expires > ?)'
  const select = 'SELECT r.key, value, version, consumed, expires'
  const indexes =
    "(SELECT group_concat(name, ' ') FROM entries e WHERE e.key = r.key) indexes"
  return {
    get: db.prepare(`${select} FROM records r WHERE key = ? AND ${live}`),
    put: db.prepare(`INSERT INTO records (key, value, version, consumed, expires)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value,
      version = excluded.version, consumed = excluded.consumed, expires = excluded.expires`),
    delete: db.prepare('DELETE FROM records WHERE key = ?'),
    index: db.prepare(
      'INSERT OR IGNORE INTO entries (name, key) VALUES (?, ?)',
    ),
    walk: db.prepare(`${select} FROM entries i JOIN records r ON r.key = i.key
      WHERE i.name = ? AND r.value IS NOT NULL AND ${live} AND i.key > ? ORDER BY i.key LIMIT ?`),
    count:
      db.prepare(`SELECT count(*) AS records FROM entries i JOIN records r ON r.key = i.key
      WHERE i.name = ? AND r.value IS NOT NULL AND ${live}`),
    scan: db.prepare(
      `${select}, ${indexes} FROM records r WHERE ${live} AND key > ? ORDER BY key LIMIT ?`,
    ),
    sweep: db.prepare(`DELETE FROM records WHERE key IN
      (SELECT key FROM records WHERE expires <= ? LIMIT ?)`),
  }
}

/** The entry in a row. */
export function entryOf({
  key,
  value,
  version,
  consumed,
  expires,
  indexes,
}: Row): Entry {
  return {
    key,
    value: value ?? undefined,
    version,
    consumed: consumed ?? undefined,
    expires: expires ?? undefined,
    indexes: indexes?.split(' '),
  }
}

/** Checks free space and permissions. */
export function checkFile(file: string): Check[] {
  const { bavail, bsize } = statfsSync(file)
  const mode = statSync(file).mode & 0o777
  const [free, space] = [
    bavail * bsize,
    `${Math.floor((bavail * bsize) / 2 ** 20)} MiB free`,
  ]
  return [
    free > MIN_FREE_BYTES
      ? ok('disk', space)
      : warning('disk', space, `make room on the disk of ${file}`),
    mode & 0o077
      ? warning('permissions', mode.toString(8), `chmod 600 ${file}`)
      : ok('permissions', mode.toString(8)),
  ]
}
