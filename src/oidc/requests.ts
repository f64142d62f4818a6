// Checks that refuse a request, beside those of the library, in this order:
//
//   checkAuthorizationRequest             the checks of an authorization request
//   longParameter, refuseLongUrl          its length
//   scopeProblem, logIgnored              parts of a request that the library ignores
//   countStored, countStoredByClient      what a request stores, counted before it is stored

import type { Context } from 'koa'
import {
  type AccessToken,
  errors,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import { mapOf, readJson } from '../store/values.ts'
import { BOUNDS } from './bounds.ts'
import { isKnown, scopeOf } from './clients.ts'
import type { Oidc } from './dependencies.ts'
import { redact } from './display-text.ts'
import type { Feature } from './feature.ts'
import { checkResponseMode } from './response-modes.ts'
import { ACCOUNT_CLIENT } from './vocabulary.ts'

/** Values that a request can ask for. */
export interface KnownValues {
  /** `acr` of sign-ins. */
  acrValues: string[]
  /** Names of claims. */
  claims: string[]
}

/**
 * Refuses an authorization request, pushed ones too, and puts back
 * `offline_access`. Counts what it stores.
 */
export function checkAuthorizationRequest(
  ctx: KoaContextWithOIDC,
  features: Feature[],
  known: KnownValues,
): void {
  refuseLongRequest(ctx)
  refusePageInFrame(ctx)
  refuseRepeatedResponseType(ctx)
  checkResponseMode(ctx)
  for (const feature of features) feature.prepareRequest?.(ctx)
  keepOfflineAccess(ctx)
  refuseScopes(ctx)
  dropParametersOfAccountPages(ctx.oidc)
  logIgnored(ctx, unknownIn(ctx, known))
  // operation/limits.ts has counted an authorization request.
  if (ctx.oidc.route !== 'authorization')
    countStoredByClient(ctx, storedBytes(ctx))
}

const MAX_URL_BYTES = BOUNDS.urls.max

/**
 * Characters of single parameters, in the query, the body or a request object.
 */
const MAX_CHARS: Record<string, number> = {
  state: BOUNDS.texts.max,
  nonce: BOUNDS.texts.max,
  scope: BOUNDS.texts.max,
  claims: BOUNDS.texts.max,
  authorization_details: BOUNDS.texts.max,
  id_token_hint: BOUNDS.idTokenHints.max,
  request: BOUNDS.requestObjects.max,
}

/** These may have an ID token, and do not count for `MAX_URL_BYTES`. */
const JWT_PARAMETERS = ['id_token_hint', 'request']

function refuseLongRequest({ oidc, query }: KoaContextWithOIDC): void {
  const body = oidc.body ?? {}
  const params = { ...oidc.params }
  const problem = [body, query, params].map(longParameter).find(Boolean)
  if (problem) throw new errors.InvalidRequest(problem)
  const sent = new URLSearchParams(body as Record<string, string>).toString()
  // JSON escapes a control character with six bytes, a URL with three.
  const stored = JSON.stringify(params)
  const isLong =
    lengthWithoutJwts(sent, body) > MAX_URL_BYTES ||
    lengthWithoutJwts(stored, params) > MAX_URL_BYTES
  if (isLong) {
    throw new errors.InvalidRequest(
      `the request is longer than ${MAX_URL_BYTES} bytes`,
    )
  }
}

/**
 * Says which parameter is too long; undefined if none is.
 */
export function longParameter(
  parameters: Record<string, unknown>,
): string | undefined {
  const found = Object.entries(MAX_CHARS).find(([name, max]) =>
    [parameters[name]].flat().some(value => String(value ?? '').length > max),
  )
  return found && `${found[0]} is longer than ${found[1]} characters`
}

/**
 * Returns the bytes of a text that has these parameters, without those of
 * `JWT_PARAMETERS`.
 */
function lengthWithoutJwts(
  text: string,
  parameters: Record<string, unknown>,
): number {
  let bytes = Buffer.byteLength(text)
  for (const name of JWT_PARAMETERS)
    bytes -= String(parameters[name] ?? '').length
  return bytes
}

/** Throws `status` for a path and query of more than `BOUNDS.urls` bytes. */
export function refuseLongUrl(ctx: Context, status: number): void {
  const isLong = Buffer.byteLength(ctx.url) > MAX_URL_BYTES
  if (isLong && lengthWithoutJwts(ctx.url, ctx.query) > MAX_URL_BYTES)
    ctx.throw(status, `longer than ${MAX_URL_BYTES} bytes`)
}

/** A page of another site must not show ours in a frame. */
function refusePageInFrame(ctx: KoaContextWithOIDC): void {
  const { route, prompts } = ctx.oidc
  const isFramed = !['', 'document'].includes(ctx.get('Sec-Fetch-Dest'))
  if (isFramed && route === 'authorization' && !prompts.has('none'))
    throw new errors.InvalidRequest('prompt must be none in a frame')
}

/**
 * A response type is a set of values (OAuth 2.0 Multiple Response Types §3). The
 * library has removed what is repeated.
 */
function refuseRepeatedResponseType(ctx: KoaContextWithOIDC): void {
  const types = sentWords(ctx, 'response_type')
  if (new Set(types).size < types.length)
    throw new errors.UnsupportedResponseType()
}

const OFFLINE_ACCESS = 'offline_access'

/**
 * The library drops `offline_access`, unless `prompt` has `consent`. OIDC Core
 * §11 lets other conditions take the place of that, and here a recorded consent
 * does: the scope is put back, and the consent page asks for it when it was
 * never allowed. Only a code leads to a refresh token.
 */
function keepOfflineAccess(ctx: KoaContextWithOIDC): void {
  const responseType = String(ctx.oidc.params?.response_type || 'code')
  const isForCode = responseType.includes('code')
  if (isForCode && sentScopes(ctx).includes(OFFLINE_ACCESS))
    putOfflineAccess(ctx.oidc)
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
 * Refuses a scope that the client may not request, and a request without a scope
 * that could be granted.
 */
function refuseScopes(ctx: KoaContextWithOIDC): void {
  const { client, requestParamOIDCScopes } = ctx.oidc
  const allowed = client && scopeOf(client)?.split(' ')
  const refused = [...requestParamOIDCScopes].find(
    scope => allowed?.includes(scope) === false,
  )
  if (refused)
    throw new errors.InvalidScope('requested scope is not allowed', refused)
  const problem = scopeProblem(ctx)
  if (problem) throw new errors.InvalidScope(problem, '')
}

/** Removes parameters that only the account pages send. */
function dropParametersOfAccountPages({ client, params }: Oidc): void {
  if (!params || client?.clientId === ACCOUNT_CLIENT) return
  params.require_sign_in = undefined
  params.second_factor = undefined
}

/**
 * Says why a request has no scope that could be granted (RFC 6749 §3.3);
 * undefined if it has one.
 */
export function scopeProblem(ctx: KoaContextWithOIDC): string | undefined {
  const scopes = sentScopes(ctx)
  const hasKnownScope = ignoredIn(ctx).scopes.length < scopes.length
  // Each of them has a scope: one that was sent, or its default.
  const hasResources = Object.keys(ctx.oidc.resourceServers ?? {}).length > 0
  if (hasKnownScope || hasResources || ctx.oidc.params?.authorization_details)
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

const NEEDS_RESOURCE =
  'resource is required: send resource=URL of the API (RFC 8707); audience or a scope alone has no effect'

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
  const ofScopes = scopes.map(scope => `scope ${redact(scope)}`)
  const ofAudience = audience === undefined ? [] : ['audience']
  const ignored = [...ofAudience, ...ofScopes, ...others]
  const { log } = ctx.state
  if (ignored.length) log.ignored = ignored.join(', ')
  if (scopes.length) log.scope_ignored = scopes.map(redact).join(' ')
  if (scopes.length || ofAudience.length) log.detail = NEEDS_RESOURCE
}

/**
 * Returns the `acr_values`, claims and `resource` that the library ignores
 * (OIDC Core §3.1.2.1, §5.5).
 */
function unknownIn(ctx: KoaContextWithOIDC, known: KnownValues): string[] {
  const acrs = sentWords(ctx, 'acr_values').filter(
    value => !known.acrValues.includes(value),
  )
  const isResourceOff =
    ctx.oidc.params?.resource === undefined &&
    sentWords(ctx, 'resource').length > 0
  return [
    ...acrs.map(value => `acr_values ${redact(value)}`),
    ...unknownClaims(ctx.oidc, known).map(name => `claim ${redact(name)}`),
    ...(isResourceOff ? ['resource'] : []),
  ]
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

function unknownClaims(
  { params, client }: Oidc,
  { claims }: KnownValues,
): string[] {
  const { userinfo, id_token } = mapOf(readJson(String(params?.claims ?? '{}')))
  const renamed = Object.keys(mapOf(mapOf(client?.claims).rename))
  const known = new Set([...claims, ...renamed, ...PROTOCOL_CLAIMS])
  const requested = Object.keys({ ...mapOf(userinfo), ...mapOf(id_token) })
  // A name may end with a language: `name#de` (OIDC Core §5.2).
  return requested.filter(name => !known.has(name.replace(/#.*/s, '')))
}

function ignoredIn(ctx: KoaContextWithOIDC) {
  const {
    requestParamOIDCScopes,
    resourceServers = {},
    params,
    route,
    body,
  } = ctx.oidc
  const known = Object.values(resourceServers).map(({ scopes }) => scopes)
  const isGrantable = (scope: string) =>
    [requestParamOIDCScopes, ...known].some(scopes => scopes.has(scope))
  // A token exchange may name the API by it (RFC 8693 §2.1): only then it is a
  // parameter at this endpoint.
  const unused =
    params?.audience === undefined ? mapOf(body).audience : undefined
  const audience = route === 'token' ? unused : params?.audience
  return {
    scopes: sentScopes(ctx).filter(scope => !isGrantable(scope)),
    audience,
  }
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
 * Counts what one request stores. Nothing is counted for clients that the
 * operator knows; see `isKnown`.
 */
export interface StoredByRequest {
  /**
   * Counts bytes for the network of the request, or the request for an account.
   * A request counts once, whatever it stores. Returns false, and counts
   * nothing, over the limit.
   */
  count(bytes: number, account?: string): boolean
  /**
   * Takes back what was counted for the network: a user has signed in, or
   * nothing was stored.
   */
  takeBack(): void
}

declare module 'koa' {
  interface DefaultState {
    stored: StoredByRequest
  }
}

/**
 * Counts what a request stores before it is stored; see `StoredByRequest`.
 * Throws 429 over the limit.
 */
export function countStored(
  ctx: Context,
  bytes: number,
  account?: string,
): void {
  const stored: StoredByRequest | undefined = ctx.state.stored
  // Nothing limits the requests of a wrapper that stands alone.
  if (!stored || stored.count(bytes, account)) return
  ctx.state.log.refused =
    account === undefined ? 'limits.anonymous' : 'limits.account'
  const error = 'temporarily_unavailable'
  const error_description =
    'too many requests from this network or user; try again in a minute'
  // The library answers with the message as `error`.
  ctx.throw(429, error, { error, error_description })
}

/** Bytes of a record beside the request: names, times, an index entry. */
const RECORD_BYTES = 2 * 1024

/**
 * The bytes of a record that holds the parameters of a request. The length of a
 * chunked body is not known yet.
 */
export function storedBytes(ctx: Context): number {
  const unknownBytes = ctx.get('Transfer-Encoding') ? MAX_URL_BYTES : 0
  return RECORD_BYTES + ctx.url.length + (ctx.request.length ?? unknownBytes)
}
