// Rotation of refresh tokens on every kind of store: a retry after a lost response succeeds, and reuse
// ends the family.

import { beforeAll, describe, expect, test, vi } from 'vitest'
import { createRefreshTokens } from '../../src/oidc/adapter/refresh-tokens.ts'
import { alreadyUsed, currentRequest } from '../../src/oidc/adapter/request.ts'
import type { AuditEvent } from '../../src/operation/audit.ts'
import { openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { onEveryStore } from './every-store.ts'
import { asRefreshRequest } from './protocol.ts'
import { fresh } from './store-suite.ts'

const SECRET = Buffer.alloc(32, 1)
const TTL = 600

const USED = alreadyUsed('RefreshToken')

/** Performs the store operations with which the library refreshes a token. */
function createRefresher(records: Records, grace: number) {
  const noted: AuditEvent[] = []
  const tokens = createRefreshTokens(records, {
    grace,
    grant: { withoutRefreshToken: TTL, withRefreshToken: TTL },
    pushedRequest: TTL,
  })

  /** Creates a new family with its own grant. */
  async function begin() {
    const grantId = fresh()
    const token = tokens.first(grantId)
    await records.of('Grant').save(grantId, { jti: grantId }, { ttl: TTL })
    const payload = { jti: token, grantId, accountId: grantId, scope: 'openid' }
    await tokens.save(token, payload, TTL)
    return { token, grantId }
  }

  const refresh = (token: string) => slowly(token, async () => {})

  /** A refresh that runs `meanwhile` between its read and its write. */
  async function slowly(token: string, meanwhile: () => Promise<void>): Promise<string> {
    const facts: AuditEvent[] = []
    const present = async () => {
      const found = await tokens.find(token)
      await meanwhile()
      if (!found) throw USED
      if (found.consumed) {
        await tokens.destroy(token)
        throw USED
      }
      const next = tokens.successor(token)
      await tokens.save(next, { ...found, jti: next }, TTL)
      return next
    }
    try {
      return await asRefreshRequest(present, facts)
    } finally {
      noted.push(...facts)
    }
  }

  /** Accounts of the audit events of reuse, or of repeated answers. */
  const accountsOf = (event: 'refresh_reuse' | 'refresh_replay') =>
    noted.filter(fact => fact.event === event).map(({ account }) => account)
  const events = {
    get reuse() {
      return accountsOf('refresh_reuse')
    },
    get replay() {
      return accountsOf('refresh_replay').length
    },
  }

  /** The results of `count` concurrent refreshes. */
  const atOnce = (count: number, token: string) =>
    Promise.allSettled(Array.from({ length: count }, () => refresh(token)))

  const isAlive = async (grantId: string) =>
    (await records.of('Grant').read(grantId)).value !== undefined
  return { ...tokens, begin, refresh, slowly, atOnce, isAlive, events }
}

onEveryStore(stored => {
  let records: Records
  beforeAll(() => {
    records = stored()
  })

  test('after concurrent use of a token and its successor, the family continues or ends', async () => {
    for (let round = 0; round < 5; round++) {
      const { begin, refresh, isAlive, events } = createRefresher(records, 30)
      const { token, grantId } = await begin()
      const second = await refresh(token)
      const [late, next] = await Promise.allSettled([refresh(token), refresh(second)])
      // The retry succeeds if it comes first. It is reuse if it comes after the use of the successor.
      expect(await isAlive(grantId)).toBe(late.status === 'fulfilled')
      if (late.status === 'fulfilled')
        expect([late.value, next.status]).toEqual([second, 'fulfilled'])
      else expect(events.reuse).toEqual([grantId])
    }
  })
}, currentRequest)

/** A refresher on a store of its own, with a grace period of 30 s. */
async function open() {
  const store = await openSqliteStore(':memory:')
  const records = await openRecords(store, [SECRET], currentRequest)
  return { store, ...createRefresher(records, 30) }
}

describe('a used token', () => {
  test('a retry after the grace period is reuse, although its successor is unused', async () => {
    const { begin, refresh, isAlive } = await open()
    const { token, grantId } = await begin()
    const second = await refresh(token)
    const time = Date.now()
    vi.useFakeTimers({ toFake: ['Date'], now: time + 29_000 })
    expect(await refresh(token)).toBe(second)
    vi.setSystemTime(time + 32_000)
    await expect(refresh(token)).rejects.toEqual(USED)
    vi.useRealTimers()
    expect(await isAlive(grantId)).toBe(false)
  })

  test('is consumed for all other requests at once', async () => {
    const { begin, refresh, find } = await open()
    const { token } = await begin()
    expect(await find(token)).toMatchObject({ jti: token, scope: 'openid' })
    expect(await find(token)).not.toHaveProperty('consumed')
    const second = await refresh(token)
    expect(await find(token)).toMatchObject({ jti: token, consumed: expect.any(Number) })
    expect(await find(second)).not.toHaveProperty('consumed')
  })

  test('revokes its successor when it is revoked, and that is not reported as reuse', async () => {
    const { begin, refresh, find, destroy, events } = await open()
    const { token } = await begin()
    const second = await refresh(token)
    await destroy(token)
    expect(await find(second)).toBeUndefined()
    await expect(refresh(second)).rejects.toEqual(USED)
    expect(events.reuse).toEqual([])
  })

  test('that is revoked during a refresh gets no successor', async () => {
    const { begin, find, save, successor, destroy } = await open()
    const { token } = await begin()
    const payload = { ...(await find(token)) }
    await destroy(token)
    await expect(save(successor(token), payload, TTL)).rejects.toEqual(USED)
    expect(await find(successor(token))).toBeUndefined()
  })
})

test.each([
  ['a client can retry after an outage that was longer than the grace period', 0, 300, 320, true],
  ['the grace period begins anew when the outage ends', 0, 300, 332, false],
  ['an outage does not extend the grace period of a token used long before', 60, 90, 95, false],
])('%s', async (_, from, to, retry, isRetry) => {
  const { store, begin, refresh, isAlive } = await open()
  const { token, grantId } = await begin()
  const second = await refresh(token)
  const time = Math.floor(Date.now() / 1000)
  Object.assign(store, { outage: { from: time + from, to: time + to } })
  vi.useFakeTimers({ toFake: ['Date'], now: (time + retry) * 1000 })
  if (isRetry) expect(await refresh(token)).toBe(second)
  else await expect(refresh(token)).rejects.toEqual(USED)
  vi.useRealTimers()
  expect(await isAlive(grantId)).toBe(isRetry)
})

test('a request with the latest token ends nothing when other requests rotate the token meanwhile', async () => {
  const { begin, refresh, slowly, isAlive, events } = await open()
  const { token, grantId } = await begin()
  const late = slowly(token, async () => {
    await refresh(await refresh(token))
  })
  await expect(late).rejects.toEqual(USED)
  expect(await isAlive(grantId)).toBe(true)
  expect(events.reuse).toEqual([])
})

test('a revocation that failed half-way is completed by a retry', async () => {
  const { store, begin, destroy, find, isAlive } = await open()
  for (const failing of [1, 2]) {
    const { token, grantId } = await begin()
    let removals = 0
    const cut = () => {
      removals++
      if (removals === failing) throw new StoreUnavailable('cut')
    }
    const { write } = store
    const spy = vi.spyOn(store, 'write').mockImplementation(async changes => {
      cut()
      return write.call(store, changes)
    })
    await expect(destroy(token)).rejects.toBeInstanceOf(StoreUnavailable)
    spy.mockRestore()
    expect(await find(token)).toBeDefined()
    await destroy(token)
    expect(await find(token)).toBeUndefined()
    expect(await isAlive(grantId)).toBe(false)
  }
})

test('a generation that a failover lost is accepted by its MAC, and the family continues', async () => {
  const { store, begin, refresh, find, isAlive } = await open()
  const { token, grantId } = await begin()
  const second = await refresh(token)
  const before = await copyOf(store)
  const third = await refresh(second)
  await restore(store, before)
  expect(await find(third)).toMatchObject({ jti: third })
  const fourth = await refresh(third)
  expect(await refresh(third)).toBe(fourth)
  await expect(refresh(token)).rejects.toEqual(USED)
  expect(await isAlive(grantId)).toBe(false)
})

test('a malformed or forged token is refused without a query to the store', async () => {
  const { store, begin, find, successor } = await open()
  const { token } = await begin()
  const other = await open()
  const forged = Buffer.from(token, 'base64url')
  forged.writeUInt32BE(1, 48)
  const read = vi.spyOn(store, 'getMany')
  for (const value of [
    '',
    'nonsense',
    token.slice(1),
    `${token}A`,
    `${token}=`,
    ` ${token}`,
    forged.toString('base64url'),
    other.first(fresh()),
    'A'.repeat(91),
  ]) {
    expect(await find(value), value).toBeUndefined()
  }
  expect(read).not.toHaveBeenCalled()
  expect(await find(successor(token))).toBeDefined()
})

test('a family is one record however often it rotates, and does not contain its tokens', async () => {
  const { store, begin, refresh } = await open()
  const all = async () => (await copyOf(store)).map(({ key }) => key).sort()
  let { token } = await begin()
  const keys = await all()
  const tokens = [token]
  for (let use = 0; use < 20; use++) {
    token = await refresh(token)
    tokens.push(token)
  }
  expect(new Set(tokens).size).toBe(21)
  expect(new Set(tokens.map(value => value.slice(-22))).size).toBe(21)
  expect(await all()).toEqual(keys)
})

const copyOf = (store: Store) => Array.fromAsync(store.scan())
async function restore(store: Store, entries: Awaited<ReturnType<typeof copyOf>>) {
  for (const { key, value, expires } of entries) {
    if (value) await store.write({ key, value, expires, version: 0 })
  }
}
