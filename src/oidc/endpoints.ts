// Around the library's endpoints: which requests reach them, and how some of their answers leave.

import type { Context, Middleware } from 'koa'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import { readForm } from '../http/forms.ts'
import { LONGEST_URL, refuseLongParameters, refuseLongUrl } from '../http/limits.ts'
import type { Views } from '../pages/views.ts'
import { ROUTES } from './provider.ts'

const DISCOVERY = ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']
const CONFIRM = `${ROUTES.end_session}/confirm`
const PATHS = new Set([
  ...Object.values(ROUTES),
  ...DISCOVERY,
  CONFIRM,
  `${ROUTES.end_session}/success`,
])
const RESUME = new RegExp(`^${ROUTES.authorization}/[\\w-]{21,64}$`)

/** The library takes `/API/OAUTH/TOKEN/` for the token endpoint; a path here has one spelling. */
export const canonicalPaths: Middleware = (ctx, next) => {
  if (PATHS.has(ctx.path) || RESUME.test(ctx.path)) return next()
  ctx.throw(404, { error: 'not_found', error_description: 'there is no endpoint at this path' })
}

/**
 * The same request as GET (OIDC Core §3.1.2.1): a cookie that came with a cross-site POST would have
 * to be `SameSite=None`.
 */
export const authorizeByPost: Middleware = async (ctx, next) => {
  if (ctx.path !== ROUTES.authorization || ctx.method !== 'POST') return next()
  const url = `${ROUTES.authorization}?${await readForm(ctx, LONGEST_URL)}`
  refuseLongUrl(ctx, url)
  ctx.status = 303
  ctx.redirect(url)
}

/** How answers of the library leave, by path. */
export function finishAnswers(views: Views): Middleware {
  return async (ctx, next) => {
    ctx.set('Cache-Control', 'no-store')
    await next()
    const { oidc } = ctx as unknown as KoaContextWithOIDC
    ctx.state.log.client_id = oidc?.client?.clientId
    if (DISCOVERY.includes(ctx.path)) discovery(ctx)
    else if (ctx.path === ROUTES.jwks) cacheable(ctx)
    else if (ctx.path === ROUTES.pushed_authorization_request) pushed(ctx)
    else if (ctx.path === ROUTES.introspection) introspection(ctx)
    else if (ctx.path === ROUTES.revocation) emptyObject(ctx)
    else if (ctx.path === CONFIRM) navigateOn(ctx, views)
    else if (ctx.path === ROUTES.end_session) nothingToAsk(ctx, views)
  }
}

function discovery(ctx: Context) {
  if (ctx.status !== 200) return
  cacheable(ctx)
  // The library lists every mode it knows; clients here are given these (AZ7).
  ctx.body = { ...Object(ctx.body), response_modes_supported: ['query', 'form_post'] }
}

function cacheable(ctx: Context) {
  if (ctx.status === 200) ctx.set('Cache-Control', 'public, max-age=3600')
}

/** The library reads the form; nobody is told of a request that was too long to be kept. */
function pushed(ctx: Context) {
  const { oidc } = ctx as unknown as KoaContextWithOIDC
  if (ctx.status === 201) refuseLongParameters(ctx, oidc.params ?? {})
}

/** Whoever cannot prove who they are is told nothing (RFC 7662 §2.1), whether the token lives or not. */
function introspection(ctx: Context) {
  const { oidc } = ctx as unknown as KoaContextWithOIDC
  if (oidc.client?.tokenEndpointAuthMethod !== 'none') return
  throw new errors.InvalidClientAuth({ detail: 'a public client cannot introspect' })
}

/** Some clients insist on JSON where RFC 7009 asks for nothing. */
function emptyObject(ctx: Context) {
  if (ctx.status === 200 && ctx.method === 'POST') ctx.body = {}
}

// Signing out leads to the application, where the form may not go by a redirect (HD4).
function navigateOn(ctx: Context, views: Views) {
  const location = ctx.response.get('Location')
  if (ctx.status !== 303 || !location) return
  ctx.remove('Location')
  views.navigate(ctx, location)
}

// Nobody is signed in: the library has nothing to ask, and a bare page of its own to say so.
function nothingToAsk(ctx: Context, views: Views) {
  const { session } = (ctx as unknown as KoaContextWithOIDC).oidc
  if (ctx.status !== 200 || !session || session.accountId) return
  const { secret } = Object(session.state) as { secret?: string }
  views.handOver(ctx, CONFIRM, { xsrf: secret, logout: 'yes' })
}
