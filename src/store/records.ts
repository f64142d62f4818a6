// JSON records over the store: ids hashed, contents encrypted. All state of
// Usher is kept by this module.
//
//   records.of<Consent>('Consent').save(id, value)
//     name    KIND\0id
//     key     a keyed hash of the name; the key of the hash is the identity of an installation (seal.ts)
//     value   two lines, encrypted for this key: KIND, or `KIND backup`; and the JSON of the value
//     → one Put of the store, with the version that the caller has read
//
// ` backup` marks records that belong in a backup: `usher store backup` knows
// it from the record alone.
//
// A kind is declared beside the type of its values, once:
//
//   const consents = records.of<Consent>('Consent', { backup: true })

import { setTimeout } from 'node:timers/promises'
import { reasonOf } from './reasons.ts'
import {
  type CurrentRequest,
  createRequestStore,
  type RequestStore,
} from './request-store.ts'
import { createSeal, type Identity, openIdentity, type Seal } from './seal.ts'
import {
  type Check,
  type Entry,
  now,
  type Outage,
  ok,
  type Store,
  StoreUnavailable,
  wrong,
} from './store.ts'
import { readJson } from './values.ts'

/**
 * Seconds by which records outlive their `exp`: the library, which tolerates
 * clock skew, checks that.
 */
const SLACK_SECONDS = 60
const MAX_TTL_SECONDS = 400 * 24 * 3600
/**
 * Attempts of `change`. After ten it waits for some milliseconds, at random.
 */
const MAX_ATTEMPTS = 100

/**
 * A record that was read. `value` is absent if there is none, or a tombstone.
 */
export interface Found<T> {
  value?: T
  version: number
  consumed?: number
  /** Epoch seconds at which a tombstone expires; absent for a record. */
  tombstone?: number
}

/** An entry that a request has read. `json`: its decrypted value. */
type Opened = Entry & { json?: string }

/** The outcome of `Collection.change`. */
interface ChangeOutcome<T> {
  /** The value that it found last. */
  before?: T
  /** The value that it wrote. */
  after?: T
  isWritten: boolean
}

interface SaveOptions {
  /** Seconds from now, clamped to 1 s … 400 d; absent: kept until removed. */
  ttl?: number
  /** The version that must stand; absent: 0, there is no such record. */
  version?: number
  indexes?: IndexName[]
}

/** The kind and the id of a record. */
export type Name = [kind: string, id: string]

/** An index, as `walk` takes it: `['consents of account', accountId]`. */
export type IndexName = [index: string, name: string]

/** Called with the key of a record, and the reason why it cannot be read. */
export type Unreadable = (key: string, reason: string) => void

/**
 * Returns the next value of a record, or undefined to leave it as it is. Must
 * be repeatable.
 */
export type Decide<T> = (
  found: Found<T>,
) => T | undefined | Promise<T | undefined>

/** Where records of a kind belong. */
export interface KindOptions {
  /**
   * Records of the kind are part of a backup; absent: they are not. True only
   * for a kind whose old copies are harmless. An old copy of another kind makes
   * a used code or invitation, an ended session, a rotated token or a retired
   * key valid again, or repeats a notification.
   */
  backup?: boolean
}

/**
 * Opens the records of a store; throws when no secret fits, or when the store
 * has another format. Each request that `currentRequest` names reads a record
 * once.
 */
export async function openRecords(
  store: Store,
  secrets: Uint8Array[],
  currentRequest: CurrentRequest = () => undefined,
): Promise<Records> {
  const seal = createSeal(secrets)
  const identity = await openIdentity(store, seal)
  return createRecords({
    store,
    seal,
    identity,
    requestStore: createRequestStore(store, identity.hashName, currentRequest),
    waiting: new SerialQueue(),
  })
}

/** The objects that the collections of an installation share. */
interface Shared {
  store: Store
  seal: Seal
  identity: Identity
  /** The store as the current request sees it. */
  requestStore: RequestStore
  /** By record: changes that wait because another writer came in between. */
  waiting: SerialQueue
}

/** All records of an installation; see `openRecords`. */
export type Records = ReturnType<typeof createRecords>

