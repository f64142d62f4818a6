// Access to the account pages. They need a signed-in user, and a change needs a recent sign-in. Otherwise
// the browser goes to sign-in first, and comes back to the page afterwards.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { readForm } from '../http/forms.ts'
import { now } from '../storage/store.ts'
import { type PageData, PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import { setUser } from './views.ts'

/** The session of a browser, from the provider. */
export interface BrowserSession {
  /** Returns undefined if no user is signed in. */
  read(ctx: Context): Promise<Session | undefined>
  /** Sets the cookie to the id of another session. */
  replace(ctx: Context, session: { jti: string; exp: number }): void
}

interface Session {
  uid: string
  accountId: string
  /** Epoch seconds of the sign-in. */
  since: number
  /** Authentication methods (RFC 8176). */
  amr?: string[]
}

/** The signed-in account, and the session of this browser. */
export interface SignedIn {
  account: Account
  session: Session
}

/** Maximum age of the sign-in for a change of the account. */
const MAX_AGE_SECONDS = 15 * 60
/** Maximum length of `state` in an authorization request (http/limits.ts). */
const MAX_STATE_CHARS = 1024

/** Guards the account pages. */
export type AccountAccess = ReturnType<typeof createAccountAccess>

/** Returns the guard of the account pages. `authorization`: path of the authorization endpoint. */
export function createAccountAccess(
  { settings, views, csrf, directory }: Parts,
  browserSession: BrowserSession,
  authorization: string,
) {
  /** `maxAge`: seconds since the sign-in. Returns undefined after a redirect to sign-in. */
  async function enter(ctx: Context, maxAge?: number): Promise<SignedIn | undefined> {
    const session = await browserSession.read(ctx)
    const account = session && (await directory.findEnabled(session.accountId, session.since))
    const isFresh = session && (maxAge === undefined || now() - session.since <= maxAge)
    setUser(ctx, account)
    if (account && isFresh) return { account, session }
    const url = signInUrl(ctx.url.length <= MAX_STATE_CHARS ? ctx.url : ctx.path, maxAge)
    if (ctx.method === 'GET' || ctx.method === 'HEAD') ctx.redirect(url)
    else views.navigate(ctx, url)
  }

  function signInUrl(state: string, maxAge?: number): string {
    const query = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: `${settings.issuer}/account/signed-in`,
      state,
      // The code is never redeemed, so the verifier is not kept.
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...(maxAge !== undefined && { max_age: String(maxAge) }),
    })
    return `${authorization}?${query}`
  }

  // The subject contains the URL: a token is valid only for the change that its page shows.
  const subject = (ctx: Context, { session }: SignedIn) => `account ${session.uid} ${ctx.url}`
  const token = (ctx: Context, signedIn: SignedIn) => csrf.token(subject(ctx, signedIn))

  return {
    enter,
    token,

    /** Like `enter`, for a change. */
    enterRecently: (ctx: Context) => enter(ctx, MAX_AGE_SECONDS),

    /** Returns the submitted form and its user. Throws 403 unless the page of this URL sent the form. */
    async submitted(ctx: Context, enter: (ctx: Context) => Promise<SignedIn | undefined>) {
      const form = await readForm(ctx)
      const signedIn = await enter(ctx)
      if (!signedIn) return undefined
      csrf.check(ctx, form, subject(ctx, signedIn))
      return { ...signedIn, form }
    },

    /** Answers with the question before a change. Its form goes to the same URL. */
    confirm(ctx: Context, signedIn: SignedIn, question: Omit<PageData['confirm'], 'csrf'>) {
      views.page(ctx, 'confirm', { ...question, csrf: token(ctx, signedIn) })
    },

    /** Whether a user is signed in in this browser. */
    isSignedIn: async (ctx: Context) => (await browserSession.read(ctx)) !== undefined,

    keepSignedIn: browserSession.replace,

    /** Returns from sign-in to the page in `state`. An attacker may set it: only known pages are accepted. */
    comeBack(ctx: Context) {
      if (ctx.query.error) ctx.throw(403, { error: 'access_denied', expose: true })
      const place = URL.parse(String(ctx.query.state), settings.issuer)
      const isKnown = place && Object.values(PLACES).includes(place.pathname)
      ctx.redirect(isKnown ? place.pathname + place.search : PLACES.home)
    },
  }
}
