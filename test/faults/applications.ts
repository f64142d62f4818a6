// The applications that people use: one with refresh tokens, one without, and one that pushes its
// requests and signs its assertions.

import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { basic } from '../support/wire.ts'

const key = await generateKeyPair('ES256', { extractable: true })
const jwk = { ...(await exportJWK(key.publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }

export const APPLICATIONS: Record<string, object> = {
  web: { ...CLIENTS.web },
  post: { ...CLIENTS.post },
  keyed: {
    client_id: 'keyed',
    client_name: 'Keyed application',
    redirect_uris: ['https://keyed.example.org/callback'],
    token_endpoint_auth_method: 'private_key_jwt',
    jwks: { keys: [jwk] },
  },
}

const OFFLINE = 'openid profile email offline_access'
export const SCOPES: Record<string, string> = {
  web: OFFLINE,
  post: 'openid profile email',
  keyed: OFFLINE,
}

export const REDIRECTS: Record<string, string> = { keyed: 'https://keyed.example.org/callback' }

const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
/** Seconds. */
const LIFETIME = 300

/** An assertion is good for one request. */
export function assertion(issuer: string): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: 'keyed', sub: 'keyed', aud: issuer, jti: randomUUID() }
  return new SignJWT({ ...claims, iat: now, exp: now + LIFETIME })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .sign(key.privateKey)
}

export interface Signed {
  headers: Record<string, string>
  form: Record<string, string>
}

/** How this client says who it is, each time anew. */
export async function signed(
  client_id: string,
  issuer: string,
  form: Record<string, string>,
): Promise<Signed> {
  if (client_id === 'web') return { headers: basic('web', SECRET), form }
  if (client_id === 'post')
    return { headers: {}, form: { ...form, client_id, client_secret: SECRET } }
  const client_assertion = await assertion(issuer)
  const proof = { client_id, client_assertion_type: ASSERTION, client_assertion }
  return { headers: {}, form: { ...form, ...proof } }
}
