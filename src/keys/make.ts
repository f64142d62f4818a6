// Making signing keys, and taking in those that an operator brings.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint } from 'jose'

export type SigningKey = JsonWebKey & { kid: string; alg: string; use: 'sig' }

const generate = promisify(generateKeyPair)

// Keys rotate every 90 days: a longer one buys nothing, and costs 1.6 ms a signature (SP 800-57).
const makeRsaKey = async () => (await generate('rsa', { modulusLength: 2048 })).privateKey

/** RS256 first: it is what every client library expects without being told (OIDC Core §3.1.3.7). */
const MAKERS: Record<string, () => Promise<KeyObject>> = {
  RS256: makeRsaKey,
  ES256: async () => (await generate('ec', { namedCurve: 'P-256' })).privateKey,
  EdDSA: async () => (await generate('ed25519')).privateKey,
  // Of its own: one key is not used for two schemes of padding (RFC 8017 §6).
  PS256: makeRsaKey,
}
export const ALL_ALGORITHMS = Object.keys(MAKERS)
/** That there are keys for in any case; for the others when a client wants them. */
export const ALGORITHMS = ALL_ALGORITHMS.filter(alg => alg !== 'PS256')

export async function makeKey(alg: string): Promise<SigningKey> {
  const make = MAKERS[alg]
  if (!make) throw new Error(`there is no way to make a key for ${alg}`)
  return named((await make()).export({ format: 'jwk' }), alg)
}

/** From PEM; config/rules/provider.ts has validated it. */
export function importKey(pem: string): Promise<SigningKey> {
  const key = createPrivateKey(pem)
  const algs: Record<string, string> = { rsa: 'RS256', ec: 'ES256', ed25519: 'EdDSA' }
  return named(key.export({ format: 'jwk' }), algs[key.asymmetricKeyType ?? ''] ?? '')
}

export function publicPart({ kid, alg, use, ...jwk }: SigningKey): SigningKey {
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  return { ...key.export({ format: 'jwk' }), kid, alg, use }
}

async function named(jwk: JsonWebKey, alg: string): Promise<SigningKey> {
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg, use: 'sig' }
}
