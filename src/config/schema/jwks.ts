// Schema of the public keys in client files.

import { z } from 'zod'
import { bytesOf, keyCostProblem } from '../../oidc/keys.ts'
import { refusing } from './values.ts'

const text = z.string().optional()
const list = z.array(z.string()).optional()
const PUBLIC_JWK = {
  kty: z.string(),
  key_ops: list,
  x5c: list,
  use: text,
  alg: text,
  kid: text,
  crv: text,
  x: text,
  y: text,
  n: text,
  e: text,
  x5u: text,
  x5t: text,
  'x5t#S256': text,
}

/**
 * A public key. Other members are dropped: a registered key may nest them
 * without limit.
 */
const publicJwk = z
  .looseObject(PUBLIC_JWK)
  .superRefine(refusing(jwkProblem, 'client-key'))
  .transform(jwk => z.object(PUBLIC_JWK).parse(jwk))
const OWN_KID = 'each of several keys needs a kid of its own'
const haveOwnKids = (keys: { kid?: string }[]) =>
  keys.length === 1 ||
  new Set(keys.flatMap(({ kid }) => kid ?? [])).size === keys.length
/** Schema of the public keys of a client (RFC 7517 §5). */
export const jwks = z.strictObject({
  keys: z.array(publicJwk).min(1).refine(haveOwnKids, OWN_KID),
})

const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']
const MIN_RSA_BITS = 2048
/**
 * Returns what is wrong with a key, without any part of the key; undefined if
 * it is valid.
 */
function jwkProblem(jwk: Record<string, unknown>): string | undefined {
  const { kty, crv, n } = jwk
  if (kty === 'oct')
    return 'is a shared secret: give a public key, RSA, EC or OKP'
  if (PRIVATE.some(part => part in jwk))
    return 'is a private key: make a new key, and put only its public part here'
  if (kty === 'EC' && crv !== 'P-256')
    return 'is not on the curve P-256 (ES256)'
  if (kty === 'OKP' && crv !== 'Ed25519')
    return 'is not on the curve Ed25519 (EdDSA)'
  if (!['RSA', 'EC', 'OKP'].includes(String(kty)))
    return 'kty must be RSA, EC or OKP'
  if (kty === 'RSA' && bytesOf(n) * 8 < MIN_RSA_BITS) {
    return `RSA needs ${MIN_RSA_BITS} bits or more`
  }
  return keyCostProblem(jwk)
}
