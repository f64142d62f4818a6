// What makes a copy of the store worthless without the secret: AES-256-GCM for contents, HMAC-SHA256
// for names. A sealed value is `key id (4) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`, bound to the name
// it stands under, so that a value moved to another place does not open.

import { createCipheriv, createDecipheriv, createSecretKey, hash, hkdfSync } from 'node:crypto'
import { createRandom } from './random.ts'

const KEY_ID = 4
const NONCE = 12
const TAG = 16
/** Bytes that SHA-256 takes in at once, and that it makes. */
const BLOCK = 64
const DIGEST = 32

/** 32 bytes for one purpose from a secret (RFC 5869); purposes never share a key. */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, 'usher', purpose, 32))
}

export type Seal = ReturnType<typeof createSeal>

/** The first secret seals, all of them open. */
export function createSeal(secrets: Uint8Array[]) {
  const keys = secrets.map(secret => {
    const key = deriveKey(secret, 'seal')
    const id = hash('sha256', key, 'buffer').subarray(0, KEY_ID)
    // Node takes five times as long with a key that is bytes.
    return { id, key: createSecretKey(key) }
  })
  const keyOf = (sealed: Uint8Array) => keys.find(({ id }) => id.equals(sealed.subarray(0, KEY_ID)))
  const [current] = keys
  if (!current) throw new Error('a seal needs a secret')
  const random = createRandom()

  const seal = (name: string, plain: Uint8Array): Buffer => {
    const nonce = random(NONCE)
    const cipher = createCipheriv('aes-256-gcm', current.key, nonce).setAAD(Buffer.from(name))
    const sealed = [cipher.update(plain), cipher.final(), cipher.getAuthTag()]
    return Buffer.concat([current.id, nonce, ...sealed])
  }

  /** Throws when no secret opens it: the wrong `USHER_SECRET`, or a value that was tampered with. */
  const open = (name: string, sealed: Uint8Array): Buffer => {
    const found = keyOf(sealed)
    if (!found) throw new Error('the store was sealed with another secret (USHER_SECRET)')
    const nonce = sealed.subarray(KEY_ID, KEY_ID + NONCE)
    const decipher = createDecipheriv('aes-256-gcm', found.key, nonce, { authTagLength: TAG })
    decipher.setAAD(Buffer.from(name)).setAuthTag(sealed.subarray(-TAG))
    const plain = decipher.update(sealed.subarray(KEY_ID + NONCE, -TAG))
    try {
      decipher.final()
    } catch (cause) {
      throw new Error('a record in the store was changed by someone else', { cause })
    }
    return plain
  }

  /** False when it was sealed with a secret that is no longer the first. */
  const isCurrent = (sealed: Uint8Array) => keyOf(sealed) === current

  return { seal, open, isCurrent }
}

/**
 * Keyed hashes of ids and index names: 128 bits, enough that no two ever meet. HMAC-SHA256 as it is
 * defined (RFC 2104), by two hashes: Node takes several times as long for an object that does it.
 */
export function createNames(key: Uint8Array): (name: string) => string {
  const padded = (pad: number) => Buffer.alloc(BLOCK).map((_, i) => pad ^ (key[i] ?? 0))
  const inner = padded(0x36)
  // What the inner hash says is written behind the key, each time anew.
  const outer = Buffer.concat([padded(0x5c), Buffer.alloc(DIGEST)])
  const digestOf = (bytes: Uint8Array) => hash('sha256', bytes, 'binary')
  return name => {
    outer.write(digestOf(Buffer.concat([inner, Buffer.from(name)])), BLOCK, 'binary')
    return Buffer.from(digestOf(outer), 'binary').toString('base64url', 0, 16)
  }
}
