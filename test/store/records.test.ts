// JSON records on a store: keyed names, limits of lifetimes, and changes that are not lost.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { resealAll } from '../../src/commands/store.ts'
import { openRecords, type Records, SerialQueue } from '../../src/store/records.ts'
import { createSeal } from '../../src/store/seal.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/folder.ts'
import { fresh, now } from './store-suite.ts'

const folder = temporaryFolder()

const newFile = () => join(folder, `${fresh()}.db`)
async function open(file: string): Promise<Records> {
  const store = await openSqliteStore(file)
  onTestFinished(() => store.close())
  return openRecords(store, [Buffer.alloc(32, 1)])
}

/** The stored expiry of the only record of a file. */
function expiryIn(file: string) {
  const db = new DatabaseSync(file)
  onTestFinished(() => db.close())
  const row = db.prepare("SELECT expires FROM records WHERE key <> 'naming-key'").get()
  return row?.expires
}

test('two nodes that open an empty store at the same time use the same naming key', async () => {
  for (let round = 0; round < 5; round++) {
    const file = newFile()
    const all = await Promise.all([file, file, file, file].map(each => open(each)))
    await Promise.all(all.map((records, i) => records.of('Kind').save(`${i}`, { i })))
    for (const records of all) {
      for (const i of all.keys()) {
        expect((await records.of('Kind').read(`${i}`)).value).toEqual({ i })
      }
    }
  }
})

const DAY = 24 * 3600
test.each([
  [60, 60],
  [0.2, 1],
  [1.5, 2],
  [0, 1],
  [-5, 1],
  [Number.NaN, 1],
  [1e300, 400 * DAY],
  [Number.POSITIVE_INFINITY, 400 * DAY],
  [Number.NEGATIVE_INFINITY, 1],
])('a lifetime of %d is kept for %d seconds and a little more', async (ttl, kept) => {
  const file = newFile()
  const records = await open(file)
  const before = now()
  await records.of('Kind').save('id', {}, { ttl })
  const expires = expiryIn(file)
  const lifetime = Number(expires) - before
  expect(lifetime).toBeGreaterThanOrEqual(kept)
  expect(lifetime).toBeLessThanOrEqual(kept + 62)
  expect(Number.isInteger(expires)).toBe(true)
})

test('without a lifetime a record is kept until it is removed', async () => {
  const file = newFile()
  await (await open(file)).of('Kind').save('id', {}, { ttl: undefined })
  expect(expiryIn(file)).toBeNull()
})

describe('change', () => {
  const increment = (records: Records) =>
    records.of<{ n: number }>('Counter').change('x', ({ value }) => ({ n: (value?.n ?? 0) + 1 }))

  test('loses none of 50 concurrent changes', async () => {
    const file = newFile()
    const handles = [await open(file), await open(file)]
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => increment(handles[i % 2] as Records)),
    )
    expect(answers.map(({ before, after }) => (after?.n ?? 0) - (before?.n ?? 0))).toEqual(
      Array(50).fill(1),
    )
    expect((await handles[0]?.of('Counter').read('x'))?.value).toEqual({ n: 50 })
  })

  test('writes nothing if its change returns undefined', async () => {
    const records = await open(newFile())
    await records.of('Counter').save('x', { n: 1 })
    expect(await records.of('Counter').change('x', () => undefined)).toEqual({
      before: { n: 1 },
      isWritten: false,
    })
    expect(await records.of('Counter').read('x')).toMatchObject({ value: { n: 1 }, version: 1 })
  })

  test('fails for one caller alone when its change throws', async () => {
    const records = await open(newFile())
    const fail = () =>
      records.of('Counter').change('x', ({ version }) => {
        if (version > 0) throw new Error('mine')
        return { n: 0 }
      })
    const results = await Promise.allSettled([increment(records), fail(), increment(records)])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((await records.of('Counter').read('x')).value).toEqual({ n: 2 })
  })

  test('succeeds against 24 faster writers without a pause', async () => {
    const records = await open(newFile())
    let isOver = false
    const writing = Array.from({ length: 24 }, async () => {
      while (!isOver) await increment(records)
    })
    const slow = records.of<{ n: number }>('Counter').change('x', async () => {
      await setTimeout(10)
      return { n: -1e6 }
    })
    const { after } = await slow.finally(() => {
      isOver = true
    })
    await Promise.all(writing)
    expect(after).toEqual({ n: -1e6 })
    expect((await records.of<{ n: number }>('Counter').read('x')).value?.n).toBeLessThan(0)
  })

  test('fails without losing a change if another writer is faster every time', async () => {
    const records = await open(newFile())
    await records.of('Counter').save('x', { n: 1 })
    const overtaken = records.of('Counter').change('x', ({ version }) => {
      void records.of('Counter').save('x', { n: 2 }, { version })
      return { n: 3 }
    })
    await expect(overtaken).rejects.toBeInstanceOf(StoreUnavailable)
    expect((await records.of('Counter').read('x')).value).toEqual({ n: 2 })
  })
})

test('resealAll seals everything with the first secret, and keeps lifetimes and indexes', async () => {
  const store = await openSqliteStore(':memory:')
  const [old, fresh] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const before = await openRecords(store, [old])
  const indexes: [string, string][] = [['kinds', 'all']]
  await before.of('Kind').save('short', { id: 'short' }, { ttl: 600, indexes })
  await before.of('Kind').save('kept', { id: 'kept' })
  await before.of('Kind').save('gone', { id: 'gone' })
  await before.of('Kind').remove('gone')
  expect(await resealAll(store, createSeal([fresh, old]))).toBe(3)
  expect(await resealAll(store, createSeal([fresh, old]))).toBe(0)
  const after = await openRecords(store, [fresh])
  expect((await after.of('Kind').read('kept')).value).toEqual({ id: 'kept' })
  expect(await after.of('Kind').save('gone', {})).toBe(false)
  expect(await after.of('Kind').list('kinds', 'all')).toEqual([{ id: 'short' }])
  const expires: (number | undefined)[] = []
  for await (const entry of store.scan()) expires.push(entry.expires)
  expect(expires.filter(time => time === undefined)).toHaveLength(2)
  await store.close()
})

test('an unavailable store fails all work that waits for a name, and nothing that comes later', async () => {
  const queue = new SerialQueue()
  let runs = 0
  const failed = queue.run('a', () => Promise.reject(new StoreUnavailable('away')))
  const waiting = [1, 2].map(() => queue.run('a', async () => ++runs))
  const results = await Promise.allSettled([failed, ...waiting])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(runs).toBe(0)
  expect(queue.isBusy('a')).toBe(false)
  expect(await queue.run('a', async () => ++runs)).toBe(1)
})
