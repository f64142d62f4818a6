// Reads of a request: each record is read once, until the request writes. Nothing is written later than it is
// asked for.
//
// After one StoreUnavailable, every further call of the request fails at once: the library goes on and
// saves its session in any case, and the user should not wait for the time limit several times.

import { type Change, type Entry, type Store, StoreUnavailable } from './store.ts'

/** An object that exists once for each request; undefined outside of requests, where nothing is cached. */
export type CurrentRequest = () => object | undefined

interface Reads {
  /** Entries that were read since the last write, by key. */
  fresh: Map<string, Entry | undefined>
  /** All entries that were read, by key. */
  all: Map<string, Entry | undefined>
  failure?: StoreUnavailable
}

/** `guard` throws while the store must not be used. */
export function createReadCache(store: Store, guard: () => void, currentRequest: CurrentRequest) {
  const requests = new WeakMap<object, Reads>()

  function reads(): Reads {
    const request = currentRequest()
    const known = request && requests.get(request)
    if (known) return known
    const begun: Reads = { fresh: new Map(), all: new Map() }
    if (request) requests.set(request, begun)
    return begun
  }

  /** Calls the store, unless it has failed this request before. */
  async function call<T>(work: () => Promise<T>): Promise<T> {
    const current = reads()
    if (current.failure) throw current.failure
    guard()
    try {
      return await work()
    } catch (error) {
      if (error instanceof StoreUnavailable) current.failure = error
      throw error
    }
  }

  /** Returns the entry of the first key. The others are read with it, for later reads of the request. */
  async function read(keys: [string, ...string[]]): Promise<Entry | undefined> {
    const { fresh, all } = reads()
    const [key] = keys
    const unknown = keys.filter(name => !fresh.has(name))
    if (unknown.length === 0) return fresh.get(key)
    const entries = await call(() => store.getMany(unknown))
    for (const [i, name] of unknown.entries()) {
      fresh.set(name, entries[i])
      all.set(name, entries[i])
    }
    return all.get(key)
  }

  /** True if the change was made. */
  async function write(change: Change): Promise<boolean> {
    const current = reads()
    // Before and after: later reads, and reads in flight, must see writes of others.
    current.fresh = new Map()
    try {
      return await call(() => store.write(change))
    } finally {
      current.fresh = new Map()
    }
  }

  return {
    call,
    read,
    write,
    /** The entry that the request read last under a key. */
    lastRead: (key: string) => reads().all.get(key),
    /** The tombstones that the request has read. */
    removed: () => [...reads().all.values()].filter(entry => entry && !entry.value) as Entry[],
  }
}
