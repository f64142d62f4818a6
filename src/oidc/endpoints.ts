// Middleware around the library's endpoints: `canonicalPaths` checks path and
// method, and `finishAnswers` completes what the library has answered.

import type { Context, Middleware } from 'koa'
import { errors } from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { mapOf } from '../store/values.ts'
import { BOUNDS } from './bounds.ts'
import type { Oidc, ProviderDependencies } from './dependencies.ts'
import { described } from './error-descriptions.ts'
import { type Feature, type Finisher, merged } from './feature.ts'
import { clientErrorFor } from './library-repairs.ts'
import { logError, noteEvent } from './note.ts'
import { DISCOVERY, type Routes } from './paths.ts'
import { listedResponseModes, withQuery } from './response-modes.ts'

/** Discovery and JWKS: for how long clients may cache them. */
const MAX_CACHE_SECONDS = 3600

/**
 * Accepts one spelling of each path. The library alone would accept
 * `/API/OAUTH/TOKEN/`, too.
 */
export function canonicalPaths({ methodsAt }: Routes): Middleware {
  return async (ctx, next) => {
    // Methods of the pages at this path. The router found none for the method
    // of the request.
    const ofPages: { methods: string[] }[] = ctx.matched ?? []
    const methods =
      methodsAt(ctx.path) ??
      ofPages.flatMap(({ methods }) => methods).join(', ')
    if (!methods) {
      return ctx.throw(
        404,
        `there is no endpoint at this path; they are listed in ${DISCOVERY[0]}`,
      )
    }
    await next()
    if (ctx.status === 404 && ctx.body == null) {
      ctx.set('Allow', methods)
      ctx.throw(405, `this endpoint takes ${methods}`)
    }
  }
}

/** Pages in place of answers of the library. */
interface AnswerPages {
  /** Redirects a GET; a page that navigates on for a POST. */
  navigate(ctx: Context, url: string): void
  /** A form that submits itself. */
  handOver(ctx: Context, action: string, fields: Record<string, unknown>): void
}

/**
 * Completes responses of the library: headers, error descriptions, and pages in
 * place of its HTML.
 */
export function finishAnswers(
  { navigate, handOver }: AnswerPages,
  { paths, endpoints, confirm }: Routes,
  { settings, records }: Pick<ProviderDependencies, 'settings' | 'records'>,
  features: Feature[],
): Middleware {
  // A client that caches the JWKS for this time has each key before it signs.
  const jwksAge = Math.min(
    MAX_CACHE_SECONDS,
    Math.floor(settings.keys.announce / 2),
  )
  /** By the library's names of the endpoints. */
  const finishers: Record<string, Finisher> = {
    discovery: ctx => discovery(ctx, endpoints, features),
    jwks: ctx => cacheable(ctx, jwksAge),
    token,
    introspection,
    userinfo,
    revocation: (ctx, oidc) => revocation(ctx, oidc, records),
    // Signing out leads to the application, where the form may not go by a
    // redirect.
    end_session_confirm(ctx, { entities }) {
      const location = ctx.response.get('Location')
      if (ctx.status !== 303 || !location) return
      ctx.remove('Location')
      navigate(
        ctx,
        asRegistered(location, entities.Client?.postLogoutRedirectUris),
      )
    },
  }
  // The library signs out without a question, by a bare page of its own, where
  // no user or another one is signed in: at the end session endpoint, and when
  // a sign-in has replaced the user.
  const signOut: Finisher = (ctx, { session }) => {
    const xsrf = session?.state?.secret
    const isBare =
      ctx.status === 200 && ctx.type === 'text/html' && !ctx.state.isPage
    if (isBare && xsrf) handOver(ctx, confirm, { xsrf, logout: 'yes' })
  }
  function tidyRequest(ctx: Context) {
    // Our own sign-out page accepts no parameters: no client decides whom it
    // signs out, or where it leads.
    if (!endpoints.end_session && ctx.path === paths.end_session)
      ctx.querystring = ''
    if (ctx.path === paths.authorization) tidyScope(ctx)
  }

  return async (ctx, next) => {
    tidyRequest(ctx)
    await next()
    // Absent where the library has no route for the method.
    const oidc: Oidc | undefined = ctx.oidc
    if (!oidc) return
    ctx.state.log.client_id = oidc.client?.clientId
    finishError(ctx, oidc)
    for (const { answers } of features) await answers?.[oidc.route]?.(ctx, oidc)
    const finish = finishers[oidc.route] ?? signOut
    await finish(ctx, oidc)
  }
}

/**
 * Completes an error of the library. Throws an outage of the store, and a fault
 * that the client caused.
 */
