// The objects that all pages use, and the guards of the account pages: they
// need a signed-in user, and a change of what protects the account needs a
// proof (sign-in/changes.ts). Otherwise the browser goes to sign-in first, and
// comes back afterwards.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import {
  createBrowserSession,
  createSignatures,
  type Session,
} from '../oidc/browser.ts'
import { AUTHORIZATION } from '../oidc/endpoints.ts'
import type { Feature, LibraryProvider } from '../oidc/feature.ts'
import { createInteractions, type Login } from '../oidc/interactions.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { createCsrf, type Form, readForm } from '../operation/forms.ts'
import { PLACES } from '../pages/page-data.ts'
import type { Views } from '../pages/views.ts'
import { deriveKey } from '../store/seal.ts'
import { now } from '../store/store.ts'
import type { Account } from './account.ts'
import { createAuthentication } from './authentication.ts'
import {
  type ChangeEvent,
  FOR_CHANGE,
  missingProof,
  type SignInParameters,
} from './changes.ts'
import type { Dependencies } from './dependencies.ts'
import { createFlow, type Flow, type SecondFactors } from './flow.ts'

/** The signed-in account, and the session of this browser. */
export type SignedIn = { account: Account; session: Session }

/**
 * The user and the form of a POST, which the page of this URL has sent. It is
 * empty for a GET.
 */
export type Submitted = SignedIn & { form: Form }

/** The page of a link (features/link-pages.ts). */
const LINK_PAGE = /^\/welcome\/[\w-]+$/

/** Encoded, the URL of sign-in has three times as many. */
const MAX_STATE_CHARS = 1024

/** The CIBA requests of accounts, a feature. */
export interface RequestsOfAccount {
  /** Returns how many requests wait for the answer of a user. */
  countWaiting(account: Account): Promise<number>
}

/** Dependencies of the pages, and the guards of their handlers. */
export interface Site extends Dependencies {
  views: Views
  provider: LibraryProvider
  checkForm: ReturnType<typeof createCsrf>
  authentication: ReturnType<typeof createAuthentication>
  browserSession: ReturnType<typeof createBrowserSession>
  interactions: ReturnType<typeof createInteractions>
  flow: Flow

  /**
   * Returns undefined after a redirect to sign-in. `maxAge`: seconds since the
   * sign-in; `parameters`: for the sign-in of a user who has no session.
   */
  enter(
    ctx: Context,
    maxAge?: number,
    parameters?: SignInParameters,
  ): Promise<SignedIn | undefined>

  /**
   * The guard of changes. False after a redirect to sign-in: the session does
   * not prove enough for this change. `back`: the path to which the user
   * returns, by default that of the request.
   */
  mayChange(
    ctx: Context,
    user: SignedIn,
    change: ChangeEvent,
    back?: string,
  ): Promise<boolean>

  /**
   * Sends the browser to sign-in, with these parameters of the authorization
   * request, and then back.
   */
  signIn(ctx: Context, parameters: SignInParameters, back?: string): void

  /**
   * Returns a handler for the signed-in user. Throws 403 for a POST unless the
   * page of this URL sent the form, and 404 if the navigation does not offer the
   * page to this user.
   */
  signedIn(
    handle: (ctx: Context, user: Submitted) => unknown,
    maxAge?: number,
  ): (ctx: Context) => Promise<void>

  /**
   * Returns a handler for a signed-in user who may make this change.
   * `needsProof`: whether a form makes such a change; by default each does.
   */
  changing(
    change: ChangeEvent,
    handle: (ctx: Context, user: Submitted) => unknown,
    needsProof?: (form: Form) => boolean,
  ): (ctx: Context) => Promise<void>

  /**
   * Returns from sign-in to the page in `state`. An attacker may set it: only
   * known pages are accepted.
   */
  comeBack(ctx: Context): void
}

