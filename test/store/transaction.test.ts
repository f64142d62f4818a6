// The transaction of a request: combined reads, deferred writes, and the read cache.

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openStore } from '../../src/storage/open.ts'
import { type Id, openRecords, type Records } from '../../src/storage/records.ts'
import { type Store, StoreUnavailable } from '../../src/storage/store.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'

const SECRET = Buffer.alloc(32, 'units')
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
  records = await openRecords(store, [SECRET])
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

describe('records of one slot', () => {
  const inSlot = (id: string) => ({ slot: 'chain', id })
  const grant = async () => (await records.read('Grant', inSlot('g'))).value
  const readBoth = () => records.read('Token', inSlot('t'), ['Grant', inSlot('g')])
  beforeAll(async () => {
    await records.save('Grant', inSlot('g'), { of: 'ada' })
    await records.save('Token', inSlot('t'), { grant: 'g' })
  })

  test('are read in one command, and only once in a request', async () => {
    const both = () =>
      records.transaction(async () => {
        expect((await readBoth()).value).toEqual({ grant: 'g' })
        expect(await grant()).toEqual({ of: 'ada' })
      })
    expect(await costs(both)).toBeLessThanOrEqual(1)
  })

  test('are not read together with a record of another slot', async () => {
    const reading = records.read('Token', inSlot('t'), ['Grant', 'g'])
    await expect(reading).rejects.toThrow('in several slots')
  })

  test('differ from records with the same id in another slot, or in none', async () => {
    expect((await records.read('Grant', 'g')).value).toBeUndefined()
    expect((await records.read('Grant', { slot: 'other', id: 'g' })).value).toBeUndefined()
  })

  test.each<[string, () => Promise<unknown>]>([
    ['a write', () => records.save('Other', 'o', {})],
    ['a removal', () => records.remove('Other', 'none')],
  ])('are read again after %s', async (_, act) => {
    await others.save('Grant', inSlot('g'), { of: 'ada' })
    await records.transaction(async () => {
      await readBoth()
      await others.save('Grant', inSlot('g'), { of: 'alan' })
      await act()
      expect(await grant()).toEqual({ of: 'alan' })
    })
  })

  test('are read again by another request, and after the end of the request', async () => {
    await others.save('Grant', inSlot('g'), { of: 'ada' })
    let later: (() => Promise<unknown>) | undefined
    await records.transaction(async () => {
      await readBoth()
      later = grant
      await others.save('Grant', inSlot('g'), { of: 'grace' })
      await records.transaction(async () => {
        expect(await grant()).toEqual({ of: 'grace' })
      })
    })
    expect(await later?.()).toEqual({ of: 'grace' })
  })
})

test('three reads of a record cost one command, until the request writes', async () => {
  await others.save('Token', 'once', { n: 1 })
  const work = () =>
    records.transaction(async () => {
      for (let i = 0; i < 3; i++) expect(await standing('Token', 'once')).toEqual({ n: 1 })
      await records.save('Other', 'o', {})
      await others.save('Token', 'once', { n: 2 })
      expect(await standing('Token', 'once')).toEqual({ n: 2 })
    })
  expect(await costs(work)).toBeLessThanOrEqual(3)
})

test('a read that a write of the same request overtakes is not cached', async () => {
  await others.save('Token', 'race', { n: 1 })
  await records.transaction(async () => {
    const reading = records.read('Token', 'race')
    await Promise.all([reading, records.save('Token', 'race', { n: 2 })])
    expect(await standing('Token', 'race')).toEqual({ n: 2 })
  })
})

test('compare-and-set uses the last version that the request read, after a write too', async () => {
  await records.save('Token', 'last', { n: 1 })
  await records.transaction(async () => {
    expect(records.lastRead('Token', 'last')).toBeUndefined()
    const found = await records.read('Token', 'last')
    await records.save('Other', 'o', {})
    expect(records.lastRead('Token', 'last')).toEqual(found)
  })
  expect(records.lastRead('Token', 'last')).toBeUndefined()
})

describe('deferred writes', () => {
  const inSlot = (id: string) => ({ slot: 'later', id })
  const leave = (id: Id, options: { version?: number } = {}, refused?: () => Promise<void>) =>
    records.saveLater('Kept', id, { id }, options, refused)

  test('are written with the next write, in one command for each slot', async () => {
    const work = () =>
      records.transaction(async () => {
        await leave(inSlot('a'))
        await leave(inSlot('b'))
        expect(await others.read('Kept', inSlot('a'))).toEqual({ version: 0 })
        expect(await records.save('Kept', inSlot('c'), { id: inSlot('c') })).toBe(true)
        for (const id of 'abc') {
          expect((await others.read('Kept', inSlot(id))).value).toEqual({ id: inSlot(id) })
        }
      })
    expect(await costs(work)).toBeLessThanOrEqual(1)
    const inTwo = () => records.transaction(() => Promise.all([leave(inSlot('x')), leave('y')]))
    expect(await costs(inTwo)).toBeLessThanOrEqual(2)
  })

  test('of one slot are all written, or none', async () => {
    const [used, first, second] = ['used', 'first', 'second'].map(inSlot) as [Id, Id, Id]
    await records.save('Code', used, {})
    const redeem = () =>
      records.transaction(async () => {
        const refused = async () => {
          throw new Error('used')
        }
        await records.consumeLater('Code', used, refused)
        await leave(first)
        await leave(second)
      })
    // Of two concurrent redemptions, one writes its tokens.
    const outcomes = await Promise.allSettled([redeem(), redeem()])
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect((await records.read('Kept', first)).version).toBe(1)
    expect((await records.read('Kept', second)).version).toBe(1)
  })

  test('are written at the end of the request, and at once outside of a request', async () => {
    expect(await costs(() => records.transaction(() => leave('d')))).toBe(1)
    expect(await costs(() => leave('e'))).toBe(1)
    for (const id of 'de') expect(await standing('Kept', id)).toEqual({ id })
  })

  test('are not written when their request fails', async () => {
    const fail = async () => {
      await leave('f')
      throw new Error('no')
    }
    await records.transaction(() => expect(records.batch(fail)).rejects.toThrow('no'))
    await expect(records.transaction(fail)).rejects.toThrow('no')
    expect(await standing('Kept', 'f')).toBeUndefined()
  })

  test('a refused write calls its handler, which can stop the writes after it', async () => {
    const asked: string[] = []
    const ask = (id: string) => async () => {
      asked.push(id)
      if (id === 'stop') throw new Error('refused')
    }
    await records.save('Kept', 'there', {})
    await records.transaction(async () => {
      await leave('there', { version: 0 }, ask('on'))
      await leave('g')
      expect(await records.save('Kept', 'there', {}, { version: 0 })).toBe(false)
    })
    expect(await standing('Kept', 'g')).toEqual({ id: 'g' })
    const stopped = records.transaction(async () => {
      await leave('there', { version: 0 }, ask('stop'))
      await leave('h')
    })
    await expect(stopped).rejects.toThrow('refused')
    expect(await standing('Kept', 'h')).toBeUndefined()
    expect(asked).toEqual(['on', 'stop'])
  })
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
    records.transaction(async () => {
      for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(StoreUnavailable)
    })
  expect(await costs(inVain)).toBe(0)
  expect(read).toHaveBeenCalledTimes(1)
  read.mockRestore()
  expect(await records.transaction(() => records.save('Hung', 'a', {}))).toBe(true)
})
