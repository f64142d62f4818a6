// What is asked of Redis in one turn is one command; each is judged as if it had come alone.

import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { REDIS_DEFAULTS } from '../../src/config/schema/usher.ts'
import { RedisStore } from '../../src/storage/redis/store.ts'
import { StoreUnavailable } from '../../src/storage/store.ts'
import { startLink } from '../faults/proxy.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePort } from '../support/service.ts'
import { bytes, fresh, now } from './store-suite.ts'

let server: RedisServer
let store: RedisStore
/** The commands that were sent. */
const told: string[] = []
beforeAll(async () => {
  server = await startRedis()
  store = await RedisStore.open(server.url, REDIS_DEFAULTS, command => told.push(command))
})
beforeEach(() => {
  told.length = 0
})
afterAll(async () => {
  await store.close()
  await server.stop()
})

const put = (key: string, text = 'x', version?: number) => ({
  key,
  value: bytes(text),
  expires: now() + 60,
  version,
})
const textOf = async (key: string) => {
  const { value, version } = (await store.get(key)) ?? {}
  return value && `${Buffer.from(value)} ${version}`
}

test('250 writes at once are three commands, and so are as many reads', async () => {
  const keys = Array.from({ length: 250 }, fresh)
  const written = await Promise.all(keys.map((key, i) => store.putEach([put(key, `text ${i}`)])))
  expect(written).toEqual(keys.map(() => 1))
  expect(told).toEqual(['usherPut', 'usherPut', 'usherPut'])
  told.length = 0
  expect(await Promise.all(keys.map(textOf))).toEqual(keys.map((_, i) => `text ${i} 1`))
  expect(told).toEqual(['get', 'get', 'get'])
})

test('of those that write over one version at once exactly one does', async () => {
  const key = fresh()
  await store.putEach([put(key)])
  told.length = 0
  const all = Array.from({ length: 40 }, (_, i) => store.putEach([put(key, `writer ${i}`, 1)]))
  const written = await Promise.all(all)
  expect(written.filter(count => count === 1)).toHaveLength(1)
  expect(await textOf(key)).toBe(`writer ${written.indexOf(1)} 2`)
  expect(told).toEqual(['usherPut', 'get'])
})

test('what is refused ends those that were to follow it, and nothing of anybody else', async () => {
  const [taken, before, after, other] = [fresh(), fresh(), fresh(), fresh()]
  await store.putEach([put(taken, 'first')])
  told.length = 0
  const written = await Promise.all([
    store.putEach([put(before), put(taken, 'second', 0), put(after)]),
    store.putEach([put(other)]),
    store.putEach([put(taken, 'third', 0)]),
    store.putEach([]),
  ])
  expect(written).toEqual([1, 1, 0, 0])
  expect(told).toEqual(['usherPut'])
  const texts = await Promise.all([before, taken, after, other].map(textOf))
  expect(texts).toEqual(['x 1', 'first 1', undefined, 'x 1'])
})

test('what stands under a key and is no record fails those that ask for it alone', async () => {
  const operator = new Redis(server.url)
  const [list, text, record] = [fresh(), fresh(), fresh()]
  await operator.rpush(`usher:r:${list}`, 'x')
  // The beginning of a text of 255 bytes, without the text.
  await operator.set(`usher:r:${text}`, Buffer.from('d9ff', 'hex'))
  await store.putEach([put(record)])
  told.length = 0
  const [ofList, ofText, found, nothing] = await Promise.allSettled(
    [list, text, record, fresh()].map(key => store.get(key)),
  )
  expect(told).toEqual(['get'])
  for (const one of [ofList, ofText]) {
    expect(one).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) })
  }
  expect(found).toMatchObject({ status: 'fulfilled', value: { key: record, version: 1 } })
  expect(nothing).toEqual({ status: 'fulfilled', value: undefined })
  await operator.quit()
})

test('who waits for another answer, and then for its own, is told within a second that there is none', async () => {
  const port = await freePort()
  const redis = await startRedis({ port })
  const inner = await startLink(port)
  const outer = await startLink(inner.port)
  const slow = await RedisStore.open(outer.url, REDIS_DEFAULTS)
  for (const link of [inner, outer]) link.turn('delay')
  const answers = [slow.get(fresh())]
  // The first is on its way, and takes 600 ms; so would the second from then on.
  await setTimeout(50)
  const asked = performance.now()
  answers.push(slow.get(fresh()))
  const [first, second] = await Promise.allSettled(answers)
  const waited = performance.now() - asked
  expect(first).toEqual({ status: 'fulfilled', value: undefined })
  expect(second).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) })
  expect(waited).toBeLessThan(1000)
  for (const link of [inner, outer]) link.turn('pass')
  expect(await slow.get(fresh())).toBeUndefined()
  await slow.close()
  await outer.close()
  await inner.close()
  await redis.stop()
})
