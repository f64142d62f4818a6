// What one request reads and writes together, over a store that does several things at once.

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openStore } from '../../src/storage/open.ts'
import { openRecords, type Records } from '../../src/storage/records.ts'
import { type Store, StoreUnavailable } from '../../src/storage/store.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'

const SECRET = Buffer.alloc(32, 'units')
let server: RedisServer
let store: Store
/** Of two nodes. */
let records: Records
let others: Records
let commands: string[]
beforeAll(async () => {
  const [port] = await freePorts(1)
  server = await startRedis({ port })
  store = await openStore(server.url, undefined, command => commands?.push(command))
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

/** The commands that `work` costs. */
async function costs(work: () => Promise<unknown>): Promise<string[]> {
  commands = []
  await work()
  return commands
}
const standing = async (kind: string, id: string) => (await records.read(kind, id)).value

describe('what is read along', () => {
  beforeAll(async () => {
    await records.save('Grant', 'g', { of: 'ada' })
    await records.save('Token', 't', { grant: 'g' }, { companions: [['Grant', 'g']] })
  })

  test('costs nothing more in the same request', async () => {
    const both = () =>
      records.during(async () => {
        expect(await standing('Token', 't')).toEqual({ grant: 'g' })
        expect(await standing('Grant', 'g')).toEqual({ of: 'ada' })
      })
    expect(await costs(both)).toEqual(['get'])
  })

  test('is told once: whoever asks again is told what is there by then', async () => {
    await records.during(async () => {
      await records.read('Token', 't')
      await others.save('Grant', 'g', { of: 'grace' })
      expect(await standing('Grant', 'g')).toEqual({ of: 'ada' })
      expect(await standing('Grant', 'g')).toEqual({ of: 'grace' })
    })
  })

  test.each<[string, () => Promise<unknown>]>([
    ['a write', () => records.save('Other', 'o', {})],
    ['a removal', () => records.remove('Other', 'none')],
  ])('is not told after %s', async (_, act) => {
    await others.save('Grant', 'g', { of: 'ada' })
    await records.during(async () => {
      await records.read('Token', 't')
      await others.save('Grant', 'g', { of: 'alan' })
      await act()
      expect(await standing('Grant', 'g')).toEqual({ of: 'alan' })
    })
  })

  test('is not told to another request, nor after the end of its own', async () => {
    await others.save('Grant', 'g', { of: 'ada' })
    let later: (() => Promise<unknown>) | undefined
    await records.during(async () => {
      await records.read('Token', 't')
      later = () => standing('Grant', 'g')
      await others.save('Grant', 'g', { of: 'grace' })
      await records.during(async () => {
        expect(await standing('Grant', 'g')).toEqual({ of: 'grace' })
      })
    })
    expect(await later?.()).toEqual({ of: 'grace' })
  })
})

describe('what is left for later', () => {
  const leave = (id: string, options: { version?: number } = {}, refused?: () => Promise<void>) =>
    records.saveLater('Kept', id, { id }, options, refused)

  test('is written with the next write, in one command', async () => {
    const work = () =>
      records.during(async () => {
        await leave('a')
        await leave('b')
        expect(await others.read('Kept', 'a')).toEqual({ version: 0 })
        expect(await records.save('Kept', 'c', { id: 'c' })).toBe(true)
        for (const id of 'abc') expect((await others.read('Kept', id)).value).toEqual({ id })
      })
    expect(await costs(work)).toEqual(['usherPut'])
  })

  test('is written at the end where nothing follows, and at once outside of a request', async () => {
    expect(await costs(() => records.during(() => leave('d')))).toEqual(['usherPut'])
    expect(await costs(() => leave('e'))).toEqual(['usherPut'])
    for (const id of 'de') expect(await standing('Kept', id)).toEqual({ id })
  })

  test('is not written when what it belongs to fails', async () => {
    const fail = async () => {
      await leave('f')
      throw new Error('no')
    }
    await records.during(() => expect(records.together(fail)).rejects.toThrow('no'))
    await expect(records.during(fail)).rejects.toThrow('no')
    expect(await standing('Kept', 'f')).toBeUndefined()
  })

  test('who is refused is asked, and may keep what follows from being written', async () => {
    const asked: string[] = []
    const ask = (id: string) => async () => {
      asked.push(id)
      if (id === 'stop') throw new Error('refused')
    }
    await records.save('Kept', 'there', {})
    await records.during(async () => {
      await leave('there', { version: 0 }, ask('on'))
      await leave('g')
      expect(await records.save('Kept', 'there', {}, { version: 0 })).toBe(false)
    })
    expect(await standing('Kept', 'g')).toEqual({ id: 'g' })
    const stopped = records.during(async () => {
      await leave('there', { version: 0 }, ask('stop'))
      await leave('h')
    })
    await expect(stopped).rejects.toThrow('refused')
    expect(await standing('Kept', 'h')).toBeUndefined()
    expect(asked).toEqual(['on', 'stop'])
  })
})

test('F2: a request that the store has failed once does not wait for it again; another tries', async () => {
  const get = vi.spyOn(store, 'get').mockRejectedValueOnce(new StoreUnavailable('hung'))
  const asks = [
    () => records.read('Hung', 'a'),
    () => records.read('Hung', 'a'),
    () => records.save('Hung', 'a', {}),
    () => records.consume('Hung', 'a'),
    () => records.remove('Hung', 'a'),
    () => records.list('Hung', 'a'),
  ]
  const inVain = () =>
    records.during(async () => {
      for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(StoreUnavailable)
    })
  expect(await costs(inVain)).toEqual([])
  expect(get).toHaveBeenCalledTimes(1)
  get.mockRestore()
  expect(await records.during(() => records.save('Hung', 'a', {}))).toBe(true)
})
