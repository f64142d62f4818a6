// `write` for each kind of change, and `walk` as a list, as most tests need them.

import { inspect } from 'node:util'
import { expect } from 'vitest'
import { reasonOf } from '../../src/store/reasons.ts'
import { type Put, type Store, StoreUnavailable } from '../../src/store/store.ts'

type Options = Omit<Put, 'key' | 'value' | 'version'> & { version?: number }

/** Puts a record. Without `version`, over the record that is there; a tombstone refuses it. */
export async function put(
  store: Store,
  key: string,
  value: Uint8Array,
  { version, ...options }: Options = {},
): Promise<boolean> {
  const isWritten = await store.write({ key, value, version: version ?? 0, ...options })
  if (isWritten || version !== undefined) return isWritten
  const there = await store.get(key)
  return (
    there?.value !== undefined && put(store, key, value, { ...options, version: there.version })
  )
}

export const consume = (store: Store, key: string, consumed: number) =>
  store.write({ key, consumed })

export const remove = (store: Store, key: string, tombstone: number, version?: number) =>
  store.write({ key, tombstone, version })

export const list = (store: Store, index: string) => Array.fromAsync(store.walk(index))

/** Resolves when both connections of a store, to read from and to write on, work. */
export async function untilBack(store: Store) {
  const both = () => Promise.all([store.get('none'), remove(store, 'none', 0)])
  await expect.poll(() => both().catch(() => 'away')).toEqual([undefined, false])
}

/** Why an operation fails with StoreUnavailable. */
export async function refused(ask: Promise<unknown>): Promise<string> {
  const error = await ask.catch((error: unknown) => error)
  expect(error).toBeInstanceOf(StoreUnavailable)
  return reasonOf(error)
}

/** The error of a store that cannot be opened, within five seconds and without a password. */
export async function refusal(opening: Promise<Store>): Promise<string> {
  const started = performance.now()
  const error = await opening.catch((error: unknown) => error)
  expect(error).toBeInstanceOf(Error)
  expect(performance.now() - started).toBeLessThan(5000)
  expect(inspect(error, { depth: 9 })).not.toContain('CANARY')
  return reasonOf(error)
}
