// Encryption of the store: AES-256-GCM for contents, keyed hashes for names.
// Without the secret, a copy of the store is worthless. A sealed value is
// `key id (4) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. The key of its record in
// the store is associated data: a value that is copied to another record cannot
// be decrypted.

import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { type Store, StoreUnavailable } from './store.ts'

const ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const NAME_HASH = 'sha512-256'
/**
 * Bytes of a hashed name: 128 bits, enough that no two names ever get the same.
 */
const NAME_BYTES = 16

/**
 * 32 bytes for one purpose from a secret (RFC 5869); purposes never share a key.
 */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, 'usher', purpose, 32))
}

let pool = Buffer.alloc(0)
/**
 * Returns random bytes from a pool. A call of Node for each takes a third of
 * the time of an encryption.
 */
export function pooledBytes(count: number): Buffer {
  if (pool.length < count) pool = randomBytes(4096)
  const bytes = pool.subarray(0, count)
  pool = pool.subarray(count)
  return bytes
}

/** Encrypts and decrypts values. */
export type Seal = ReturnType<typeof createSeal>

/** Creates a seal. The first secret encrypts, all of them decrypt. */
export function createSeal(secrets: Uint8Array[]) {
  const keys = secrets.map(secret => {
    const key = deriveKey(secret, 'seal')
    const id = hash('sha256', key, 'buffer').subarray(0, ID_BYTES)
    // Node takes five times as long with a key that is bytes.
    return { id, key: createSecretKey(key) }
  })
  const keyThatSealed = (value: Uint8Array) =>
    keys.find(({ id }) => id.equals(value.subarray(0, ID_BYTES)))
  const [current] = keys
  if (!current) throw new Error('a seal needs a secret')

  const seal = (key: string, plain: Uint8Array): Buffer => {
    const nonce = pooledBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', current.key, nonce).setAAD(
      Buffer.from(key),
    )
    const sealed = [cipher.update(plain), cipher.final(), cipher.getAuthTag()]
    return Buffer.concat([current.id, nonce, ...sealed])
  }

  /**
   * Throws when no secret opens it: the wrong `USHER_SECRET`, or a value that
   * was tampered with.
   */
  const open = (key: string, sealed: Uint8Array): Buffer => {
    const found = keyThatSealed(sealed)
    if (!found)
      throw new Error('USHER_SECRET cannot decrypt this store or backup')
    const nonce = sealed.subarray(ID_BYTES, ID_BYTES + NONCE_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', found.key, nonce, {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(Buffer.from(key)).setAuthTag(sealed.subarray(-TAG_BYTES))
    const plain = decipher.update(
      sealed.subarray(ID_BYTES + NONCE_BYTES, -TAG_BYTES),
    )
    try {
      decipher.final()
    } catch (cause) {
      throw new Error('a record in the store was changed by someone else', {
        cause,
      })
    }
    return plain
  }

  /** False when it was sealed with a secret that is no longer the first. */
  const isCurrent = (sealed: Uint8Array) => keyThatSealed(sealed) === current

  return { seal, open, isCurrent }
}

/**
 * The key of the naming key, which is the identity of an installation. It is
 * made once for each store and kept in it, sealed, so that `USHER_SECRET` can
 * be changed without losing any record. A store without one is no installation
 * yet.
 */
export const NAMING_KEY = 'naming-key'
/**
 * Format version of the store: the byte before the naming key. Raise it for
 * incompatible records.
 */
const FORMAT = 4
const WRONG_FORMAT =
  'the store was written by another version of Usher, in a format that this one does not read; ' +
  'start with an empty store (another file, database or redis.key_prefix)'

/** The identity of an installation; see `openIdentity`. */
export type Identity = Awaited<ReturnType<typeof openIdentity>>

/**
 * Opens the identity of the installation in a store; nodes that start together
 * on an empty store agree on the first key written. Throws when no secret fits,
 * or when the store has another format.
 */
export async function openIdentity(store: Store, seal: Seal) {
  let entry = await store.get(NAMING_KEY)
  if (!entry) {
    const made = seal.seal(
      NAMING_KEY,
      Buffer.from([FORMAT, ...randomBytes(32)]),
    )
    await store.write({ key: NAMING_KEY, value: made, version: 0 })
    entry = await store.get(NAMING_KEY)
  }
  if (!entry?.value)
    throw new StoreUnavailable('the naming key could not be read back')
  const { version, value } = entry
  const plain = seal.open(NAMING_KEY, value)
  if (plain.length !== 33 || plain[0] !== FORMAT) throw new Error(WRONG_FORMAT)
  if (!seal.isCurrent(value)) {
    await store.write({
      key: NAMING_KEY,
      value: seal.seal(NAMING_KEY, plain),
      version,
    })
  }

  const namingKey = plain.toString('base64url', 1)

  return {
    /**
     * Keyed hashes of ids and index names, as base64url: SHA-512/256 of the key
     * and the name. A hash that is truncated in this way cannot be extended
     * (FIPS 180-4), so that no HMAC is needed.
     */
    hashName: (name: string) =>
      hash(NAME_HASH, namingKey + name, 'buffer').toString(
        'base64url',
        0,
        NAME_BYTES,
      ),

    /** Why the store no longer has this identity. */
    async problem(): Promise<string | undefined> {
      const { value } = (await store.get(NAMING_KEY)) ?? {}
      if (!value)
        return 'the store was emptied: the naming key of this installation is gone'
      try {
        if (seal.open(NAMING_KEY, value).equals(plain)) return undefined
      } catch {
        // It is sealed with another secret.
      }
      return 'the store holds another installation than this node was started with'
    },
  }
}

/**
 * Whether two texts are the same. The time does not depend on where they
 * differ.
 */
export function isSameText(one: string, other: string): boolean {
  const bytes = Buffer.from(one)
  const others = Buffer.from(other)
  return bytes.length === others.length && timingSafeEqual(bytes, others)
}
