// The identity of an installation, and its secrets.
//
// The naming key is made once for each store and kept in it, sealed, so that `USHER_SECRET` can be
// changed without losing any record. A node that later finds another one in its store, or none, stops
// using the store (`check` in records.ts).

import { randomBytes } from 'node:crypto'
import { createSeal, type Seal } from './seal.ts'
import { type Entry, type Store, StoreUnavailable } from './store.ts'

/** The key of the naming key. A store without one is no installation yet. */
export const NAMING_KEY = 'naming-key'
/** The format of all records: the byte before the naming key. Raise it if older records cannot be read. */
const FORMAT = 2
const WRONG_FORMAT =
  'the store was written by another version of Usher, in a format that this one does not read; ' +
  'start with an empty store (another file, database or redis.key_prefix)'

/** The kind of a record, read from its sealed value. Throws when no secret opens it. */
export function kindOf(seal: Seal, key: string, value: Uint8Array): string {
  const plain = seal.open(key, value)
  return plain.toString('utf8', 0, Math.max(plain.indexOf('\n'), 0))
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
    // Read again when another writer came in between.
    let entry: Entry | undefined = scanned
    while (entry?.value && !seal.isCurrent(entry.value)) {
      const { key, version, expires } = entry
      const value = seal.seal(key, seal.open(key, entry.value))
      const { failed } = await store.write([{ key, value, version, expires }])
      if (failed === undefined) count++
      entry = await store.get(key)
    }
  }
  return count
}

/** Nodes that start together on an empty store agree on the first key written. */
export async function openNamingKey(store: Store, seal: Seal): Promise<Buffer> {
  let entry = await store.get(NAMING_KEY)
  if (!entry) {
    const made = seal.seal(NAMING_KEY, Buffer.from([FORMAT, ...randomBytes(32)]))
    await store.write([{ key: NAMING_KEY, value: made, version: 0 }])
    entry = await store.get(NAMING_KEY)
  }
  if (!entry?.value) throw new StoreUnavailable('the naming key could not be read back')
  const { version, value } = entry
  const plain = seal.open(NAMING_KEY, value)
  if (plain.length !== 33 || plain[0] !== FORMAT) throw new Error(WRONG_FORMAT)
  if (!seal.isCurrent(value)) {
    await store.write([{ key: NAMING_KEY, value: seal.seal(NAMING_KEY, plain), version }])
  }
  return plain.subarray(1)
}

/** Why `entry`, found under NAMING_KEY, is not the identity that this process was started with. */
export function identityProblem(seal: Seal, namingKey: Buffer, entry?: Entry): string | undefined {
  if (!entry?.value) return 'the store was emptied: the naming key of this installation is gone'
  const problem = 'the store holds another installation than this node was started with'
  try {
    return seal.open(NAMING_KEY, entry.value).subarray(1).equals(namingKey) ? undefined : problem
  } catch {
    return problem
  }
}
