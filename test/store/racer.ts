// A process of its own on a store file, for sqlite.test.ts: when its stdin says so it does one thing
// to each of the keys it was given, one after the other, and prints those it had success with.

import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { openSqliteStore } from '../../src/storage/sqlite.ts'
import type { Store } from '../../src/storage/store.ts'
import { consume, put, remove } from './operations.ts'

/** What one alone may succeed with, on a record at its first version. */
export const ACTS: Record<string, (store: Store, key: string) => Promise<unknown>> = {
  consume: (store, key) => consume(store, key, 1_700_000_000),
  remove: (store, key) => remove(store, key, 4_000_000_000),
  put: (store, key) => put(store, key, Uint8Array.of(1), { version: 1 }),
}

export async function race(store: Store, name: string, keys: string[]): Promise<string[]> {
  const won: string[] = []
  for (const key of keys) if (await ACTS[name]?.(store, key)) won.push(key)
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
