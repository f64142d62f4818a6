// The objects that all pages use, and the guard of the account pages: they need a signed-in user, and a
// change needs a recent sign-in. Otherwise the browser goes to sign-in first, and comes back afterwards.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { createAuthentication } from '../accounts/authentication.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { createSignatures } from '../http/cookies.ts'
import { createCsrf, type Form, readForm } from '../http/forms.ts'
import type { Dependencies, LibraryProvider, PromptFeature } from '../provider/feature.ts'
import { createBrowserSession, createInteractions, type Session } from '../provider/interactions.ts'
import { AUTHORIZATION } from '../provider/routes.ts'
import { deriveKey } from '../storage/seal.ts'
import { now } from '../storage/store.ts'
import { PLACES } from './page-data.ts'
import type { Views } from './views.ts'

/** The signed-in account, and the session of this browser. */
export type SignedIn = { account: Account; session: Session }

/** The user and the form of a POST, which the page of this URL has sent. It is empty for a GET. */
export type Submitted = SignedIn & { form: Form }

/** Maximum age of the sign-in for a change of the account. */
export const RECENT_SECONDS = 15 * 60

/** The page of a link (features/link-pages.ts). */
const LINK_PAGE = /^\/welcome\/[\w-]+$/
/** Encoded, the URL of sign-in has three times as many. */
const MAX_STATE_CHARS = 1024

/** Dependencies of the pages, and the guards of their handlers. */
export interface Site extends Dependencies {
  views: Views
  provider: LibraryProvider
  checkForm: ReturnType<typeof createCsrf>
  authentication: ReturnType<typeof createAuthentication>
  browserSession: ReturnType<typeof createBrowserSession>
  interactions: ReturnType<typeof createInteractions>

  /** `maxAge`: seconds since the sign-in. Returns undefined after a redirect to sign-in. */
  enter(ctx: Context, maxAge?: number): Promise<SignedIn | undefined>

  /** Sends the browser to sign-in, and then back. `demands`: parameters of the authorization request. */
  signIn(ctx: Context, demands: Record<string, string>): void

  /**
   * Returns a handler for the signed-in user. Throws 403 for a POST unless the page of this URL sent the form, and
   * 404 if the navigation does not offer the page to this user.
   */
  signedIn(
    handle: (ctx: Context, user: Submitted) => unknown,
    maxAge?: number,
  ): (ctx: Context) => Promise<void>

  /** Returns from sign-in to the page in `state`. An attacker may set it: only known pages are accepted. */
  comeBack(ctx: Context): void
}

/** Returns the dependencies of the pages. */
export function createSite(
  dependencies: Dependencies,
  views: Views,
  provider: LibraryProvider,
  features: PromptFeature[],
): Site {
  const { settings, secrets, records, directory } = dependencies
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const checkForm = createCsrf(signatures('csrf'))
  const browserSession = createBrowserSession(provider, settings)
  const interactions = createInteractions(provider, settings, features)
  const { needsFactor } = interactions
  const devices = signatures('devices')

  async function enter(ctx: Context, maxAge?: number): Promise<SignedIn | undefined> {
    const session = await browserSession.read(ctx)
    const account = session && (await directory.findEnabled(session.accountId, session.since))
    const isFresh = session && (maxAge === undefined || now() - session.since <= maxAge)
    ctx.state.account = account
    if (account && isFresh) return { account, session }
    signIn(ctx, maxAge === undefined ? {} : { max_age: String(maxAge) })
  }

  function signIn(ctx: Context, demands: Record<string, string>) {
    const { url, path } = ctx
    const query = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: `${settings.issuer}/account/signed-in`,
      state: url.length <= MAX_STATE_CHARS ? url : path,
      // The code is never redeemed, so the verifier is not kept.
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...demands,
    })
    views.navigate(ctx, `${AUTHORIZATION.path}?${query}`)
  }

  return {
    ...dependencies,
    views,
    provider,
    checkForm,
    authentication: createAuthentication(records, directory, devices, settings, needsFactor),
    browserSession,
    interactions,
    enter,
    signIn,

    signedIn: (handle, maxAge) => async ctx => {
      // A slow body must not reach a session that has ended meanwhile.
      const form = await readForm(ctx)
      const user = await enter(ctx, maxAge)
      if (!user) return
      // The subject contains the URL: a token is valid only for the change that its page shows.
      checkForm(ctx, form, `account ${user.session.uid} ${ctx.url}`)
      const { isFor } = views.areas().find(({ path }) => path === ctx.path) ?? {}
      if (isFor?.(user.account) === false) ctx.throw(404)
      await handle(ctx, { ...user, form })
    },

    comeBack(ctx) {
      if (ctx.query.error) ctx.throw(403, { error: 'access_denied', expose: true })
      const place = URL.parse(String(ctx.query.state), settings.issuer)
      const known = [...Object.values(PLACES), ...views.areas().map(({ path }) => path)]
      const isKnown = place && (known.includes(place.pathname) || LINK_PAGE.test(place.pathname))
      ctx.redirect(isKnown ? place.pathname + place.search : PLACES.home)
    },
  }
}
