// The embedded store: one SQLite file (WAL), which the server and the CLI may
// hold open together.
//
// Writes that arrive in one turn of the event loop are committed together. Each
// promise resolves after the commit: one fsync serves them all, and a power cut
// takes nothing back (synchronous=FULL). Reads run at once; a walk or a scan
// pauses after each page.

import { setImmediate, setTimeout } from 'node:timers/promises'
import {
  checkFile,
  entryOf,
  openFile,
  prepare,
  type Row,
  unlessBusy,
} from './sqlite-file.ts'
import {
  type Change,
  type Entry,
  now,
  type Observer,
  type Store,
  StoreUnavailable,
} from './store.ts'

const SWEEP_EVERY_MS = 10_000
/**
 * Rows deleted in one step, while nothing else runs, and the pause until the
 * next step.
 */
const SWEEP_ROWS = 1_000
const SWEEP_PAUSE_MS = 5
const PAGE_ROWS = 500
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
  const sql = prepare(db)
  /** The writes of the next commit, and the promise of their results. */
  let writes: (() => unknown)[] = []
  let committed: Promise<unknown[]> | undefined
  let lastCommitMs = 0
  async function sweepAndNote(): Promise<void> {
    const [{ status }] = await Promise.allSettled([sweep()])
    observe?.('sweep', 0, status === 'rejected')
  }
  const sweeper = setInterval(sweepAndNote, SWEEP_EVERY_MS).unref()

  /** Deletes everything that has expired, a few rows at a time. */
  async function sweep(): Promise<void> {
    const step = () => sql.sweep.run(now(), SWEEP_ROWS).changes === SWEEP_ROWS
    while (await commit(step))
      await setTimeout(SWEEP_PAUSE_MS, undefined, { ref: false })
  }

  async function* pages(
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

  function find(key: string): Entry | undefined {
    const row = sql.get.get(key, now()) as Row | undefined
    return row && entryOf(row)
  }

  function apply(change: Change): boolean {
    const { key } = change
    const before = find(key)
    if (!isAllowed(change, before)) return false
    const version = (before?.version ?? 0) + 1
    // An expired record and a removed one leave no indexes.
    if (!before || 'tombstone' in change) sql.delete.run(key)
    if ('tombstone' in change) put({ key, version, expires: change.tombstone })
    else if ('value' in change) {
      put({ ...change, version, consumed: before?.consumed }, change.indexes)
    } else if (before) put({ ...before, version, consumed: change.consumed })
    return true
  }

  function put(
    { key, value, version, consumed, expires }: Entry,
    indexes: string[] = [],
  ) {
    sql.put.run(key, value ?? null, version, consumed ?? null, expires ?? null)
    for (const name of indexes) sql.index.run(name, key)
  }

  const access = <T>(done: 'read' | 'written', work: () => T): Promise<T> =>
    unlessBusy(work).catch((cause: unknown) => {
      throw new StoreUnavailable(`the SQLite file could not be ${done}`, {
        cause,
      })
    })

  /**
   * Runs with everything that arrives in this turn; resolves after the commit.
   */
  async function commit<T>(run: () => T): Promise<T> {
    const position = writes.push(run) - 1
    committed ??= commitAll()
    const results = await committed
    return results[position] as T
  }

  /**
   * While another process writes, this one does other work, and more writes
   * join the commit.
   */
  async function commitAll(): Promise<unknown[]> {
    try {
      await (lastCommitMs < SLOW_COMMIT_MS
        ? setImmediate()
        : setTimeout(lastCommitMs / 5))
      return await access('written', () => {
        db.exec('BEGIN IMMEDIATE')
        const began = performance.now()
        try {
          const results = writes.map(run => run())
          db.exec('COMMIT')
          lastCommitMs = performance.now() - began
          return results
        } finally {
          // SQLite has ended it itself after some errors, as that of a full
          // disk.
          if (db.isTransaction) db.exec('ROLLBACK')
        }
      })
    } finally {
      writes = []
      committed = undefined
    }
  }

  return {
    get: (key: string) => access('read', () => find(key)),
    getMany: (keys: string[]) => access('read', () => keys.map(find)),
    write: (change: Change) => commit(() => apply(change)),
    walk: (index: string) =>
      pages(last => sql.walk.all(index, now(), last, PAGE_ROWS)),
    count: (index: string) =>
      access('read', () => Number(sql.count.get(index, now())?.records ?? 0)),
    scan: () => pages(last => sql.scan.all(now(), last, PAGE_ROWS)),

    restore(entry: Entry) {
      const { key, expires = Number.POSITIVE_INFINITY, indexes } = entry
      return commit(() => {
        sql.delete.run(key)
        if (expires > now()) put(entry, indexes)
      })
    },

    sweep,
    check: async () => (file === ':memory:' ? [] : checkFile(file)),

    async close() {
      clearInterval(sweeper)
      await committed?.catch(() => {})
      if (db.isOpen) db.close()
    },
  } satisfies Store & { sweep(): Promise<void> }
}

function isAllowed(change: Change, before?: Entry): boolean {
  const isRecord = before?.value !== undefined
  if ('consumed' in change) return isRecord && before.consumed === undefined
  const { version = before?.version } = change
  return version === (before?.version ?? 0) && ('value' in change || isRecord)
}
