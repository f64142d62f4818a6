// The embedded store: one SQLite file (WAL), which the server and the CLI may
// hold open together.
//
//   records        one row for each `Entry` of store.ts, a record or a tombstone (value NULL)
//   index_members  one row for each index of a record: name, key. Deleted together with the record
//
// Writes that arrive in one turn of the event loop are committed together. Each
// promise resolves after the commit: one fsync serves them all, and a power cut
// takes nothing back (synchronous=FULL). Reads run at once; a walk or a scan
// pauses after each page.

import { closeSync, mkdirSync, openSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate, setTimeout } from 'node:timers/promises'
import {
  type Change,
  type Check,
  type Entry,
  now,
  type Observer,
  ok,
  type Store,
  StoreUnavailable,
  warning,
} from './store.ts'

/**
 * How long an operation waits for another process that has locked the file, and
 * the pause between tries.
 */
const BUSY_TIMEOUT_MS = 800
const RETRY_MS = 1
/** The lower byte of all of SQLite's codes for a file that is locked. */
const SQLITE_BUSY = 5
const MIN_FREE_BYTES = 256 * 2 ** 20
const SWEEP_EVERY_MS = 10_000
/**
 * Rows deleted in one step, while nothing else runs, and the pause until the
 * next step. In a file of a million accounts 1,000 rows take 30 ms.
 */
const SWEEP_ROWS = 200
const SWEEP_PAUSE_MS = 5
/** Rows of a walk read in one turn of the event loop: 500 take 20 ms there. */
const PAGE_ROWS = 200
/**
 * From this duration on, a process pauses between commits: else it would lock
 * out all others.
 */
const SLOW_COMMIT_MS = 5

/**
 * Opens a path, made with its folders when missing, or `:memory:`. Throws for
 * another format.
 */
export async function openSqliteStore(file: string, observe?: Observer) {
  const db = await openFile(file)
  const sql = prepareStatements(db)
  const { commit, close } = createGroupCommit(db)

  async function* readPages(
    readPage: (last: string) => unknown[],
  ): AsyncGenerator<Entry> {
    for (let last = ''; ; ) {
      const rows = (await access('read', () => readPage(last))) as Row[]
      yield* rows.map(entryOf)
      if (rows.length < PAGE_ROWS) return
      last = rows.at(-1)?.key ?? ''
      // Requests are answered between two pages: nothing else in a walk waits.
      await setImmediate()
    }
  }

  /** Deletes everything that has expired, a few rows at a time. */
  async function sweep(): Promise<void> {
    const step = () => sql.sweep.run(now(), SWEEP_ROWS).changes === SWEEP_ROWS
    while (await commit(step))
      await setTimeout(SWEEP_PAUSE_MS, undefined, { ref: false })
  }

  let isSweeping = false
  async function sweepAndNote(): Promise<void> {
    if (isSweeping) return
    isSweeping = true
    const [{ status }] = await Promise.allSettled([sweep()])
    isSweeping = false
    observe?.('sweep', 0, status === 'rejected')
  }
  const sweeper = setInterval(sweepAndNote, SWEEP_EVERY_MS).unref()

  return {
    get: (key: string) => access('read', () => readEntry(sql, key)),
    getMany: (keys: string[]) => access('read', () => readEntries(sql, keys)),
    write: (change: Change) => commit(() => applyChange(sql, change)),
    walk: (index: string) =>
      readPages(last => sql.walk.all(index, now(), last, PAGE_ROWS)),
    count: (index: string) =>
      access('read', () => Number(sql.count.get(index, now())?.records ?? 0)),
    scan: () => readPages(last => sql.scan.all(now(), last, PAGE_ROWS)),
    restore: (entry: Entry) => commit(() => replaceEntry(sql, entry)),
    sweep,
    check: async () => (file === ':memory:' ? [] : checkFile(file)),

    async close() {
      clearInterval(sweeper)
      await close()
    },
  } satisfies Store & { sweep(): Promise<void> }
}

