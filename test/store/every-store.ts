// Runs tests with the records of every kind of store.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe } from 'vitest'
import { openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { openPatientStore, startRedis } from '../support/redis.ts'

const STORES: [name: string, start: () => Promise<{ store: Store; stop?(): Promise<void> }>][] = [
  ['SQLite', async () => ({ store: await openSqliteStore(':memory:') })],
  [
    'Redis',
    async () => {
      const { url, stop } = await startRedis()
      return { store: await openPatientStore(url), stop }
    },
  ],
]

/**
 * Calls `tests` for each store. The function it gets returns the records while a test runs. `requestOf`: the
 * request whose reads are kept, if any.
 */
export function onEveryStore(
  tests: (records: () => Records) => void,
  requestOf?: () => object | undefined,
): void {
  describe.each(STORES)('%s', (_name, start) => {
    let records: Records
    let end: () => Promise<void>
    beforeAll(async () => {
      const { store, stop } = await start()
      records = await openRecords(store, [Buffer.alloc(32, 1)], requestOf)
      end = () => store.close().then(stop)
    })
    afterAll(() => end())
    tests(() => records)
  })
}

/** A store on Redis, and the sum of the numbers that a pattern finds in a section of its INFO. */
export async function startCounted(section: string, pattern: RegExp) {
  const { url, stop } = await startRedis()
  const operator = new Redis(url)
  return {
    store: await openPatientStore(url),
    async count() {
      const found = (await operator.info(section)).matchAll(pattern)
      return [...found].reduce((sum, [, n]) => sum + Number(n), 0)
    },
    async stop() {
      operator.disconnect()
      await stop()
    },
  }
}
