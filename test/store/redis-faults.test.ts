// Real faults of Redis and of the connection to it.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { reasonOf } from '../../src/store/reasons.ts'
import { openRedisStore } from '../../src/store/redis/store.ts'
import type { Store } from '../../src/store/store.ts'
import { type Link, startLink } from '../support/link.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { consume, list, put, refused, remove } from './operations.ts'
import { bytes, fresh, now } from './store-suite.ts'

let server: RedisServer
let store: Store
beforeAll(async () => {
  server = await startRedis({ settings: ['--appendfsync', 'always'] })
  store = await openRedisStore(server.url)
})
afterAll(async () => {
  await store.close()
  await server.stop()
})

const OPERATIONS: [string, (key: string) => Promise<unknown>][] = [
  ['get', key => store.get(key)],
  ['list', key => list(store, key)],
  ['put', key => put(store, key, bytes('x'), { expires: now() + 60, indexes: [fresh()] })],
  ['consume', key => consume(store, key, now())],
  ['remove', key => remove(store, key, now() + 60)],
  ['getMany', key => store.getMany([key])],
]

async function recovered(key: string) {
  const started = performance.now()
  const both = () => Promise.all([store.get(key), remove(store, fresh(), now())])
  await expect
    .poll(() => both().catch(() => 'away'), { timeout: 5000 })
    .toMatchObject([{ key }, false])
  return performance.now() - started
}

test('when Redis is killed, every operation fails within a second, and works again within five', async () => {
  const key = fresh()
  await put(store, key, bytes('kept'), { expires: now() + 600 })
  await server.kill('SIGKILL')
  for (const [, ask] of OPERATIONS) expect(await refused(ask(fresh()))).toBeLessThan(1000)
  await server.start()
  expect(await recovered(key)).toBeLessThan(5000)
  expect(Buffer.from((await store.get(key))?.value ?? []).toString()).toBe('kept')
})

test('while Redis hangs, every operation fails within a second, and works again when Redis continues', async () => {
  const key = fresh()
  await put(store, key, bytes('kept'), { expires: now() + 600 })
  process.kill(server.pid, 'SIGSTOP')
  const waits = await Promise.all(OPERATIONS.map(([, ask]) => refused(ask(fresh()))))
  expect(Math.max(...waits)).toBeLessThan(1500)
  process.kill(server.pid, 'SIGCONT')
  expect(await recovered(key)).toBeLessThan(5000)
})

test('a reply that arrives while this process is busy is no failure of the store', async () => {
  const key = fresh()
  await put(store, key, bytes('kept'), { expires: now() + 600 })
  const replies = Promise.all([store.get(key), remove(store, fresh(), now())])
  const end = Date.now() + 2000
  while (Date.now() < end);
  expect(await replies).toMatchObject([{ key }, false])
  expect(await store.get(key)).toMatchObject({ key })
})

