// Interactions and sessions of the library, for the pages, and the browser that
// each interaction began in.

import { createHash, randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { errors, type Provider } from 'oidc-provider'
import { now } from '../store/store.ts'
import { mapOf } from '../store/values.ts'
import type { Decision } from './consents.ts'
import { cookieNames, originCookie } from './cookies.ts'
import type { ProviderSettings } from './dependencies.ts'

type Deployment = Pick<ProviderSettings, 'development'>
type Cookies = Pick<Context, 'cookies'>

/**
 * Long: two tabs that open at once in a browser without this cookie overwrite
 * each other's.
 */
const BROWSER_COOKIE_SECONDS = 400 * 24 * 3600

/**
 * Returns the cookie that binds interactions to a browser: a `__Host-` cookie.
 * The library's interaction cookies have a path and cannot be `__Host-`
 * cookies, so that another domain could plant those of its own sign-in (login
 * CSRF). Pages ignore them.
 */
const browserCookie = ({ cookies }: Cookies, { development }: Deployment) =>
  cookies.get(cookieNames(development).browser, { signed: true })

const browserHash = (cookie: string) =>
  createHash('sha256').update(cookie).digest('base64url')

/**
 * Sets the cookie of the browser. Returns the part of an interaction's details
 * that names the browser.
 */
export function bindBrowser(
  ctx: Cookies,
  settings: Deployment,
): { browser: string } {
  const { development } = settings
  const value =
    browserCookie(ctx, settings) ?? randomBytes(24).toString('base64url')
  ctx.cookies.set(cookieNames(development).browser, value, {
    ...originCookie(development),
    maxAge: BROWSER_COOKIE_SECONDS * 1000,
  })
  return { browser: browserHash(value) }
}

/**
 * Whether the interaction with these details began in the browser of the
 * request.
 */
export function isOfBrowser(
  ctx: Cookies,
  settings: Deployment,
  details: unknown,
): boolean {
  const value = browserCookie(ctx, settings)
  return value !== undefined && mapOf(details).browser === browserHash(value)
}

/** A sign-in, with the library's names. */
export type Login = {
  accountId: string
  /** Epoch seconds: when the user proved who they are. */
  ts: number
  /**
   * Authentication methods (RFC 8176). An upstream adds its own name, in the
   * first place.
   */
  amr: string[]
  /**
   * Authentication context (OIDC Core §2); absent: none that clients can
   * request.
   */
  acr?: string
}

/** The next step of a sign-in. The user has no session before the last one. */
export interface SignInStep {
  /** The name of its prompt. */
  name: string
  /** The sign-in so far. */
  login: Login
}

/**
 * The answer to a prompt. `error` returns the user to the client with this
 * error.
 */
export interface Outcome {
  /** `ts`: epoch seconds of the sign-in, also if further pages follow. */
  login?: Login
  step?: SignInStep
  /** `accountId`: the account that decided. */
  consent?: { decision: Decision; accountId?: string }
  select_account?: { another: boolean }
  /** `isWanted`: the user asked for the page that creates an account. */
  create?: { isWanted?: boolean }
  error?: string
  error_description?: string
}

/** Whether the user answered `select_account` by asking for another account. */
export const wantsAnother = (result: unknown) =>
  mapOf(mapOf(result).select_account).another === true

/** Returns the step of a sign-in that waits for this prompt. */
export function stepAt(
  result: unknown,
  prompt: string,
): SignInStep | undefined {
  const step = mapOf(result).step as SignInStep | undefined
  return step?.name === prompt ? step : undefined
}

/**
 * A browser that opens its first page sooner, without a cookie, blocks cookies.
 */
const FIRST_PAGE_SECONDS = 10

/** Checks of the login prompt that fail for every user but one. */
const USER_CHECKS = /^(id_token_hint|claims_id_token_sub_value)$/

/** A pending interaction. Nothing in it comes from the browser. */
export type Interaction = Awaited<
  ReturnType<ReturnType<typeof createInteractions>['read']>
>

/**
 * Interactions for the interaction pages. All functions throw 400 for one that
 * this browser cannot answer.
 */
export function createInteractions(provider: Provider, settings: Deployment) {
  /**
   * Returns a pending interaction. Throws if it expired, its session ended, or
   * it belongs to another browser.
   */
  async function find(ctx: Context, uid = String(ctx.params.uid)) {
    const found =
      (await provider.Interaction.find(uid)) ??
      gone(ctx, 'it is finished or expired')
    // The library tolerates a difference of clocks for some seconds, but the
    // browser has dropped the cookie that leads back to the request: what is
    // accepted now would be lost on a page without a way back.
    if ((found.exp ?? 0) <= now()) gone(ctx, 'it has expired')
    if (!isOfBrowser(ctx, settings, found.prompt.details)) {
      const isKnown = browserCookie(ctx, settings) !== undefined
      const isNew = found.iat + FIRST_PAGE_SECONDS > now() && !isKnown
      gone(
        ctx,
        'it began with another cookie',
        isNew ? 'cookie_missing' : 'another_browser',
      )
    }
    const { uid: ofSession, accountId } = found.session ?? {}
    const current = ofSession
      ? await provider.Session.findByUid(ofSession)
      : found.session
    return current?.accountId === accountId
      ? found
      : gone(ctx, 'its session has ended')
  }

  return {
    /** Returns the interaction of the request. */
    async read(ctx: Context) {
      const { uid, prompt, params, session, lastSubmission, deviceCode } =
        await find(ctx)
      const { login_hint, ui_locales } = params
      const expectsOther =
        session?.accountId !== undefined &&
        prompt.reasons.some(name => USER_CHECKS.test(name))
      return {
        uid,
        prompt,
        /** Parameters of the authorization request. */
        params,
        clientId: String(params.client_id),
        device: deviceCode
          ? await readDevice(ctx, provider, deviceCode)
          : undefined,
        // A device polls the token endpoint.
        redirectUri: deviceCode ? undefined : String(params.redirect_uri),
        ...(typeof login_hint === 'string' && { loginHint: login_hint }),
        /** Language tags, the preferred first. */
        ...(typeof ui_locales === 'string' && { uiLocales: ui_locales }),
        /** The account that is signed in in this browser. */
        accountId: session?.accountId,
        /** The step of a sign-in that this prompt is. */
        step: stepAt(lastSubmission, prompt.name),
        /** The client expects another user than the one who is signed in. */
        expectsOther,
        /**
         * Another sign-in is needed: the user has chosen it, or the last one is
         * not what the client demands.
         */
        another:
          expectsOther ||
          Boolean(lastSubmission?.login) ||
          wantsAnother(lastSubmission),
        /**
         * The client's access was removed, or its name or hosts changed, while
         * the page was open.
         */
        withdrawn:
          prompt.name === 'consent' &&
          mapOf(lastSubmission?.consent).accountId === session?.accountId,
      }
    },

    /** Throws unless the interaction waits for a sign-in in this browser. */
    async assertSignIn(ctx: Context, uid: string) {
      if ((await find(ctx, uid)).prompt.name !== 'login')
        gone(ctx, 'it waits for no sign-in')
    },

    /**
     * Saves the answer to the prompt. Returns the URL where the browser goes
     * on. It names the client: if the interaction expires on the way, the page
     * that says so links to it.
     */
    async finish(ctx: Context, outcome: Outcome, uid?: string) {
      const interaction = await find(ctx, uid)
      interaction.result = {
        ...(!outcome.error && interaction.lastSubmission),
        ...outcome,
      }
      await interaction.persist().catch(error => {
        throw error instanceof errors.SessionNotFound
          ? gone(ctx, 'it has another answer')
          : error
      })
      const query = new URLSearchParams({
        client_id: String(interaction.params.client_id),
      })
      return `${interaction.returnTo}?${query}`
    },
  }
}

/**
 * Returns the user code as the user entered it, and the network of the device
 * in CIDR notation.
 */
async function readDevice(ctx: Context, { DeviceCode }: Provider, id: string) {
  const { userCode, deviceInfo } =
    (await DeviceCode.find(id)) ?? gone(ctx, 'its code has expired')
  return {
    code: String(userCode).replace(/(?=.{4}$)/, '-'),
    network: String(deviceInfo?.network),
  }
}

/**
 * Refuses an interaction, and says `why` it cannot be answered: to developers,
 * and in the log.
 */
const gone = (ctx: Context, why: string, error = 'interaction_gone'): never =>
  ctx.throw(400, {
    error,
    error_description: `this interaction cannot be answered: ${why}`,
  })

/** The session of a signed-in user. */
export type Session = NonNullable<
  Awaited<ReturnType<ReturnType<typeof createBrowserSession>['read']>>
>

/** The session of a browser, for the account pages. */
export function createBrowserSession(
  provider: Provider,
  { development }: Deployment,
) {
  const name = provider.cookieName('session')
  return {
    /**
     * Undefined when no user is signed in. `since`: epoch seconds of the
     * sign-in.
     */
    async read(ctx: Context) {
      const id = ctx.cookies.get(name, { signed: true })
      const session = id ? await provider.Session.find(id) : undefined
      if (!session?.accountId || session.loginTs === undefined) return undefined
      const { uid, accountId, loginTs: since, amr, acr } = session
      return { uid, accountId, since, amr, acr }
    },

    /** Gives the browser the id of another session. `exp`: epoch seconds. */
    replace(ctx: Context, { jti, exp }: { jti: string; exp: number }) {
      const expires = new Date(exp * 1000)
      ctx.cookies.set(name, jti, { ...originCookie(development), expires })
    },
  }
}
