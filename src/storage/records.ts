// JSON records over the store: names hashed, contents sealed. Everything Usher keeps goes through here.
//
// Names are hashed with a key that is made once for each store and kept in it, sealed, so that
// `USHER_SECRET` can be changed without losing sight of a record.

import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createNames, createSeal, type Seal } from './seal.ts'
import { type Entry, now, type Put, type Store, StoreUnavailable } from './store.ts'
import { createUnits } from './units.ts'

/** It stands under its own name. A store without one is no installation yet. */
export const NAMING_KEY = 'naming-key'
/** Seconds by which records outlive their `exp`: the library, which tolerates clocks, judges that. */
const SLACK = 60
/** Of `update`; after ten repeats they wait a little, at random (milliseconds). */
const ATTEMPTS = 100
/** Seconds. */
const LONGEST_TTL = 400 * 24 * 3600

/** What was read under an id. `value` is absent when nothing stands there, or a tombstone. */
export interface Found<T> {
  value?: T
  version: number
  consumed?: number
}

interface SaveOptions {
  /** Seconds from now, clamped to 1 s … 400 d; absent: kept until removed. */
  ttl?: number
  version?: number
  /** Epoch seconds: used up by this write. */
  consumed?: number
  /** Pairs of kind and name, as given to `list`. */
  indexes?: [kind: string, name: string][]
}

interface UpdateOptions<T> extends Pick<SaveOptions, 'indexes'> {
  /** As of `save`, or of what is to be written. */
  ttl?: number | ((next: T) => number)

  /** What was read a moment ago: tried first, without reading again. */
  found?: Found<T>
}

/**
 * What a record of a kind is called. Records whose ids name the same `slot` are in one slot of a Redis
 * Cluster: they can be read in one command and written in one atomic batch. A text is a slot of its own.
 */
export type Id = string | { slot: string; id: string }

export type Records = ReturnType<typeof createRecords>

const clamp = (ttl: number) => Math.ceil(Math.min(Math.max(ttl || 1, 1), LONGEST_TTL))

/** Opens the records of a store with its secrets; throws when none of them fits. */
export async function openRecords(store: Store, secrets: Uint8Array[]): Promise<Records> {
  const seal = createSeal(secrets)
  return createRecords(store, seal, await namingKey(store, seal))
}

/**
 * Seals everything anew that was not sealed with the first secret, and answers how many records that
 * were. Afterwards the other secrets open nothing.
 */
export async function resealAll(
  store: Store,
  secrets: Uint8Array[],
  progress: (done: number) => void = () => {},
): Promise<number> {
  const seal = createSeal(secrets)
  let [count, looked] = [0, 0]
  for await (const scanned of store.scan()) {
    progress(++looked)
    // Read again when somebody wrote in between: a mark of use seals nothing anew.
    for (
      let entry: Entry | undefined = scanned;
      entry?.value;
      entry = await store.get(scanned.key)
    ) {
      if (seal.isCurrent(entry.value)) break
      const sealed = seal.seal(entry.key, seal.open(entry.key, entry.value))
      const { expires } = scanned
      if (await store.put(entry.key, sealed, { version: entry.version, expires })) count++
    }
  }
  return count
}

/** Nodes that start together on an empty store agree on the first key written. */
async function namingKey(store: Store, seal: Seal): Promise<Uint8Array> {
  let entry = await store.get(NAMING_KEY)
  if (!entry) {
    await store.put(NAMING_KEY, seal.seal(NAMING_KEY, randomBytes(32)), { version: 0 })
    entry = await store.get(NAMING_KEY)
  }
  if (!entry?.value) throw new StoreUnavailable('the naming key could not be read back')
  const key = seal.open(NAMING_KEY, entry.value)
  if (!seal.isCurrent(entry.value)) {
    await store.put(NAMING_KEY, seal.seal(NAMING_KEY, key), { version: entry.version })
  }
  return key
}

