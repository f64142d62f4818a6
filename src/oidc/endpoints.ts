// Around the library's endpoints: which requests reach them, and how some of their answers leave.

import type { Context, Middleware } from 'koa'
import type { KoaContextWithOIDC } from 'oidc-provider'
import { readForm } from '../http/forms.ts'
import { allowFormAnywhere } from '../http/security-headers.ts'
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
/** Bytes of an authorization request, by POST as in a URL. */
export const LONGEST_REQUEST = 8 * 1024

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
  const form = await readForm(ctx, LONGEST_REQUEST)
  ctx.status = 303
  ctx.redirect(`${ROUTES.authorization}?${form}`)
}

/** How answers of the library leave, by path. */
export function finishAnswers(views: Views): Middleware {
  return async (ctx, next) => {
    await next()
    const { oidc } = ctx as unknown as KoaContextWithOIDC
    ctx.state.log.client_id = oidc?.client?.clientId
    if (DISCOVERY.includes(ctx.path)) discovery(ctx)
    else if (ctx.path === ROUTES.jwks) cacheable(ctx)
    else if (ctx.path === ROUTES.revocation) emptyObject(ctx)
    else if (ctx.path === CONFIRM) navigateOn(ctx, views)
    else if (isFormPost(ctx, oidc)) allowFormAnywhere(ctx)
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

/** The library's own page, whose form posts the answer to the application. */
function isFormPost(ctx: Context, oidc: KoaContextWithOIDC['oidc'] | undefined): boolean {
  const isLibraryPage = ctx.type === 'text/html' && !ctx.state.isPage
  return isLibraryPage && oidc?.params?.response_mode === 'form_post'
}
