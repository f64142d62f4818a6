// JWTs signed by a client, with every algorithm.

import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { exportJWK, type JWTPayload, SignJWT } from 'jose'
import { SECRET } from './usher.ts'

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const curve = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve })
const ed = generateKeyPairSync('ed25519')
const p256 = curve('P-256')

const PAIRS: Record<string, { privateKey: KeyObject; publicKey: KeyObject }> = {
  RS256: rsa,
  RS384: rsa,
  RS512: rsa,
  PS256: rsa,
  PS384: rsa,
  PS512: rsa,
  ES256: p256,
  ES384: curve('P-384'),
  ES512: curve('P-521'),
  EdDSA: ed,
  Ed25519: ed,
}
const SHARED = Buffer.from(SECRET)

export const ALGORITHMS = [...Object.keys(PAIRS), 'HS256', 'HS384', 'HS512', 'none']

/** Public keys of the types that client files accept. */
export const PUBLIC_JWKS = {
  keys: await Promise.all(
    [rsa, p256, ed].map(async ({ publicKey }, i) => ({
      ...(await exportJWK(publicKey)),
      kid: `key-${i}`,
    })),
  ),
}

export function signed(
  alg: string,
  payload: JWTPayload,
  header: object = {},
): Promise<string> | string {
  if (alg !== 'none') {
    return new SignJWT(payload)
      .setProtectedHeader({ alg, ...header })
      .sign(PAIRS[alg]?.privateKey ?? SHARED)
  }
  const parts = [{ alg, ...header }, payload].map(part => JSON.stringify(part))
  return `${parts.map(part => Buffer.from(part).toString('base64url')).join('.')}.`
}

const times = () => {
  const iat = Math.floor(Date.now() / 1000)
  return { iat, nbf: iat, exp: iat + 60, jti: randomUUID() }
}

/** Signs an assertion of private_key_jwt (RFC 7523). */
export const assertion = async (alg: string, client_id: string, aud: string) =>
  signed(alg, claimsFor(client_id, aud))

/** The claims of a client assertion. */
export const claimsFor = (client_id: string, aud: string) => ({
  iss: client_id,
  sub: client_id,
  aud,
  ...times(),
})

/** Signs a request object (RFC 9101). */
export const requestObject = async (alg: string, client_id: string, aud: string) =>
  signed(alg, {
    iss: client_id,
    client_id,
    aud,
    ...times(),
    response_type: 'code',
    redirect_uri: 'https://keyed.example.org/callback',
    scope: 'openid',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  })

/** Signs a backchannel authentication request (CIBA §7.1.1). */
export const backchannelRequest = async (alg: string, iss: string, aud: string) =>
  signed(alg, { iss, aud, ...times(), scope: 'openid', login_hint: 'ada' })

/** Signs a client attestation, and the proof of the key in it. `challenge`: of the challenge endpoint. */
export async function attestation(
  { alg = 'ES256', proofAlg = 'ES256' },
  { client_id, issuer, challenge }: { client_id: string; issuer: string; challenge: unknown },
) {
  const { iat, exp, jti } = times()
  const pair = PAIRS[proofAlg]
  const jwk = pair ? await exportJWK(pair.publicKey) : { kty: 'oct' }
  const attested = { sub: client_id, iat, exp, cnf: { jwk } }
  const proved = { aud: issuer, iat, jti, challenge }
  return {
    'oauth-client-attestation': await signed(alg, attested, { typ: `${ATTESTATION}+jwt` }),
    'oauth-client-attestation-pop': await signed(proofAlg, proved, {
      typ: `${ATTESTATION}-pop+jwt`,
    }),
  }
}
const ATTESTATION = 'oauth-client-attestation'

/** Signs a DPoP proof (RFC 9449) for a POST to `htu`. */
export async function dpopProof(alg: string, htu: string, nonce?: string): Promise<string> {
  const jwk = PAIRS[alg] ? await exportJWK(PAIRS[alg].publicKey) : { kty: 'oct', k: 'AAAA' }
  const { iat, jti } = times()
  return signed(
    alg,
    { htm: 'POST', htu, iat, jti, ...(nonce && { nonce }) },
    { typ: 'dpop+jwt', jwk },
  )
}