function createRecords(store: Store, seal: Seal, namingKey: Uint8Array) {
  const nameOf = createNames(namingKey)
  const keyOf = (kind: string, id: Id) =>
    typeof id === 'string'
      ? nameOf(`${kind}\0${id}`)
      : `{${nameOf(`slot\0${id.slot}`)}}${nameOf(`${kind}\0${id.id}`)}`
  const unseal = <T>(key: string, value: Uint8Array): T =>
    JSON.parse(seal.open(key, value).toString())

  const units = createUnits(store)

  async function read<T>(kind: string, id: Id): Promise<Found<T>> {
    return foundIn<T>(await units.get(keyOf(kind, id)))
  }

  /**
   * Reads records of one slot in one command, in this order. A `read` of one of them by the same request
   * needs no other command, until the request writes.
   */
  async function readMany<T extends unknown[]>(
    names: { [I in keyof T]: [kind: string, id: Id] },
  ): Promise<{ [I in keyof T]: Found<T[I]> }> {
    const entries = await units.getMany(names.map(([kind, id]) => keyOf(kind, id)))
    return entries.map(foundIn) as { [I in keyof T]: Found<T[I]> }
  }

  function foundIn<T>({ key, value, version, consumed }: Partial<Entry> = {}): Found<T> {
    const isLive = key !== undefined && value !== undefined
    return { version: version ?? 0, consumed, ...(isLive && { value: unseal<T>(key, value) }) }
  }

  function putOf(kind: string, id: Id, value: object, options: SaveOptions): Put {
    const { ttl, version, consumed, indexes } = options
    const key = keyOf(kind, id)
    return {
      key,
      value: seal.seal(key, Buffer.from(JSON.stringify(value))),
      version,
      consumed,
      ...(ttl !== undefined && { expires: now() + clamp(ttl) + SLACK }),
      indexes: indexes?.map(([kind, name]) => keyOf(`index:${kind}`, name)),
    }
  }

  /** False where `version` differs or, without one, on a tombstone. */
  function save(kind: string, id: Id, value: object, options: SaveOptions = {}) {
    return units.put(putOf(kind, id, value, options))
  }

  /**
   * The same, with the next write of this request or at its end; `refused` is called where `save` would
   * answer false, and what was to be written after this is not if it throws.
   */
  function saveLater(
    kind: string,
    id: Id,
    value: object,
    options: SaveOptions,
    refused?: () => Promise<void>,
  ) {
    return units.putLater(putOf(kind, id, value, options), refused)
  }

  /** True for exactly one caller. */
  function consume(kind: string, id: Id): Promise<boolean> {
    return units.ask(store => store.consume(keyOf(kind, id), now()))
  }

  /** True for exactly one caller, and of `version` alone. Plain writes stay refused for `tombstone` seconds. */
  function remove(kind: string, id: Id, tombstone = SLACK, version?: number): Promise<boolean> {
    return units.remove(keyOf(kind, id), now() + clamp(tombstone), version)
  }

  /** The same for several by their names, at once where the store can; answers how many were removed by it. */
  async function removeEach(names: string[], tombstone: number): Promise<number> {
    return names.length ? units.removeEach(names, now() + clamp(tombstone)) : 0
  }

  async function list<T>(kind: string, name: string): Promise<T[]> {
    return [...(await listByName<T>(kind, name)).values()]
  }

  /** Of records that do not say what they are asked for by: each under its `nameOf`. */
  async function listByName<T>(kind: string, name: string): Promise<Map<string, T>> {
    const entries = await units.ask(store => store.list(keyOf(`index:${kind}`, name)))
    return new Map(
      entries.flatMap(({ key, value }) => (value ? [[key, unseal<T>(key, value)]] : [])),
    )
  }

  /** What `list` answers, some at a time and in no order; what is written meanwhile may be missed, or come twice. */
  async function* walk<T>(kind: string, name: string): AsyncIterable<T> {
    for await (const { key, value } of store.walk(keyOf(`index:${kind}`, name))) {
      if (value) yield unseal<T>(key, value)
    }
  }

  /**
   * Reads, lets `change` decide, and writes if nothing was written in between; otherwise again.
   * False when `change` answered undefined: it wants nothing written.
   */
  async function update<T extends object>(
    kind: string,
    id: Id,
    change: (found: Found<T>) => T | undefined | Promise<T | undefined>,
    { found: known, ttl, indexes }: UpdateOptions<T> = {},
  ): Promise<boolean> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (attempt > 10) await setTimeout(Math.random() * attempt)
      const found = (attempt === 0 && known) || (await read<T>(kind, id))
      const next = await change(found)
      if (next === undefined) return false
      const seconds = typeof ttl === 'function' ? ttl(next) : ttl
      const options = { ttl: seconds, indexes, version: found.version }
      if (await save(kind, id, next, options)) return true
    }
    throw new StoreUnavailable(`a ${kind} is written to by too many requests at once`)
  }

  /** A keyed hash that only the nodes of this installation can make: 16 bytes. */
  const prove = (purpose: string, text: string) =>
    Buffer.from(keyOf(`proof:${purpose}`, text), 'base64url')

  /** The latest time in which the store took no writes, as far as this node knows. */
  const outage = () => store.outage

  const { during, together } = units
  return {
    read,
    readMany,
    save,
    saveLater,
    consume,
    remove,
    removeEach,
    list,
    listByName,
    walk,
    update,
    during,
    together,
    nameOf: keyOf,
    prove,
    outage,
  }
}
