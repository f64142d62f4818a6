// A failover loses no acknowledged write after a replica was connected (redis.durability).

import { Command, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openInstallation } from '../../src/store/open.ts'
import { reasonOf } from '../../src/store/reasons.ts'
import { REDIS_DEFAULTS } from '../../src/store/redis/settings.ts'
import { openRedisStore } from '../../src/store/redis/store.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { startLink } from '../support/link.ts'
import { freePort, freePorts } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  AT_ONCE,
  type RedisGroup,
  type RedisPair,
  startCluster,
  startPair,
  startReplica,
} from '../support/redis-together.ts'
import { consume, list, put, refused, remove } from './operations.ts'
import { bytes, fresh, now, text } from './store-suite.ts'

const PRIMARY = { ...REDIS_DEFAULTS, durability: 'primary' } as const
const REPLICATED = { ...REDIS_DEFAULTS, durability: 'replicated' } as const
const portOf = (url: string) => Number(new URL(url).port)
const soon = () => ({ expires: now() + 600 })

async function open(url: string, settings?: typeof REDIS_DEFAULTS): Promise<Store> {
  const store = await openRedisStore(url, settings)
  onTestFinished(() => store.close())
  return store
}
function operatorOf(url: string): Redis {
  const operator = new Redis(url).on('error', () => {})
  onTestFinished(() => operator.disconnect())
  return operator
}

/** Why a write is refused: at the limit of the confirmation, or, on a machine that hangs, at that of any answer. */
const UNCONFIRMED = [
  'Redis: no replica has confirmed the write',
  'Redis: there was no answer in 900 ms',
]

