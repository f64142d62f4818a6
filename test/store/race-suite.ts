// Of any number of concurrent callers with the same operation, exactly one succeeds. The callers use all
// handles (connections, processes, nodes) of the store.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { consume, list, put, remove } from './operations.ts'
import { bytes, fresh, now } from './store-suite.ts'

const CALLERS = [2, 50]
const ROUNDS = 20

/** `open` returns one or more handles of one store. They are closed at the end. */
export function raceSuite(name: string, open: () => Promise<Store[]>): void {
  describe(name, () => {
    let handles: Store[]
    beforeAll(async () => {
      handles = await open()
    })
    afterAll(() => Promise.all(handles.map(store => store.close())))

    /** The results of `n` concurrent callers, which are distributed over the handles. */
    const atOnce = <T>(n: number, ask: (store: Store, i: number) => Promise<T>) =>
      Promise.all(Array.from({ length: n }, (_, i) => ask(handles[i % handles.length] as Store, i)))
    const first = () => handles[0] as Store
    const winners = (answers: unknown[]) => answers.filter(Boolean).length

    describe.each(CALLERS)('among %i callers', n => {
      test('one consumes', async () => {
        for (let round = 0; round < ROUNDS; round++) {
          const key = fresh()
          await put(first(), key, bytes('once'), { expires: now() + 60 })
          expect(winners(await atOnce(n, store => consume(store, key, now())))).toBe(1)
        }
      })

      test('one removes', async () => {
        for (let round = 0; round < ROUNDS; round++) {
          const key = fresh()
          await put(first(), key, bytes('mine'), {})
          const answers = await atOnce(n, store => remove(store, key, now() + 60))
          expect(winners(answers)).toBe(1)
        }
      })

      test('one creates a record, and its value stays', async () => {
        for (let round = 0; round < ROUNDS; round++) {
          const key = fresh()
          const answers = await atOnce(n, (store, i) =>
            put(store, key, bytes(`${i}`), { version: 0 }),
          )
          expect(winners(answers)).toBe(1)
          const entry = await first().get(key)
          expect(entry?.version).toBe(1)
          expect(Buffer.from(entry?.value ?? []).toString()).toBe(`${answers.indexOf(true)}`)
        }
      })

      test('one overwrites the version that all have read', async () => {
        const key = fresh()
        await put(first(), key, bytes('base'), {})
        for (let version = 1; version <= ROUNDS; version++) {
          const answers = await atOnce(n, (store, i) => put(store, key, bytes(`${i}`), { version }))
          expect(winners(answers)).toBe(1)
          const entry = await first().get(key)
          expect(entry?.version).toBe(version + 1)
          expect(Buffer.from(entry?.value ?? []).toString()).toBe(`${answers.indexOf(true)}`)
        }
      })
    })

    test('a record that is written anew during its removal stays in its index', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const [key, index] = [fresh(), fresh()]
        const anew = { expires: now() + 60, indexes: [index] }
        await put(first(), key, bytes('old'), anew)
        await atOnce(12, async (store, i): Promise<unknown> => {
          if (i % 3 === 0) return remove(store, key, now() + 60)
          if (i % 3 === 1) return list(store, index)
          return putAfterRemoval(store, key, anew)
        })
        const isThere = (await first().get(key))?.value !== undefined
        expect(await list(first(), index)).toHaveLength(isThere ? 1 : 0)
      }
    })

    test('after a removal and concurrent writes, the record does not exist', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const [key, index] = [fresh(), fresh()]
        await put(first(), key, bytes('alive'), { indexes: [index] })
        await atOnce(10, async (store, i): Promise<unknown> => {
          if (i === 5) return remove(store, key, now() + 60)
          if (i % 2) return consume(store, key, now())
          return put(store, key, bytes('late'), { indexes: [index] })
        })
        expect((await first().get(key))?.value).toBeUndefined()
        expect(await list(first(), index)).toEqual([])
      }
    })
  })
}

/** Writes a record anew over its tombstone. Tries again while the record is there as it was. */
async function putAfterRemoval(store: Store, key: string, options: { indexes: string[] }) {
  while (!(await put(store, key, bytes('new'), { ...options, version: 2 }))) {
    const { version } = (await store.get(key)) ?? {}
    if (version !== 1) return
  }
}