function finishError(ctx: Context, oidc: Oidc): void {
  const { state } = ctx
  // An unavailable store that the library took for an error of the client.
  if (state.outage) throw state.outage
  const repaired =
    ctx.status === 500 ? clientErrorFor(oidc, state.fault) : undefined
  if (repaired) refuse(ctx, repaired)
  if (state.log.detail === 'request entity too large') ctx.status = 413
  const answer = mapOf(ctx.body)
  if (answer.error) ctx.body = described(ctx, answer)
}

/**
 * Leaves out superfluous spaces in `scope` of an authorization request, which
 * agents in use send. They are not valid (RFC 6749 §3.3). Endpoints for
 * programs refuse them: a developer reads the error.
 */
function tidyScope(ctx: Context) {
  const { scope } = ctx.query
  if (typeof scope !== 'string' || !/^ | $| {2}/.test(scope)) return
  ctx.query = {
    ...ctx.query,
    scope: scope.split(' ').filter(Boolean).join(' '),
  }
}

/**
 * Returns the address after sign-out, as it is registered. The library writes
 * it anew, with `state`.
 */
function asRegistered(location: string, uris: readonly string[] = []): string {
  const state = new URL(location).searchParams.get('state')
  const written = (uri: string) =>
    Object.assign(new URL(uri), { search: new URL(uri).searchParams }).href
  const all = uris.map(uri => withQuery(uri, state === null ? {} : { state }))
  return all.find(uri => written(uri) === written(location)) ?? location
}

function refuse(ctx: Context, error: errors.OIDCProviderError): never {
  ctx.state.fault = undefined
  logError(ctx, error)
  throw Object.assign(error, described(ctx, error))
}

function discovery(
  ctx: Context,
  { end_session }: Routes['endpoints'],
  features: Feature[],
) {
  cacheable(ctx, MAX_CACHE_SECONDS)
  const document = ctx.body as Record<string, unknown>
  // Empty lists are left out (RFC 8414 §3.2).
  const isEmpty = (value: unknown) => Array.isArray(value) && value.length === 0
  ctx.body = {
    ...Object.fromEntries(
      Object.entries(document).filter(([, value]) => !isEmpty(value)),
    ),
    ...(!end_session && { end_session_endpoint: undefined }),
    response_modes_supported: listedResponseModes(document),
    ...merged(features, 'discovery member', feature =>
      feature.discovery?.(document),
    ),
  }
}

function cacheable(ctx: Context, seconds: number) {
  if (ctx.status === 200) ctx.set('Cache-Control', `public, max-age=${seconds}`)
}

/**
 * Warns the operator of an ID token that cannot come back as `id_token_hint`.
 */
function token({ body, state }: Context) {
  const { length } = String(mapOf(body).id_token ?? '')
  if (length <= BOUNDS.idTokenHints.max) return
  state.log.warning = `the ID token has ${length} characters: it is too long for id_token_hint. Map fewer claims, or set id_token.claims: minimal`
}

/**
 * Refuses a public client, whether the token is active or not (RFC 7662 §2.1).
 */
function introspection(ctx: Context, { client }: Oidc) {
  if (client?.tokenEndpointAuthMethod === 'none') {
    refuse(
      ctx,
      new errors.InvalidClientAuth({
        detail: 'a public client cannot introspect',
      }),
    )
  }
  // JWTs are not stored. A caller that presents one to an API must not cause an
  // error there (§2.2).
  if (mapOf(ctx.body).error !== 'unsupported_token_type') return
  ctx.state.log.detail =
    'a JWT is not stored: the API verifies it with the keys of the JWKS'
  ctx.status = 200
  ctx.body = { active: false }
}

/**
 * Answers `invalid_token` for a token of an API (RFC 6750 §3.1), not the
 * library's 403.
 */
function userinfo(ctx: Context, { issuer, entities }: Oidc) {
  if (ctx.status !== 403 || entities.AccessToken?.aud === undefined) return
  ctx.set('WWW-Authenticate', `Bearer realm="${issuer}", error="invalid_token"`)
  refuse(ctx, new errors.InvalidToken('the token is for another resource'))
}

async function revocation(ctx: Context, { entities }: Oidc, records: Records) {
  if (ctx.status !== 200) return
  const { RefreshToken, AccessToken } = entities
  // Some clients insist on JSON where RFC 7009 asks for nothing.
  ctx.body = {}
  const token = RefreshToken ?? AccessToken
  // A token that was revoked before: no replica may have its removal yet. The
  // request of the library is over here.
  if (!token) return records.confirmRemovals(ctx)
  const about = { client_id: token.clientId, account: token.accountId }
  noteEvent(ctx, 'token_revoked', {
    ...about,
    token: RefreshToken ? 'refresh' : 'access',
  })
}
