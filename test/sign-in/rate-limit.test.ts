// The rate limit of password attempts: its counters, its waiting times, and when they are reset.

import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { createRateLimit } from '../../src/sign-in/rate-limit.ts'
import { type Installation, openInstallation } from '../../src/store/open.ts'
import { StoreUnavailable } from '../../src/store/store.ts'

const LIMIT = { attempts: 5, maxWaitSeconds: 900 }

let installation: Installation
let attempts: ReturnType<typeof createRateLimit>
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  installation = await openInstallation('sqlite::memory:', [])
  attempts = createRateLimit(installation.records)
})
afterAll(async () => {
  vi.useRealTimers()
  await installation.store.close()
})

let name = ''
let made = 0
beforeEach(() => {
  name = `account ${++made}`
})

const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000)
const count = () => attempts.count([[name, LIMIT]])

/** The seconds until the next attempt is accepted. */
async function waitOf(step = 1): Promise<number> {
  const began = Date.now()
  for (let second = 0; second <= 1000; second += step) {
    if (await count()) return (Date.now() - began) / 1000
    pass(step)
  }
  throw new Error('it is locked')
}

async function countAll(times: number) {
  for (let i = 0; i < times; i++) expect(await count()).toBe(true)
}

test('after the free attempts the waiting time doubles up to its maximum', async () => {
  await countAll(5)
  expect(await count()).toBe(false)
  const waits: number[] = []
  for (let i = 0; i < 12; i++) {
    waits.push(await waitOf())
    expect(await count()).toBe(false)
  }
  expect(waits[0]).toBe(5)
  for (const [i, wait] of waits.slice(1, 7).entries()) {
    expect(wait).toBeGreaterThan((waits[i] ?? 0) * 1.6)
    expect(wait).toBeLessThanOrEqual((waits[i] ?? 0) * 2 + 1)
  }
  expect(waits.at(-1)).toBeLessThanOrEqual(900)
  expect(waits.at(-1)).toBeGreaterThan(400)
})

test('a continuous attack can try about a hundred passwords of one account in a day', async () => {
  const end = Date.now() + 24 * 3600 * 1000
  let tried = 0
  for (; Date.now() < end; tried++) await waitOf(20)
  expect(tried).toBeGreaterThan(50)
  expect(tried).toBeLessThan(150)
})

test('an attempt that is too early is not counted, and does not extend the waiting time', async () => {
  await countAll(5)
  for (let i = 0; i < 50; i++) expect(await count()).toBe(false)
  expect(await waitOf()).toBe(5)
})

test('one attempt is forgotten after the maximum waiting time, and a reset forgets all', async () => {
  await countAll(5)
  pass(2 * 900)
  await countAll(2)
  expect(await count()).toBe(false)
  await attempts.forget(name)
  await countAll(5)
  expect(await count()).toBe(false)
})

test('an attempt that is taken back allows another one, and a count is never negative', async () => {
  await attempts.takeBack([[name, LIMIT]])
  await countAll(1)
  await attempts.takeBack([[name, LIMIT]])
  await attempts.takeBack([[name, LIMIT]])
  await countAll(4)
  await attempts.takeBack([[name, LIMIT]])
  await countAll(2)
  expect(await count()).toBe(false)
})

test('only the free attempts of 200 concurrent ones on several nodes are accepted', async () => {
  const nodes = [
    attempts,
    createRateLimit(installation.records),
    createRateLimit(installation.records),
  ]
  const results = await Promise.all(
    Array.from({ length: 200 }, (_, i) => nodes[i % 3]?.count([[name, LIMIT]])),
  )
  expect(results.filter(Boolean)).toHaveLength(5)
})

test('while the store is unavailable every attempt is refused, and none is counted', async () => {
  const { store } = installation
  const away = vi.spyOn(store, 'write').mockRejectedValue(new StoreUnavailable('away'))
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, () => attempts.count([[name, LIMIT]])),
  )
  away.mockRestore()
  expect(results.every(({ status }) => status === 'rejected')).toBe(true)
  await countAll(5)
})
