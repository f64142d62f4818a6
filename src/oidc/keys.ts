// Keys: those of the provider, as the library reads them, with the algorithms
// that are accepted; and those of clients, whose signatures must not cost much.

import { createPublicKey } from 'node:crypto'
import { type Configuration, ExternalSigningKey } from 'oidc-provider'
import { mapOf } from '../store/values.ts'
import type { SigningKey } from './dependencies.ts'
import {
  CONTENT_ENCRYPTION,
  ENCRYPTION_ALGORITHMS,
  SIGNING_ALGORITHMS,
} from './vocabulary.ts'

/**
 * Returns the accepted algorithms (RFC 8725 §3.1): never `none`, a shared
 * secret (HS256, `dir`, A*KW) or RSA-OAEP with SHA-1. The provider signs with
 * the algorithms of its keys.
 */
export function algorithms(keys: SigningKey[]): Configuration['enabledJWA'] {
  const ours = [
    ...new Set(keys.filter(canSign).map(({ alg }) => alg as 'RS256')),
  ]
  const hasKeys = keys.some(({ use }) => use === 'enc')
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
    introspectionEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    authorizationEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    // The library leaves out those without a key.
    requestObjectEncryptionAlgValues: ENCRYPTION_ALGORITHMS,
    requestObjectEncryptionEncValues: hasKeys ? CONTENT_ENCRYPTION : [],
  }
}

/**
 * Returns a key for the library, which refuses a JWK without private members.
 */
export function asLibraryKey(jwk: SigningKey) {
  if (jwk.d !== undefined) return jwk
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  class PublishedKey extends ExternalSigningKey {
    override keyObject = () => key
    override sign(data: Uint8Array) {
      if (jwk.sign) return jwk.sign(data)
      throw new Error('the private part of this key is not here')
    }
  }
  return Object.assign(new PublishedKey(), { kid: jwk.kid, alg: jwk.alg })
}

/** Whether the key has its private part, or a module signs with it. */
export const canSign = ({ use, d, sign }: SigningKey) =>
  use === 'sig' && (d !== undefined || sign !== undefined)

/**
 * A key or a key set of a client that is not used, because anybody could set
 * its cost. The message is for the developer of the client (RFC 8725 §3.5).
 */
export class KeyProblem extends Error {}

declare module 'koa' {
  interface DefaultState {
    /** The message of the `KeyProblem` that the request has failed with. */
    keyProblem?: string
  }
}

/** Throws a `KeyProblem` for a key whose signatures cost too much. */
export function refuseCostlyKeys(keys: unknown[]): void {
  for (const [i, key] of keys.entries()) {
    const problem = keyCostProblem(mapOf(key))
    if (problem) throw new KeyProblem(`keys.${i} of this client: ${problem}`)
  }
}

/** Returns the `KeyProblem` that an error is, or that caused it. */
export function keyProblemIn(error: unknown): KeyProblem | undefined {
  if (error instanceof KeyProblem) return error
  return error instanceof Error ? keyProblemIn(error.cause) : undefined
}

/**
 * A signature takes longer with the length of both (RFC 8017 §3.1): a usual
 * exponent is 65537.
 */
const MAX_RSA_BITS = 4096
const MAX_EXPONENT_BITS = 32

/**
 * Returns why signatures with a public key would cost too much; undefined if
 * they do not.
 */
export function keyCostProblem({
  kty,
  n,
  e,
}: Record<string, unknown>): string | undefined {
  if (kty !== 'RSA') return undefined
  if (bytesOf(n) * 8 > MAX_RSA_BITS)
    return `n: RSA has ${MAX_RSA_BITS} bits at most`
  if (bytesOf(e) * 8 > MAX_EXPONENT_BITS)
    return `e has ${MAX_EXPONENT_BITS} bits at most: AQAB`
  return undefined
}

/** The length of a number in base64url, without zeros before it. */
export function bytesOf(value: unknown): number {
  const bytes = Buffer.from(typeof value === 'string' ? value : '', 'base64url')
  const first = bytes.findIndex(byte => byte !== 0)
  return first < 0 ? 0 : bytes.length - first
}
