// Creates signing keys, and imports keys of the operator.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint } from 'jose'

/** A signing key as a JWK: the private key, or the public part. */
export type SigningKey = JsonWebKey & { kid: string; alg: string; use: 'sig' }

const generate = promisify(generateKeyPair)

// 2048 bits are enough for 90 days (SP 800-57). A longer key costs 1.6 ms more for each signature.
const makeRsaKey = async () => (await generate('rsa', { modulusLength: 2048 })).privateKey

/** RS256 is first: client libraries expect it by default (OIDC Core §3.1.3.7). */
const MAKERS: Record<string, () => Promise<KeyObject>> = {
  RS256: makeRsaKey,
  ES256: async () => (await generate('ec', { namedCurve: 'P-256' })).privateKey,
  EdDSA: async () => (await generate('ed25519')).privateKey,
  // Not the key of RS256: a key is used with one padding scheme only (RFC 8017 §6).
  PS256: makeRsaKey,
}
/** Algorithms that keys can be created for. */
export const ALL_ALGORITHMS = Object.keys(MAKERS)
/** Algorithms that always have a key. The others get one when a client or an API names them. */
export const ALGORITHMS = ALL_ALGORITHMS.filter(alg => alg !== 'PS256')

/** Creates a private key. Throws for an unknown algorithm. */
export async function makeKey(alg: string): Promise<SigningKey> {
  const make = MAKERS[alg]
  if (!make) throw new Error(`no key can be created for ${alg}`)
  return named((await make()).export({ format: 'jwk' }), alg)
}

/** Returns the private key of a PEM text that config/rules/provider.ts has validated. */
export function importKey(pem: string): Promise<SigningKey> {
  const key = createPrivateKey(pem)
  const algs: Record<string, string> = { rsa: 'RS256', ec: 'ES256', ed25519: 'EdDSA' }
  return named(key.export({ format: 'jwk' }), algs[key.asymmetricKeyType ?? ''] ?? '')
}

/** Returns the public part of a key. */
export function publicPart({ kid, alg, use, ...jwk }: SigningKey): SigningKey {
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  return { ...key.export({ format: 'jwk' }), kid, alg, use }
}

async function named(jwk: JsonWebKey, alg: string): Promise<SigningKey> {
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg, use: 'sig' }
}
