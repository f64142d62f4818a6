// The reads of a request: each record once, until the request writes.

import { AsyncLocalStorage } from 'node:async_hooks'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'

const SECRET = Buffer.alloc(32, 'units')
const requests = new AsyncLocalStorage<object>()
const inRequest = <T>(work: () => Promise<T>) => requests.run({}, work)
let store: Store
/** The records as two nodes see them. */
let records: Records
let others: Records
beforeAll(async () => {
  store = await openSqliteStore(':memory:')
  records = await openRecords(store, [SECRET], () => requests.getStore())
  others = await openRecords(store, [SECRET])
})
afterAll(() => store.close())
afterEach(() => void vi.restoreAllMocks())

const standing = async (kind: string, id: string) => (await records.of(kind).read(id)).value
const change = (kind: string, id: string, value: object) => others.of(kind).change(id, () => value)

describe('records that are read at the same time', () => {
  const grant = async () => (await records.of('Grant').read('g')).value
  const readBoth = () => records.of('Token').read('t', ['Grant', 'g'])
  beforeAll(async () => {
    await records.of('Grant').save('g', { of: 'ada' })
    await records.of('Token').save('t', { grant: 'g' })
  })

  test('need one command, and are read once in a request', async () => {
    const both = () =>
      inRequest(async () => {
        expect((await readBoth()).value).toEqual({ grant: 'g' })
        expect(await grant()).toEqual({ of: 'ada' })
      })
    const read = vi.spyOn(store, 'getMany')
    await both()
    expect(read).toHaveBeenCalledTimes(1)
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
    ['a write', () => records.of('Other').save('o', {})],
    ['a removal', () => records.of('Other').remove('none')],
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

test('each read of a request returns an object of its own', async () => {
  await others.of('Token').save('own', { list: [1] })
  await inRequest(async () => {
    const first = (await records.of<{ list: number[] }>('Token').read('own')).value
    first?.list.push(2)
    expect(await standing('Token', 'own')).toEqual({ list: [1] })
  })
})

test('a read that a write of the same request overtakes is not cached', async () => {
  await others.of('Token').save('race', { n: 1 })
  await inRequest(async () => {
    const reading = records.of('Token').read('race')
    await Promise.all([reading, records.of('Token').save('race', { n: 2 }, { version: 1 })])
    expect(await standing('Token', 'race')).toEqual({ n: 2 })
  })
})

test('a read during a write of the same request is not cached', async () => {
  await others.of('Token').save('during', { n: 1 })
  await inRequest(async () => {
    const { write } = store
    vi.spyOn(store, 'write').mockImplementationOnce(async change => {
      expect(await standing('Token', 'during')).toEqual({ n: 1 })
      return write(change)
    })
    await records.of('Token').save('during', { n: 2 }, { version: 1 })
    expect(await standing('Token', 'during')).toEqual({ n: 2 })
  })
})

test('compare-and-set uses the last version that the request read, after a write too', async () => {
  await records.of('Token').save('last', { n: 1 })
  await inRequest(async () => {
    expect(records.of('Token').lastRead('last')).toBeUndefined()
    const found = await records.of('Token').read('last')
    await records.of('Other').save('q', {})
    expect(records.of('Token').lastRead('last')).toEqual(found)
  })
  expect(records.of('Token').lastRead('last')).toBeUndefined()
})

test('a request waits for an unavailable store only once; another request tries again', async () => {
  const read = vi.spyOn(store, 'getMany').mockRejectedValueOnce(new StoreUnavailable('hung'))
  const asks = [
    () => records.of('Hung').read('a'),
    () => records.of('Hung').read('a'),
    () => records.of('Hung').save('a', {}),
    () => records.of('Hung').consume('a'),
    () => records.of('Hung').remove('a'),
    () => records.of('Hung').list('Hung', 'a'),
  ]
  const inVain = () =>
    inRequest(async () => {
      for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(StoreUnavailable)
    })
  const write = vi.spyOn(store, 'write')
  await inVain()
  expect(read).toHaveBeenCalledTimes(1)
  expect(write).not.toHaveBeenCalled()
  read.mockRestore()
  expect(await inRequest(() => records.of('Hung').save('a', {}))).toBe(true)
})
