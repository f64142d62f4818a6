// JSON records over the store: names hashed, contents encrypted. All state of Usher is kept by this module.
//
// Names are hashed with the naming key, which is the identity of an installation (seal.ts).
//
// A value is sealed text: the kind of the record, a line end, and its JSON. By the kind, `usher store
// backup` knows which records belong in a backup (kinds.json).

import { setTimeout } from 'node:timers/promises'
import { type CurrentRequest, createReadCache } from './read-cache.ts'
import { createSeal, openIdentity } from './seal.ts'
import {
  type Check,
  type Entry,
  now,
  type Outage,
  ok,
  reasonOf,
  type Store,
  StoreUnavailable,
  wrong,
} from './store.ts'

/** Seconds by which records outlive their `exp`: the library, which tolerates clock skew, checks that. */
const SLACK_SECONDS = 60
const MAX_TTL_SECONDS = 400 * 24 * 3600
/** Attempts of `update`. After ten it waits for some milliseconds, at random. */
const MAX_ATTEMPTS = 100

/** A record that was read. `value` is absent if there is none, or a tombstone. */
export interface Found<T> {
  value?: T
  version: number
  consumed?: number
  /** Of a tombstone: epoch seconds at which it expires. */
  tombstone?: number
}

/** An entry that a request has read. `text`: its decrypted value. */
type Opened = Entry & { text?: string }

/** The value that a change found, and the one that it wrote. */
interface Change<T> {
  before?: T
  after?: T
  isWritten: boolean
}

interface SaveOptions {
  /** Seconds from now, clamped to 1 s … 400 d; absent: kept until removed. */
  ttl?: number
  /** The version that must stand; absent: 0, there is no such record. */
  version?: number
  /** Pairs of kind and name, as given to `walk`. */
  indexes?: [kind: string, name: string][]
}

/** The kind and the id of a record. */
export type Name = [kind: string, id: string]

/** Called with the key of a record, and the reason why it cannot be read. */
export type Unreadable = (key: string, reason: string) => void

/** Operations on records; see `openRecords`. */
export interface Records {
  /** Reads `others` at the same time, for later reads of this request. */
  read<T>(kind: string, id: string, ...others: Name[]): Promise<Found<T>>

  /** Returns the record that this request read last; undefined if there was none, or none was read. */
  lastRead<T>(kind: string, id: string): Found<T> | undefined

  /** False where the record has another version. A tombstone refuses a new record. */
  save(kind: string, id: string, value: object, options?: SaveOptions): Promise<boolean>

  /**
   * Reads, lets `decide` return the next value, and writes unless another writer came in between; then repeats
   * this. Throws StoreUnavailable after MAX_ATTEMPTS.
   *
   * `options` are those of `save`, or a function of the record that is to be written. The first attempt
   * uses `known`, a record that was just read, instead of reading again.
   *
   * After such a repeat, later changes of the key in this process wait in a queue. An operation that ends
   * access then competes with one writer of each other process, however many requests there are.
   */
  change<T extends object>(
    kind: string,
    id: string,
    decide: (found: Found<T>) => T | undefined | Promise<T | undefined>,
    options?: SaveOptions | ((next: T) => SaveOptions),
    known?: Found<T>,
  ): Promise<Change<T>>

  /** True for exactly one caller in the life of a record. */
  consume(kind: string, id: string): Promise<boolean>

  /** True for one caller. With `version`, removes only that version. The tombstone lasts `seconds`. */
  remove(kind: string, id: string, seconds?: number, version?: number): Promise<boolean>

  /**
   * Removes again what a request has found removed: the removal may not have reached a replica. Resolves
   * when it has.
   */
  confirmRemovals(request: object): Promise<void>

  /**
   * Yields the records under an index, each once; see `Store`. Throws for a record that no secret decrypts,
   * or calls `unreadable` and goes on.
   */
  walk<T>(kind: string, name: string, unreadable?: Unreadable): AsyncGenerator<T>

  /** Returns the records of `walk`. */
  list<T>(kind: string, name: string): Promise<T[]>

  /** Returns how many records `walk` would yield. Reads and decrypts none of them. */
  count(kind: string, name: string): Promise<number>

  /** A keyed hash that only the nodes of this installation can make: 16 bytes. */
  keyedHash(purpose: string, text: string): Buffer

  /** The latest time in which the store took no writes, as far as this process knows. */
  outage(): Outage | undefined

  /**
   * Checks the store, and whether it still holds this installation. While it does not, every other
   * operation is rejected: two identities must never be in use at once.
   */
  check(): Promise<Check[]>
}

const textOf = (kind: string, id: string) => `${kind}\0${id}`

const clamp = (ttl: number) => Math.ceil(Math.min(Math.max(ttl || 1, 1), MAX_TTL_SECONDS))

/**
 * Opens the records of a store; throws when no secret fits, or when the store has another format. Each request
 * that `currentRequest` names reads a record once.
 */
