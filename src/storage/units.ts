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
  /** By key; each is told once: whoever asks again wants to know what has happened since. */
  told: Map<string, Entry>
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
    const unit = current()
    const told = unit?.told.get(key)
    if (told) {
      unit?.told.delete(key)
      return told
    }
    const entry = await ask(store => store.get(key))
    for (const companion of entry?.along ?? []) unit?.told.set(companion.key, companion)
    return entry
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
    const unit = current()
    // What follows a write may be there to see what another has done meanwhile.
    unit?.told.clear()
    return unit?.later.splice(0) ?? []
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
    current()?.told.clear()
    return ask(store => store.remove(key, tombstone, version))
  }

  function removeEach(keys: string[], tombstone: number): Promise<number> {
    current()?.told.clear()
    return ask(store => store.removeEach(keys, tombstone))
  }

  /** A request, from beginning to end. */
  function during<T>(work: () => Promise<T>): Promise<T> {
    const unit: Unit = { told: new Map(), later: [], isOver: false }
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

  return { ask, get, put, putLater, remove, removeEach, during, together }
}
