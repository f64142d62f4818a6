// Authorization requests and sign-outs by POST, where the library expects GET.

import type { Middleware } from 'koa'
import type { Routes } from '../oidc/endpoints.ts'
import { refuseLongUrl } from '../oidc/requests.ts'
import { isSameOrigin, readForm } from '../operation/forms.ts'
import type { Views } from './views.ts'

/**
 * Proxies refuse longer headers of a response by default; nginx allows 4 kB.
 */
const MAX_LOCATION_BYTES = 3 * 1024

/**
 * Accepts authorization requests and sign-outs by POST (OIDC Core §3.1.2.1,
 * RP-Initiated Logout §2), and treats them like GET. In a POST from another
 * site, browsers send only cookies with `SameSite=None`. The browser is
 * therefore redirected to GET, or sends a long request again from a page of
 * this origin.
 */
export function byPost(
  { handOver }: Pick<Views, 'handOver'>,
  { endpoints }: Routes,
): Middleware {
  const { authorization, end_session } = endpoints
  return async (ctx, next) => {
    if (
      ctx.method !== 'POST' ||
      ![authorization, end_session].includes(ctx.path)
    )
      return next()
    const isSignOut = ctx.path === end_session
    // All parameters of a sign-out are optional.
    const isEmpty =
      isSignOut && !ctx.request.length && !ctx.get('Transfer-Encoding')
    ctx.querystring = isEmpty ? '' : String(await readForm(ctx))
    refuseLongUrl(ctx, 413)
    const isLong = ctx.url.length > MAX_LOCATION_BYTES
    if (isSameOrigin(ctx) && (isSignOut || isLong)) {
      ctx.method = 'GET'
      return next()
    }
    if (isLong) return handOver(ctx, ctx.path, ctx.query)
    ctx.status = 303
    ctx.redirect(ctx.url)
  }
}