function createRecords(shared: Shared) {
  const { store, identity, requestStore } = shared
  /** By kind: whether its records are in a backup. */
  const kinds = new Map<string, boolean>()

  return {
    /**
     * Returns the collection of a kind, for instance
     * `records.of<Consent>('Consent', { backup: true })`. Declare a kind beside
     * the type of its values. Throws if the same kind was declared with other
     * options before.
     */
    of<T extends object = object>(
      kind: string,
      { backup = false }: KindOptions = {},
    ): Collection<T> {
      if ((kinds.get(kind) ?? backup) !== backup) {
        throw new Error(
          `${kind} is declared twice, with and without { backup: true }`,
        )
      }
      kinds.set(kind, backup)
      return createCollection<T>(shared, kind, backup)
    },

    /**
     * Waits until tombstones that the request read are durable. The store refuses
     * these removals, and answers when the tombstone is durable.
     */
    async confirmRemovals(request: object): Promise<void> {
      const tombstone = now() + SLACK_SECONDS
      const removed = requestStore.tombstonesIn(request)
      await Promise.all(
        removed.map(({ key, version }) =>
          requestStore.write({ key, version, tombstone }),
        ),
      )
    },

    /**
     * A keyed hash that only the nodes of this installation can make: 16 bytes.
     */
    keyedHash(purpose: string, text: string): Buffer {
      const name = nameOfRecord(`proof:${purpose}`, text)
      return Buffer.from(identity.hashName(name), 'base64url')
    },

    /**
     * The latest time in which the store took no writes, as far as this process
     * knows.
     */
    outage: (): Outage | undefined => store.outage,

    /**
     * Checks the store, and whether it still holds this installation. While it
     * does not, every other operation is rejected: two identities must never be
     * in use at once.
     */
    async check(): Promise<Check[]> {
      const [checks, lost] = await Promise.all([
        store.check(),
        identity.problem(),
      ])
      requestStore.loseIdentity(lost)
      const fix =
        'stop every node; restore the store from a backup, or start anew with what it holds'
      return [
        ...checks,
        lost ? wrong('identity', lost, fix) : ok('identity', 'as at the start'),
      ]
    },
  }
}

/**
 * The records of one kind. Their values have one type. `Records.of` returns
 * them.
 */
export type Collection<T extends object> = ReturnType<
  typeof createCollection<T>
>

function createCollection<T extends object>(
  { store, seal, identity, requestStore, waiting }: Shared,
  kind: string,
  isInBackup: boolean,
) {
  const nameOfId = (id: string) => nameOfRecord(kind, id)
  const keyOfId = (id: string) => identity.hashName(nameOfRecord(kind, id))
  /** An index belongs to no kind: its records can be of several. */
  const keyOfIndex = (index: string, name: string) =>
    identity.hashName(nameOfRecord(`index:${index}`, name))

  /** Decrypts an entry once. Each caller gets an object of its own. */
  function openEntry(entry?: Opened): Found<T> {
    if (!entry) return { version: 0 }
    const { key, value, version, consumed } = entry
    if (!value) return { version, tombstone: entry.expires }
    if (entry.json === undefined) {
      const text = seal.open(key, value).toString()
      entry.json = text.slice(text.indexOf('\n') + 1)
    }
    return { version, consumed, value: JSON.parse(entry.json) }
  }

  /**
   * Returns a record. Reads `others` at the same time, for later reads of this
   * request.
   */
  async function read(id: string, ...others: Name[]): Promise<Found<T>> {
    const entry = await requestStore.readEntry(
      nameOfId(id),
      others.map(([kind, otherId]) => nameOfRecord(kind, otherId)),
    )
    return openEntry(entry)
  }

  /**
   * Writes a record. Returns false, and writes nothing, where the record has
   * another version than that of `options`. A tombstone refuses a new record.
   */
  function save(
    id: string,
    value: T,
    { ttl, indexes, version = 0 }: SaveOptions = {},
  ): Promise<boolean> {
    const key = keyOfId(id)
    return requestStore.write({
      key,
      version,
      value: sealRecord(seal, key, { kind, isInBackup, value }),
      expires: ttl === undefined ? undefined : expiry(ttl) + SLACK_SECONDS,
      indexes: indexes?.map(([index, name]) => keyOfIndex(index, name)),
    })
  }

  /**
   * Yields the records under an index, each once; see `Store`. Throws for a
   * record that no secret decrypts, or calls `unreadable` and goes on.
   */
  async function* walk(
    index: string,
    name: string,
    unreadable?: Unreadable,
  ): AsyncGenerator<T> {
    const key = keyOfIndex(index, name)
    // Fails at once if the store has failed this request before.
    const entries = await requestStore.run(async () => store.walk(key))
    for await (const entry of entries) {
      const value = readValue(entry, unreadable)
      if (value) yield value
    }
  }

  /**
   * Returns the value of an entry. For one that no secret decrypts, throws, or
   * calls `unreadable`.
   */
  function readValue(entry: Entry, unreadable?: Unreadable): T | undefined {
    if (!unreadable) return openEntry(entry).value
    try {
      return openEntry(entry).value
    } catch (error) {
      unreadable(entry.key, reasonOf(error))
      return undefined
    }
  }

  return {
    read,
    save,
    walk,

    /**
     * Returns many records, in the order of the ids, with one command to the
     * store. A request does not keep them.
     */
    async readMany(ids: string[]): Promise<Found<T>[]> {
      const keys = ids.map(id => keyOfId(id))
      const entries = await requestStore.run(() => store.getMany(keys))
      return entries.map(entry => openEntry(entry))
    },

    /**
     * Returns the record that this request read last; undefined if there was
     * none, or none was read.
     */
    lastRead(id: string): Found<T> | undefined {
      const entry = requestStore.lastRead(nameOfId(id))
      return entry && openEntry(entry)
    },

    /**
     * Reads, lets `decide` return the next value, and writes unless another
     * writer came in between; then repeats this. Throws StoreUnavailable after
     * MAX_ATTEMPTS. `decide` returns undefined to write nothing.
     *
     * `options` are those of `save`, or a function of the record that is to be
     * written. The first attempt uses `known`, a record that was just read,
     * instead of reading again.
     *
     * After such a repeat, later changes of the key in this process wait in a
     * queue. An operation that ends access then competes with one writer of each
     * other process, however many requests there are.
     */
    async change(
      id: string,
      decide: Decide<T>,
      options: SaveOptions | ((next: T) => SaveOptions) = {},
      known?: Found<T>,
    ): Promise<ChangeOutcome<T>> {
      /** Undefined when another writer came in between. */
      const attempt = async (
        found: Found<T>,
      ): Promise<ChangeOutcome<T> | undefined> => {
        const { value: before, version } = found
        const after = await decide(found)
        if (after === undefined) return { before, isWritten: false }
        const given = typeof options === 'function' ? options(after) : options
        const isWritten = await save(id, after, { ...given, version })
        return isWritten ? { before, after, isWritten } : undefined
      }

      const name = nameOfId(id)
      if (!waiting.isBusy(name)) {
        const first = await attempt(known ?? (await read(id)))
        if (first) return first
      }
      const change = await waiting.run(name, () =>
        repeat(async () => attempt(await read(id))),
      )
      if (change) return change
      throw new StoreUnavailable(
        `a ${kind} is written to by too many requests at once`,
      )
    },

    /**
     * Marks a record as consumed. True for exactly one caller in the life of a
     * record.
     */
    consume(id: string): Promise<boolean> {
      const key = keyOfId(id)
      return requestStore.write({ key, consumed: now() })
    },

    /**
     * Replaces a record by a tombstone, which lasts `seconds` (60 by default).
     * True for one caller. With `version`, removes only that version.
     */
    remove(
      id: string,
      seconds = SLACK_SECONDS,
      version?: number,
    ): Promise<boolean> {
      const key = keyOfId(id)
      const tombstone = expiry(seconds)
      return requestStore.write({ key, tombstone, version })
    },

    /** Returns the records of `walk`. */
    list(index: string, name: string): Promise<T[]> {
      return requestStore.run(() => Array.fromAsync(walk(index, name)))
    },

    /**
     * Returns how many records `walk` would yield. Reads and decrypts none of
     * them.
     */
    count(index: string, name: string): Promise<number> {
      return requestStore.run(() => store.count(keyOfIndex(index, name)))
    },
  }
}

