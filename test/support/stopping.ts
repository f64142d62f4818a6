// A store that becomes unavailable in the middle of an operation.

import { type Store, StoreUnavailable } from '../../src/store/store.ts'

/**
 * Wraps the writes of a store. The returned function runs work, of which the first `writes` writes succeed
 * and all later ones fail.
 */
export function stopping(store: Store) {
  let left = Number.POSITIVE_INFINITY
  const { write } = store
  store.write = async change => {
    if (left-- <= 0) throw new StoreUnavailable('stopped by the test')
    return write.call(store, change)
  }
  return async <T>(writes: number, work: () => Promise<T>): Promise<T> => {
    left = writes
    try {
      return await work()
    } finally {
      left = Number.POSITIVE_INFINITY
    }
  }
}
