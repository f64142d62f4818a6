// JWTs that clients sign: assertions (RFC 7523) and request objects (RFC 9101). What we ask of them
// beside what the library looks at: signature, issuer, replay.

import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import { now } from '../storage/store.ts'
import type { Feature } from './feature.ts'

const TYPES = ['jwt', 'oauth-authz-req+jwt', 'application/oauth-authz-req+jwt']
/** Seconds from now. */
const LONGEST = 600

type Claims = Record<string, unknown>

export const assertRequestObject =
  (features: Feature[]) =>
  async (
    ctx: KoaContextWithOIDC,
    claims: Claims,
    header: Record<string, unknown>,
    client: Client,
  ): Promise<void> => {
    const { exp, sub } = claims
    const { typ, crit, b64 } = header
    // What was pushed stands in an envelope of the library's own, and was looked at when it came.
    if (ctx.oidc.entities.PushedAuthorizationRequest) return
    // Another JWT of the client's is no request, nor can a request be taken for one (RFC 8725 §3.11).
    if (typ !== undefined && !TYPES.includes(String(typ).toLowerCase()))
      refuse('typ is of another JWT')
    for (const { checkClientJwt } of features) {
      checkClientJwt?.(ctx, client, { kind: 'request object', header, claims })
    }
    if (sub === client.clientId) refuse('sub must not be the client (RFC 9101 §10.8)')
    if (crit !== undefined || b64 !== undefined) refuse('crit and b64 are not understood')
    if (typeof exp !== 'number') refuse('exp is needed')
    else if (exp - now() > LONGEST) refuse('exp must be at most ten minutes ahead')
  }

/** A list as `aud` would be valid at another server too (draft-ietf-oauth-rfc7523bis; CVE-2025-27370). */
export const assertAssertion =
  (features: Feature[]) =>
  (ctx: KoaContextWithOIDC, claims: Claims, header: object, client: Client) => {
    for (const { checkClientJwt } of features) {
      checkClientJwt?.(ctx, client, { kind: 'assertion', header: { ...header }, claims })
    }
    if (typeof claims.aud !== 'string') {
      throw new errors.InvalidClientAuth({ detail: 'aud must be a single string' })
    }
    if (typeof claims.exp !== 'number' || claims.exp - now() > LONGEST) {
      throw new errors.InvalidClientAuth({ detail: 'exp must be at most ten minutes ahead' })
    }
  }

function refuse(problem: string): never {
  throw new errors.InvalidRequestObject(`the request object: ${problem}`)
}
