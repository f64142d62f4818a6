// Sign-out at the issuer (OpenID Connect RP-Initiated Logout 1.0), and the
// cookie of a browser in which the user has signed out. With this cookie no
// issuer is requested without a button, since the issuer could sign the user in
// again without a question. Its value is the URL of the page after the
// sign-out.

import type { Context } from 'koa'
import type { Settings } from '../../config/load.ts'
import { cookieNames, originCookie } from '../../oidc/browser.ts'
import type { Oidc } from '../../oidc/dependencies.ts'
import { routesOf } from '../../oidc/endpoints.ts'
import type { Finisher } from '../../oidc/feature.ts'
import { methodOf } from '../../oidc/vocabulary.ts'
import type { OwnAccounts } from '../../sign-in/directory.ts'
import { methodFailed } from '../../sign-in/sign-in-page.ts'
import type { Connection } from './issuer.ts'

const COOKIE_MS = 30 * 24 * 3600 * 1000
/** Browsers drop a cookie with more than 4096 characters. */
const MAX_COOKIE_CHARS = 3_500

/** Returns the functions of a sign-out. */
export function createSignOut(
  { issuer: own, features, development }: Settings,
  directory: OwnAccounts,
  connections: Connection[],
) {
  const { signedOut: name } = cookieNames(development)
  const options = { ...originCookie(development), maxAge: COOKIE_MS }
  const done = `${routesOf(features).paths.end_session}/success`
  const cookieOf = ({ cookies }: Context) => cookies.get(name, { signed: true })
  function mark({ cookies }: Context, next: string) {
    const value = encodeURIComponent(next)
    const isTooLong = value.length > MAX_COOKIE_CHARS
    cookies.set(name, isTooLong ? encodeURIComponent(done) : value, options)
  }

  /**
   * Returns the URL at which the user of a session can sign out; undefined if
   * that is not offered.
   */
  async function urlOf(
    ctx: Context,
    session: Oidc['session'],
  ): Promise<URL | undefined> {
    const isOf = ({ upstream }: Connection) =>
      methodOf(session?.amr) === upstream.name
    const { upstream, issuer } = connections.find(isOf) ?? {}
    if (!upstream || upstream.sign_out === 'none') return undefined
    const { links = [] } =
      (await directory.find(session?.accountId ?? '')) ?? {}
    const logout_hint = links.find(
      link => link.issuer === upstream.issuer,
    )?.subject
    const post_logout_redirect_uri = `${own}/sign-in/${upstream.name}/signed-out`
    const parameters: Record<string, string> = {}
    if (logout_hint) parameters.logout_hint = logout_hint
    if (upstream.sign_out === 'return') {
      parameters.post_logout_redirect_uri = post_logout_redirect_uri
    }
    return issuer?.logoutUrl(parameters).catch(methodFailed(ctx, upstream.name))
  }

  /**
   * The library redirects to the client, or to the page that says that the user
   * signed out.
   */
  const signedOut: Finisher = async (ctx, { params, session }) => {
    const next = ctx.response.get('Location')
    if (!next || !params?.logout) return
    const url =
      params.logout === 'upstream' ? await urlOf(ctx, session) : undefined
    mark(ctx, url ? next : done)
    if (url) ctx.redirect(url.href)
  }

  return {
    urlOf,
    signedOut,
    /** Removes the cookie after a sign-in. */
    forget(ctx: Context) {
      if (cookieOf(ctx)) ctx.cookies.set(name, null, options)
    },
    /**
     * Whether the user signed out in this browser, and did not sign in again
     * since.
     */
    isSignedOut: (ctx: Context) => cookieOf(ctx) !== undefined,
    /**
     * The browser returns from the issuer. Nothing in the request decides where
     * it goes.
     */
    comeBack(ctx: Context) {
      const next = cookieOf(ctx)
      if (next) mark(ctx, done)
      ctx.redirect(decodeURIComponent(next ?? done))
    },
  }
}
