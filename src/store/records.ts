// JSON records over the store: names hashed, contents encrypted. All state of
// Usher is kept by this module.
//
// Names are hashed with the naming key, which is the identity of an
// installation (seal.ts).
//
// A value is sealed text of two lines: a head, and the JSON of the value. The
// head is the kind of the record, followed by ` backup` if records of the kind
// belong in a backup: `usher store backup` knows it from the record alone.
//
// A kind is declared beside the type of its values, once:
//
//   const consents = records.of<Consent>('Consent', { backup: true })

import { setTimeout } from 'node:timers/promises'
import { reasonOf } from './reasons.ts'
import { type CurrentRequest, createRequestReads } from './request-reads.ts'
import { createSeal, openIdentity, type Seal } from './seal.ts'
import { SerialQueue } from './serial-queue.ts'
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
 * Attempts of `update`. After ten it waits for some milliseconds, at random.
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

/** The kind and the id of a record. `Collection.name` makes one. */
export type Name = [kind: string, id: string]

/** Called with the key of a record, and the reason why it cannot be read. */
export type Unreadable = (key: string, reason: string) => void

/**
 * The records of one kind. Their values have one type. `Records.of` makes a
 * collection.
 */
export interface Collection<T extends object> {
  /**
   * Returns a record. Reads `others` at the same time, for later reads of this
   * request.
   */
  read(id: string, ...others: Name[]): Promise<Found<T>>

  /**
   * Returns the record that this request read last; undefined if there was
   * none, or none was read.
   */
  lastRead(id: string): Found<T> | undefined

  /**
   * Writes a record. Returns false, and writes nothing, where the record has
   * another version than that of `options`. A tombstone refuses a new record.
   */
  save(id: string, value: T, options?: SaveOptions): Promise<boolean>

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
  change(
    id: string,
    decide: Decide<T>,
    options?: SaveOptions | ((next: T) => SaveOptions),
    known?: Found<T>,
  ): Promise<Change<T>>

  /**
   * Marks a record as consumed. True for exactly one caller in the life of a
   * record.
   */
  consume(id: string): Promise<boolean>

  /**
   * Replaces a record by a tombstone, which lasts `seconds` (60 by default).
   * True for one caller. With `version`, removes only that version.
   */
  remove(id: string, seconds?: number, version?: number): Promise<boolean>

  /**
   * Yields the records under an index, each once; see `Store`. Throws for a
   * record that no secret decrypts, or calls `unreadable` and goes on.
   */
  walk(index: string, name: string, unreadable?: Unreadable): AsyncGenerator<T>

  /** Returns the records of `walk`. */
  list(index: string, name: string): Promise<T[]>

  /**
   * Returns how many records `walk` would yield. Reads and decrypts none of
   * them.
   */
  count(index: string, name: string): Promise<number>

  /**
   * Returns the name of a record, which the `read` of another collection takes.
   */
  name(id: string): Name
}

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

/** All records of an installation; see `openRecords`. */
export interface Records {
  /**
   * Returns the collection of a kind, for instance
   * `records.of<Consent>('Consent', { backup: true })`. Declare a kind beside
   * the type of its values. Throws if the same kind was declared with other
   * options before.
   */
  of<T extends object = object>(
    kind: string,
    options?: KindOptions,
  ): Collection<T>

  /**
   * Removes again what a request has found removed: the removal may not have
   * reached a replica. Resolves when it has.
   */
  confirmRemovals(request: object): Promise<void>

  /**
   * A keyed hash that only the nodes of this installation can make: 16 bytes.
   */
  keyedHash(purpose: string, text: string): Buffer

  /**
   * The latest time in which the store took no writes, as far as this process
   * knows.
   */
  outage(): Outage | undefined

  /**
   * Checks the store, and whether it still holds this installation. While it
   * does not, every other operation is rejected: two identities must never be
   * in use at once.
   */
  check(): Promise<Check[]>
}

const textOf = (kind: string, id: string) => `${kind}\0${id}`

const clamp = (ttl: number) =>
  Math.ceil(Math.min(Math.max(ttl || 1, 1), MAX_TTL_SECONDS))

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
    const head = text.slice(0, text.indexOf('\n'))
    const isInBackup = head.endsWith(BACKUP_MARK)
    const kind = isInBackup ? head.slice(0, -BACKUP_MARK.length) : head
    return { kind, isInBackup, value: readJson(valueIn(text)) as unknown }
  } catch {
    return undefined
  }
}