/** The number of calls of a Redis command. */
async function calls(operator: Redis, command: string): Promise<number> {
  const stats = await operator.info('commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}

/** The whole content of a Redis. */
async function contents(operator: Redis): Promise<string> {
  const keys = (await operator.keys('*')).sort()
  const dumps = await Promise.all(keys.map(key => operator.dumpBuffer(key)))
  return keys.map((key, i) => `${key} ${dumps[i]?.toString('base64')}`).join('\n')
}

/** Two records to consume and remove, and every kind of write. */
async function kindsOfWrite(store: Store) {
  const [written, used, gone] = [fresh(), fresh(), fresh()]
  for (const key of [written, used, gone]) await put(store, key, bytes('old'), soon())
  const kinds: [string, () => Promise<boolean>][] = [
    ['put', () => put(store, fresh(), bytes('new'), soon())],
    ['put over a version', () => put(store, written, bytes('new'), { ...soon(), version: 1 })],
    ['put with indexes', () => put(store, fresh(), bytes('x'), { ...soon(), indexes: [fresh()] })],
    ['consume', () => consume(store, used, now())],
    ['remove', () => remove(store, gone, now() + 600)],
  ]
  return { written, kinds }
}

describe('a primary and its replica', () => {
  let pair: RedisPair
  beforeAll(async () => {
    pair = await startPair()
  })
  afterAll(() => pair?.stop())

  const HANGING: [string, () => void, () => void][] = [
    [
      'the replica hangs',
      () => process.kill(pair.replica.pid, 'SIGSTOP'),
      () => process.kill(pair.replica.pid, 'SIGCONT'),
    ],
    ['the way to the replica hangs', () => pair.link.turn('stall'), () => pair.link.turn('pass')],
  ]
  test.each(HANGING)('while %s no write succeeds, and reads do', async (_, stop, goOn) => {
    const store = await open(pair.primary.url)
    const operator = operatorOf(pair.primary.url)
    const { written, kinds } = await kindsOfWrite(store)
    stop()
    try {
      const reasons = [await refused(put(store, fresh(), bytes('the first'), soon()))]
      const before = await contents(operator)
      for (const [, write] of kinds) reasons.push(await refused(write()))
      reasons.push(...(await Promise.all(kinds.map(([, write]) => refused(write())))))
      expect(UNCONFIRMED).toEqual(expect.arrayContaining(reasons))
      expect(reasons).toContain(UNCONFIRMED[0])
      expect(await contents(operator)).toBe(before)
      expect(await text(store, written)).toBe('old')
      expect(await list(store, fresh())).toEqual([])
    } finally {
      goOn()
    }
    const back = () => put(store, fresh(), bytes('again'), soon()).catch(() => false)
    await expect.poll(back).toBe(true)
    for (const [name, write] of kinds) expect(await write(), name).toBe(true)
  })

  test('an installation can be opened and read while its replica hangs', async () => {
    const open = () => openInstallation(pair.primary.url, [Buffer.alloc(32, 1)])
    const before = await open()
    onTestFinished(() => before.store.close())
    await before.records.of('Account', { backup: true }).save('ada', { name: 'Ada' })
    pair.link.turn('stall')
    try {
      const { records, store } = await open()
      onTestFinished(() => store.close())
      expect((await records.of('Account', { backup: true }).read('ada')).value).toEqual({
        name: 'Ada',
      })
    } finally {
      pair.link.turn('pass')
    }
  })

  test('200 concurrent writes share a few WAITs', async () => {
    const store = await open(pair.primary.url)
    const operator = operatorOf(pair.primary.url)
    await put(store, fresh(), bytes('warm'), soon())
    const before = await calls(operator, 'wait')
    const writes = Array.from({ length: 200 }, () => put(store, fresh(), bytes('x'), soon()))
    expect(new Set(await Promise.all(writes))).toEqual(new Set([true]))
    const waits = (await calls(operator, 'wait')) - before
    expect(waits).toBeGreaterThan(0)
    expect(waits).toBeLessThan(20)
  })

  test('a connection that is lost before the confirmation confirms nothing', async () => {
    const store = await open(pair.primary.url)
    const operator = operatorOf(pair.primary.url)
    const key = fresh()
    pair.link.turn('stall')
    try {
      const writing = put(store, key, bytes('x'), soon()).catch((error: unknown) => error)
      await expect
        .poll(() => operator.info('clients'), { interval: 5 })
        .toContain('blocked_clients:1')
      await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      // From now on a WAIT on another connection would succeed.
      pair.link.turn('pass')
      expect(await writing).toBeInstanceOf(StoreUnavailable)
      expect(await operator.exists(`usher:r:${key}`)).toBe(1)
    } finally {
      pair.link.turn('pass')
    }
  })

  test('a write that is retried after a lost reply is not treated as confirmed', async () => {
    const link = await startLink(portOf(pair.primary.url))
    onTestFinished(() => link.close())
    const store = await open(link.url)
    const { kinds } = await kindsOfWrite(store)
    for (const [name, write] of kinds) {
      pair.link.turn('stall')
      link.loseNextReply()
      const lost = link.lost()
      await refused(write())
      expect(link.lost(), name).toBe(lost + 1)
      pair.link.turn('pass')
      const back = () => put(store, fresh(), bytes('again'), soon()).catch(() => false)
      await expect.poll(back).toBe(true)
    }
  })

  test('durability: primary never waits', async () => {
    const store = await open(pair.primary.url, PRIMARY)
    const operator = operatorOf(pair.primary.url)
    const before = await calls(operator, 'wait')
    pair.link.turn('stall')
    try {
      const { kinds } = await kindsOfWrite(store)
      for (const [name, write] of kinds) expect(await write(), name).toBe(true)
    } finally {
      pair.link.turn('pass')
    }
    expect(await calls(operator, 'wait')).toBe(before)
  })
})

test('writes wait for a replica as soon as it is connected', async () => {
  const port = await freePort()
  const primary = await startRedis({ port, settings: AT_ONCE })
  onTestFinished(() => primary.stop())
  const store = await open(primary.url)
  const operator = operatorOf(primary.url)
  expect(await put(store, fresh(), bytes('alone'), soon())).toBe(true)
  expect(await calls(operator, 'wait')).toBe(0)

  const replica = await startReplica(port)
  onTestFinished(() => replica.stop())
  const waits = async () => {
    await store.check()
    await put(store, fresh(), bytes('x'), soon())
    return calls(operator, 'wait')
  }
  await expect.poll(waits, { interval: 200 }).toBeGreaterThan(0)
  replica.link.turn('stall')
  await refused(put(store, fresh(), bytes('x'), soon()))
})

test('writes do not wait for a replica that still loads its first copy', async () => {
  const [port = 0, other = 0] = await freePorts(2)
  const primary = await startRedis({ port, settings: AT_ONCE })
  onTestFinished(() => primary.stop())
  const before = await open(primary.url)
  for (let i = 0; i < 300; i++) await put(before, fresh(), bytes('x'), soon())
  const slow = ['--replicaof', '127.0.0.1', String(port), '--key-load-delay', '10000']
  const replica = await startRedis({ port: other, settings: slow })
  onTestFinished(() => replica.stop())
  const operator = operatorOf(primary.url)
  const replication = () => operator.info('replication')
  await expect.poll(replication).toMatch(/slave0:.*state=online,offset=0/)
  const store = await open(primary.url)
  expect(await put(store, fresh(), bytes('x'), soon())).toBe(true)
  expect(await replication()).toMatch(/slave0:.*offset=0/)
})

test('with durability: replicated, no write succeeds without a replica', async () => {
  const port = await freePort()
  const primary = await startRedis({ port })
  onTestFinished(() => primary.stop())
  const store = await open(primary.url, REPLICATED)
  const operator = operatorOf(primary.url)
  const first = fresh()
  await refused(put(store, first, bytes('x'), soon()))
  const before = await contents(operator)
  await refused(put(store, fresh(), bytes('x'), soon()))
  expect(await contents(operator)).toBe(before)
  expect((await store.get(first))?.version).toBe(1)
})

test('a store that is closed during its check for replicas leaves no connection', async () => {
  const pair = await startPair()
  onTestFinished(() => pair.stop())
  const operator = operatorOf(pair.primary.url)
  const clients = async () => /connected_clients:\d+/.exec(await operator.info('clients'))?.[0]
  const before = await clients()
  for (let round = 0; round < 10; round++) await (await openRedisStore(pair.primary.url)).close()
  await expect.poll(clients).toBe(before)
})

const COUNT = 500

/** Writes records, a few at once, and calls `midway` after half of them. Returns the acknowledged ones. */
async function writeMany(store: Store, midway: () => void): Promise<string[]> {
  const acknowledged: string[] = []
  for (let i = 0; i < COUNT; i += 50) {
    if (i === COUNT / 2) midway()
    const keys = Array.from({ length: 50 }, fresh)
    const write = (key: string) => put(store, key, bytes('new'), soon()).catch(() => false)
    const answers = await Promise.all(keys.map(write))
    acknowledged.push(...keys.filter((_, j) => answers[j]))
  }
  return acknowledged
}

/** The number of acknowledged writes that the store has lost. */
async function missing(store: Store, acknowledged: string[]): Promise<number> {
  const found = await Promise.all(acknowledged.map(key => text(store, key)))
  return found.filter(value => value !== 'new').length
}

/** The link hangs, the primary is killed, the replica becomes the primary. */
async function failover(settings?: typeof REDIS_DEFAULTS) {
  const pair = await startPair()
  onTestFinished(() => pair.stop())
  const store = await open(pair.primary.url, settings)
  const acknowledged = await writeMany(store, () => pair.link.turn('stall'))
  await pair.primary.kill('SIGKILL')
  await operatorOf(pair.replica.url).call('REPLICAOF', 'NO', 'ONE')
  const promoted = await open(pair.replica.url)
  return { acknowledged: acknowledged.length, missing: await missing(promoted, acknowledged) }
}

test('a failover loses no acknowledged write of 500', async () => {
  const outcome = await failover()
  expect(outcome).toEqual({ acknowledged: COUNT / 2, missing: 0 })
})

test('with durability: primary, a failover loses writes that no replica had', async () => {
  const { acknowledged, missing } = await failover(PRIMARY)
  expect(acknowledged).toBe(COUNT)
  expect(missing).toBeGreaterThanOrEqual(COUNT / 2)
  expect(missing).toBeLessThan(COUNT)
})

describe('a Cluster', () => {
  let cluster: RedisGroup
  beforeAll(async () => {
    cluster = await startCluster(2000)
  })
  afterAll(() => cluster?.stop())

  const serverAt = (port: number): RedisServer => {
    const server = cluster.servers.find(({ url }) => portOf(url) === port)
    if (!server) throw new Error('no server of this cluster')
    return server
  }

  /** Each master with its replica, and a function that returns whether it holds a key. */
  async function shards() {
    const slots = await operatorOf(cluster.servers[0]?.url ?? '').cluster('SLOTS')
    return Promise.all(
      slots.map(async ([first, last, node]) => {
        const master = serverAt(node?.[1] ?? 0)
        const info = await operatorOf(master.url).info('replication')
        const replica = serverAt(Number(/slave0:ip=[^,]+,port=(\d+)/.exec(info)?.[1]))
        const holds = (key: string) => {
          const slot = new Command('get', [`usher:r:${key}`]).getSlot()
          return first <= slot && slot <= last
        }
        return { master, replica, holds }
      }),
    )
  }
  type Shard = Awaited<ReturnType<typeof shards>>[number]
  function keyOf(shard: Shard): string {
    for (let i = 0; i < 10_000; i++) {
      const key = fresh()
      if (shard.holds(key)) return key
    }
    throw new Error('no key falls into this shard')
  }

  test('each master waits for its own replica', async () => {
    const store = await open(cluster.url)
    const [first, ...others] = await shards()
    if (!first) throw new Error('there are no shards')
    const key = keyOf(first)
    expect(await put(store, key, bytes('x'), soon())).toBe(true)
    const hung = first.replica.pid
    process.kill(hung, 'SIGSTOP')
    try {
      const reason = await refused(put(store, keyOf(first), bytes('x'), soon()))
      expect(UNCONFIRMED).toContain(reason)
      await refused(remove(store, key, now() + 60))
      for (const shard of others) {
        expect(await put(store, keyOf(shard), bytes('x'), soon())).toBe(true)
      }
      expect(await text(store, key)).toBe('x')
    } finally {
      process.kill(hung, 'SIGCONT')
    }
    const back = () => put(store, keyOf(first), bytes('x'), soon()).catch(() => false)
    await expect.poll(back).toBe(true)
  })

  test('a promoted replica has all acknowledged writes', async () => {
    const store = await open(cluster.url)
    const acknowledged = await writeMany(store, () => {})
    expect(acknowledged).toHaveLength(COUNT)
    const [lost] = await shards()
    if (!lost) throw new Error('there are no shards')
    await lost.master.kill('SIGKILL')
    const isThere = () => missing(store, acknowledged).catch(reasonOf)
    await expect.poll(isThere, { timeout: 25_000, interval: 200 }).toBe(0)
    // The new master has no replica until the old master becomes one.
    await refused(put(store, keyOf(lost), bytes('x'), soon()))
    await lost.master.start()
    const back = () => put(store, keyOf(lost), bytes('x'), soon()).catch(() => false)
    await expect.poll(back, { interval: 200 }).toBe(true)
  })
})
