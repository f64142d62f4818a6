// The reads of a request. They have two purposes:
//
//   cache           A record is read once, until the request writes. Then it is read again.
//   base of merges  A request merges its changes with those of others (oidc/adapter/sessions.ts): the entry that it
//                   read last is what it started from.
//
// Writes are not cached: each one is in the store when it resolves.
//
// After one StoreUnavailable, every further call of the request fails at once:
// the library goes on and saves its session in any case, and the user should
// not wait for the time limit several times.

import {
  type Change,
  type Entry,
  type Store,
  StoreUnavailable,
} from './store.ts'

/**
 * Returns an object that exists once for each request; undefined outside of
 * requests, where nothing is cached.
 */
export type CurrentRequest = () => object | undefined

/** The latest read of one record. */
interface Read {
  entry?: Entry
  /** `Reads.writes` at the beginning of the read. */
  writes: number
}

interface Reads {
  /** The latest read of each record, by its name. */
  latest: Map<string, Read>
  /**
   * Counts the beginnings and ends of writes. A read of an earlier count is out
   * of date: later reads, and reads in flight, must see the writes of others.
   */
  writes: number
  /** Set once the store was unavailable. */
  failure?: StoreUnavailable
}

/**
 * `keyOf` returns the key of a name. `guard` throws while the store must not be
 * used.
 */
export function createRequestReads(
  store: Store,
  keyOf: (name: string) => string,
  guard: () => void,
  currentRequest: CurrentRequest,
) {
  const byRequest = new WeakMap<object, Reads>()

  /**
   * The reads of the current request. Outside of requests each call has its
   * own.
   */
  function currentReads(): Reads {
    const request = currentRequest()
    const known = request && byRequest.get(request)
    if (known) return known
    const begun: Reads = { latest: new Map(), writes: 0 }
    if (request) byRequest.set(request, begun)
    return begun
  }

  /** Calls the store, unless it has failed this request before. */
  async function call<T>(work: () => Promise<T>): Promise<T> {
    const reads = currentReads()
    if (reads.failure) throw reads.failure
    guard()
    try {
      return await work()
    } catch (error) {
      if (error instanceof StoreUnavailable) reads.failure = error
      throw error
    }
  }

  /**
   * Returns the entry of the first name. The others are read with it, for later
   * reads of the request.
   */
  async function read(
    names: [string, ...string[]],
  ): Promise<Entry | undefined> {
    const { latest, writes } = currentReads()
    const outdated = names.filter(name => latest.get(name)?.writes !== writes)
    if (outdated.length) {
      const keys = outdated.map(keyOf)
      const entries = await call(() => store.getMany(keys))
      for (const [i, name] of outdated.entries())
        latest.set(name, { entry: entries[i], writes })
    }
    return latest.get(names[0])?.entry
  }

  /** True if the change was made. */
  async function write(change: Change): Promise<boolean> {
    const reads = currentReads()
    reads.writes++
    try {
      return await call(() => store.write(change))
    } finally {
      reads.writes++
    }
  }

  /** Returns the entry that the request read last under a name. */
  function lastRead(name: string): Entry | undefined {
    return currentReads().latest.get(name)?.entry
  }

  /** Returns the tombstones that a request has read. */
  function tombstonesIn(request: object): Entry[] {
    const all = byRequest.get(request)?.latest.values() ?? []
    const entries = [...all].map(({ entry }) => entry)
    return entries
      .filter(entry => entry !== undefined)
      .filter(({ value }) => !value)
  }

  return { call, read, write, lastRead, tombstonesIn }
}
