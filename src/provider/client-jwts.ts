// JWTs that clients sign: assertions (RFC 7523) and request objects (RFC 9101). What we ask of them
// beside what the library looks at: signature, issuer, replay.

import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import { now } from '../storage/store.ts'
import { refreshKeys } from './client-keys.ts'
import { isFapi } from './clients.ts'

const TYPES = ['jwt', 'oauth-authz-req+jwt', 'application/oauth-authz-req+jwt']
/** Seconds from now. */
const LONGEST = 600

interface Claims {
  exp?: unknown
  sub?: unknown
}

export async function assertRequestObject(
  { oidc }: KoaContextWithOIDC,
  { exp, sub }: Claims,
  { alg, typ, crit, b64 }: Record<string, unknown>,
  client: Client,
): Promise<void> {
  // What was pushed stands in an envelope of the library's own, and was looked at when it came.
  if (oidc.entities.PushedAuthorizationRequest) return
  // Another JWT of the client's is no request, nor can a request be taken for one (RFC 8725 §3.11).
  if (typ !== undefined && !TYPES.includes(String(typ).toLowerCase()))
    refuse('typ is of another JWT')
  if (isFapi(client) && alg === 'RS256') refuse('FAPI 2.0 has no RS256')
  if (sub === client.clientId) refuse('sub must not be the client (RFC 9101 §10.8)')
  if (crit !== undefined || b64 !== undefined) refuse('crit and b64 are not understood')
  if (typeof exp !== 'number') refuse('exp is needed')
  else if (exp - now() > LONGEST) refuse('exp must be at most ten minutes ahead')
  await refreshKeys(client).catch(() => refuse('its keys cannot be had from jwks_uri'))
}

/** The audience is the issuer and nothing else (draft-ietf-oauth-rfc7523bis; CVE-2025-27370). */
export function assertAssertion(
  ctx: KoaContextWithOIDC,
  claims: { aud?: unknown; exp?: unknown },
  { alg }: { alg?: unknown },
  client: Client,
) {
  if (isFapi(client) && alg === 'RS256') {
    throw new errors.InvalidClientAuth({ detail: 'FAPI 2.0 has no RS256' })
  }
  if (claims.aud !== ctx.oidc.issuer) {
    throw new errors.InvalidClientAuth({ detail: 'aud must be the issuer, as a single string' })
  }
  if (typeof claims.exp !== 'number' || claims.exp - now() > LONGEST) {
    throw new errors.InvalidClientAuth({ detail: 'exp must be at most ten minutes ahead' })
  }
}

function refuse(problem: string): never {
  throw new errors.InvalidRequestObject(`the request object: ${problem}`)
}