export async function openRecords(
  store: Store,
  secrets: Uint8Array[],
  currentRequest: CurrentRequest = () => undefined,
): Promise<Records> {
  const seal = createSeal(secrets)
  const { nameOf, problem } = await openIdentity(store, seal)
  const keyOf = (kind: string, id: string) => nameOf(textOf(kind, id))
  const indexOf = (kind: string, name: string) => keyOf(`index:${kind}`, name)

  let lostIdentity: string | undefined
  const guard = () => {
    if (lostIdentity) throw new StoreUnavailable(lostIdentity)
  }
  const cache = createReadCache(store, nameOf, guard, currentRequest)

  /** Decrypts an entry once. Each caller gets an object of its own. */
  function foundIn<T>(entry?: Opened): Found<T> {
    if (!entry) return { version: 0 }
    if (!entry.value) return { version: entry.version, tombstone: entry.expires }
    const { key, value, version, consumed } = entry
    entry.text ??= seal.open(key, value).toString()
    return { version, consumed, value: JSON.parse(entry.text.slice(entry.text.indexOf('\n') + 1)) }
  }

  async function read<T>(kind: string, id: string, ...others: Name[]): Promise<Found<T>> {
    const also = others.map(name => textOf(...name))
    return foundIn<T>(await cache.read([textOf(kind, id), ...also]))
  }

  function save(kind: string, id: string, value: object, options: SaveOptions = {}) {
    const { ttl, indexes, version = 0 } = options
    const key = keyOf(kind, id)
    return cache.write({
      key,
      version,
      value: seal.seal(key, Buffer.from(`${kind}\n${JSON.stringify(value)}`)),
      ...(ttl !== undefined && { expires: now() + clamp(ttl) + SLACK_SECONDS }),
      indexes: indexes?.map(index => indexOf(...index)),
    })
  }

  async function* walk<T>(kind: string, name: string, unreadable?: Unreadable): AsyncGenerator<T> {
    guard()
    for await (const entry of store.walk(indexOf(kind, name))) {
      let found: Found<T> | undefined
      try {
        found = foundIn<T>(entry)
      } catch (error) {
        if (!unreadable) throw error
        unreadable(entry.key, reasonOf(error))
      }
      if (found?.value) yield found.value
    }
  }

  /** By name: the end of the last change that waits after another writer came in between. */
  const queues = new Map<string, Promise<unknown>>()

  /** Runs work on a record after the work that waits for it, in order. */
  function inOrder<T>(name: string, work: () => Promise<T>): Promise<T> {
    const result = (queues.get(name) ?? Promise.resolve()).then(work)
    // An unavailable store fails everything that waits. Another error concerns one caller.
    const end = result
      .catch(error => {
        if (error instanceof StoreUnavailable) throw error
      })
      .finally(() => queues.get(name) === end && queues.delete(name))
    end.catch(() => {})
    queues.set(name, end)
    return result
  }

  return {
    read,
    save,
    walk,

    lastRead<T>(kind: string, id: string) {
      const entry = cache.lastRead(textOf(kind, id))
      return entry && foundIn<T>(entry)
    },

    consume: (kind, id) => cache.write({ key: keyOf(kind, id), consumed: now() }),

    remove: (kind, id, seconds = SLACK_SECONDS, version) =>
      cache.write({ key: keyOf(kind, id), tombstone: now() + clamp(seconds), version }),

    async confirmRemovals(request) {
      const tombstone = now() + SLACK_SECONDS
      await Promise.all(
        cache.removed(request).map(({ key, version }) => cache.write({ key, version, tombstone })),
      )
    },

    list: <T>(kind: string, name: string) => cache.call(() => Array.fromAsync(walk<T>(kind, name))),

    count: (kind, name) => cache.call(() => store.count(indexOf(kind, name))),

    async change<T extends object>(
      kind: string,
      id: string,
      decide: (found: Found<T>) => T | undefined | Promise<T | undefined>,
      options: SaveOptions | ((next: T) => SaveOptions) = {},
      known?: Found<T>,
    ): Promise<Change<T>> {
      /** Undefined when another writer came in between. */
      const attempt = async (found: Found<T>): Promise<Change<T> | undefined> => {
        const [before, after] = [found.value, await decide(found)]
        if (after === undefined) return { before, isWritten: false }
        const given = typeof options === 'function' ? options(after) : options
        const isSaved = await save(kind, id, after, { ...given, version: found.version })
        return isSaved ? { before, after, isWritten: true } : undefined
      }
      const repeat = async () => {
        for (let i = 1; i < MAX_ATTEMPTS; i++) {
          if (i > 10) await setTimeout(Math.random() * i)
          const outcome = await attempt(await read<T>(kind, id))
          if (outcome !== undefined) return outcome
        }
      }
      const name = textOf(kind, id)
      const first = queues.has(name) ? undefined : await attempt(known ?? (await read<T>(kind, id)))
      const outcome = first ?? (await inOrder(name, repeat))
      if (outcome !== undefined) return outcome
      throw new StoreUnavailable(`a ${kind} is written to by too many requests at once`)
    },

    keyedHash: (purpose, text) => Buffer.from(keyOf(`proof:${purpose}`, text), 'base64url'),

    outage: () => store.outage,

    async check() {
      const [checks, lost] = await Promise.all([store.check(), problem()])
      lostIdentity = lost
      const fix =
        'stop every node; restore the store from a backup, or start anew with what it holds'
      return [...checks, lost ? wrong('identity', lost, fix) : ok('identity', 'as at the start')]
    },
  }
}
