// The number of concurrent Redis commands is limited, however slow Redis is. Each command is counted. How
// long an answer takes while Redis hangs is in test/timed/faults.test.ts.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { reasonOf } from '../../src/store/reasons.ts'
import { REDIS_DEFAULTS } from '../../src/store/redis/settings.ts'
import { openRedisStore } from '../../src/store/redis/store.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { openPatientStore, type RedisServer, startRedis } from '../support/redis.ts'
import { consume, list, put, remove, untilBack } from './operations.ts'
import { bytes, fresh, now } from './store-suite.ts'

const BOUND = 2000
let server: RedisServer
let store: Store
/** The calls of the observer. */
const observed: [command: string, seconds: number, failed: boolean][] = []
const observe = (...one: (typeof observed)[number]) => observed.push(one)
beforeAll(async () => {
  server = await startRedis()
  store = await openPatientStore(server.url, REDIS_DEFAULTS, observe)
})
beforeEach(async () => {
  await untilBack(store)
  observed.length = 0
})
afterAll(async () => {
  await store.close()
  await server.stop()
})
const KINDS: ((store: Store, key: string) => Promise<unknown>)[] = [
  (store, key) => store.get(key),
  (store, key) => put(store, key, bytes('x'), { expires: now() + 60 }),
  (store, key) => consume(store, key, now()),
  (store, key) => remove(store, key, now() + 60),
]
const ask = (count: number, of = store) =>
  Array.from({ length: count }, (_, i) => KINDS[i % KINDS.length]?.(of, fresh()))

test('on a hung Redis, operations above the limit fail before the others, which fail too', async () => {
  const hasty = await openRedisStore(server.url, REDIS_DEFAULTS, observe)
  await Promise.all(ask(100))
  observed.length = 0
  const memory = () => process.memoryUsage().rss / 2 ** 20
  const before = memory()
  process.kill(server.pid, 'SIGSTOP')
  try {
    for (let round = 0; round < 3; round++) {
      const reasons: string[] = []
      const refuse = (error: unknown) => {
        expect(error).toBeInstanceOf(StoreUnavailable)
        reasons.push(reasonOf(error))
      }
      await Promise.all(
        ask(5000, hasty).map(one => one?.then(() => reasons.push('answered'), refuse)),
      )
      // The refused operations fail before any operation that waits for Redis.
      const surplus = reasons.slice(0, 5000 - BOUND)
      expect(new Set(surplus)).toEqual(new Set(['Redis: too many operations']))
      expect(reasons).toHaveLength(5000)
      expect(reasons).not.toContain('answered')
    }
  } finally {
    process.kill(server.pid, 'SIGCONT')
  }
  expect(observed.length).toBeLessThanOrEqual(3 * BOUND)
  expect(observed.every(([, , failed]) => failed)).toBe(true)
  expect(memory() - before).toBeLessThan(150)
  await untilBack(hasty)
  await hasty.close()
})

test('failed operations free their place: afterwards the limit is as before', async () => {
  expect(await Promise.all(ask(BOUND))).toHaveLength(BOUND)
  const outcomes = await Promise.allSettled(ask(BOUND + 1))
  const refused = outcomes.filter(({ status }) => status === 'rejected')
  expect(refused).toHaveLength(1)
  expect(refused).toMatchObject([{ reason: { error_detail: 'Redis: too many operations' } }])
})

test('a write above the limit begins no outage', async () => {
  await remove(store, fresh(), now())
  const before = store.outage
  const asked = Promise.all(Array.from({ length: BOUND }, () => store.get(fresh())))
  await expect(remove(store, fresh(), now())).rejects.toThrow(StoreUnavailable)
  await asked
  expect(store.outage).toEqual(before)
})

test.each<[slots: string, keyOf: (i: number) => string, commands: number]>([
  ['one slot', i => `{shared}${i}`, 4],
  ['slots of their own', i => `own-${i}`, 501],
])('500 records in %s are listed by a bounded number of commands', async (_, keyOf, commands) => {
  const index = fresh()
  const keys = Array.from({ length: 500 }, (_, i) => keyOf(i))
  await Promise.all(keys.map(key => put(store, key, bytes('x'), { indexes: [index] })))
  observed.length = 0
  expect(await list(store, index)).toHaveLength(500)
  expect(observed.length).toBeLessThanOrEqual(commands)
})

test('a walk of several pages does not continue on another connection', async () => {
  const index = fresh()
  for (let at = 0; at < 12_000; at += 500) {
    const some = Array.from({ length: 500 }, () =>
      put(store, fresh(), bytes('x'), { expires: now() + 60, indexes: [index] }),
    )
    await Promise.all(some)
  }
  const walk = store.walk(index)[Symbol.asyncIterator]()
  await walk.next()
  const operator = new Redis(server.url)
  await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const answers = () =>
    store.get('x').then(
      () => true,
      () => false,
    )
  await expect.poll(answers).toBe(true)
  const rest = Array.fromAsync({ [Symbol.asyncIterator]: () => walk })
  await expect(rest).rejects.toMatchObject({ error_detail: expect.stringContaining('changed') })
  await operator.quit()
})

test('a record needs little more memory than its value, and a tombstone very little', async () => {
  const operator = new Redis(server.url)
  const key = fresh()
  const size = () => operator.memory('USAGE', `usher:r:${key}`)
  await put(store, key, Buffer.alloc(400, 'x'), { expires: now() + 60 })
  expect(await size()).toBeLessThan(400 + 150)
  await remove(store, key, now() + 60)
  expect(await size()).toBeLessThan(128)
  await operator.quit()
})
