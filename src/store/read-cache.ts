// Reads of a request: each record is read once, until the request writes. Nothing is written later than it is
// asked for.
//
// After one StoreUnavailable, every further call of the request fails at once: the library goes on and
// saves its session in any case, and the user should not wait for the time limit several times.

import { type Change, type Entry, type Store, StoreUnavailable } from './store.ts'

/** An object that exists once for each request; undefined outside of requests, where nothing is cached. */
export type CurrentRequest = () => object | undefined

interface Reads {
  /** The latest read of each record by its name: the entry, and the number of writes at its beginning. */
  latest: Map<string, { entry?: Entry; writes: number }>
  /** The beginnings and ends of writes. Later reads, and reads in flight, must see the writes of others. */
  writes: number
  failure?: StoreUnavailable
}

/** `keyOf` returns the key of a name. `guard` throws while the store must not be used. */
export function createReadCache(
  store: Store,
  keyOf: (name: string) => string,
  guard: () => void,
  currentRequest: CurrentRequest,
) {
  const requests = new WeakMap<object, Reads>()

  function reads(): Reads {
    const request = currentRequest()
    const known = request && requests.get(request)
    if (known) return known
    const begun: Reads = { latest: new Map(), writes: 0 }
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

  /** Returns the entry of the first name. The others are read with it, for later reads of the request. */
  async function read(names: [string, ...string[]]): Promise<Entry | undefined> {
    const { latest, writes } = reads()
    const unknown = names.filter(name => latest.get(name)?.writes !== writes)
    const entries = unknown.length ? await call(() => store.getMany(unknown.map(keyOf))) : []
    for (const [i, name] of unknown.entries()) latest.set(name, { entry: entries[i], writes })
    return latest.get(names[0])?.entry
  }

  /** True if the change was made. */
  async function write(change: Change): Promise<boolean> {
    const current = reads()
    current.writes++
    try {
      return await call(() => store.write(change))
    } finally {
      current.writes++
    }
  }

  return {
    call,
    read,
    write,
    /** The entry that the request read last under a name. */
    lastRead: (name: string) => reads().latest.get(name)?.entry,
    /** The tombstones that a request has read. */
    removed(request: object): Entry[] {
      const all = requests.get(request)?.latest.values() ?? []
      return [...all].flatMap(({ entry }) => (entry && !entry.value ? entry : []))
    },
  }
}
