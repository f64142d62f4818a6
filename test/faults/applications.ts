// The applications that people use: one with refresh tokens, one without, and one that pushes its
// requests and signs its assertions.

import { ASSERTION, KEYED, signAssertion } from '../support/keyed.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { basic } from '../support/wire.ts'

export const APPLICATIONS: Record<string, object> = {
  web: { ...CLIENTS.web },
  post: { ...CLIENTS.post },
  keyed: KEYED,
}

const OFFLINE = 'openid profile email offline_access'
export const SCOPES: Record<string, string> = {
  web: OFFLINE,
  post: 'openid profile email',
  keyed: OFFLINE,
}

export const REDIRECTS: Record<string, string> = { keyed: KEYED.redirect_uris[0] ?? '' }

/** Seconds: longer than any fault holds a request up. */
const LIFETIME = 300

/** An assertion is good for one request. */
export function assertion(issuer: string): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + LIFETIME
  return signAssertion(issuer, { claims: { exp } })
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
