// Signing keys as the library takes them, and the algorithms that are spoken (RFC 8725 §3.1): never `none`,
// never a shared secret (HS256, `dir`, A*KW), never RSA-OAEP with SHA-1.

import { createPublicKey, type KeyObject } from 'node:crypto'
import { type Configuration, ExternalSigningKey } from 'oidc-provider'
import { ENCRYPTION_ALGORITHMS, SIGNING_ALGORITHMS } from '../config/schema/client.ts'
import type { SigningKey } from '../keys/make.ts'

/** What we sign with is what there are keys for. */
export function algorithms(keys: SigningKey[]): Configuration['enabledJWA'] {
  const ours = [...new Set(keys.filter(canSign).map(({ alg }) => alg as 'RS256'))]
  return {
    idTokenSigningAlgValues: ours,
    userinfoSigningAlgValues: ours,
    introspectionSigningAlgValues: ours,
    authorizationSigningAlgValues: ours,
    // Ed25519 is what EdDSA is called since RFC 9864.
    clientAuthSigningAlgValues: [...SIGNING_ALGORITHMS, 'Ed25519'],
    requestObjectSigningAlgValues: [...SIGNING_ALGORITHMS, 'Ed25519'],
    dPoPSigningAlgValues: ['PS256', 'ES256', 'Ed25519', 'EdDSA'],
    idTokenEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    userinfoEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    // Nothing else is encrypted, and nothing that comes in is decrypted.
    introspectionEncryptionAlgValues: [],
    introspectionEncryptionEncValues: [],
    authorizationEncryptionAlgValues: [],
    authorizationEncryptionEncValues: [],
    requestObjectEncryptionAlgValues: [],
    requestObjectEncryptionEncValues: [],
  }
}

class PublishedKey extends ExternalSigningKey {
  readonly #jwk: SigningKey
  readonly #key: KeyObject

  constructor(jwk: SigningKey) {
    super()
    this.#jwk = jwk
    this.#key = createPublicKey({ key: jwk, format: 'jwk' })
  }

  override get kid() {
    return this.#jwk.kid
  }

  override get alg() {
    return this.#jwk.alg
  }

  override keyObject() {
    return this.#key
  }

  override sign(): never {
    throw new Error('the private part of this key is not here')
  }
}

/** The library refuses a JWK without private members. */
export const asLibraryKey = (key: SigningKey) => (canSign(key) ? key : new PublishedKey(key))
/** Whether the key has its private part. */
export const canSign = ({ d }: SigningKey) => d !== undefined
