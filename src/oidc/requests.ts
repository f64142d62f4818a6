// Checks of authorization requests and token requests, beside those of the
// library.

import {
  type AccessToken,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import { mapOf, readJson } from '../store/values.ts'
import { isKnown, scopeOf } from './clients.ts'
import type { Oidc } from './dependencies.ts'
import type { Feature } from './feature.ts'
import { harmless } from './harmless.ts'
import { lengthOf, longParameter, MAX_URL_BYTES } from './request-length.ts'
import { checkResponseMode } from './response-modes.ts'
import { countStored, storedBytes } from './stored-requests.ts'

const OFFLINE_ACCESS = 'offline_access'

/**
 * Values that a request can ask for: `acr` of sign-ins, and names of claims.
 */
export type Known = { acrValues: string[]; claims: string[] }

/**
 * Refuses an authorization request that is too long or that a feature refuses.
 */
export function checkRequest(
  ctx: KoaContextWithOIDC,
  features: Feature[],
  known: Known,
): void {
  const { oidc } = ctx
  const body = oidc.body ?? {}
  const params = { ...oidc.params }
  const problem = [body, ctx.query, params].map(longParameter).find(Boolean)
  if (problem) throw new errors.InvalidRequest(problem)
  // The length as sent, and as stored: JSON escapes a control character with
  // six bytes, a URL with three.
  const sent = new URLSearchParams(body as Record<string, string>).toString()
  const lengths = [
    lengthOf(sent, body),
    lengthOf(JSON.stringify(params), params),
  ]
  if (Math.max(...lengths) > MAX_URL_BYTES) {
    throw new errors.InvalidRequest(
      `the request is longer than ${MAX_URL_BYTES} bytes`,
    )
  }
  const isFramed = !['', 'document'].includes(ctx.get('Sec-Fetch-Dest'))
  if (isFramed && oidc.route === 'authorization' && !oidc.prompts.has('none')) {
    throw new errors.InvalidRequest('prompt must be none in a frame')
  }
  // A set of values (OAuth 2.0 Multiple Response Types §3). The library has
  // removed what is repeated.
  const types = sentWords(ctx, 'response_type')
  if (new Set(types).size < types.length)
    throw new errors.UnsupportedResponseType()
  checkResponseMode(ctx)
  for (const feature of features) feature.checkRequest?.(ctx)
  // The library has just dropped `offline_access`, unless `prompt` has
  // `consent`. OIDC Core §11 lets other conditions take the place of that, and
  // here a recorded consent does: the scope is put back, and the consent page
  // asks for it when it was never allowed. Only a code leads to a refresh
  // token.
  const isForCode = String(oidc.params?.response_type || 'code').includes(
    'code',
  )
  if (isForCode && sentScopes(ctx).includes(OFFLINE_ACCESS))
    putOfflineAccess(oidc)
  const allowed = oidc.client && scopeOf(oidc.client)?.split(' ')
  const refused = [...oidc.requestParamOIDCScopes].find(
    name => allowed?.includes(name) === false,
  )
  if (refused)
    throw new errors.InvalidScope('requested scope is not allowed', refused)
  const scopes = scopeProblem(ctx)
  if (scopes) throw new errors.InvalidScope(scopes, '')
  logIgnored(ctx, unknownIn(ctx, known))
  // operation/limits.ts has counted an authorization request.
  if (oidc.route !== 'authorization') countStoredByClient(ctx, storedBytes(ctx))
}

/**
 * Counts what a request of a client stores, for its network, or for the user
 * that it has a token of. Throws 429 over the limit. Requests of known clients
 * are not counted. Called before anything is stored, when the client is
 * authenticated: requests of strangers use up no limit of a known client in
 * their network.
 */
export function countStoredByClient(
  ctx: KoaContextWithOIDC,
  bytes: number,
): void {
  const { client, entities } = ctx.oidc
  if (client && isKnown(client)) return
  const { AccessToken, AuthorizationCode, DeviceCode, RefreshToken } = entities
  const source = AccessToken ?? AuthorizationCode ?? DeviceCode ?? RefreshToken
  countStored(ctx, bytes, source?.accountId)
}

/**
 * Says why a request has no scope that could be granted (RFC 6749 §3.3);
 * undefined if it has one.
 */
export function scopeProblem(ctx: KoaContextWithOIDC): string | undefined {
  const scopes = sentScopes(ctx)
  const isKnown = ignoredIn(ctx).scopes.length < scopes.length
  // Each of them has a scope: one that was sent, or its default.
  const hasResources = Object.keys(ctx.oidc.resourceServers ?? {}).length > 0
  if (isKnown || hasResources || ctx.oidc.params?.authorization_details)
    return undefined
  const sent = scopes.join(' ')
  if (!sent)
    return 'scope is required: values of scopes_supported, such as openid'
  if (/[,;+]/.test(sent))
    return 'scope must have spaces between its values, not , ; or +'
  if (/[A-Z]/.test(sent))
    return 'scope is case-sensitive: its values are spelled as in scopes_supported, such as openid'
  return 'scope must have a value that this client can get, of scopes_supported, or of an API: send resource=URL of the API, too'
}

/**
 * Adds `offline_access` to an authorization request that is not OpenID Connect,
 * of a client that can refresh: OAuth clients do not know this scope. The
 * consent page shows it.
 */
export function addOfflineAccess(oidc: Oidc): void {
  if (oidc.route !== 'token' && !oidc.requestParamScopes.has('openid'))
    putOfflineAccess(oidc)
}

function putOfflineAccess({ client, params, requestParamScopes }: Oidc): void {
  if (!params || !client?.grantTypeAllowed('refresh_token')) return
  params.scope = [...requestParamScopes.add(OFFLINE_ACCESS)].join(' ')
}

/**
 * Logs the parts of a request that are ignored: unknown scopes, scopes of an
 * API without its `resource` (RFC 6749 §3.3), `audience`, and `others`. The
 * client gets no error, so that the log has to say it.
 */
export function logIgnored(
  ctx: KoaContextWithOIDC,
  others: string[] = [],
): void {
  const { scopes, audience } = ignoredIn(ctx)
  const ofScopes = scopes.map(scope => `scope ${harmless(scope)}`)
  const ofAudience = audience === undefined ? [] : ['audience']
  const ignored = [...ofAudience, ...ofScopes, ...others]
  const { log } = ctx.state
  if (ignored.length) log.ignored = ignored.join(', ')
  if (scopes.length) log.scope_ignored = scopes.map(harmless).join(' ')
  if (scopes.length || ofAudience.length) log.detail = NEEDS_RESOURCE
}

/** Claims of every ID token, which a request may name. */
const PROTOCOL_CLAIMS = [
  'iss',
  'sub',
  'aud',
  'exp',
  'iat',
  'auth_time',
  'nonce',
  'acr',
  'amr',
  'azp',
  'sid',
]

/**
 * Returns the `acr_values`, claims and `resource` that the library ignores
 * (OIDC Core §3.1.2.1, §5.5).
 */
function unknownIn(
  ctx: KoaContextWithOIDC,
  { acrValues, claims }: Known,
): string[] {
  const { params, client } = ctx.oidc
  const { userinfo, id_token } = mapOf(readJson(String(params?.claims ?? '{}')))
  const renamed = Object.keys(mapOf(mapOf(client?.claims).rename))
  const names: string[] = [...claims, ...renamed, ...PROTOCOL_CLAIMS]
  const asked = Object.keys({ ...mapOf(userinfo), ...mapOf(id_token) })
  const isUnknown = (name: string) => !names.includes(name.replace(/#.*/s, ''))
  const acrs = sentWords(ctx, 'acr_values').filter(
    value => !acrValues.includes(value),
  )
  const isResourceOff =
    params?.resource === undefined && sentWords(ctx, 'resource').length > 0
  return [
    ...acrs.map(value => `acr_values ${harmless(value)}`),
    ...asked.filter(isUnknown).map(name => `claim ${harmless(name)}`),
    ...(isResourceOff ? ['resource'] : []),
  ]
}

const NEEDS_RESOURCE =
  'resource is required: send resource=URL of the API (RFC 8707); audience or a scope alone has no effect'

function ignoredIn(ctx: KoaContextWithOIDC) {
  const {
    requestParamOIDCScopes,
    resourceServers = {},
    params,
    route,
    body,
  } = ctx.oidc
  const known = Object.values(resourceServers).map(({ scopes }) => scopes)
  const isKnown = (scope: string) =>
    [requestParamOIDCScopes, ...known].some(scopes => scopes.has(scope))
  // A token exchange may name the API by it (RFC 8693 §2.1): only then it is a
  // parameter at this endpoint.
  const unused =
    params?.audience === undefined ? mapOf(body).audience : undefined
  const audience = route === 'token' ? unused : params?.audience
  return { scopes: sentScopes(ctx).filter(scope => !isKnown(scope)), audience }
}

/**
 * Refuses a token that nothing accepts: the request names an API by `audience`
 * or a scope, not by `resource` (RFC 8707 §2), and asks for nothing else.
 */
export function requireResource(
  ctx: KoaContextWithOIDC,
  { aud, scope }: Pick<AccessToken, 'aud' | 'scope'>,
): void {
  if (ctx.oidc.route !== 'token' || aud !== undefined || scope) return
  const { scopes, audience } = ignoredIn(ctx)
  if (audience !== undefined || scopes.length)
    throw new errors.InvalidTarget(NEEDS_RESOURCE)
}

/**
 * Returns the values of a parameter as it was sent. Parameters beside a pushed
 * request or a request object are ignored (RFC 9126 §4, RFC 9101 §6.3).
 */
function sentWords(
  { method, oidc, query, state }: KoaContextWithOIDC,
  name: string,
): string[] {
  const sent = mapOf(method === 'POST' ? oidc.body : query)
  const value = mapOf(state.requestObject ?? sent)[name]
  return typeof value === 'string' ? value.split(' ').filter(Boolean) : []
}

const sentScopes = (ctx: KoaContextWithOIDC) => sentWords(ctx, 'scope')