const nameOfRecord = (kind: string, id: string) => `${kind}\0${id}`

/** Epoch seconds at the end of a lifetime, which is clamped to 1 s … 400 d. */
const expiry = (ttl: number) =>
  now() + Math.ceil(Math.min(Math.max(ttl || 1, 1), MAX_TTL_SECONDS))

const BACKUP_MARK = ' backup'

/** Returns the sealed text of a record; see the head of this file. */
export function sealRecord(
  seal: Seal,
  key: string,
  {
    kind,
    isInBackup,
    value,
  }: { kind: string; isInBackup: boolean; value: object },
): Buffer {
  const head = isInBackup ? kind + BACKUP_MARK : kind
  return seal.seal(key, Buffer.from(`${head}\n${JSON.stringify(value)}`))
}

/**
 * Returns what is in a scanned record. Undefined for a tombstone, and for a
 * record that no secret decrypts.
 */
export function openRecord(
  seal: Seal,
  { key, value }: Pick<Entry, 'key' | 'value'>,
) {
  if (!value) return undefined
  try {
    const text = seal.open(key, value).toString()
    const headEnd = text.indexOf('\n')
    const head = text.slice(0, headEnd)
    const isInBackup = head.endsWith(BACKUP_MARK)
    const kind = isInBackup ? head.slice(0, -BACKUP_MARK.length) : head
    const json = text.slice(headEnd + 1)
    return { kind, isInBackup, value: readJson(json) as unknown }
  } catch {
    return undefined
  }
}

/**
 * Repeats an attempt until it has an outcome; returns undefined after
 * MAX_ATTEMPTS.
 */
async function repeat<T>(
  attempt: () => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let i = 1; i < MAX_ATTEMPTS; i++) {
    if (i > 10) await setTimeout(Math.random() * i)
    const outcome = await attempt()
    if (outcome !== undefined) return outcome
  }
}

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
