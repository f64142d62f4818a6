// Transaction of a request: the entries that the request has read, and the changes that it sends in one batch.
//
//   getMany        a record that was read is not read again, until this request writes
//   write          sends a change, and in the same batch all changes of `writeLater`
//   writeAlone     sends a change alone
//   writeLater     defers a change to the next `write`, or to the end of `batch` or of the request
//   lastRead       the entry that this request has read last under a key, for compare-and-set
//
// The changes of one slot are one atomic write: a used code and its tokens, for one. A request whose work
// throws writes none of its deferred changes.
//
// After one StoreUnavailable, every further call of the request fails at once: the library goes on and
// saves its session in any case, and the user should not wait for the time limit several times.

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Change, type Entry, type Store, StoreUnavailable, slotOf } from './store.ts'

/** Called when a change is refused. An error of it ends the transaction; otherwise the rest is written. */
export type Refused = () => Promise<void>

type Later = { change: Change; refused?: Refused }

class Transaction {
  /** Entries that were read since the last write, by key. */
  fresh = new Map<string, Entry | undefined>()
  /** All entries that were read, by key. */
  read = new Map<string, Entry | undefined>()
  later: Later[] = []
  failure?: StoreUnavailable
  isOpen = false
}

/** `guard` throws while the store must not be used. */
export function createTransactions(store: Store, guard: () => void) {
  const storage = new AsyncLocalStorage<Transaction>()
  /** Outside of a request, and after its end, a new transaction: nothing is cached or deferred. */
  function transaction(): Transaction {
    const current = storage.getStore()
    return current?.isOpen ? current : new Transaction()
  }

  /** Calls the store, unless it has failed this request before. */
  async function call<T>(work: () => Promise<T>): Promise<T> {
    const current = transaction()
    if (current.failure) throw current.failure
    guard()
    return work().catch(error => {
      if (error instanceof StoreUnavailable) current.failure = error
      throw error
    })
  }

  /** Throws for keys of several slots, which a Redis Cluster alone would refuse. */
  async function getMany(keys: string[]): Promise<(Entry | undefined)[]> {
    if (new Set(keys.map(slotOf)).size > 1) throw new Error('these keys are in several slots')
    const { fresh, read } = transaction()
    if (!keys.every(key => fresh.has(key))) {
      const entries = await call(() => store.getMany(keys))
      for (const [i, key] of keys.entries()) {
        for (const memory of [fresh, read]) memory.set(key, entries[i])
      }
    }
    return keys.map(key => fresh.get(key))
  }

  const lastRead = (key: string) => transaction().read.get(key)

  /** True if `change` was written. */
  const write = (change: Change) => send([...transaction().later.splice(0), { change }])

  /** True if `change` was written. */
  const writeAlone = (change: Change) => send([{ change }])

  /** Outside of a request the change is written at once. */
  async function writeLater(change: Change, refused?: Refused): Promise<void> {
    const { later, isOpen } = transaction()
    later.push({ change, refused })
    if (!isOpen) await send(later)
  }

  /** One atomic write for each slot, in the order in which they first appear. True if the last change is written. */
  async function send(changes: Later[]): Promise<boolean> {
    const current = transaction()
    // Clears the cache before and after: later reads, and reads in flight, must see writes of others.
    current.fresh = new Map()
    let isWritten = true
    try {
      for (const slot of Map.groupBy(changes, ({ change }) => slotOf(change.key)).values()) {
        while (slot.length) {
          const { failed } = await call(() => store.write(slot.map(({ change }) => change)))
          if (failed === undefined) break
          const [refused] = slot.splice(failed, 1)
          if (refused === changes.at(-1)) isWritten = false
          await refused?.refused?.()
        }
      }
    } finally {
      current.fresh = new Map()
    }
    return isWritten
  }

  /** Runs a request from beginning to end. */
  function run<T>(work: () => Promise<T>): Promise<T> {
    const current = Object.assign(new Transaction(), { isOpen: true })
    return storage.run(current, () =>
      batch(work).finally(() => {
        current.isOpen = false
      }),
    )
  }

  /** Runs work, and then sends its deferred changes. When it throws, none of them is sent. */
  async function batch<T>(work: () => Promise<T>): Promise<T> {
    const { later } = transaction()
    try {
      const result = await work()
      if (later.length) await send(later.splice(0))
      return result
    } finally {
      later.splice(0)
    }
  }

  return { call, getMany, lastRead, write, writeAlone, writeLater, run, batch }
}