/** Returns the dependencies of the pages. */
export function createSite(
  dependencies: Dependencies,
  views: Views,
  provider: LibraryProvider,
  factors?: SecondFactors,
  requests?: RequestsOfAccount,
): Site {
  const { settings, secrets, directory, proofs } = dependencies
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const checkForm = createCsrf(signatures('csrf'))
  const browserSession = createBrowserSession(provider, settings)
  const interactions = createInteractions(provider, settings)
  const flow = createFlow(factors)

  async function enter(
    ctx: Context,
    maxAge = Number.POSITIVE_INFINITY,
    parameters: SignInParameters = {},
  ) {
    const session = await browserSession.read(ctx)
    const account =
      session &&
      (await directory.findEnabled(session.accountId, session.signedInAt))
    ctx.state.account = account
    if (account) ctx.state.waiting = await requests?.countWaiting(account)
    if (account && now() - session.signedInAt <= maxAge)
      return { account, session }
    const wanted = { ...parameters }
    if (Number.isFinite(maxAge)) wanted.max_age = String(maxAge)
    signIn(ctx, wanted)
  }

  function signIn(ctx: Context, parameters: SignInParameters, back = ctx.url) {
    const { login_hint } = ctx.query
    const query = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: `${settings.issuer}/account/signed-in`,
      state: back.length <= MAX_STATE_CHARS && !login_hint ? back : ctx.path,
      ...(typeof login_hint === 'string' && { login_hint }),
      // The code is never redeemed, so the verifier is not kept.
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...parameters,
    })
    views.navigate(ctx, `${AUTHORIZATION.path}?${query}`)
  }

  async function mayChange(
    ctx: Context,
    user: SignedIn,
    change: ChangeEvent,
    back?: string,
  ) {
    const { account, session } = user
    const missing = await missingProof(
      change,
      account,
      session,
      proofs,
      factors,
    )
    if (missing) signIn(ctx, missing, back)
    return missing === undefined
  }

  /**
   * Checks that the form comes from the page of this URL: the token is valid
   * only for the change that it shows.
   */
  function admitForm(ctx: Context, form: Form, { account, session }: SignedIn) {
    checkForm(ctx, form, `account ${session.uid} ${ctx.url}`)
    const { isFor } = views.areas().find(({ path }) => path === ctx.path) ?? {}
    if (isFor?.(account) === false) ctx.throw(404)
  }

  return {
    ...dependencies,
    views,
    provider,
    checkForm,
    authentication: createAuthentication(
      dependencies,
      signatures('devices'),
      flow,
      factors,
    ),
    browserSession,
    interactions,
    flow,
    enter,
    mayChange,
    signIn,

    signedIn: (handle, maxAge) => async ctx => {
      // A slow body must not reach a session that has ended meanwhile.
      const form = await readForm(ctx)
      const user = await enter(ctx, maxAge)
      if (!user) return
      admitForm(ctx, form, user)
      await handle(ctx, { ...user, form })
    },

    changing:
      (change, handle, needsProof = () => true) =>
      async ctx => {
        const form = await readForm(ctx)
        // A user without a session signs in once, for the change.
        const user = await enter(ctx, undefined, FOR_CHANGE)
        if (!user) return
        admitForm(ctx, form, user)
        if (!needsProof(form) || (await mayChange(ctx, user, change)))
          await handle(ctx, { ...user, form })
      },

    comeBack(ctx) {
      if (ctx.query.error)
        ctx.throw(403, { error: 'access_denied', expose: true })
      const place = URL.parse(String(ctx.query.state), settings.issuer)
      const known = [
        ...Object.values(PLACES),
        ...views.areas().map(({ path }) => path),
      ]
      const isKnown =
        place &&
        (known.includes(place.pathname) || LINK_PAGE.test(place.pathname))
      ctx.redirect(isKnown ? place.pathname + place.search : PLACES.home)
    },
  }
}

/**
 * Returns the feature that remembers sign-ins for a change, when the library
 * has the session.
 */
export function changeProofs({ proofs }: Dependencies): Feature {
  return {
    answers: {
      async resume(_ctx, { params, session, result }) {
        const { login } = result ?? {}
        if (params?.second_factor !== FOR_CHANGE.second_factor) return
        // Until a sign-in has replaced the former user, the session is of that
        // one.
        if (!session || !login || session.accountId !== login.accountId) return
        await proofs.remember(session.uid, login as Login)
      },
    },
  }
}
