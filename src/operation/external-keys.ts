// Signing keys outside of Usher, in a KMS or an HSM. `keys.module` in
// usher.yaml names a module of the operator with two exports:
//
//   keys              the public keys as JWKs, each with kid and alg, in the order in which they came into use
//   sign(kid, data)   returns the signature of `data`, in the form of JWS (RFC 7518 §3): r and s of ES256 as 64 bytes

import { createPublicKey } from 'node:crypto'
import { pathToFileURL } from 'node:url'
import { base64url, compactVerify, importJWK, type JWK } from 'jose'
import { ConfigError } from '../config/report/finding.ts'
import { weaknessOf } from '../config/rules/signing-keys.ts'
import { SIGNING_ALGORITHMS } from '../oidc/vocabulary.ts'
import { PeerUnavailable, reasonOf } from '../store/reasons.ts'
import { mapOf } from '../store/values.ts'
import { withTimeout } from './egress.ts'

/** A public key that the module signs with. */
type ExternalKey = JWK & {
  kid: string
  alg: string
  use: 'sig'
  sign(data: Uint8Array): Promise<Uint8Array>
}

/** Timeout of the import. A module may open a connection meanwhile. */
const IMPORT_TIMEOUT_MS = 10_000
/** Timeout of one signature. */
const SIGN_TIMEOUT_MS = 2_000

/**
 * Returns the exports of a module of the operator, and what makes the error of
 * a finding in it. Throws a `ConfigError` if it cannot be imported, or if one
 * of the functions is missing.
 */
export async function importModule(
  file: string,
  rule: string,
  ...functions: string[]
) {
  const wrong = (message: string) => new ConfigError([{ file, rule, message }])
  const imported = () => import(pathToFileURL(file).href)
  const exports = await withTimeout(IMPORT_TIMEOUT_MS, imported).catch(
    (error: unknown) => {
      throw wrong(`cannot be imported: ${reasonOf(error)}`)
    },
  )
  const missing = functions.filter(name => typeof exports[name] !== 'function')
  if (missing.length)
    throw wrong(
      `does not export a function ${missing.join(' and a function ')}`,
    )
  return { exports, wrong }
}

/**
 * Returns the keys of the module. Throws a `ConfigError` if it cannot sign with
 * one of them.
 */
export async function loadExternalKeys(module: string): Promise<ExternalKey[]> {
  const { exports, wrong } = await importModule(module, 'keys-module', 'sign')
  const { keys, sign } = exports
  if (!Array.isArray(keys) || !keys.length) {
    throw wrong('does not export a list keys with at least one key')
  }
  if (!keys.some(key => mapOf(key).alg === 'RS256')) {
    throw wrong(
      'has no key for RS256, which clients use by default (OIDC Core §15.1)',
    )
  }
  return Promise.all(
    keys.map(async (jwk, i) => {
      const key = {
        ...mapOf(jwk),
        use: 'sig',
        sign: signing(sign, mapOf(jwk).kid),
      } as ExternalKey
      const problem = await problemOf(key).catch((error: unknown) =>
        reasonOf(error),
      )
      if (problem) throw wrong(`keys.${i} ${problem}`)
      return key
    }),
  )
}

/**
 * Returns the function that signs with one key. It throws `PeerUnavailable` if
 * the module does.
 */
function signing(
  sign: (kid: unknown, data: Uint8Array) => unknown,
  kid: unknown,
) {
  return async (data: Uint8Array): Promise<Uint8Array> => {
    const signature = await withTimeout(SIGN_TIMEOUT_MS, async () =>
      sign(kid, data),
    ).catch((error: unknown) => {
      throw new PeerUnavailable(`keys.module: ${reasonOf(error)}`, {
        cause: error,
      })
    })
    if (signature instanceof Uint8Array) return signature
    throw new PeerUnavailable(
      'keys.module: sign returned something else than a Uint8Array',
    )
  }
}

/** Says why a key cannot be used; undefined if it can. */
async function problemOf(jwk: ExternalKey): Promise<string | undefined> {
  const { kid, alg, d, sign } = jwk
  if (typeof kid !== 'string' || !kid) return 'has no kid'
  if (d !== undefined) return 'is a private key: the module keeps it'
  if (!SIGNING_ALGORITHMS.some(known => known === alg)) {
    return `has an alg that is none of ${SIGNING_ALGORITHMS.join(', ')}`
  }
  const key = await importJWK(jwk, alg).catch(() => undefined)
  if (!key) return `has a type that does not fit ${alg}`
  const weakness = weaknessOf(createPublicKey({ key: jwk, format: 'jwk' }))
  if (weakness) return weakness
  // A signature shows that the module signs with the key that it names.
  const signed = `${base64url.encode(JSON.stringify({ alg }))}.${base64url.encode('usher')}`
  const signature = await sign(Buffer.from(signed))
  const jws = `${signed}.${base64url.encode(signature)}`
  const isRight = await compactVerify(jws, key).then(Boolean, () => false)
  return isRight
    ? undefined
    : `does not verify what sign returns for it (${alg} of RFC 7518)`
}
