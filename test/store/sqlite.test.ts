// The embedded store: the suites of every store, and tests of SQLite only.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { openStore as openLocation } from '../../src/store/open.ts'
import { reasonOf } from '../../src/store/reasons.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/folder.ts'
import { consume, list, put, remove } from './operations.ts'
import { raceSuite } from './race-suite.ts'
import { ACTS, race } from './racer.ts'
import { bytes, fresh, now, storeSuite, text } from './store-suite.ts'

const ROOT = join(import.meta.dirname, '../..')
/**
 * Steps that read no more rows than they return. The table of tables has five rows. `wanted`: the keys that a
 * statement gets.
 */
const SEARCH =
  /^(SEARCH |LIST SUBQUERY|CORRELATED SCALAR SUBQUERY|SCAN sqlite_schema$|SCAN wanted VIRTUAL TABLE)/
const folder = temporaryFolder()
const newFile = () => join(folder, `${fresh()}.db`)
const opened: { close(): unknown }[] = []
/** Registers a handle that is closed after the test. */
function track<T extends { close(): unknown }>(handle: T): T {
  opened.push(handle)
  return handle
}
const STORE_MODULE = new URL('../../src/store/sqlite.ts', import.meta.url).href
const openStore = async (file = newFile()) => track(await openSqliteStore(file))
const openRaw = (file: string) => track(new DatabaseSync(file))

afterEach(async () => {
  vi.useRealTimers()
  for (const handle of opened.splice(0)) {
    if (!(handle instanceof DatabaseSync) || handle.isOpen) await handle.close()
  }
})

storeSuite('in a file', async () => openSqliteStore(newFile()))
raceSuite('two handles of one file', async () => {
  const file = newFile()
  return [await openSqliteStore(file), await openSqliteStore(file)]
})

/** Every operation of a store. */
const operations: [string, (store: Store) => Promise<unknown>][] = [
  ['get', store => store.get('key')],
  ['list', store => list(store, 'index')],
  ['scan', store => Array.fromAsync(store.scan())],
  ['put', store => put(store, 'key', bytes('x'), {})],
  ['consume', store => consume(store, 'key', now())],
  ['remove', store => remove(store, 'key', now() + 60)],
]

test('a file of an earlier format is refused with a message, and not changed', async () => {
  const file = newFile()
  const raw = openRaw(file)
  raw.exec(`CREATE TABLE records (
    key TEXT PRIMARY KEY, value BLOB, version INTEGER NOT NULL, consumed INTEGER, expires INTEGER
  ) WITHOUT ROWID`)
  raw.exec(`INSERT INTO records VALUES ('naming-key', x'61', 1, NULL, NULL)`)
  await expect(openLocation(`sqlite:${file}`)).rejects.toThrow(
    `${file} cannot be opened as a store: it was written by another version of Usher`,
  )
  expect(raw.prepare('SELECT count(*) n FROM records').get()).toEqual({ n: 1 })
})

test('a missing folder is created, with access for its owner only', async () => {
  const folders = join(folder, 'made', 'for', 'it')
  await (await openSqliteStore(join(folders, 'usher.db'))).close()
  expect(statSync(folders).mode & 0o777).toBe(0o700)
})

test('several processes can open a new file at the same time', async () => {
  const open = `
    const { workerData } = require('node:worker_threads')
    import('${STORE_MODULE}').then(async ({ openSqliteStore }) => {
      while (Date.now() < workerData.at);
      return (await openSqliteStore(workerData.file)).close()
    })`
  for (let round = 0; round < 4; round++) {
    const workerData = { file: newFile(), at: Date.now() + 400 }
    // `once` rejects if a worker ends with an error.
    await Promise.all(
      Array.from({ length: 3 }, () => once(new Worker(open, { eval: true, workerData }), 'exit')),
    )
  }
})

/** Writes in a loop. Each commit takes 40 ms, as on a slow disk, and is counted. */
const SLOW_WRITER = `
  const { workerData: { file, commits } } = require('node:worker_threads')
  const { DatabaseSync: { prototype } } = require('node:sqlite')
  const { exec } = prototype
  prototype.exec = function (sql) {
    if (sql === 'COMMIT') Atomics.wait(commits, 0, Atomics.add(commits, 0, 1) + 1, 40)
    return exec.call(this, sql)
  }
  import('${STORE_MODULE}').then(async ({ openSqliteStore }) => {
    const store = await openSqliteStore(file)
    const change = { key: 'slow', value: Uint8Array.of(1), version: 0 }
    for (;;) if (await store.write(change).catch(() => false)) change.version++
  })`

