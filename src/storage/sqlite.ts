// The embedded store: one SQLite file (WAL), which the server and the CLI may hold open together.
//
//   records  key → value (NULL: tombstone), version, consumed, expires
//   entries  index, key → expires
//
// Writes that arrive in one turn of the event loop are committed together, each promise resolving
// after the commit: one fsync serves them all, and an answer is never given for what a power cut
// could take back (synchronous=FULL). Reads run at once.

import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { checkFile } from './sqlite/checks.ts'
import { makeTables, prepare } from './sqlite/statements.ts'
import {
  type Entry,
  now,
  type Put,
  type PutOptions,
  type Snapshot,
  type Store,
  StoreUnavailable,
} from './store.ts'

/** How long a write waits for another process that holds the file, and how often it looks: milliseconds. */
const BUSY_TIMEOUT = 800
const LOOK_AGAIN = 1
/** What SQLite calls a file that is locked. */
const BUSY = 5
const SWEEP_INTERVAL = 60_000
const SWEEP_ROWS = 5_000
const SCAN_ROWS = 500

type Row = { key: string; value: Uint8Array | null; version: number; consumed: number | null }
type WholeRow = Row & { expires: number | null; indexes: string | null }

export class SqliteStore implements Store {
  #file: string
  #db: DatabaseSync
  #sql: ReturnType<typeof prepare>
  #batch: { run: () => unknown; settle: (error?: unknown, result?: unknown) => void }[] = []
  #sweeper: NodeJS.Timeout

