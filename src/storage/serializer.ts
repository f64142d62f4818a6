// Serializer: runs concurrent work on one name in order, within this process.

import { StoreUnavailable } from './store.ts'

/**
 * Returns a function that runs work on one name after the work that was queued before it. An unavailable
 * store fails everything that waits, so that no request waits twice for it. Another error concerns one
 * caller. `isQueued` says whether work on a name runs or waits.
 */
export function createSerializer() {
  const queues = new Map<string, Promise<void>>()

  function inOrder<T>(name: string, work: () => Promise<T>): Promise<T> {
    const result = (queues.get(name) ?? Promise.resolve()).then(work)
    const end = result
      .then(
        () => {},
        error => {
          if (error instanceof StoreUnavailable) throw error
        },
      )
      .finally(() => {
        if (queues.get(name) === end) queues.delete(name)
      })
    end.catch(() => {})
    queues.set(name, end)
    return result
  }

  return { inOrder, isQueued: (name: string) => queues.has(name) }
}
