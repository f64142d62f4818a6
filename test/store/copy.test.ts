import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { copyStore } from '../../src/commands/store.ts'
import { openRecords } from '../../src/store/records.ts'
import { NAMING_KEY } from '../../src/store/seal.ts'
import { type Store, StoreUnavailable, wrong } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { openPatientStore, type RedisServer, startRedis } from '../support/redis.ts'
import { startCluster } from '../support/redis-together.ts'
import { consume, list, put, remove } from './operations.ts'
import { bytes, describeEntry, fresh, now } from './store-suite.ts'

const SECRETS = [Buffer.alloc(32, 'copy')]
const folder = temporaryFolder()

async function open(location = `sqlite:${join(folder, `${fresh()}.db`)}`): Promise<Store> {
  const store = await openPatientStore(location)
  onTestFinished(() => store.close())
  return store
}

/** An installation with records of every kind, and more of them than fit in one batch. */
async function openFilled(store?: Store): Promise<Store> {
  const filled = store ?? (await open())
  const records = await openRecords(filled, SECRETS)
  const indexes: [string, string][] = [
    ['accounts', 'all'],
    ['tokens of grant', 'grant'],
  ]
  const each = (step: number, work: (id: string, i: number) => Promise<unknown>) =>
    Promise.all(Array.from({ length: 230 }, (_, i) => i % step === 0 && work(String(i), i)))
  await each(1, (id, i) =>
    records.of('Kind').save(id, { id }, i % 2 ? { ttl: 600 + i } : { indexes }),
  )
  await each(3, id => records.of('Kind').consume(id))
  await each(5, id => records.of('Kind').remove(id, 600))
  await put(
    filled,
    'bytes',
    Uint8Array.from({ length: 256 }, (_, i) => i),
    { indexes: ['alone'] },
  )
  await put(filled, 'nothing', new Uint8Array(), { expires: now() + 600 })
  return filled
}

type Contents = Record<string, ReturnType<typeof describeEntry>>

async function contents(store: Store): Promise<Contents> {
  const found: Contents = {}
  for await (const entry of store.scan()) found[entry.key] = describeEntry(entry)
  return found
}

/** The expected content of the copy. The version of the naming key is not copied. */
const expectedCopy = (found: Contents) => ({
  ...found,
  [NAMING_KEY]: { ...found[NAMING_KEY], version: 1 },
})

/** A store of which some operations are replaced. */
const withChanges = (store: Store, changes: Partial<Store>): Store =>
  new Proxy(store, {
    get(target, name) {
      const operation = Reflect.get(changes, name) ?? Reflect.get(target, name)
      return typeof operation === 'function' ? operation.bind(target) : operation
    },
  })

/** A store whose scan fails after `count` records. */
function breakingAfter(store: Store, count: number): Store {
  return withChanges(store, {
    async *scan() {
      let seen = 0
      for await (const entry of store.scan()) {
        if (seen++ === count) throw new Error('the cable was pulled')
        yield entry
      }
    },
  })
}

describe('a copy of a store', () => {
  let alone: RedisServer
  let cluster: Awaited<ReturnType<typeof startCluster>>
  let urls: Record<string, string>
  beforeAll(async () => {
    const port = await freePort()
    ;[alone, cluster] = await Promise.all([startRedis({ port }), startCluster()])
    urls = { 'Redis alone': `${alone.url}/3`, 'Redis Cluster': cluster.url }
  })
  afterAll(() => Promise.all([alone?.stop(), cluster?.stop()]))

  test.each(['Redis alone', 'Redis Cluster'])(
    '%s: the copy and the copy back have the same content',
    async name => {
      const from = await openFilled()
      const before = await contents(from)
      expect(Object.keys(before).length).toBeGreaterThan(200)
      const [to, back] = [await open(urls[name]), await open()]

      const live = Object.values(before).filter(entry => entry?.value !== undefined)
      expect(await copyStore(from, to)).toBe(live.length)
      expect(await contents(to)).toEqual(expectedCopy(before))
      expect((await list(to, 'alone')).map(({ key }) => key)).toEqual(['bytes'])

      expect(await copyStore(to, back)).toBe(live.length)
      expect(await contents(back)).toEqual(expectedCopy(before))
      expect(await contents(from)).toEqual(before)

      const records = await openRecords(back, SECRETS)
      expect((await records.of('Kind').read('3')).consumed).toBeGreaterThan(0)
      expect(await records.of('Account', { backup: true }).list('accounts', 'all')).toHaveLength(92)
      expect(await records.of('Kind').save('5', {})).toBe(false)
    },
  )

  test('writes nothing when Redis is out of memory, and succeeds with enough memory', async () => {
    const from = await openFilled()
    const to = await open(`${alone.url}/8`)
    const operator = new Redis(alone.url)
    await operator.config('SET', 'maxmemory', '1mb')
    try {
      await expect(copyStore(from, to)).rejects.toMatchObject({
        error_detail: expect.stringContaining('OOM'),
      })
      expect(await contents(to)).toEqual({})
    } finally {
      await operator.config('SET', 'maxmemory', '0')
      await operator.quit()
    }
    await copyStore(from, to)
  })
})

