// Real faults of Redis and of the connection to it. How long an answer takes is in test/timed/faults.test.ts.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { reasonOf } from '../../src/store/reasons.ts'
import { openRedisStore } from '../../src/store/redis/store.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { type Link, startLink } from '../support/link.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { openPatientStore, type RedisServer, startRedis } from '../support/redis.ts'
import { consume, list, put, refused, remove, untilBack } from './operations.ts'
import { bytes, fresh, now, text } from './store-suite.ts'

let server: RedisServer
/** Waits long for an answer: the disk of a busy machine may hold a write for seconds. */
let store: Store
/** Has the time limit of the product. */
let hasty: Store
beforeAll(async () => {
  server = await startRedis({ settings: ['--appendfsync', 'always'] })
  store = await openPatientStore(server.url)
  hasty = await openRedisStore(server.url)
})
afterAll(async () => {
  await store.close()
  await hasty.close()
  await server.stop()
})

const OPERATIONS: ((key: string) => Promise<unknown>)[] = [
  key => hasty.get(key),
  key => list(hasty, key),
  key => put(hasty, key, bytes('x'), { expires: now() + 60, indexes: [fresh()] }),
  key => consume(hasty, key, now()),
  key => remove(hasty, key, now() + 60),
  key => hasty.getMany([key]),
]

test('when Redis is killed, every operation fails, and works again when it is back', async () => {
  const key = fresh()
  await put(store, key, bytes('kept'), { expires: now() + 600 })
  await server.kill('SIGKILL')
  for (const ask of OPERATIONS) await refused(ask(fresh()))
  await server.start()
  await Promise.all([store, hasty].map(untilBack))
  expect(await text(hasty, key)).toBe('kept')
})

test('while Redis hangs, every operation fails after 900 ms, and works again when Redis continues', async () => {
  process.kill(server.pid, 'SIGSTOP')
  const reasons = await Promise.all(OPERATIONS.map(ask => refused(ask(fresh()))))
  process.kill(server.pid, 'SIGCONT')
  expect(new Set(reasons)).toEqual(new Set(['Redis: there was no answer in 900 ms']))
  await untilBack(hasty)
})

test('a reply that arrives while this process is busy is no failure of the store', async () => {
  const key = fresh()
  await put(store, key, bytes('kept'), { expires: now() + 600 })
  const replies = Promise.all([hasty.get(key), remove(hasty, fresh(), now())])
  const end = Date.now() + 2000
  while (Date.now() < end);
  expect(await replies).toMatchObject([{ key }, false])
})

describe('the reply is lost, and the command is retried', () => {
  let link: Link
  let flaky: Store
  beforeAll(async () => {
    link = await startLink(server.url)
    flaky = await openPatientStore(link.url)
  })
  afterAll(async () => {
    await flaky.close()
    await link.close()
  })

  const ROUNDS = 20
  /** The rounds of a test whose retry failed: a machine that hangs may end the first connection, and the second. */
  let unanswered = 0
  beforeEach(async () => {
    unanswered = 0
    await untilBack(flaky)
  })

  /** The result of a change whose reply is lost. Undefined if the retry failed, too. */
  async function retried<T>(change: () => Promise<T>): Promise<T | undefined> {
    link.loseNextReply()
    try {
      return await change()
    } catch (error) {
      expect(error).toBeInstanceOf(StoreUnavailable)
      unanswered++
      await untilBack(flaky)
      return undefined
    }
  }

  test.each([
    ['put', (key: string) => put(flaky, key, bytes('new'), { expires: now() + 60, version: 1 })],
    ['consume', (key: string) => consume(flaky, key, now())],
    ['remove', (key: string) => remove(flaky, key, now() + 60)],
  ])('%s returns its result, and is done once', async (_, change) => {
    const before = link.lost()
    for (let round = 0; round < ROUNDS; round++) {
      const key = fresh()
      await put(store, key, bytes('old'), { expires: now() + 60 })
      expect((await retried(() => change(key))) ?? true, `round ${round}`).toBe(true)
      expect(await store.get(key)).toMatchObject({ version: 2 })
      expect(await change(key), `round ${round}, again`).toBe(false)
    }
    expect(link.lost() - before).toBe(ROUNDS)
    expect(unanswered).toBeLessThan(ROUNDS / 5)
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
      const add = (key: string) =>
        put(flaky, key, bytes('new'), { expires: now() + 60, version: 0 })
      const written = await retried(() => Promise.all([taken, ...keys].map(add)))
      if (written) expect(written, `round ${round}`).toEqual([false, ...keys.map(() => true)])
      for (const key of [taken, ...keys])
        expect(await store.get(key), `round ${round}`).toMatchObject({ version: 1 })
    }
    expect(link.lost() - before).toBe(ROUNDS)
    expect(unanswered).toBeLessThan(ROUNDS / 5)
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
    expect(await refused(put(store, fresh(), bytes('x'), options))).toMatch(/^Redis: OOM /)
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
    await put(store, key, bytes('x'), { expires: now() + 4, indexes: ['tokens', 'grants'] })
    if (i % 2) await consume(store, key, now())
    if (i % 3) await remove(store, key, now() + 4)
  }
  const keys = await operator.keys('*')
  expect(keys.length).toBeGreaterThan(20)
  for (const key of keys) expect(await operator.ttl(key), key).not.toBe(-1)
  await expect.poll(() => operator.dbsize()).toBe(0)
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
