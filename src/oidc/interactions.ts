// Interactions: what a page is shown for, and the answer of the user. The
// library keeps them as records; no other browser can answer one.

import type { Context } from 'koa'
import {
  errors,
  type Interaction as LibraryInteraction,
  type Provider,
} from 'oidc-provider'
import { now } from '../store/store.ts'
import { mapOf } from '../store/values.ts'
import type { AdapterPart } from './adapter/adapter.ts'
import { currentRequest } from './adapter/request.ts'
import { browserCookie, type Deployment, isOfBrowser } from './browser.ts'
import type { Decision } from './consents.ts'

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
export const choseAnotherAccount = (result: unknown) =>
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
 * A browser that opens the page of an interaction so soon after it began, and
 * sends no cookie, blocks cookies.
 */
const FIRST_PAGE_SECONDS = 10

/** Checks of the login prompt that fail for every user but one. */
const USER_CHECKS = ['id_token_hint', 'claims_id_token_sub_value']

/**
 * A pending interaction. The page cannot change it. `params`, `loginHint` and
 * `uiLocales` are as the request sent them: untrusted.
 */
export type Interaction = Awaited<ReturnType<typeof describeInteraction>>

/**
 * Interactions for the interaction pages. All functions throw 400 for one that
 * this browser cannot answer.
 */
export function createInteractions(provider: Provider, settings: Deployment) {
  /**
   * Returns a pending interaction. Throws if it expired, its session ended, or
   * it belongs to another browser.
   */
  async function findPending(
    ctx: Context,
    uid = String(ctx.params.uid),
  ): Promise<LibraryInteraction> {
    const found = await provider.Interaction.find(uid)
    if (!found) return gone(ctx, 'it is finished or expired')
    // The library tolerates a difference of clocks for some seconds, but the
    // browser has dropped the cookie that leads back to the request: what is
    // accepted now would be lost on a page without a way back.
    if ((found.exp ?? 0) <= now()) gone(ctx, 'it has expired')
    if (!isOfBrowser(ctx, settings, found.prompt.details)) {
      const isKnown = browserCookie(ctx, settings) !== undefined
      const isNew = found.iat + FIRST_PAGE_SECONDS > now() && !isKnown
      const error = isNew ? 'cookie_missing' : 'another_browser'
      gone(ctx, 'it began with another cookie', error)
    }
    if (!(await hasItsSession(provider, found)))
      gone(ctx, 'its session has ended')
    return found
  }

  return {
    /** Returns the interaction of the request. */
    async read(ctx: Context): Promise<Interaction> {
      return describeInteraction(ctx, provider, await findPending(ctx))
    },

    /** Throws unless the interaction waits for a sign-in in this browser. */
    async assertSignIn(ctx: Context, uid: string): Promise<void> {
      const { prompt } = await findPending(ctx, uid)
      if (prompt.name !== 'login') gone(ctx, 'it waits for no sign-in')
    },

    /**
     * Saves the answer to the prompt. Returns the URL where the browser goes
     * on. It names the client: if the interaction expires on the way, the page
     * that says so links to it.
     */
    async saveAnswer(
      ctx: Context,
      outcome: Outcome,
      uid?: string,
    ): Promise<string> {
      const interaction = await findPending(ctx, uid)
      const before = outcome.error ? undefined : interaction.lastSubmission
      interaction.result = { ...before, ...outcome }
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

/** Whether the session in which an interaction began is still that of its user. */
async function hasItsSession(
  provider: Provider,
  { session }: LibraryInteraction,
): Promise<boolean> {
  const current = session?.uid
    ? await provider.Session.findByUid(session.uid)
    : session
  return current?.accountId === session?.accountId
}

/** Returns an interaction as the pages see it. */
async function describeInteraction(
  ctx: Context,
  provider: Provider,
  interaction: LibraryInteraction,
) {
  const { uid, prompt, params, session, lastSubmission, deviceCode } =
    interaction
  const { login_hint, ui_locales } = params
  const expectsOther =
    session?.accountId !== undefined &&
    prompt.reasons.some(name => USER_CHECKS.includes(name))
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
     * The user who is signed in is not wanted: the user has chosen another
     * account, or the last sign-in is not what the client demands.
     */
    wantsAnotherAccount:
      expectsOther ||
      Boolean(lastSubmission?.login) ||
      choseAnotherAccount(lastSubmission),
    /**
     * The client's access was removed, or its name or hosts changed, while the
     * page was open.
     */
    withdrawn:
      prompt.name === 'consent' &&
      mapOf(lastSubmission?.consent).accountId === session?.accountId,
  }
}

/**
 * Returns the user code as the user entered it, and the network of the device
 * in CIDR notation.
 */
async function readDevice(ctx: Context, { DeviceCode }: Provider, id: string) {
  const found = await DeviceCode.find(id)
  if (!found) return gone(ctx, 'its code has expired')
  const { userCode, deviceInfo } = found
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

/**
 * Returns the adapter part that hides an interaction from other browsers. On
 * pages, where the library has no request, `createInteractions` checks it.
 */
export function interactionsInOneBrowser(settings: Deployment): AdapterPart {
  return ({ find }) => ({
    async find(id) {
      const found = await find(id)
      const ctx = currentRequest()
      const isShown = !ctx || isOfBrowser(ctx, settings, found?.prompt?.details)
      return isShown ? found : undefined
    },
  })
}