/** Makes a change, within a transaction. Returns false if it is refused. */
function applyChange(sql: Statements, change: Change): boolean {
  const { key } = change
  const before = readEntry(sql, key)
  if (!isAccepted(change, before)) return false
  const version = (before?.version ?? 0) + 1
  // An expired record and a removed one leave no indexes.
  if (!before || 'tombstone' in change) sql.delete.run(key)
  if ('tombstone' in change) {
    writeEntry(sql, { key, version, expires: change.tombstone })
  } else if ('value' in change) {
    const { value, expires, indexes } = change
    const { consumed } = before ?? {}
    writeEntry(sql, { key, value, version, consumed, expires, indexes })
  } else if (before) {
    writeEntry(sql, { ...before, version, consumed: change.consumed })
  }
  return true
}

/** The table of refused changes in store.ts. */
function isAccepted(change: Change, before?: Entry): boolean {
  const isRecord = before?.value !== undefined
  if ('consumed' in change) return isRecord && before.consumed === undefined
  const { version = before?.version } = change
  return version === (before?.version ?? 0) && ('value' in change || isRecord)
}

function replaceEntry(sql: Statements, entry: Entry): void {
  sql.delete.run(entry.key)
  const { expires = Number.POSITIVE_INFINITY } = entry
  if (expires > now()) writeEntry(sql, entry)
}

function readEntry(sql: Statements, key: string): Entry | undefined {
  const row = sql.get.get(key, now()) as Row | undefined
  return row && entryOf(row)
}

/**
 * Reads entries by one statement. In a long list, one statement for each key
 * takes twice the time.
 */
function readEntries(sql: Statements, keys: string[]): (Entry | undefined)[] {
  const rows: unknown[] = sql.getMany.all(JSON.stringify(keys), now())
  const byKey = new Map((rows as Row[]).map(row => [row.key, row]))
  return keys.map(key => {
    const row = byKey.get(key)
    return row && entryOf(row)
  })
}

/** Adds `indexes` to those of the record. */
function writeEntry(sql: Statements, entry: Entry): void {
  const { key, value, version, consumed, expires, indexes = [] } = entry
  sql.put.run(key, value ?? null, version, consumed ?? null, expires ?? null)
  for (const name of indexes) sql.index.run(name, key)
}

/** A row of `records`. */
interface Row {
  key: string
  value: Uint8Array | null
  version: number
  consumed: number | null
  expires: number | null
  /** In a scan: the names of the indexes, with spaces between. */
  indexes?: string | null
}

/** The entry in a row. */
function entryOf(row: Row): Entry {
  return {
    key: row.key,
    value: row.value ?? undefined,
    version: row.version,
    consumed: row.consumed ?? undefined,
    expires: row.expires ?? undefined,
    indexes: row.indexes?.split(' '),
  }
}

/**
 * Returns a function that runs work in a transaction, together with everything
 * that arrives in the same turn; it resolves after the commit.
 */
function createGroupCommit(db: DatabaseSync) {
  /** The work of the next commit, and the promise of its results. */
  let waiting: (() => unknown)[] = []
  let committed: Promise<unknown[]> | undefined
  let lastCommitMs = 0

  async function commit<T>(work: () => T): Promise<T> {
    const position = waiting.push(work) - 1
    committed ??= commitAll()
    const results = await committed
    return results[position] as T
  }

  async function commitAll(): Promise<unknown[]> {
    try {
      // While another process writes, this one does other work, and more
      // writes join the commit.
      await (lastCommitMs < SLOW_COMMIT_MS
        ? setImmediate()
        : setTimeout(lastCommitMs / 5))
      return await access('written', runTransaction)
    } catch (error) {
      // Writes that joined meanwhile fail with it.
      waiting = []
      committed = undefined
      throw error
    }
  }

  function runTransaction(): unknown[] {
    db.exec('BEGIN IMMEDIATE')
    const began = performance.now()
    try {
      const results = waiting.map(work => work())
      db.exec('COMMIT')
      // In the same step as COMMIT: a write that arrived between them would join
      // a batch that has run, and be lost.
      waiting = []
      committed = undefined
      lastCommitMs = performance.now() - began
      return results
    } finally {
      // SQLite has ended it itself after some errors, as that of a full disk.
      if (db.isTransaction) db.exec('ROLLBACK')
    }
  }

  /** Closes the file after the commit in progress. May be called again. */
  async function close(): Promise<void> {
    await committed?.catch(() => {})
    if (db.isOpen) db.close()
  }

  return { commit, close }
}

