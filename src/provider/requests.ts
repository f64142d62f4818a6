// Checks of requests beside the library's: authorization requests, request objects (RFC 9101) and client
// assertions (RFC 7523).

import { decodeJwt } from 'jose'
import { type Client, errors, type KoaContextWithOIDC } from 'oidc-provider'
import { longParameter, MAX_URL_BYTES } from '../http/limits.ts'
import { now } from '../storage/store.ts'
import { harmless } from './failures.ts'
import type { Feature } from './feature.ts'

const OFFLINE_ACCESS = 'offline_access'

/** Refuses an authorization request that is too long or that a feature refuses. */
export function checkRequest(ctx: KoaContextWithOIDC, features: Feature[]): void {
  const { oidc } = ctx
  const body = oidc.body ?? {}
  const problem = longParameter(body) ?? longParameter({ ...oidc.params })
  if (problem) throw new errors.InvalidRequest(problem)
  // The length as sent, and as stored: JSON escapes a control character with six bytes, a URL with three.
  const sent = new URLSearchParams(body as Record<string, string>).toString()
  if ([sent, JSON.stringify({ ...oidc.params })].some(text => text.length > MAX_URL_BYTES)) {
    throw new errors.InvalidRequest(`the request is longer than ${MAX_URL_BYTES} bytes`)
  }
  for (const feature of features) feature.checkRequest?.(ctx)
  keepOfflineAccess(ctx)
}

// The library has just dropped `offline_access`, unless `prompt` has `consent`. OIDC Core §11 lets
// other conditions take the place of that, and here a recorded consent does: the scope is put back,
// and the consent page asks for it when it was never allowed.
function keepOfflineAccess(ctx: KoaContextWithOIDC): void {
  const { client, params, requestParamScopes } = ctx.oidc
  if (!client?.grantTypeAllowed('refresh_token') || !params) return
  if (!scopesIn(sentScope(ctx)).includes(OFFLINE_ACCESS)) return
  // Only a code leads to a refresh token (OIDC Core §11).
  if (params.response_type && !String(params.response_type).includes('code')) return
  if (client.scope && !scopesIn(client.scope).includes(OFFLINE_ACCESS)) {
    throw new errors.InvalidScope('requested scope is not allowed', OFFLINE_ACCESS)
  }
  params.scope = [...requestParamScopes.add(OFFLINE_ACCESS)].join(' ')
}

/**
 * Logs the parts of a request that are ignored: unknown scopes, scopes of an API without its `resource`
 * (RFC 6749 §3.3), and `parameters`.
 */
export function logIgnored(ctx: KoaContextWithOIDC, parameters: string[] = []): void {
  const { requestParamOIDCScopes, resourceServers = {} } = ctx.oidc
  const known = Object.values(resourceServers).map(({ scopes }) => scopes)
  const isKnown = (scope: string) =>
    [requestParamOIDCScopes, ...known].some(scopes => scopes.has(scope))
  const scopes = scopesIn(sentScope(ctx)).filter(scope => !isKnown(scope))
  const ignored = [...parameters, ...scopes.map(scope => `scope ${harmless(scope)}`)]
  if (ignored.length) ctx.state.log.ignored = ignored.join(', ')
}

/** Parameters beside a pushed request or a request object are ignored (RFC 9126 §4, RFC 9101 §6.3). */
function sentScope({ oidc, query }: KoaContextWithOIDC): unknown {
  const { PushedAuthorizationRequest: pushed } = oidc.entities
  const request = pushed?.request ?? oidc.body?.request ?? query.request
  if (request) return decodeJwt(String(request)).scope
  return oidc.body?.scope ?? query.scope
}

function scopesIn(scope: unknown): string[] {
  return typeof scope === 'string' ? scope.split(' ').filter(Boolean) : []
}

const TYPES = ['jwt', 'oauth-authz-req+jwt', 'application/oauth-authz-req+jwt']
const MAX_JWT_LIFETIME_SECONDS = 600

type Claims = Record<string, unknown>

/** Returns the check of the claims and the header of a request object (RFC 9101). */
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
    // The library wraps a pushed request in a JWT of its own; its contents were checked when it was pushed.
    if (ctx.oidc.entities.PushedAuthorizationRequest) return
    // No other JWT of the client is accepted as a request object, or the reverse (RFC 8725 §3.11).
    if (typ !== undefined && !TYPES.includes(String(typ).toLowerCase()))
      refuse('typ is of another JWT')
    for (const { checkClientJwt } of features) {
      checkClientJwt?.(ctx, client, { kind: 'request object', header, claims })
    }
    if (sub === client.clientId) refuse('sub must not be the client (RFC 9101 §10.8)')
    if (crit !== undefined || b64 !== undefined) refuse('crit and b64 are not understood')
    if (typeof exp !== 'number') refuse('exp is needed')
    else if (exp - now() > MAX_JWT_LIFETIME_SECONDS) refuse('exp must be at most ten minutes ahead')
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
    if (typeof claims.exp !== 'number' || claims.exp - now() > MAX_JWT_LIFETIME_SECONDS) {
      throw new errors.InvalidClientAuth({ detail: 'exp must be at most ten minutes ahead' })
    }
  }

function refuse(problem: string): never {
  throw new errors.InvalidRequestObject(`the request object: ${problem}`)
}
