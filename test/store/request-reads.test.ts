// The reads of a request: each record once, until the request writes.

import { AsyncLocalStorage } from 'node:async_hooks'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openStore } from '../../src/store/open.ts'
import { openRecords, type Records } from '../../src/store/records.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'

const SECRET = Buffer.alloc(32, 'units')
const requests = new AsyncLocalStorage<object>()
const inRequest = <T>(work: () => Promise<T>) => requests.run({}, work)
let server: RedisServer
let store: Store
/** The records as two nodes see them. */
let records: Records
let others: Records
let commands = 0
beforeAll(async () => {
  const [port] = await freePorts(1)
  server = await startRedis({ port })
  store = await openStore(server.url, undefined, () => commands++)
  records = await openRecords(store, [SECRET], () => requests.getStore())
  others = await openRecords(await openStore(server.url).then(track), [SECRET])
})
const opened: Store[] = []
const track = (one: Store) => {
  opened.push(one)
  return one
}
afterAll(async () => {
  await Promise.all([store, ...opened].map(one => one.close()))
  await server.stop()
})

/** The number of commands to Redis during `work`. */
async function costs(work: () => Promise<unknown>): Promise<number> {
  commands = 0
  await work()
  return commands
}
const standing = async (kind: string, id: string) => (await records.read(kind, id)).value
const change = (kind: string, id: string, value: object) => others.change(kind, id, () => value)

describe('records that are read at the same time', () => {
  const grant = async () => (await records.read('Grant', 'g')).value
  const readBoth = () => records.read('Token', 't', ['Grant', 'g'])
  beforeAll(async () => {
    await records.save('Grant', 'g', { of: 'ada' })
    await records.save('Token', 't', { grant: 'g' })
  })

  test('need one command, and are read once in a request', async () => {
    const both = () =>
      inRequest(async () => {
        expect((await readBoth()).value).toEqual({ grant: 'g' })
        expect(await grant()).toEqual({ of: 'ada' })
      })
    expect(await costs(both)).toBe(1)
  })

  test('are read without those that are known', async () => {
    await inRequest(async () => {
      await grant()
      await change('Grant', 'g', { of: 'alan' })
      expect((await readBoth()).value).toEqual({ grant: 'g' })
      expect(await grant()).toEqual({ of: 'ada' })
    })
    await change('Grant', 'g', { of: 'ada' })
  })

  test.each<[string, () => Promise<unknown>]>([
    ['a write', () => records.save('Other', 'o', {})],
    ['a removal', () => records.remove('Other', 'none')],
  ])('are read again after %s', async (_, act) => {
    await change('Grant', 'g', { of: 'ada' })
    await inRequest(async () => {
      await readBoth()
      await change('Grant', 'g', { of: 'alan' })
      await act()
      expect(await grant()).toEqual({ of: 'alan' })
    })
  })

  test('are read again by another request, and outside of requests', async () => {
    await change('Grant', 'g', { of: 'ada' })
    await inRequest(async () => {
      await readBoth()
      await change('Grant', 'g', { of: 'grace' })
      await inRequest(async () => expect(await grant()).toEqual({ of: 'grace' }))
      await requests.exit(async () => expect(await grant()).toEqual({ of: 'grace' }))
      expect(await grant()).toEqual({ of: 'ada' })
    })
  })
})

test('three reads of a record cost one command, until the request writes', async () => {
  await others.save('Token', 'once', { n: 1 })
  const work = () =>
    inRequest(async () => {
      for (let i = 0; i < 3; i++) expect(await standing('Token', 'once')).toEqual({ n: 1 })
      await records.save('Other', 'p', {})
      await change('Token', 'once', { n: 2 })
      expect(await standing('Token', 'once')).toEqual({ n: 2 })
    })
  expect(await costs(work)).toBe(3)
})

test('each read of a request returns an object of its own', async () => {
  await others.save('Token', 'own', { list: [1] })
  await inRequest(async () => {
    const first = (await records.read<{ list: number[] }>('Token', 'own')).value
    first?.list.push(2)
    expect(await standing('Token', 'own')).toEqual({ list: [1] })
  })
})

test('a read that a write of the same request overtakes is not cached', async () => {
  await others.save('Token', 'race', { n: 1 })
  await inRequest(async () => {
    const reading = records.read('Token', 'race')
    await Promise.all([reading, records.save('Token', 'race', { n: 2 }, { version: 1 })])
    expect(await standing('Token', 'race')).toEqual({ n: 2 })
  })
})

test('a read during a write of the same request is not cached', async () => {
  await others.save('Token', 'during', { n: 1 })
  await inRequest(async () => {
    const { write } = store
    vi.spyOn(store, 'write').mockImplementationOnce(async change => {
      expect(await standing('Token', 'during')).toEqual({ n: 1 })
      return write(change)
    })
    await records.save('Token', 'during', { n: 2 }, { version: 1 })
    expect(await standing('Token', 'during')).toEqual({ n: 2 })
  })
})

test('compare-and-set uses the last version that the request read, after a write too', async () => {
  await records.save('Token', 'last', { n: 1 })
  await inRequest(async () => {
    expect(records.lastRead('Token', 'last')).toBeUndefined()
    const found = await records.read('Token', 'last')
    await records.save('Other', 'q', {})
    expect(records.lastRead('Token', 'last')).toEqual(found)
  })
  expect(records.lastRead('Token', 'last')).toBeUndefined()
})

test('a request waits for an unavailable store only once; another request tries again', async () => {
  const read = vi.spyOn(store, 'getMany').mockRejectedValueOnce(new StoreUnavailable('hung'))
  const asks = [
    () => records.read('Hung', 'a'),
    () => records.read('Hung', 'a'),
    () => records.save('Hung', 'a', {}),
    () => records.consume('Hung', 'a'),
    () => records.remove('Hung', 'a'),
    () => records.list('Hung', 'a'),
  ]
  const inVain = () =>
    inRequest(async () => {
      for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(StoreUnavailable)
    })
  expect(await costs(inVain)).toBe(0)
  expect(read).toHaveBeenCalledTimes(1)
  read.mockRestore()
  expect(await inRequest(() => records.save('Hung', 'a', {}))).toBe(true)
})