/** The JSON of the value in the decrypted text of a record. */
const valueIn = (text: string) => text.slice(text.indexOf('\n') + 1)

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
  const { nameOf, problem } = await openIdentity(store, seal)
  const keyOf = (kind: string, id: string) => nameOf(textOf(kind, id))
  const indexOf = (index: string, name: string) => keyOf(`index:${index}`, name)

  let lostIdentity: string | undefined
  const guard = () => {
    if (lostIdentity) throw new StoreUnavailable(lostIdentity)
  }
  const reads = createRequestReads(store, nameOf, guard, currentRequest)
  /** By record: changes that wait because another writer came in between. */
  const waiting = new SerialQueue()
  /** By kind: whether its records are in a backup. */
  const kinds = new Map<string, boolean>()

  /** Decrypts an entry once. Each caller gets an object of its own. */
  function foundIn<T>(entry?: Opened): Found<T> {
    if (!entry) return { version: 0 }
    if (!entry.value)
      return { version: entry.version, tombstone: entry.expires }
    const { key, value, version, consumed } = entry
    entry.text ??= seal.open(key, value).toString()
    return { version, consumed, value: JSON.parse(valueIn(entry.text)) }
  }

  async function* walk<T>(
    index: string,
    name: string,
    unreadable?: Unreadable,
  ): AsyncGenerator<T> {
    guard()
    for await (const entry of store.walk(indexOf(index, name))) {
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

  function of<T extends object = object>(
    kind: string,
    { backup = false }: KindOptions = {},
  ) {
    if (kinds.has(kind) && kinds.get(kind) !== backup) {
      throw new Error(
        `${kind} is declared twice, with and without { backup: true }`,
      )
    }
    kinds.set(kind, backup)
    return createCollection<T>(kind, backup)
  }

  function createCollection<T extends object>(
    kind: string,
    isInBackup: boolean,
  ): Collection<T> {
    async function read(id: string, ...others: Name[]): Promise<Found<T>> {
      const otherTexts = others.map(([otherKind, otherId]) =>
        textOf(otherKind, otherId),
      )
      return foundIn<T>(await reads.read([textOf(kind, id), ...otherTexts]))
    }

    function save(
      id: string,
      value: T,
      { ttl, indexes, version = 0 }: SaveOptions = {},
    ) {
      const key = keyOf(kind, id)
      return reads.write({
        key,
        version,
        value: sealRecord(seal, key, { kind, isInBackup, value }),
        expires:
          ttl === undefined ? undefined : now() + clamp(ttl) + SLACK_SECONDS,
        indexes: indexes?.map(([index, name]) => indexOf(index, name)),
      })
    }

    async function change(
      id: string,
      decide: Decide<T>,
      options: SaveOptions | ((next: T) => SaveOptions) = {},
      known?: Found<T>,
    ): Promise<Change<T>> {
      /** Undefined when another writer came in between. */
      async function attempt(found: Found<T>): Promise<Change<T> | undefined> {
        const before = found.value
        const after = await decide(found)
        if (after === undefined) return { before, isWritten: false }
        const given = typeof options === 'function' ? options(after) : options
        const isWritten = await save(id, after, {
          ...given,
          version: found.version,
        })
        return isWritten ? { before, after, isWritten } : undefined
      }

      const name = textOf(kind, id)
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
    }

    return {
      read,
      save,
      change,
      walk,

      lastRead(id) {
        const entry = reads.lastRead(textOf(kind, id))
        return entry && foundIn<T>(entry)
      },

      consume: id => reads.write({ key: keyOf(kind, id), consumed: now() }),

      remove: (id, seconds = SLACK_SECONDS, version) =>
        reads.write({
          key: keyOf(kind, id),
          tombstone: now() + clamp(seconds),
          version,
        }),

      list: (index, name) =>
        reads.call(() => Array.fromAsync(walk<T>(index, name))),

      count: (index, name) =>
        reads.call(() => store.count(indexOf(index, name))),

      name: id => [kind, id],
    }
  }

  return {
    of,

    async confirmRemovals(request) {
      const tombstone = now() + SLACK_SECONDS
      const removed = reads.tombstonesIn(request)
      const again = removed.map(({ key, version }) =>
        reads.write({ key, version, tombstone }),
      )
      await Promise.all(again)
    },

    keyedHash: (purpose, text) =>
      Buffer.from(keyOf(`proof:${purpose}`, text), 'base64url'),

    outage: () => store.outage,

    async check() {
      const [checks, lost] = await Promise.all([store.check(), problem()])
      lostIdentity = lost
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
