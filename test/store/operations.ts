// `write` for a single change, and `walk` as a list, as most tests need them.

import type { Put, Store } from '../../src/storage/store.ts'

type Options = Omit<Put, 'key' | 'value'>

const isWritten = ({ failed }: { failed?: number }) => failed === undefined

export const put = async (store: Store, key: string, value: Uint8Array, options: Options = {}) =>
  isWritten(await store.write([{ key, value, ...options }]))

export const consume = async (store: Store, key: string, consumed: number) =>
  isWritten(await store.write([{ key, consumed }]))

export const remove = async (store: Store, key: string, tombstone: number, version?: number) =>
  isWritten(await store.write([{ key, tombstone, version }]))

export const list = (store: Store, index: string) => Array.fromAsync(store.walk(index))
