// The objects that all pages use, and the guard of the account pages: they need a signed-in user, and a
// change needs a recent sign-in. Otherwise the browser goes to sign-in first, and comes back afterwards.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { createAuthentication } from '../accounts/authentication.ts'
import { createAccountSessions } from '../accounts/sessions.ts'
import type { SignInMethod } from '../accounts/sign-in-method.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { createSignatures } from '../http/cookies.ts'
import { createCsrf, type Form, readForm } from '../http/forms.ts'
import type { Dependencies, LibraryProvider, PromptFeature } from '../provider/feature.ts'
import { createBrowserSession, createInteractions, type Session } from '../provider/interactions.ts'
import { AUTHORIZATION } from '../provider/routes.ts'
import { deriveKey } from '../storage/seal.ts'
import { now } from '../storage/store.ts'
import { type Notice, PLACES } from './page-data.ts'
import type { Views } from './views.ts'
import type { Words } from './words.ts'

/** Functions that features add to the pages of the core. */
export interface PageExtensions {
  /** Returns what is worth knowing, for the home page of the account. */
  notices?(words: Words, user: SignedIn, ctx: Context): Promise<Notice[]>
  /** Methods of sign-in beside the password. */
  signInMethods?: SignInMethod[]
}

/** The signed-in account, and the session of this browser. */
export type SignedIn = { account: Account; session: Session }

/** The user who submitted a form. */
export type Submitted = SignedIn & { form: Form }

/** Maximum age of the sign-in for a change of the account. */
export const RECENT_SECONDS = 15 * 60

/** Encoded, the URL of sign-in has three times as many. */
const MAX_STATE_CHARS = 1024

/** Dependencies of the pages, and the guards of their handlers. */
export type Site = ReturnType<typeof createSite>

/** Returns the dependencies of the pages. */
export function createSite(
  { settings, secrets, records, sessions, directory, consents }: Dependencies,
  views: Views,
  provider: LibraryProvider,
  features: (PromptFeature & PageExtensions)[],
) {
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const csrf = createCsrf(signatures('csrf'))
  const browserSession = createBrowserSession(provider, settings)
  const interactions = createInteractions(provider, settings, features)
  const { needsFactor } = interactions
  const devices = signatures('devices')

  /** `maxAge`: seconds since the sign-in. Returns undefined after a redirect to sign-in. */
  async function enter(ctx: Context, maxAge?: number): Promise<SignedIn | undefined> {
    const session = await browserSession.read(ctx)
    const account = session && (await directory.findEnabled(session.accountId, session.since))
    const isFresh = session && (maxAge === undefined || now() - session.since <= maxAge)
    ctx.state.account = account
    ctx.state.csrf = session && csrf.token(subject(ctx, session))
    if (account && isFresh) return { account, session }
    signIn(ctx, maxAge === undefined ? {} : { max_age: String(maxAge) })
  }

  /** Sends the browser to sign-in, and then back. `demands`: parameters of the authorization request. */
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

  // The subject contains the URL: a token is valid only for the change that its page shows.
  const subject = ({ url }: Context, { uid }: Session) => `account ${uid} ${url}`

  return {
    settings,
    records,
    directory,
    views,
    provider,
    csrf,
    authentication: createAuthentication(records, directory, devices, settings, needsFactor),
    consents,
    sessions: createAccountSessions(records, sessions),
    interactions,

    signInMethods: features.flatMap(({ signInMethods = [] }) => signInMethods),
    /** Returns the notices of the features. */
    async notices(...about: Parameters<NonNullable<PageExtensions['notices']>>) {
      const found = await Promise.all(features.map(({ notices }) => notices?.(...about) ?? []))
      return found.flat()
    },

    enter,
    signIn,

    /** Returns a handler for a page of the signed-in user. */
    signedIn:
      (show: (ctx: Context, user: SignedIn) => unknown, maxAge?: number) =>
      async (ctx: Context) => {
        const user = await enter(ctx, maxAge)
        if (user) await show(ctx, user)
      },

    /** Returns a handler for a form. It throws 403 unless the page of this URL sent the form. */
    submitted:
      (change: (ctx: Context, user: Submitted) => unknown, maxAge?: number) =>
      async (ctx: Context) => {
        const form = await readForm(ctx)
        const user = await enter(ctx, maxAge)
        if (!user) return
        csrf.check(ctx, form, subject(ctx, user.session))
        await change(ctx, { ...user, form })
      },

    /** Returns the id of the account that is signed in in this browser. */
    accountOf: async (ctx: Context) => (await browserSession.read(ctx))?.accountId,

    /** The session of this browser. */
    sessionOf: browserSession.read,
    keepSignedIn: browserSession.replace,

    /** Returns from sign-in to the page in `state`. An attacker may set it: only known pages are accepted. */
    comeBack(ctx: Context) {
      if (ctx.query.error) ctx.throw(403, { error: 'access_denied', expose: true })
      const place = URL.parse(String(ctx.query.state), settings.issuer)
      const known = [...Object.values(PLACES), ...views.areas().map(({ path }) => path)]
      const isKnown = place && known.includes(place.pathname)
      ctx.redirect(isKnown ? place.pathname + place.search : PLACES.home)
    },
  }
}
