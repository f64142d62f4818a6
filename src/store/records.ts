// JSON records over the store: names hashed, contents sealed. Everything Usher keeps goes through here.
//
// Names are hashed with a key that is made once for each store and kept in it, sealed, so that
// `USHER_SECRET` can be changed without losing sight of a record.

import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createSeal, hashName, type Seal } from './seal.ts'
import { type Store, StoreUnavailable } from './store.ts'

const NAMING_KEY = 'naming-key'
/** Records outlive their `exp` a little: the library, which tolerates clocks, judges that. */
const SLACK = 60
/** Of `update`; from the tenth on they wait a little, at random (milliseconds). */
const ATTEMPTS = 100
const LONGEST = 400 * 24 * 3600

/** What was read under an id. `value` is absent when nothing stands there, or a tombstone. */
export interface Found<T> {
  value?: T
  version: number
  consumed?: number
}

export interface SaveOptions {
  /** Seconds from now, clamped to 1 s … 400 d; absent: kept until removed. */
  ttl?: number
  version?: number
  /** Pairs of kind and name, as given to `list`. */
  indexes?: [kind: string, name: string][]
}

export interface Records {
  read<T>(kind: string, id: string): Promise<Found<T>>
  save(kind: string, id: string, value: object, options?: SaveOptions): Promise<boolean>
  consume(kind: string, id: string): Promise<boolean>
  /** What was removed, to exactly one caller. Plain writes stay refused for `tombstone` seconds. */
  remove<T>(kind: string, id: string, tombstone?: number): Promise<T | undefined>
  /** Removes all that `list` would find. */
  clear(kind: string, name: string): Promise<void>
  list<T>(kind: string, name: string): Promise<T[]>
  /**
   * Reads, lets `change` decide, and writes if nothing was written in between; otherwise again.
   * False when `change` answered undefined: it wants nothing written.
   */
  update<T extends object>(
    kind: string,
    id: string,
    change: (found: Found<T>) => T | undefined,
    options?: Omit<SaveOptions, 'version'>,
  ): Promise<boolean>
}

const now = () => Math.floor(Date.now() / 1000)
const clamp = (ttl: number) => Math.ceil(Math.min(Math.max(ttl || 1, 1), LONGEST))

/** Opens the records of a store with its secrets; throws when none of them fits. */
export async function openRecords(store: Store, secrets: Uint8Array[]): Promise<Records> {
  const seal = createSeal(secrets)
  return createRecords(store, seal, await namingKey(store, seal))
}

/** Nodes that start together on an empty store agree on the first key written. */
async function namingKey(store: Store, seal: Seal): Promise<Uint8Array> {
  await store.put(NAMING_KEY, seal.seal(NAMING_KEY, randomBytes(32)), { version: 0 })
  const entry = await store.get(NAMING_KEY)
  if (!entry?.value) throw new StoreUnavailable('the naming key could not be read back')
  const key = seal.open(NAMING_KEY, entry.value)
  if (!seal.isCurrent(entry.value)) {
    await store.put(NAMING_KEY, seal.seal(NAMING_KEY, key), { version: entry.version })
  }
  return key
}

function createRecords(store: Store, seal: Seal, naming: Uint8Array): Records {
  const keyOf = (kind: string, id: string) => hashName(naming, `${kind}\0${id}`)
  const unseal = <T>(key: string, value: Uint8Array): T =>
    JSON.parse(seal.open(key, value).toString()) as T

  const records: Records = {
    async read<T>(kind: string, id: string): Promise<Found<T>> {
      const key = keyOf(kind, id)
      const entry = await store.get(key)
      if (!entry) return { version: 0 }
      const { value, version, consumed } = entry
      return { version, consumed, ...(value && { value: unseal<T>(key, value) }) }
    },

    save(kind, id, value, { ttl, version, indexes = [] } = {}) {
      const key = keyOf(kind, id)
      return store.put(key, seal.seal(key, Buffer.from(JSON.stringify(value))), {
        version,
        ...(ttl !== undefined && { expires: now() + clamp(ttl) + SLACK }),
        indexes: indexes.map(([kind, name]) => keyOf(`index:${kind}`, name)),
      })
    },

    consume: (kind, id) => store.consume(keyOf(kind, id), now()),

    async remove<T>(kind: string, id: string, tombstone = SLACK) {
      const key = keyOf(kind, id)
      const entry = await store.remove(key, now() + clamp(tombstone))
      return entry?.value && unseal<T>(key, entry.value)
    },

    async clear(kind, name) {
      const entries = await store.list(keyOf(`index:${kind}`, name))
      await Promise.all(entries.map(({ key }) => store.remove(key, now() + SLACK)))
    },

    async list<T>(kind: string, name: string) {
      const entries = await store.list(keyOf(`index:${kind}`, name))
      return entries.flatMap(({ key, value }) => (value ? [unseal<T>(key, value)] : []))
    },

    async update<T extends object>(
      kind: string,
      id: string,
      change: (found: Found<T>) => T | undefined,
      options: Omit<SaveOptions, 'version'> = {},
    ) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (attempt > 10) await setTimeout(Math.random() * attempt)
        const found = await records.read<T>(kind, id)
        const next = change(found)
        if (next === undefined) return false
        if (await records.save(kind, id, next, { ...options, version: found.version })) return true
      }
      throw new StoreUnavailable(`a ${kind} is written to by too many requests at once`)
    },
  }
  return records
}
