// The contract of src/store/store.ts, which every implementation of a store fulfils.

import { randomBytes } from 'node:crypto'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Entry, Store } from '../../src/store/store.ts'
import { consume, list, put, remove } from './operations.ts'

export const now = () => Math.floor(Date.now() / 1000)
export const bytes = (text: string) => new TextEncoder().encode(text)
/** A new name. Stores may be shared between runs, so that no name is used twice. */
export const fresh = () => randomBytes(16).toString('base64url')
/** The text under a key, or undefined. */
export async function text(store: Store, key: string): Promise<string | undefined> {
  const entry = await store.get(key)
  return entry?.value && new TextDecoder().decode(entry.value)
}

/** An entry in a form that can be compared: its value as text, and its indexes in order. */
export function describeEntry(entry: Entry | undefined) {
  if (!entry) return undefined
  const { value, indexes, ...rest } = entry
  const text = value && { value: Buffer.from(value).toString('latin1') }
  return { ...rest, ...text, ...(indexes && { indexes: indexes.toSorted() }) }
}

/** `open` is called once. The store is closed at the end. */
export function storeSuite(name: string, open: () => Promise<Store>): void {
  describe(name, () => {
    let store: Store
    beforeAll(async () => {
      store = await open()
    })
    afterAll(() => store.close())
    const names = async (index: string) => (await list(store, index)).map(({ key }) => key).sort()

    describe('a record', () => {
      test('reads back as it was written, with a version that rises by one', async () => {
        const key = fresh()
        expect(await store.get(key)).toBeUndefined()
        expect(await put(store, key, bytes('one'), {})).toBe(true)
        expect(await store.get(key)).toEqual({ key, value: expect.anything(), version: 1 })
        expect(await put(store, key, bytes('two'), {})).toBe(true)
        expect(await text(store, key)).toBe('two')
        expect((await store.get(key))?.version).toBe(2)
      })

      test.each([
        ['every byte there is', Uint8Array.from({ length: 256 }, (_, i) => i)],
        ['no byte at all', new Uint8Array()],
        ['zeros', new Uint8Array(3)],
        ['bytes that are not UTF-8', Uint8Array.of(0xff, 0xfe, 0xc3, 0x28)],
        ['a large value', new Uint8Array(randomBytes(300_000))],
      ])('holds %s', async (_, value) => {
        const key = fresh()
        await put(store, key, value, { indexes: [key] })
        expect(Buffer.compare((await store.get(key))?.value ?? Buffer.from('none'), value)).toBe(0)
        const [listed] = await list(store, key)
        expect(Buffer.compare(listed?.value ?? Buffer.from('none'), value)).toBe(0)
        await store.restore({ key, value, version: 7, indexes: [] })
        expect(Buffer.compare((await store.get(key))?.value ?? Buffer.from('none'), value)).toBe(0)
      })

      test('is returned as a copy, so that changes to it do not affect the store', async () => {
        const key = fresh()
        const mine = bytes('kept')
        await put(store, key, mine, { indexes: [key] })
        mine.fill(0)
        ;(await store.get(key))?.value?.fill(0)
        for (const { value } of await list(store, key)) value?.fill(0)
        expect(await text(store, key)).toBe('kept')
      })

      test('is overwritten only if its version is the given one', async () => {
        const key = fresh()
        expect(await put(store, key, bytes('early'), { version: 1 })).toBe(false)
        expect(await put(store, key, bytes('first'), { version: 0 })).toBe(true)
        expect(await put(store, key, bytes('again'), { version: 0 })).toBe(false)
        expect(await put(store, key, bytes('ahead'), { version: 2 })).toBe(false)
        expect(await text(store, key)).toBe('first')
        expect(await put(store, key, bytes('second'), { version: 1 })).toBe(true)
        expect(await text(store, key)).toBe('second')
      })
    })

    describe('consume', () => {
      test('succeeds once in the life of a record, and marks it with the time', async () => {
        const key = fresh()
        await put(store, key, bytes('once'), {})
        expect(await consume(store, key, 1_700_000_000)).toBe(true)
        expect(await consume(store, key, 1_700_000_001)).toBe(false)
        const entry = await store.get(key)
        expect(entry).toMatchObject({ consumed: 1_700_000_000, version: 2 })
        expect(await text(store, key)).toBe('once')
      })

      test('leaves a mark that stays when the record is written again', async () => {
        const key = fresh()
        await put(store, key, bytes('one'), {})
        await consume(store, key, 1_700_000_000)
        await put(store, key, bytes('two'), {})
        await put(store, key, bytes('three'), { version: 3 })
        expect(await store.get(key)).toMatchObject({ consumed: 1_700_000_000, version: 4 })
        expect(await consume(store, key, now())).toBe(false)
      })

      test('raises the version, so that a write with the former version is refused', async () => {
        const key = fresh()
        await put(store, key, bytes('one'), {})
        await consume(store, key, now())
        expect(await put(store, key, bytes('two'), { version: 1 })).toBe(false)
      })

      test('fails for a missing, removed or expired record, and creates nothing', async () => {
        const [missing, removed, expired] = [fresh(), fresh(), fresh()]
        await put(store, removed, bytes('x'), {})
        await remove(store, removed, now() + 60)
        await put(store, expired, bytes('x'), { expires: now() - 1 })
        for (const key of [missing, removed, expired]) {
          expect(await consume(store, key, now())).toBe(false)
          expect(await text(store, key)).toBeUndefined()
        }
        expect(await store.get(missing)).toBeUndefined()
        expect(await store.get(expired)).toBeUndefined()
      })
    })

    test('several keys are read in the requested order', async () => {
      const [live, gone, missing] = [fresh(), fresh(), fresh()]
      await put(store, live, bytes('1'), {})
      await put(store, gone, bytes('2'), {})
      await remove(store, gone, now() + 60)
      expect(await store.getMany([gone, missing, live])).toEqual([
        await store.get(gone),
        undefined,
        await store.get(live),
      ])
    })

    describe('remove', () => {
      test('succeeds once, and leaves a tombstone', async () => {
        const key = fresh()
        await put(store, key, bytes('gone'), {})
        await consume(store, key, 1_700_000_000)
        expect(await remove(store, key, now() + 60)).toBe(true)
        expect(await remove(store, key, now() + 60)).toBe(false)
        expect(await store.get(key)).toEqual({ key, version: 3, expires: expect.any(Number) })
      })

      test('fails for a missing record, and leaves no tombstone', async () => {
        const key = fresh()
        expect(await remove(store, key, now() + 60)).toBe(false)
        expect(await store.get(key)).toBeUndefined()
        expect(await put(store, key, bytes('new'), {})).toBe(true)
      })

      test('refuses later writes without the version of the tombstone', async () => {
        const key = fresh()
        await put(store, key, bytes('one'), {})
        await remove(store, key, now() + 60)
        expect(await put(store, key, bytes('late'), {})).toBe(false)
        expect(await put(store, key, bytes('late'), { version: 0 })).toBe(false)
        expect(await put(store, key, bytes('late'), { version: 1 })).toBe(false)
        expect(await text(store, key)).toBeUndefined()
      })

      test('allows a write with the version of the tombstone; the new record is not consumed', async () => {
        const key = fresh()
        await put(store, key, bytes('one'), {})
        await consume(store, key, now())
        await remove(store, key, now() + 60)
        const { version } = (await store.get(key)) ?? { version: 0 }
        expect(await put(store, key, bytes('anew'), { version })).toBe(true)
        expect(await store.get(key)).toMatchObject({ version: version + 1 })
        expect(await text(store, key)).toBe('anew')
        expect(await consume(store, key, now())).toBe(true)
      })
    })

    test('remove with a version removes only that version', async () => {
      const key = fresh()
      await put(store, key, bytes('x'), {})
      await put(store, key, bytes('y'), {})
      expect(await remove(store, key, now() + 60, 1)).toBe(false)
      expect((await store.get(key))?.value).toBeDefined()
      expect(await remove(store, key, now() + 60, 2)).toBe(true)
      expect((await store.get(key))?.value).toBeUndefined()
      expect(await remove(store, key, now() + 60, 3)).toBe(false)
    })

    describe('an entry', () => {
      async function scanned() {
        const seen = new Map<string, Entry>()
        for await (const entry of store.scan()) seen.set(entry.key, entry)
        return seen
      }

      test('has all data of a record, and scan returns the same entry for every key', async () => {
        const [whole, kept, gone, ended] = [fresh(), fresh(), fresh(), fresh()]
        const [ada, grace] = [fresh(), fresh()]
        const expires = now() + 60
        await put(store, whole, bytes('whole'), { expires, indexes: [ada] })
        await put(store, whole, bytes('whole'), { expires: expires + 1, indexes: [grace] })
        await consume(store, whole, 1_700_000_000)
        await put(store, kept, bytes('kept'), {})
        await put(store, gone, bytes('gone'), { indexes: [ada] })
        await remove(store, gone, expires)
        await put(store, ended, bytes('ended'), { expires: now() - 1 })

        const seen = await scanned()
        expect(describeEntry(seen.get(whole))).toEqual({
          key: whole,
          value: 'whole',
          version: 3,
          consumed: 1_700_000_000,
          expires: expires + 1,
          indexes: [ada, grace].sort(),
        })
        expect(describeEntry(await store.get(kept))).toEqual({
          key: kept,
          value: 'kept',
          version: 1,
        })
        expect(await store.get(gone)).toEqual({ key: gone, version: 2, expires })
        expect(await store.get(ended)).toBeUndefined()
        expect(await store.get(fresh())).toBeUndefined()

        for (const key of [whole, kept, gone, ended]) {
          // `get` may leave the indexes out.
          const { indexes, ...stored } = (await store.get(key)) ?? {}
          expect(seen.get(key) ?? {}).toMatchObject(stored)
        }
      })

      test('is restored exactly, and replaces the old record', async () => {
        const [key, before, ada] = [fresh(), fresh(), fresh()]
        const expires = now() + 60
        await put(store, key, bytes('before'), { indexes: [before] })
        await consume(store, key, now())
        await store.restore({ key, value: bytes('x'), version: 7, expires, indexes: [ada] })
        expect(describeEntry((await scanned()).get(key))).toEqual({
          key,
          value: 'x',
          version: 7,
          expires,
          indexes: [ada],
        })
        expect(await names(ada)).toEqual([key])
        expect(await names(before)).toEqual([])
        expect(await put(store, key, bytes('y'), { version: 6 })).toBe(false)
        expect(await consume(store, key, now())).toBe(true)
        expect((await store.get(key))?.version).toBe(8)
      })

      test('that is restored as consumed stays consumed', async () => {
        const key = fresh()
        const consumed = 1_700_000_000
        await store.restore({ key, value: bytes('x'), version: 2, consumed, indexes: [] })
        expect(await store.get(key)).toMatchObject({ consumed, version: 2 })
        expect(await consume(store, key, now())).toBe(false)
      })

      test('that is restored as a tombstone refuses writes without its version', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('x'), { indexes: [index] })
        await store.restore({ key, version: 4, expires: now() + 60, indexes: [] })
        expect(await store.get(key)).toEqual({ key, version: 4, expires: expect.any(Number) })
        expect(await put(store, key, bytes('late'), {})).toBe(false)
        expect(await names(index)).toEqual([])
        expect(await put(store, key, bytes('anew'), { version: 4 })).toBe(true)
      })

      test('that is restored as expired does not exist', async () => {
        const key = fresh()
        await put(store, key, bytes('x'), {})
        await store.restore({ key, version: 1, expires: 0, indexes: [] })
        expect(await store.get(key)).toBeUndefined()
        expect(await put(store, key, bytes('y'), { version: 0 })).toBe(true)
      })
    })

    describe('an expired record', () => {
      test('cannot be read, removed or listed, and has version 0', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('old'), { expires: now() - 1, indexes: [index] })
        expect(await store.get(key)).toBeUndefined()
        expect(await list(store, index)).toEqual([])
        expect(await remove(store, key, now() + 60)).toBe(false)
        expect(await put(store, key, bytes('new'), { version: 1 })).toBe(false)
        expect(await put(store, key, bytes('new'), { version: 0 })).toBe(true)
        expect(await text(store, key)).toBe('new')
      })
    })

    describe('an index', () => {
      test('lists its records and no others', async () => {
        const [ada, grace] = [fresh(), fresh()]
        const keys = Array.from({ length: 150 }, fresh).sort()
        await Promise.all(keys.map(key => put(store, key, bytes(key), { indexes: [ada] })))
        const both = fresh()
        await put(store, both, bytes('both'), { indexes: [ada, grace] })
        expect(await names(ada)).toEqual([...keys, both].sort())
        expect(await names(grace)).toEqual([both])
        expect(await list(store, fresh())).toEqual([])
        expect(await list(store, grace)).toEqual([await store.get(both)])
      })

      test('lists the current value of a record once', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('one'), { indexes: [index] })
        await put(store, key, bytes('two'), { indexes: [index] })
        await consume(store, key, 1_700_000_000)
        const [entry, ...more] = await list(store, index)
        expect(entry).toMatchObject({ key, version: 3, consumed: 1_700_000_000 })
        expect(Buffer.from(entry?.value ?? []).toString()).toBe('two')
        expect(more).toEqual([])
      })

      test('no longer lists a removed record', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('one'), { indexes: [index] })
        await remove(store, key, now() + 60)
        expect(await list(store, index)).toEqual([])
        await put(store, key, bytes('anew'), { version: 2 })
        expect(await list(store, index)).toEqual([])
      })

      test('still lists a record whose removal was refused', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('one'), { expires: now() + 60, indexes: [index] })
        expect(await remove(store, key, now() + 60, 7)).toBe(false)
        expect(await names(index)).toEqual([key])
      })

      test('does not list the record of a refused write', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('one'), {})
        await put(store, key, bytes('two'), { version: 7, indexes: [index] })
        expect(await list(store, index)).toEqual([])
      })
    })

    describe('walking an index', () => {
      test('visits each of its records once, also if there are more than one batch', async () => {
        const [index, other] = [fresh(), fresh()]
        const keys = Array.from({ length: 1200 }, fresh).sort()
        const add = (key: string) => put(store, key, bytes(key), { indexes: [index] })
        // Not all at once: on a busy machine, a Cluster would answer the last ones too late.
        await pLimit(100).map(keys, add)
        await put(store, fresh(), bytes('x'), { indexes: [other] })
        const [removed = '', expired = ''] = keys.splice(700, 2)
        await remove(store, removed, now() + 60)
        await put(store, expired, bytes('old'), { expires: now() - 1 })
        const seen = new Map<string, Entry>()
        for (const entry of await list(store, index)) {
          expect(seen.has(entry.key)).toBe(false)
          seen.set(entry.key, entry)
        }
        expect([...seen.keys()].sort()).toEqual(keys)
        expect(seen.get(keys[3] ?? '')).toEqual(await store.get(keys[3] ?? ''))
        expect(await store.count(index)).toBe(keys.length)
        expect(await Array.fromAsync(store.walk(fresh()))).toEqual([])
        expect(await store.count(fresh())).toBe(0)
      })

      test('counts a record that is written again once, until it is removed', async () => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('one'), { expires: now() + 60, indexes: [index] })
        await put(store, key, bytes('two'), { expires: now() + 90, version: 1, indexes: [index] })
        expect(await store.count(index)).toBe(1)
        await remove(store, key, now() + 60)
        expect(await store.count(index)).toBe(0)
      })
    })

    // These tests wait for the clock at the same time.
    describe.concurrent('as time passes', () => {
      test('an expired record leaves no consumption and no index to its successor', async ({
        expect,
      }) => {
        const [key, index] = [fresh(), fresh()]
        await put(store, key, bytes('old'), { expires: now() + 3, indexes: [index] })
        expect(await consume(store, key, now())).toBe(true)
        await expect.poll(() => store.get(key)).toBeUndefined()
        await put(store, key, bytes('new'), {})
        expect(await list(store, index)).toEqual([])
        expect(await consume(store, key, now())).toBe(true)
      })

      test('a record has the lifetime of its last write', async ({ expect }) => {
        const [short, long] = [fresh(), fresh()]
        const soon = now() + 3
        await put(store, long, bytes('one'), { expires: soon })
        expect(await put(store, long, bytes('two'), { expires: now() + 60 })).toBe(true)
        await put(store, short, bytes('one'), { expires: now() + 60 })
        expect(await put(store, short, bytes('two'), { expires: soon })).toBe(true)
        await expect.poll(now).toBeGreaterThan(soon)
        expect(await store.get(short)).toBeUndefined()
        expect(await text(store, long)).toBe('two')
      })

      test('a tombstone refuses writes until it expires', async ({ expect }) => {
        const [short, long] = [fresh(), fresh()]
        await put(store, short, bytes('x'), {})
        await put(store, long, bytes('x'), {})
        await remove(store, short, now() + 3)
        await remove(store, long, now() + 60)
        await expect.poll(() => put(store, short, bytes('late'), {})).toBe(true)
        expect(await put(store, long, bytes('late'), {})).toBe(false)
      })

      test('an index keeps a record that is written again without it', async ({ expect }) => {
        const [key, other, index] = [fresh(), fresh(), fresh()]
        await put(store, key, bytes('one'), { expires: now() + 3, indexes: [index] })
        await put(store, other, bytes('one'), { expires: now() + 3, indexes: [index] })
        await put(store, key, bytes('two'), { expires: now() + 60 })
        await expect.poll(() => store.get(other)).toBeUndefined()
        expect(await names(index)).toEqual([key])
      })
    })
  })
}
