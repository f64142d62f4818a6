// Request objects (RFC 9101): what we ask of one beside its signature, issuer and audience, which the
// library looks at.

import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import { now } from '../store/store.ts'

const TYPES = ['jwt', 'oauth-authz-req+jwt', 'application/oauth-authz-req+jwt']
/** Seconds from now. */
const LONGEST = 600

interface Claims {
  exp?: unknown
  sub?: unknown
}

export function assertRequestObject(
  { oidc }: KoaContextWithOIDC,
  { exp, sub }: Claims,
  { typ, crit, b64 }: Record<string, unknown>,
  client: Client,
): void {
  // What was pushed stands in an envelope of the library's own, and was looked at when it came.
  if (oidc.entities.PushedAuthorizationRequest) return
  // Another JWT of the client's is no request, nor can a request be taken for one (RFC 8725 §3.11).
  if (typ !== undefined && !TYPES.includes(String(typ).toLowerCase()))
    refuse('typ is of another JWT')
  if (sub === client.clientId) refuse('sub must not be the client (RFC 9101 §10.8)')
  if (crit !== undefined || b64 !== undefined) refuse('crit and b64 are not understood')
  if (typeof exp !== 'number') refuse('exp is needed')
  else if (exp - now() > LONGEST) refuse('exp must be at most ten minutes ahead')
}

function refuse(problem: string): never {
  throw new errors.InvalidRequestObject(`the request object: ${problem}`)
}