describe('after an interrupted copy', () => {
  test('the target is no installation, and a second copy completes it', async () => {
    const [from, to] = [await openFilled(), await open()]
    await expect(copyStore(breakingAfter(from, 150), to)).rejects.toThrow('the cable was pulled')
    const left = await contents(to)
    expect(Object.keys(left).length).toBeGreaterThan(90)
    expect(left).not.toHaveProperty(NAMING_KEY)
    await expect(copyStore(to, await open())).rejects.toThrow('--from holds no installation')

    await copyStore(from, to)
    expect(await contents(to)).toEqual(expectedCopy(await contents(from)))
  })

  test('a second attempt copies the changes since the first', async () => {
    const [from, to] = [await open(), await open()]
    const records = await openRecords(from, SECRETS)
    const keys = Array.from({ length: 4 }, fresh)
    const [removed = '', gone = '', consumed = '', moved = ''] = keys
    for (const key of keys) await put(from, key, bytes('x'), { indexes: ['before'] })
    await records.of('Kind').save('id', {})
    // All records are there except the naming key.
    const nearly = withChanges(to, { write: () => Promise.reject(new Error('stopped')) })
    await expect(copyStore(from, nearly)).rejects.toThrow('stopped')
    expect(await list(to, 'before')).toHaveLength(4)

    await remove(from, removed, now() + 600)
    await remove(from, gone, now() - 1)
    await consume(from, consumed, 1_700_000_000)
    await remove(from, moved, now() + 600)
    await put(from, moved, bytes('y'), { version: 2, indexes: ['after'] })
    await put(to, 'of another', bytes('x'), { indexes: ['before'] })
    await copyStore(from, to)
    expect(await contents(to)).toEqual(expectedCopy(await contents(from)))
    expect((await list(to, 'before')).map(({ key }) => key)).toEqual([consumed])
    expect((await list(to, 'after')).map(({ key }) => key)).toEqual([moved])
    expect(await put(to, removed, bytes('late'), {})).toBe(false)
  })
})

describe('the copy is not completed', () => {
  test('when the target is not safe for an installation', async () => {
    const [from, to] = [await openFilled(), await open()]
    const evicting = withChanges(to, { check: async () => [wrong('eviction', 'allkeys-lru', 'x')] })
    await expect(copyStore(from, evicting)).rejects.toThrow('cannot be trusted')
    expect(await Array.fromAsync(to.scan())).toEqual([])
  })

  test('when the target is unavailable for a moment; the same copy once more succeeds', async () => {
    const [from, to] = [await openFilled(), await open()]
    const lagging = withChanges(to, {
      async restore(entry) {
        await to.restore(entry)
        if (entry.key === 'bytes') throw new StoreUnavailable('no replica has confirmed the write')
      },
    })
    await expect(copyStore(from, lagging)).rejects.toBeInstanceOf(StoreUnavailable)
    expect(await to.get(NAMING_KEY)).toBeUndefined()
    await copyStore(from, to)
    expect(await contents(to)).toEqual(expectedCopy(await contents(from)))
  })

  test('when a node is started on the target during the copy', async () => {
    const [from, to] = [await openFilled(), await open()]
    const started = withChanges(to, {
      async restore(entry) {
        if (entry.key === 'bytes') await openRecords(to, SECRETS)
        await to.restore(entry)
      },
    })
    await expect(copyStore(from, started)).rejects.toThrow('--to became an installation meanwhile')
  })
})

test('at most a hundred records are written concurrently', async () => {
  const [from, to] = [await openFilled(), await open()]
  let atOnce = 0
  let most = 0
  const counting = withChanges(to, {
    async restore(entry) {
      most = Math.max(most, ++atOnce)
      await to.restore(entry)
      atOnce--
    },
  })
  await copyStore(from, counting)
  expect(most).toBe(100)
})
