// A client that authenticates with signed assertions (RFC 7523).

import { randomUUID } from 'node:crypto'
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'

export const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

export const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
export const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }

export const KEYED = {
  client_id: 'keyed',
  client_name: 'Keyed application',
  redirect_uris: ['https://keyed.example.org/callback'],
  token_endpoint_auth_method: 'private_key_jwt',
  jwks: { keys: [jwk] },
}

interface Change {
  /** Changed claims; undefined leaves a claim out. */
  claims?: Record<string, unknown>
  key?: CryptoKey
  kid?: string
}

/** Signs an assertion for `issuer`. It is valid for one request, and expires after a minute. */
export function signAssertion(
  issuer: string,
  { claims = {}, key = privateKey, kid = 'one' }: Change = {},
): Promise<string> {
  const payload = JSON.parse(JSON.stringify({ ...assertionClaims(issuer), ...claims }))
  return new SignJWT(payload).setProtectedHeader({ alg: 'ES256', kid }).sign(key)
}

export function assertionClaims(issuer: string): JWTPayload {
  const now = Math.floor(Date.now() / 1000)
  return { iss: 'keyed', sub: 'keyed', aud: issuer, jti: randomUUID(), iat: now, exp: now + 60 }
}
