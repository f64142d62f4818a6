// One request and the store: what it was told before it asked, and what it leaves to be written with
// the rest, so that each costs one command where the store can do several at once; and that it waits for
// a store in vain once, not with every step (the library saves its session in any case).

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Entry, type Put, type Store, StoreUnavailable } from './store.ts'

interface Later {
  put: Put
  refused?: () => Promise<void>
}

interface Unit {
  /** What this request has read since its last write, by key. */
  reads: Map<string, Entry | undefined>
  later: Later[]
  failure?: StoreUnavailable
  /** What goes on in the background has no part in it any more. */
  isOver: boolean
}

export function createUnits(store: Store) {
  const units = new AsyncLocalStorage<Unit>()
  const current = () => {
    const unit = units.getStore()
    return unit?.isOver ? undefined : unit
  }

  /** Of all that a request asks of the store, nothing is asked after what it did not answer. */
  async function ask<T>(work: (store: Store) => Promise<T>): Promise<T> {
    const unit = current()
    if (unit?.failure) throw unit.failure
    return work(store).catch(error => {
      if (unit && error instanceof StoreUnavailable) unit.failure = error
      throw error
    })
  }

  async function get(key: string): Promise<Entry | undefined> {
    const reads = current()?.reads
    if (reads?.has(key)) return reads.get(key)
    return ask(store => store.get(key))
  }

  async function getMany(keys: string[]): Promise<(Entry | undefined)[]> {
    const reads = current()?.reads
    const entries = await ask(store => store.getMany(keys))
    for (const [i, key] of keys.entries()) reads?.set(key, entries[i])
    return entries
  }

  /** A write ends what is remembered: whoever reads after it wants to see what others have done. */
  function forget() {
    const unit = current()
    if (unit) unit.reads = new Map()
  }

  /** True if it was written, after all that was left for later. */
  function put(put: Put): Promise<boolean> {
    return write([...takeLater(), { put }])
  }

  /** Left for later, or written where nothing comes later. */
  async function putLater(put: Put, refused?: () => Promise<void>): Promise<void> {
    const unit = current()
    if (unit) unit.later.push({ put, refused })
    else await write([{ put, refused }])
  }

  function takeLater(): Later[] {
    forget()
    return current()?.later.splice(0) ?? []
  }

  /** True if the last one was written. */
  async function write(all: Later[]): Promise<boolean> {
    const rest = [...all]
    while (rest.length) {
      const made = await ask(store => store.putEach(rest.map(({ put }) => put)))
      const [next] = rest.splice(0, made + 1).slice(made)
      if (!next) return true
      if (!rest.length && !next.refused) return false
      await next.refused?.()
    }
    return true
  }

  function remove(key: string, tombstone: number, version?: number): Promise<boolean> {
    forget()
    return ask(store => store.remove(key, tombstone, version))
  }

  function removeEach(keys: string[], tombstone: number): Promise<number> {
    forget()
    return ask(store => store.removeEach(keys, tombstone))
  }

  /** A request, from beginning to end. */
  function during<T>(work: () => Promise<T>): Promise<T> {
    const unit: Unit = { reads: new Map(), later: [], isOver: false }
    return units.run(unit, async () => {
      try {
        return await together(work)
      } finally {
        unit.isOver = true
      }
    })
  }

  /** Nothing is left for later than this; when it throws, what was left is not written at all. */
  async function together<T>(work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      if (current()?.later.length) await write(takeLater())
      return result
    } finally {
      current()?.later.splice(0)
    }
  }

  return { ask, get, getMany, put, putLater, remove, removeEach, during, together }
}
