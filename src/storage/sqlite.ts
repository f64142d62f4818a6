// The embedded store: one SQLite file (WAL), which the server and the CLI may hold open together.
//
// Writes that arrive in one turn of the event loop are committed together, each promise resolving after
// the commit: one fsync serves them all, and no answer is given that a power cut could take back
// (synchronous=FULL). Reads run at once.

import type { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { checkFile, entryOf, openFile, prepare, type Row } from './sqlite-file.ts'
import {
  type Change,
  type Entry,
  now,
  requireOneSlot,
  type Store,
  StoreUnavailable,
  type Written,
} from './store.ts'

/** How long a write waits for another process that holds the file, and how often it tries again. */
const BUSY_TIMEOUT_MS = 800
const RETRY_MS = 1
/** The code of SQLite for a file that is locked. */
const SQLITE_BUSY = 5
const SWEEP_EVERY_MS = 10_000
/** Rows deleted in one step, while nothing else runs, and the pause until the next step. */
const SWEEP_ROWS = 1_000
const SWEEP_PAUSE_MS = 5
const SCAN_ROWS = 500
export class SqliteStore implements Store {
  #file: string
  #db: DatabaseSync
  #sql: ReturnType<typeof prepare>
  #batch: { run: () => unknown; settle: (error?: unknown, result?: unknown) => void }[] = []
  #sweeper: NodeJS.Timeout

  /** `file` is a path, made with its folders when missing, or `:memory:`. Throws for another format. */
  constructor(file: string) {
    this.#file = file
    this.#db = openFile(file, BUSY_TIMEOUT_MS)
    this.#sql = prepare(this.#db)
    this.#sweeper = setInterval(() => this.sweep().catch(() => {}), SWEEP_EVERY_MS).unref()
  }

  get(key: string) {
    return this.#read(() => this.#entry(key))
  }

  getMany(keys: string[]) {
    requireOneSlot(keys)
    return this.#read(() => keys.map(key => this.#entry(key)))
  }

  write(changes: Change[]) {
    requireOneSlot(changes.map(({ key }) => key))
    return this.#commit(() => this.#apply(changes))
  }

  list(index: string) {
    return this.#read(() => (this.#sql.list.all(index, now()) as Row[]).map(entryOf))
  }

  walk(index: string) {
    return this.#pages(last => this.#sql.walk.all(index, now(), last, SCAN_ROWS))
  }

  scan() {
    return this.#pages(last => this.#sql.scan.all(now(), last, SCAN_ROWS))
  }

  restore(entry: Entry) {
    const { key, expires, indexes = [] } = entry
    return this.#commit(() => {
      this.#sql.unindex.run(key)
      this.#sql.delete.run(key)
      if (expires !== undefined && expires <= now()) return
      this.#put(entry)
      for (const name of indexes) this.#sql.index.run(name, key, expires ?? null)
    })
  }

  /** Deletes everything that has expired, a few rows at a time; answers how many records. */
  async sweep(): Promise<number> {
    let total = 0
    for (;;) {
      const [entries, records] = await this.#commit(() => [
        Number(this.#sql.sweepEntries.run(now(), SWEEP_ROWS).changes),
        Number(this.#sql.sweepRecords.run(now(), SWEEP_ROWS).changes),
      ])
      total += records
      if (entries < SWEEP_ROWS && records < SWEEP_ROWS) return total
      await setTimeout(SWEEP_PAUSE_MS, undefined, { ref: false })
    }
  }

  async check() {
    return this.#file === ':memory:' ? [] : checkFile(this.#file)
  }

  async close() {
    clearInterval(this.#sweeper)
    while (this.#batch.length) await setTimeout(RETRY_MS)
    if (this.#db.isOpen) this.#db.close()
  }

  async *#pages(read: (last: string) => unknown[]): AsyncGenerator<Entry> {
    for (let last = ''; ; ) {
      const rows = (await this.#read(() => read(last))) as Row[]
      yield* rows.map(entryOf)
      if (rows.length < SCAN_ROWS) return
      last = rows.at(-1)?.key ?? ''
    }
  }

  #entry(key: string): Entry | undefined {
    const row = this.#sql.get.get(key, now()) as Row | undefined
    return row && entryOf(row)
  }

  #apply(changes: Change[]): Written {
    const standing = changes.map(({ key }) => this.#entry(key))
    const failed = changes.findIndex((change, i) => !isAllowed(change, standing[i]))
    if (failed !== -1) return { failed }
    for (const [i, change] of changes.entries()) this.#change(change, standing[i])
    return {}
  }

  #change(change: Change, before?: Entry) {
    const { key } = change
    const version = (before?.version ?? 0) + 1
    if ('tombstone' in change) {
      this.#sql.unindex.run(key)
      this.#put({ key, version, expires: change.tombstone })
    } else if ('value' in change) {
      if (before) this.#sql.reindex.run(change.expires ?? null, key)
      else this.#sql.unindex.run(key)
      for (const name of change.indexes ?? []) {
        this.#sql.index.run(name, key, change.expires ?? null)
      }
      this.#put({ ...change, version, consumed: change.consumed ?? before?.consumed })
    } else if (before) this.#put({ ...before, version, consumed: change.consumed })
  }

  #put({ key, value, version, consumed, expires }: Entry) {
    this.#sql.put.run(key, value ?? null, version, consumed ?? null, expires ?? null)
  }

  async #read<T>(run: () => T): Promise<T> {
    try {
      return run()
    } catch (cause) {
      throw new StoreUnavailable('the SQLite file could not be read', { cause })
    }
  }

  /** Runs with all that arrives in this turn; resolves after the commit. */
  #commit<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#batch.length === 0) setImmediate(() => this.#commitInTurn())
      this.#batch.push({
        run,
        settle: (error, result) => (error ? reject(error) : resolve(result as T)),
      })
    })
  }

  // While another process writes, this one goes on with other work, and its batch grows.
  #commitInTurn(until = performance.now() + BUSY_TIMEOUT_MS) {
    if (!this.#batch.length) return
    const problem = this.#begin()
    if (problem && isBusy(problem) && performance.now() < until) {
      setTimeout(RETRY_MS).then(() => this.#commitInTurn(until))
    } else this.#commitBatch(problem)
  }

  /** Waits for nobody; answers with the error, if any. */
  #begin(): unknown {
    try {
      this.#db.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE')
    } catch (problem) {
      return problem
    } finally {
      if (this.#db.isOpen) this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
    }
  }

  #commitBatch(problem?: unknown) {
    const batch = this.#batch
    this.#batch = []
    try {
      if (problem) throw problem
      const results = batch.map(({ run }) => run())
      this.#db.exec('COMMIT')
      for (const [i, { settle }] of batch.entries()) settle(undefined, results[i])
    } catch (cause) {
      try {
        if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec('ROLLBACK')
      } catch {
        // The transaction is lost either way; its writers are answered below.
      }
      const error = new StoreUnavailable('the SQLite file could not be written', { cause })
      for (const { settle } of batch) settle(error)
    }
  }
}

function isAllowed(change: Change, before?: Entry): boolean {
  const isRecord = before?.value !== undefined
  if ('version' in change && change.version !== undefined) {
    if (change.version !== (before?.version ?? 0)) return false
  } else if ('value' in change && before && !isRecord) return false
  if ('tombstone' in change) return isRecord
  if (change.consumed !== undefined && before?.consumed !== undefined) return false
  return 'value' in change || isRecord
}

const isBusy = (problem: unknown) =>
  problem instanceof Error && 'errcode' in problem && problem.errcode === SQLITE_BUSY