test('a write that arrives right after a commit is in the next one', async () => {
  const { exec } = DatabaseSync.prototype
  const store = await openStore()
  let late: Promise<boolean> | undefined
  DatabaseSync.prototype.exec = function (sql) {
    exec.call(this, sql)
    if (sql === 'COMMIT') queueMicrotask(() => (late ??= put(store, 'late', bytes('x'), {})))
  }
  onTestFinished(() => {
    DatabaseSync.prototype.exec = exec
  })
  await put(store, 'first', bytes('x'), {})
  expect(await late).toBe(true)
  expect(await text(store, 'late')).toBe('x')
})

describe('one file, opened twice', () => {
  test('a waiting write does not block other requests', async () => {
    const file = newFile()
    const [store, other] = [await openStore(file), openRaw(file)]
    await put(store, 'before', bytes('x'), {})
    other.exec('BEGIN IMMEDIATE')
    const written = put(store, 'behind', bytes('x'), {})
    await setTimeout(5)
    other.exec('COMMIT')
    expect(await written).toBe(true)
  })

  test('a process that writes in a loop on a slow disk does not lock out another', async () => {
    const file = newFile()
    const store = await openStore(file)
    const commits = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(SLOW_WRITER, { eval: true, workerData: { file, commits } })
    const written = () => put(store, fresh(), bytes('x'), {}).catch(() => false)
    for (let i = 0; i < 20; i++) {
      const before = commits[0]
      await vi.waitUntil(() => commits[0] !== before, { interval: 1, timeout: 10_000 })
      while (!(await written()));
    }
    // Time is no measure: on a busy machine, this process may get none while the file is free.
    expect(commits[0]).toBeLessThan(100)
    await worker.terminate()
  })

  test.each(Object.keys(ACTS))('one of two processes succeeds for each record: %s', async act => {
    const file = newFile()
    const store = await openStore(file)
    const keys = Array.from({ length: 60 }, fresh)
    await Promise.all(keys.map(key => put(store, key, bytes('once'), {})))

    const script = join(import.meta.dirname, 'racer.ts')
    const child = spawn(process.execPath, [script, file, act, ...keys], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const exited = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    expect((await lines.next()).value).toBe('ready')
    child.stdin.write('go\n')
    const mine = await race(store, act, keys)
    const theirs: string[] = JSON.parse(String((await lines.next()).value))
    await exited

    expect([...mine, ...theirs].sort()).toEqual([...keys].sort())
  })
})

describe('the plan of a statement', () => {
  const sources = globSync('src/**/*.ts', { cwd: ROOT }).map(name =>
    readFileSync(join(ROOT, name), 'utf8'),
  )
  const inSource = sources.flatMap(source => [...source.matchAll(/\.prepare\(/g)]).length

  test('searches, sorts nothing, and scans no table', async () => {
    const file = newFile()
    await (await openSqliteStore(file)).close()
    const prepared = vi.spyOn(DatabaseSync.prototype, 'prepare')
    const store = await openStore(file)
    // A statement may be prepared when it is used for the first time.
    for (const [, operate] of operations) await operate(store)
    const statements = new Set(prepared.mock.calls.map(([sql]) => sql))
    vi.restoreAllMocks()
    expect(statements.size, 'some statement is prepared by no operation').toBe(inSource)

    const raw = openRaw(file)
    for (const sql of statements) {
      if (sql.startsWith('PRAGMA')) continue
      const steps = raw.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
      for (const { detail } of steps) expect(String(detail), sql).toMatch(SEARCH)
    }
  })
})

describe('close', () => {
  test('can be called twice', async () => {
    const store = await openSqliteStore(newFile())
    await Promise.all([store.close(), store.close()])
    await expect(store.close()).resolves.toBeUndefined()
  })

  test('writes the pending changes', async () => {
    const file = newFile()
    const store = await openSqliteStore(file)
    const key = fresh()
    const written = put(store, key, bytes('at the last moment'), {})
    await store.close()
    expect(await written).toBe(true)
    expect(await text(await openStore(file), key)).toBe('at the last moment')
  })
})

describe('sweep', () => {
  test('removes expired records only', async () => {
    const file = newFile()
    const store = await openStore(file)
    const dead = Array.from({ length: 3 }, fresh)
    const alive = [fresh(), fresh()].sort()
    const tombstone = fresh()
    for (const key of dead)
      await put(store, key, bytes('x'), { expires: now() - 1, indexes: ['i'] })
    for (const key of alive) await put(store, key, bytes('x'), { indexes: ['i'] })
    await put(store, alive[0] ?? '', bytes('x'), { expires: now() + 60, indexes: ['i'] })
    await put(store, tombstone, bytes('x'), {})
    await remove(store, tombstone, now() + 60)

    const raw = openRaw(file)
    const count = (sql: string) => raw.prepare(sql).get()?.n
    expect(count('SELECT count(*) n FROM records')).toBe(6)
    await store.sweep()
    expect(count('SELECT count(*) n FROM records')).toBe(3)
    expect(count('SELECT count(*) n FROM index_members')).toBe(2)
    expect((await list(store, 'i')).map(({ key }) => key).sort()).toEqual(alive)
    expect(await put(store, tombstone, bytes('late'), {})).toBe(false)
  })

  /** A store whose own sweep, every ten seconds, does not start while the records are written. */
  function openUnswept(file?: string) {
    vi.useFakeTimers({ toFake: ['setInterval'] })
    return openStore(file)
  }

  test('removes any number of expired records, in short steps beside writes', async () => {
    const file = newFile()
    const store = await openUnswept(file)
    const dead = Array.from({ length: 20_000 }, fresh)
    const expires = now() - 1
    await Promise.all(dead.map(key => put(store, key, bytes('x'), { expires, indexes: ['i'] })))
    let isOver = false
    const sweeping = store.sweep().finally(() => {
      isOver = true
    })
    let written = 0
    while (!isOver) {
      await put(store, fresh(), bytes('x'), { expires: now() + 60, indexes: ['i'] })
      written++
    }
    await sweeping
    const raw = openRaw(file)
    for (const table of ['records', 'index_members']) {
      expect(raw.prepare(`SELECT count(*) n FROM ${table}`).get()?.n, table).toBe(written)
    }
    expect(written).toBeGreaterThan(10)
  })

  test('keeps the indexes of a record whose lifetime was extended without them', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const store = await openStore()
    const key = fresh()
    await put(store, key, bytes('one'), { expires: now() + 1, indexes: ['i'] })
    await put(store, key, bytes('two'), { expires: now() + 60 })
    vi.setSystemTime(Date.now() + 5000)
    await store.sweep()
    expect((await list(store, 'i')).map(({ key }) => key)).toEqual([key])
  })
})

describe('faults', () => {
  /** Each operation must say that the store is unavailable, not that it is empty. */
  async function expectUnavailable(store: Store) {
    for (const [name, ask] of operations) {
      await expect(ask(store), name).rejects.toBeInstanceOf(StoreUnavailable)
    }
  }

  test('a closed database is unavailable, not empty', async () => {
    const store = await openSqliteStore(newFile())
    await store.close()
    await expectUnavailable(store)
    expect(await store.get('key').catch(reasonOf)).toBe('the SQLite file could not be read')
  })

  test('a damaged file is unavailable, not empty', async () => {
    const file = newFile()
    const before = await openSqliteStore(file)
    const many = Array.from({ length: 400 }, fresh)
    await Promise.all(many.map(key => put(before, key, bytes(key), { indexes: ['index'] })))
    await before.close()
    const content = readFileSync(file)
    writeFileSync(file, Buffer.concat([content.subarray(0, 4096), content.subarray(4096).fill(7)]))
    await expectUnavailable(await openStore(file))
  })

  test('a file without its tables is unavailable, not empty', async () => {
    const file = newFile()
    const store = await openStore(file)
    openRaw(file).exec('DROP TABLE records; DROP TABLE index_members')
    await expectUnavailable(store)
  })

  test('a write to a locked file fails soon, and succeeds when it is free', async () => {
    const file = newFile()
    const store = await openStore(file)
    const other = openRaw(file)
    const key = fresh()
    await put(store, key, bytes('before'), {})
    other.exec('BEGIN IMMEDIATE')

    const begin = Date.now()
    await expect(put(store, key, bytes('locked'), {})).rejects.toBeInstanceOf(StoreUnavailable)
    // After 800 ms, or later on a busy machine.
    expect(Date.now() - begin).toBeLessThan(5000)
    expect(await text(store, key)).toBe('before')

    other.exec('COMMIT')
    expect(await put(store, key, bytes('after'), { version: 1 })).toBe(true)
  })

  test('all operations of a failed batch get the error, and none is done', async () => {
    const file = newFile()
    const store = await openStore(file)
    const other = openRaw(file)
    other.exec('BEGIN IMMEDIATE')
    const key = fresh()
    const answers = await Promise.allSettled([
      put(store, key, bytes('one'), {}),
      consume(store, key, now()),
    ])
    for (const answer of answers) {
      expect(answer).toMatchObject({ reason: expect.any(StoreUnavailable) })
    }
    other.exec('ROLLBACK')
    expect(await store.get(key)).toBeUndefined()
  })
})