describe('the reply is lost, and the command is retried', () => {
  let link: Link
  let flaky: Store
  beforeAll(async () => {
    link = await startLink(server.url)
    flaky = await openRedisStore(link.url)
  })
  afterAll(async () => {
    await flaky.close()
    await link.close()
  })

  const ROUNDS = 20
  test.each([
    ['put', (key: string) => put(flaky, key, bytes('new'), { expires: now() + 60, version: 1 })],
    ['consume', (key: string) => consume(flaky, key, now())],
    ['remove', (key: string) => remove(flaky, key, now() + 60)],
  ])('%s returns its result, and is done once', async (_, change) => {
    const before = link.lost()
    let refused = 0
    for (let round = 0; round < ROUNDS; round++) {
      const key = fresh()
      await put(store, key, bytes('old'), { expires: now() + 60 })
      link.loseNextReply()
      // On a busy machine, the time limit may end before the retry.
      const result = await change(key).catch(() => 'refused')
      if (result === 'refused') refused++
      else expect(result, `round ${round}`).toBe(true)
      expect(await store.get(key)).toMatchObject({ version: 2 })
      expect(await change(key), `round ${round}, again`).toBe(false)
    }
    expect(link.lost() - before).toBe(ROUNDS)
    expect(refused).toBeLessThan(ROUNDS / 5)
  })

  test.each([
    ['a version is refused', 1, false, 'later'],
    ['no version is applied again', undefined, true, 'new'],
  ])('after another write meanwhile, a put with %s', async (_, version, result, stands) => {
    const key = fresh()
    const expires = now() + 60
    await put(store, key, bytes('old'), { expires })
    const before = link.lost()
    link.loseNextReply()
    const first = put(flaky, key, bytes('new'), { expires, version })
    await vi.waitUntil(() => link.lost() > before, { interval: 0, timeout: PATIENCE_MS })
    link.turn('stall')
    await put(store, key, bytes('later'), { expires })
    link.turn('pass')
    expect(await first).toBe(result)
    expect(await store.get(key)).toMatchObject({ value: Buffer.from(stands) })
  })

  test('many concurrent writes return their own results', async () => {
    const before = link.lost()
    for (let round = 0; round < ROUNDS; round++) {
      const [taken, ...keys] = Array.from({ length: 20 }, fresh) as [string, ...string[]]
      await put(store, taken, bytes('old'), { expires: now() + 60 })
      link.loseNextReply()
      const add = (key: string) =>
        put(flaky, key, bytes('new'), { expires: now() + 60, version: 0 })
      const written = await Promise.all([taken, ...keys].map(add))
      expect(written, `round ${round}`).toEqual([false, ...keys.map(() => true)])
      expect(await store.get(taken)).toMatchObject({ version: 1 })
      for (const key of keys) expect(await store.get(key)).toMatchObject({ version: 1 })
    }
    expect(link.lost() - before).toBe(ROUNDS)
  })
})

test('out of memory, removals succeed, and new records are refused', async () => {
  const operator = new Redis(server.url)
  const [gone, first, second, index] = [fresh(), fresh(), fresh(), fresh()]
  for (const key of [gone, first, second])
    await put(store, key, bytes('x'), { expires: now() + 60, indexes: [index] })
  await operator.config('SET', 'maxmemory', '100kb')
  try {
    const options = { expires: now() + 60, indexes: [index] }
    expect(await refused(put(store, fresh(), bytes('x'), options))).toBeLessThan(1000)
    expect(await remove(store, gone, now() + 60)).toBe(true)
    expect(await store.get(gone)).toMatchObject({ key: gone, version: 2 })
    // The retry of a write that was refused without a replica.
    expect(await remove(store, gone, now() + 60)).toBe(false)
    // The removal is done first, also in a batch with a write.
    expect(await remove(store, first, now() + 60)).toBe(true)
    expect(await remove(store, second, now() + 60)).toBe(true)
    expect(await list(store, index)).toEqual([])
  } finally {
    await operator.config('SET', 'maxmemory', '0')
    await operator.quit()
  }
  expect(await remove(store, gone, now() + 60)).toBe(false)
})

test('every key has a lifetime, and so has its index', async () => {
  const own = await startRedis()
  const operator = new Redis(own.url)
  const store = await openRedisStore(own.url)
  for (let i = 0; i < 50; i++) {
    const key = fresh()
    await put(store, key, bytes('x'), { expires: now() + 2, indexes: ['tokens', 'grants'] })
    if (i % 2) await consume(store, key, now())
    if (i % 3) await remove(store, key, now() + 2)
  }
  const keys = await operator.keys('*')
  expect(keys.length).toBeGreaterThan(20)
  for (const key of keys) expect(await operator.ttl(key), key).toBeGreaterThan(-1)
  await expect.poll(() => operator.dbsize(), { timeout: 6000 }).toBe(0)
  await Promise.all([operator.quit(), store.close()])
  await own.stop()
})

test('a Redis of an earlier format is refused at the start, in one sentence', async () => {
  const own = await startRedis()
  const operator = new Redis(own.url)
  // The format of an earlier version: version 1, an operation, a value.
  await operator.set('usher:r:naming-key', Buffer.from('9301a8414243444546474861', 'hex'))
  const refusal = await openInstallation(own.url, [Buffer.alloc(32, 1)]).catch(reasonOf)
  expect(refusal).toBe(
    'Redis: a key holds no record of this version of Usher; ' +
      'start with an empty store (another database or redis.key_prefix)',
  )
  expect(await operator.dbsize()).toBe(1)
  await operator.quit()
  await own.stop()
})
