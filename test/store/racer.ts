// A process with its own handle of a store file, for sqlite.test.ts. When stdin gives the signal, it
// performs one operation on each of its keys in turn, and prints the keys for which it succeeded.

import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { consume, put, remove } from './operations.ts'

/** Operations with which only one caller may succeed on a record at its first version. */
export const ACTS: Record<string, (store: Store, key: string) => Promise<unknown>> = {
  consume: (store, key) => consume(store, key, 1_700_000_000),
  remove: (store, key) => remove(store, key, 4_000_000_000),
  put: (store, key) => put(store, key, Uint8Array.of(1), { version: 1 }),
}

/** On a busy machine, the other process can keep the file locked for too long. A rejected write did nothing. */
async function untilAvailable<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}

export async function race(store: Store, name: string, keys: string[]): Promise<string[]> {
  const won: string[] = []
  for (const key of keys) {
    if (await untilAvailable(async () => ACTS[name]?.(store, key))) won.push(key)
  }
  return won
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [file = '', name = '', ...keys] = process.argv.slice(2)
  const store = await openSqliteStore(file)
  process.stdout.write('ready\n')
  await once(process.stdin, 'data')
  process.stdin.destroy()
  const won = await race(store, name, keys)
  await store.close()
  process.stdout.write(`${JSON.stringify(won)}\n`)
}
