// Indexes of several pages, beside records of other indexes: a walk reads each of its records once, and the
// first records cost one page. An account can have more sessions and grants than the store takes operations at once.

import { DatabaseSync, type StatementSync } from 'node:sqlite'
import pLimit from 'p-limit'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { grantsOfAccount, revokeGrants } from '../../src/oidc/adapter/grants.ts'
import { createSessions, signOutQueue } from '../../src/oidc/adapter/sessions.ts'
import { openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { directoryIn } from '../support/directory.ts'
import { oneOf } from '../support/some-of.ts'
import { startCounted } from './every-store.ts'
import { fresh, now } from './store-suite.ts'

/** Several pages of either store: 200 rows of SQLite, 10,000 names and 200 records of Redis. */
const ENTRIES = 12_000
/** Entries of another index, which a walk must not read. */
const OTHERS = 1_000
/** The most that is read for the first record: a page, or a batch. */
const PAGE = 500
/** More than the operations that the store on Redis takes at the same time. */
const GRANTS = 2_100

interface Stage {
  store: Store
  /** Records that were read so far, also those that were not returned. */
  count(): Promise<number>
  stop(): Promise<unknown>
}

/** Each statement counts the rows that it looks at. */
async function onSqlite(): Promise<Stage> {
  let reads = 0
  const { prepare } = DatabaseSync.prototype
  const count = () => {
    reads++
    return 1
  }
  vi.spyOn(DatabaseSync.prototype, 'prepare').mockImplementation(function (
    this: DatabaseSync,
    sql: string,
  ): StatementSync {
    this.function('counted', { varargs: true }, count)
    const [alias] = /\bi\.key\b|\br\.key\b/.exec(sql) ?? []
    const isRead = sql.startsWith('SELECT') && alias
    return prepare.call(this, isRead ? sql.replace('WHERE', `WHERE counted(${alias}) AND`) : sql)
  })
  const store = await openSqliteStore(':memory:')
  vi.restoreAllMocks()
  return { store, count: async () => reads, stop: async () => {} }
}

const onRedis = () => startCounted('stats', /keyspace_(?:hits|misses):(\d+)/g)

/** Runs `work` for each number, some at a time. */
async function forMany(count: number, work: (i: number) => Promise<unknown>) {
  const numbers = Array.from({ length: count }, (_, i) => i)
  await pLimit(PAGE).map(numbers, work)
}

const STAGES: [string, () => Promise<Stage>][] = [
  ['SQLite', onSqlite],
  ['Redis', onRedis],
]

afterEach(() => vi.useRealTimers())

describe.each(oneOf(STAGES))('%s', (_name, start) => {
  let stage: Stage
  let records: Records
  beforeAll(async () => {
    stage = await start()
    records = await openRecords(stage.store, [Buffer.alloc(32, 'large')])
    const add = (i: number) => {
      const indexes: [string, string][] = [['large', i < ENTRIES ? 'one' : 'other']]
      return records.of('Entry').save(`${i}`, { i }, { ttl: 3600, indexes })
    }
    await forMany(ENTRIES + OTHERS, add)
  })
  afterAll(async () => {
    await stage.store.close()
    await stage.stop()
  })

  async function readsOf(work: () => Promise<unknown>): Promise<number> {
    const before = await stage.count()
    await work()
    return (await stage.count()) - before
  }

  test('a walk yields each record once, and reads no other', async () => {
    const seen = new Set<number>()
    const reads = await readsOf(async () => {
      for await (const { i } of records.of<{ i: number }>('Entry').walk('large', 'one')) seen.add(i)
    })
    expect(seen.size).toBe(ENTRIES)
    expect(Math.max(...seen)).toBe(ENTRIES - 1)
    // Redis looks at the index itself, too.
    expect(reads).toBeGreaterThanOrEqual(ENTRIES)
    expect(reads).toBeLessThan(ENTRIES + 50)
  })

  test('the first record of an index costs one page', async () => {
    const first = async () => {
      for await (const entry of records.of('Entry').walk('large', 'one')) return entry
    }
    const reads = await readsOf(first)
    expect(reads).toBeGreaterThan(0)
    expect(reads).toBeLessThanOrEqual(PAGE)
  })

  test('a scan reads each record once', async () => {
    let count = 0
    const reads = await readsOf(async () => {
      for await (const _entry of stage.store.scan()) count++
    })
    expect(count).toBeGreaterThanOrEqual(ENTRIES + OTHERS)
    expect(reads).toBeLessThan(count * 1.05 + 50)
  })

  test('requests are answered while an index is walked', async () => {
    let turns = 0
    const timer = setInterval(() => turns++, 0)
    for await (const _entry of records.of('Entry').walk('large', 'one'));
    clearInterval(timer)
    expect(turns).toBeGreaterThan(3)
  })

  test('each of 1,000 accounts is listed, and is read once', async () => {
    const directory = directoryIn(records)
    await forMany(1_000, i => directory.add({ username: `user-${i}` }))
    const names = new Set<string>()
    const reads = await readsOf(async () => {
      for await (const { username } of directory.all()) names.add(username)
    })
    expect(names.size).toBe(1_000)
    expect(reads).toBeLessThan(1_050)
  })

  test('a round of a queue of 1,000 notifications reads a page, and the next rounds deliver the rest', async () => {
    const { enqueue, deliverDue } = signOutQueue(records)
    const add = (i: number) =>
      enqueue({ uid: `session-${i}`, accountId: 'usr_ada', client_id: 'wiki', sid: 's' })
    await forMany(1_000, add)
    const delivered = new Set<string>()
    const round = () =>
      deliverDue('new', async ({ uid }) => {
        delivered.add(uid)
        return false
      })
    const reads = await readsOf(round)
    expect(delivered.size).toBe(200)
    // A page, and for each that is delivered its claim and its removal.
    expect(reads).toBeLessThan(2 * PAGE + 200 * 8)
    for (let i = 0; i < 20 && delivered.size < 1_000; i++) await round()
    expect(delivered.size).toBe(1_000)
  })

  test('a round reads a part of a queue of many that are not due, and the next ones deliver what is due', async () => {
    // An announced notification is due after half a minute.
    vi.useFakeTimers({ toFake: ['Date'] })
    const { announce, confirm, deliverDue } = signOutQueue(records)
    const notification = (i: number) => ({
      uid: `waiting-${i}`,
      accountId: 'usr_ada',
      client_id: 'wiki',
      sid: 's',
    })
    await forMany(ENTRIES, i => announce(notification(i)))
    const delivered: string[] = []
    const round = () =>
      deliverDue('new', async ({ uid }) => {
        delivered.push(uid)
        return false
      })
    const reads = await readsOf(round)
    expect(reads).toBeGreaterThan(ENTRIES / 2)
    expect(reads).toBeLessThan(ENTRIES - PAGE)
    const due = Array.from({ length: 100 }, (_, i) => i * (ENTRIES / 100))
    await Promise.all(due.map(i => confirm(notification(i))))
    for (let i = 0; i < 3; i++) await round()
    expect(delivered.toSorted()).toEqual(due.map(i => `waiting-${i}`).toSorted())
  })

  const makeGrant = (jti: string, accountId: string) =>
    records
      .of('Grant')
      .save(jti, { jti, accountId }, { ttl: 3600, indexes: [grantsOfAccount(accountId)] })
  /** Whether one of these grants is still there. */
  async function isAnyAlive(ids: string[]): Promise<boolean> {
    const found: unknown[] = []
    await forMany(ids.length, async i =>
      found.push((await records.of('Grant').read(String(ids[i]))).value),
    )
    return found.some(Boolean)
  }

  test(`access to an account with ${GRANTS} grants ends`, async () => {
    const ids = Array.from({ length: GRANTS }, fresh)
    await forMany(GRANTS, i => makeGrant(String(ids[i]), 'usr_many'))
    await revokeGrants(records, 'usr_many')
    expect(await isAnyAlive(ids)).toBe(false)
  })

  test(`sign-out everywhere ends 100 sessions with ${GRANTS} grants`, async () => {
    const sessions = createSessions(records)
    const accountId = 'usr_sessions'
    const ids = Array.from({ length: GRANTS }, fresh)
    await forMany(GRANTS, i => makeGrant(String(ids[i]), accountId))
    const perSession = GRANTS / 100
    await forMany(100, async i => {
      const uid = `many-${i}`
      await sessions.save({ uid, jti: fresh(), exp: now() + 3600, accountId }, 3600)
      const own = ids.slice(i * perSession, (i + 1) * perSession)
      await sessions.adopt(uid, Object.fromEntries(own.map(id => [id, now() + 3600])))
    })
    await sessions.endAll(accountId)
    expect(await isAnyAlive(ids)).toBe(false)
    expect(await sessions.listOfAccount(accountId)).toEqual([])
  })
})