  /** `file` is a path, made with its folders when missing, or `:memory:`. */
  constructor(file: string) {
    if (file !== ':memory:') {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      closeSync(openSync(file, 'a', 0o600))
    }
    this.#file = file
    this.#db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT })
    makeTables(this.#db)
    this.#sql = prepare(this.#db)
    this.#sweeper = setInterval(() => this.sweep().catch(() => {}), SWEEP_INTERVAL).unref()
  }

  get(key: string) {
    return this.#read(() => this.#entry(key))
  }

  getMany(keys: string[]) {
    return this.#read(() => keys.map(key => this.#entry(key)))
  }

  list(index: string) {
    return this.#read(() => (this.#sql.list.all(index, now()) as Row[]).map(entry))
  }

  async *walk(index: string) {
    const read = (last: string) => this.#sql.walk.all(index, now(), last, SCAN_ROWS) as Row[]
    for await (const row of this.#pages(read)) yield entry(row)
  }

  put(key: string, value: Uint8Array, options: PutOptions) {
    return this.#write(() => this.#put({ ...options, key, value }))
  }

  putEach(puts: Put[]) {
    return this.#write(() => {
      const refused = puts.findIndex(put => !this.#put(put))
      return refused === -1 ? puts.length : refused
    })
  }

  #put({ key, value, expires, version, consumed, indexes = [] }: Put): boolean {
    const current = this.#row(key)
    const allowed =
      version === undefined ? current?.value !== null : (current?.version ?? 0) === version
    if (!allowed) return false
    if (current) this.#sql.reindex.run(expires ?? null, key)
    else this.#sql.unindex.run(key)
    for (const name of indexes) this.#sql.index.run(name, key, expires ?? null)
    this.#sql.put.run(
      key,
      value,
      (current?.version ?? 0) + 1,
      consumed ?? current?.consumed ?? null,
      expires ?? null,
    )
    return true
  }

  consume(key: string, at: number) {
    return this.#write(() => this.#sql.consume.run(at, key, now()).changes === 1)
  }

  remove(key: string, tombstone: number, version?: number) {
    return this.#write(() => this.#remove(key, tombstone, version))
  }

  removeEach(keys: string[], tombstone: number) {
    return this.#write(() => keys.filter(key => this.#remove(key, tombstone)).length)
  }

  #remove(key: string, tombstone: number, version?: number): boolean {
    const current = this.#row(key)
    if (!current?.value || (version ?? current.version) !== current.version) return false
    this.#sql.unindex.run(key)
    this.#sql.remove.run(tombstone, key)
    return true
  }

  async *scan() {
    const read = (last: string) => this.#sql.scan.all(last, now(), SCAN_ROWS) as WholeRow[]
    for await (const row of this.#pages(read)) yield snapshot(row)
  }

  snapshot(key: string) {
    return this.#read(() => {
      const row = this.#sql.snapshot.get(key, now()) as WholeRow | undefined
      return row && snapshot(row)
    })
  }

  restore({ key, value, version, consumed, expires, indexes }: Snapshot) {
    return this.#write(() => {
      this.#sql.unindex.run(key)
      for (const name of indexes) this.#sql.index.run(name, key, expires ?? null)
      this.#sql.put.run(key, value ?? null, version, consumed ?? null, expires ?? null)
    })
  }

  /** Deletes what has expired, a bounded number of rows at a time. */
  sweep() {
    return this.#write(() => {
      this.#sql.sweepEntries.run(now(), SWEEP_ROWS)
      return Number(this.#sql.sweepRecords.run(now(), SWEEP_ROWS).changes)
    })
  }

  async check() {
    if (this.#file === ':memory:') return []
    return checkFile(this.#file)
  }

  async close() {
    clearInterval(this.#sweeper)
    while (this.#batch.length) await setTimeout(LOOK_AGAIN)
    if (this.#db.isOpen) this.#db.close()
  }

  async *#pages<R extends Row>(read: (last: string) => R[]) {
    for (let last = ''; ; ) {
      const rows = await this.#read(() => read(last))
      yield* rows
      if (rows.length < SCAN_ROWS) return
      last = rows.at(-1)?.key ?? ''
    }
  }

  #row(key: string) {
    return this.#sql.get.get(key, now()) as Row | undefined
  }

  #entry(key: string): Entry | undefined {
    const row = this.#row(key)
    return row && entry(row)
  }

  // A read behind a write of the same turn waits for that write's commit; alone it runs at once.
  async #read<T>(run: () => T): Promise<T> {
    if (this.#batch.length) return this.#write(run)
    try {
      return run()
    } catch (cause) {
      throw new StoreUnavailable('the SQLite file could not be read', { cause })
    }
  }

  #write<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#batch.length === 0) setImmediate(() => this.#commitInTurn())
      this.#batch.push({
        run,
        settle: (error, result) => (error ? reject(error) : resolve(result as T)),
      })
    })
  }

  // While another process writes, this one goes on with what else there is, and its batch grows.
  #commitInTurn(until = performance.now() + BUSY_TIMEOUT) {
    if (!this.#batch.length) return
    const problem = this.#begin()
    const isLocked = problem !== undefined && Object(problem).errcode === BUSY
    if (isLocked && performance.now() < until) {
      setTimeout(LOOK_AGAIN).then(() => this.#commitInTurn(until))
    } else this.#commit(problem)
  }

  /** Waits for nobody; answers with what is in the way. */
  #begin(): unknown {
    try {
      this.#db.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE')
    } catch (problem) {
      return problem
    } finally {
      if (this.#db.isOpen) this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT}`)
    }
  }

  #commit(problem?: unknown) {
    const batch = this.#batch
    this.#batch = []
    try {
      if (problem) throw problem
      const results = batch.map(({ run }) => run())
      this.#db.exec('COMMIT')
      batch.forEach(({ settle }, i) => {
        settle(undefined, results[i])
      })
    } catch (cause) {
      try {
        if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec('ROLLBACK')
      } catch {
        // The transaction is lost either way; those who wait for it are told so.
      }
      const error = new StoreUnavailable('the SQLite file could not be written', { cause })
      for (const { settle } of batch) settle(error)
    }
  }
}

function entry({ key, value, version, consumed }: Row): Entry {
  return { key, version, value: value ?? undefined, consumed: consumed ?? undefined }
}

function snapshot(row: WholeRow): Snapshot {
  return {
    ...entry(row),
    expires: row.expires ?? undefined,
    indexes: row.indexes?.split(' ') ?? [],
  }
}