function access<T>(done: 'read' | 'written', work: () => T): Promise<T> {
  return unlessBusy(work).catch((cause: unknown) => {
    throw new StoreUnavailable(`the SQLite file could not be ${done}`, {
      cause,
    })
  })
}

/** Repeats work that finds the file locked, without blocking the process. */
async function unlessBusy<T>(work: () => T): Promise<T> {
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

/**
 * Version of the tables, kept as `user_version` of the file. Raise it when they
 * change.
 */
const FORMAT = 4

/**
 * `synchronous`: a commit is on the disk when it returns. `cache_size`: 16 MiB
 * of pages, instead of 2. `mmap_size`: reads come from the page cache of the
 * system without a copy, up to 64 MiB of the file. The kernel counts them as
 * memory of the process. `wal_autocheckpoint`: a page that changes often is
 * copied to the file less often. The log has up to 8 MiB: the commit that
 * copies it to the file keeps the process for 25 ms, and with 32 MiB for 95.
 */
const SETTINGS = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA cache_size = -16384;
  PRAGMA mmap_size = 67108864;
  PRAGMA wal_autocheckpoint = 2000;
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
  CREATE TABLE IF NOT EXISTS index_members (
    name TEXT, key TEXT REFERENCES records ON DELETE CASCADE, PRIMARY KEY (name, key)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS index_members_key ON index_members (key);
  PRAGMA user_version = ${FORMAT};
  COMMIT;
`

async function openFile(file: string): Promise<DatabaseSync> {
  if (file !== ':memory:') {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    closeSync(openSync(file, 'a', 0o600))
  }
  const db = new DatabaseSync(file)
  await unlessBusy(() => db.exec(SETTINGS))
  await unlessBusy(() => hasNoTables(db) && db.exec(SCHEMA))
  return db
}

/** Whether the file has no tables yet. Throws for a file with other tables. */
function hasNoTables(db: DatabaseSync): boolean {
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

type Statements = ReturnType<typeof prepareStatements>

/** Every statement, prepared once. */
function prepareStatements(db: DatabaseSync) {
  const live = '(r.expires IS NULL OR r.expires > ?)'
  const select = 'SELECT r.key, r.value, version, consumed, expires'
  const indexes =
    "(SELECT group_concat(name, ' ') FROM index_members m WHERE m.key = r.key) indexes"
  return {
    get: db.prepare(`${select} FROM records r WHERE key = ? AND ${live}`),
    getMany: db.prepare(`${select} FROM json_each(?) wanted
      CROSS JOIN records r ON r.key = wanted.value WHERE ${live}`),
    put: db.prepare(`INSERT INTO records (key, value, version, consumed, expires)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value,
      version = excluded.version, consumed = excluded.consumed, expires = excluded.expires`),
    delete: db.prepare('DELETE FROM records WHERE key = ?'),
    index: db.prepare(
      'INSERT OR IGNORE INTO index_members (name, key) VALUES (?, ?)',
    ),
    walk: db.prepare(`${select} FROM index_members m JOIN records r ON r.key = m.key
      WHERE m.name = ? AND r.value IS NOT NULL AND ${live} AND m.key > ? ORDER BY m.key LIMIT ?`),
    count:
      db.prepare(`SELECT count(*) AS records FROM index_members m JOIN records r ON r.key = m.key
      WHERE m.name = ? AND r.value IS NOT NULL AND ${live}`),
    scan: db.prepare(
      `${select}, ${indexes} FROM records r WHERE ${live} AND key > ? ORDER BY key LIMIT ?`,
    ),
    sweep: db.prepare(`DELETE FROM records WHERE key IN
      (SELECT key FROM records WHERE expires <= ? LIMIT ?)`),
  }
}

/** Checks free space and permissions. */
function checkFile(file: string): Check[] {
  const { bavail, bsize } = statfsSync(file)
  const freeBytes = bavail * bsize
  const space = `${Math.floor(freeBytes / 2 ** 20)} MiB free`
  const mode = statSync(file).mode & 0o777
  return [
    freeBytes > MIN_FREE_BYTES
      ? ok('disk', space)
      : warning('disk', space, `make room on the disk of ${file}`),
    mode & 0o077
      ? warning('permissions', mode.toString(8), `chmod 600 ${file}`)
      : ok('permissions', mode.toString(8)),
  ]
}
