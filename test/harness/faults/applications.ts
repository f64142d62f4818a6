// The clients: one with refresh tokens, one without, and one with pushed authorization requests and
// signed assertions.

import { ASSERTION, KEYED, signAssertion } from '../../support/keyed.ts'
import { CLIENTS, SECRET } from '../../support/usher.ts'
import { basic } from '../../support/wire.ts'

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

/** Longer than any fault delays a request. */
const ASSERTION_LIFETIME_SECONDS = 300

/** Signs an assertion, which is valid for one request. */
function assertion(issuer: string): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + ASSERTION_LIFETIME_SECONDS
  return signAssertion(issuer, { claims: { exp } })
}

export interface Signed {
  headers: Record<string, string>
  form: Record<string, string>
}

/** Adds the authentication of the client to a form. Each call signs a new assertion. */
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
