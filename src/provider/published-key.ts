// A signing key whose private part is not here, since the operator has taken its file away, or has given
// it to other nodes first: what it signed is verified, and it signs nothing.

import { createPublicKey, type KeyObject } from 'node:crypto'
import { ExternalSigningKey } from 'oidc-provider'
import type { SigningKey } from '../keys/make.ts'

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

/** The library refuses a JWK without private members (KY3). */
export const asLibraryKey = (key: SigningKey) => (canSign(key) ? key : new PublishedKey(key))
export const canSign = ({ d }: SigningKey) => d !== undefined
