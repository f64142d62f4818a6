// The store as a request sees it. Its reads have two purposes:
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

/** See `createRequestStore`. */
export type RequestStore = ReturnType<typeof createRequestStore>

/**
 * Returns the store as the current request sees it. `keyOf` returns the key of
 * a name.
 */
export function createRequestStore(
  store: Store,
  keyOf: (name: string) => string,
  currentRequest: CurrentRequest,
) {
  const byRequest = new WeakMap<object, Reads>()
  let lostIdentity: string | undefined

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

  /**
   * Runs work on the store, unless the store has failed this request before, or
   * has become another installation.
   */
  async function run<T>(work: () => Promise<T>): Promise<T> {
    const reads = currentReads()
    if (reads.failure) throw reads.failure
    if (lostIdentity) throw new StoreUnavailable(lostIdentity)
    try {
      return await work()
    } catch (error) {
      if (error instanceof StoreUnavailable) reads.failure = error
      throw error
    }
  }

  return {
    run,

    /**
     * Returns the entry of a name. `others` are read with it, for later reads
     * of the request.
     */
    async readEntry(
      name: string,
      others: string[],
    ): Promise<Entry | undefined> {
      const { latest, writes } = currentReads()
      const outdated = [name, ...others].filter(
        each => latest.get(each)?.writes !== writes,
      )
      if (outdated.length) {
        const keys = outdated.map(keyOf)
        const entries = await run(() => store.getMany(keys))
        for (const [i, each] of outdated.entries())
          latest.set(each, { entry: entries[i], writes })
      }
      return latest.get(name)?.entry
    },

    /** Returns the entry that the request read last under a name. */
    lastRead: (name: string): Entry | undefined =>
      currentReads().latest.get(name)?.entry,

    /** Returns the tombstones that a request has read. */
    tombstonesIn(request: object): Entry[] {
      const reads = byRequest.get(request)?.latest.values() ?? []
      return [...reads].flatMap(({ entry }) =>
        entry && !entry.value ? entry : [],
      )
    },

    /** True if the change was made. */
    async write(change: Change): Promise<boolean> {
      const reads = currentReads()
      reads.writes++
      try {
        return await run(() => store.write(change))
      } finally {
        reads.writes++
      }
    },

    /**
     * The store has become another installation, for this reason; undefined: it
     * is the right one again.
     */
    loseIdentity(reason: string | undefined) {
      lostIdentity = reason
    },
  }
}
