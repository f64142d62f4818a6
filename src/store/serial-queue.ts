// A queue for each name: work on one name runs one at a time, in the order in
// which it came.

import { StoreUnavailable } from './store.ts'

/** Queues of work by name. A name whose work is done takes no memory. */
export class SerialQueue {
  /** By name: the end of the work that came last. */
  readonly #ends = new Map<string, Promise<void>>()

  /** Whether work on the name runs or waits. */
  isBusy(name: string): boolean {
    return this.#ends.has(name)
  }

  /**
   * Runs work after all earlier work on the name, and returns its result. An
   * error of the work is that of its caller alone, except StoreUnavailable: it
   * fails everything that waits, which would otherwise wait for a store that
   * does not answer, one after another.
   */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#ends.get(name) ?? Promise.resolve()
    const result = before.then(work)
    const end = endOf(result)
    this.#ends.set(name, end)
    try {
      return await result
    } finally {
      if (this.#ends.get(name) === end) this.#ends.delete(name)
    }
  }
}

/** Resolves when the work has ended. Rejects if the store was unavailable. */
function endOf(work: Promise<unknown>): Promise<void> {
  const end = work.then(
    () => {},
    error => {
      if (error instanceof StoreUnavailable) throw error
    },
  )
  // If no more work comes, nothing waits for the end: its rejection is no
  // unhandled one.
  end.catch(() => {})
  return end
}
