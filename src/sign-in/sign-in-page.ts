// Sign-in: the fields for a password, and a button for each other method. Every
// method reports the same, so that `acr_values`, `max_age` and `prompt=login`
// do not depend on it, and answers with `answerAfter` (flow.ts).

import type { Context } from 'koa'
import type { Upstream } from '../config/schema/upstream.ts'
import type { Interaction, Login } from '../oidc/interactions.ts'
import {
  ACCOUNT_CLIENT,
  isMethodUsed,
  PASSKEY,
  PASSWORD,
} from '../oidc/vocabulary.ts'
import type { Form } from '../operation/forms.ts'
import { reasonOf } from '../store/reasons.ts'
import { StoreUnavailable } from '../store/store.ts'
import { mapOf } from '../store/values.ts'
import type { Account } from './account.ts'
import { aboutInteraction } from './authentication.ts'
import { hostOf } from './consent-page.ts'
import { shownHint } from './flow.ts'
import { isForChange } from './interaction-pages.ts'
import type { Site } from './site.ts'

/**
 * A method of sign-in that sends the browser elsewhere, and completes the
 * interaction when it returns.
 */
export interface SignInMethod {
  /** The name in `sign_in.methods` of usher.yaml. */
  name: string
  /** The text of its button: one, or one for each language. */
  label: Upstream['label']
  /** The host where the user signs in. */
  host: string
  /**
   * Whether the browser goes there without the sign-in page. `isOnly`: no other
   * method can be used.
   */
  isDirect(ctx: Context, about: { loginHint: string; isOnly: boolean }): boolean
  /**
   * Returns the URL at which the user signs in. Throws if the method is
   * unavailable. `uid`: of the interaction; `params`: of the authorization
   * request; `wantsAnotherAccount`: see `Interaction`.
   */
  begin(at: {
    uid: string
    wantsAnotherAccount: boolean
    params: Record<string, unknown>
  }): Promise<string>
}

/** Problems that the page can show: texts `sign_in.PROBLEM`. */
const PROBLEMS = [
  'failed',
  'passkey_failed',
  'upstream_failed',
  'upstream_old',
  'upstream_unavailable',
  'upstream_unknown',
] as const
type Problem = (typeof PROBLEMS)[number]

interface Tried extends UnknownPasskey {
  username?: string
  problem: Problem
  /** The id of the request that failed. */
  reference?: string
  /** The host of the method that failed. */
  host?: string
  status: number
}

/** The sign-in with a passkey alone, by a button on the page. */
export interface PasskeySignIn {
  /**
   * Returns the options of `navigator.credentials.get`, as JSON. They are the
   * same for every user.
   */
  options(interaction: Interaction): Promise<string>
  /**
   * Checks the answer of the browser. Returns the sign-in, or a passkey that no
   * account has.
   */
  signIn(
    ctx: Context,
    interaction: Interaction,
    answer: string,
  ): Promise<Signed | UnknownPasskey>
}
type Signed = { account: Account; login: Login }
/** See `PageData`. */
type UnknownPasskey = { unknown?: string }

/**
 * Returns the path of the sign-in page with the problem of a sign-in elsewhere.
 * `method`: its name.
 */
export function problemPath(
  { state }: Context,
  uid: string,
  problem: Problem,
  method = '',
) {
  const about = {
    problem,
    reference: state.requestId,
    ...(method && { method }),
  }
  return `/interaction/${uid}?${new URLSearchParams(about)}`
}

/**
 * Returns a function that logs an error of a method of sign-in. It throws an
 * error of the store again.
 */
export const methodFailed =
  ({ state }: Context, name: string) =>
  (error: unknown): undefined => {
    if (error instanceof StoreUnavailable) throw error
    const { cause } = mapOf(error)
    state.log.detail = `${name}: ${reasonOf(cause instanceof Error ? cause : error)}`
  }

/**
 * Returns the page of the login prompt. `passkeySignIn`: absent unless users can
 * sign in with a passkey.
 */
export function signInPage(
  site: Site,
  signInMethods: SignInMethod[],
  passkeySignIn?: PasskeySignIn,
) {
  const { views, records, authentication, settings, flow } = site

  /** Returns the methods of sign-in that the page offers for this request. */
  function offeredFor(ctx: Context, { clientId, params }: Interaction) {
    const { require_sign_in: only } =
      views.configuredClient(ctx, clientId) ?? params
    const isUsed = (name: string) =>
      only ? name === only : isMethodUsed(settings.sign_in, name)
    return {
      hasPassword: isUsed(PASSWORD),
      passkeys: isUsed(PASSKEY) ? passkeySignIn : undefined,
      otherMethods: signInMethods.filter(({ name }) => isUsed(name)),
    }
  }

  async function render(
    ctx: Context,
    interaction: Interaction,
    tried?: Tried,
  ): Promise<undefined> {
    const { wantsAnotherAccount, expectsOther, redirectUri, clientId } =
      interaction
    const loginHint = shownHint(interaction.loginHint)
    const offered = offeredFor(ctx, interaction)
    const known = wantsAnotherAccount ? undefined : ctx.state.account
    const isReauthentication = known !== undefined
    const username = tried?.username ?? loginHint ?? known?.username ?? ''
    const client = await views.client(ctx, clientId)
    const words = views.words(ctx)
    const data = {
      client: await views.nameOf(ctx, clientId),
      isAccount: clientId === ACCOUNT_CLIENT,
      uncheckedHost:
        client?.isUnchecked && redirectUri ? hostOf(redirectUri) : undefined,
      again: isReauthentication,
      isForChange: isForChange(interaction),
      expectsOther,
      problem:
        tried &&
        words.t(`sign_in.${tried.problem}`, { host: tried.host ?? '' }),
      failed: tried && (tried.reference ?? ctx.state.requestId),
      passwordFailed: tried?.problem === 'failed',
      mustAsk: tried?.problem === 'failed' && !views.canReset,
      username: username.slice(0, 256),
      hasPassword: offered.hasPassword,
      canSignUp:
        offered.hasPassword &&
        !isReauthentication &&
        settings.sign_up !== undefined,
      passkey: offered.passkeys && {
        options: await offered.passkeys.options(interaction),
        unknown: tried?.unknown,
      },
      byEmail: settings.sign_in.by.includes('email'),
      methods: offered.otherMethods.map(({ name, label }) => {
        return {
          name,
          label: words.textOf(label),
          logo: views.buttonLogo(name),
        }
      }),
    }
    views.page(ctx, 'sign-in', data, tried?.status)
  }

  /**
   * Sends the browser to another method. An error of the method becomes a
   * problem on the page.
   */
  async function sendToMethod(
    ctx: Context,
    interaction: Interaction,
    method: SignInMethod,
  ) {
    const url = await method
      .begin(interaction)
      .catch(methodFailed(ctx, method.name))
    if (!url)
      return render(ctx, interaction, {
        problem: 'upstream_unavailable',
        status: 503,
      })
    views.navigate(ctx, url)
  }

  async function usePasskey(
    ctx: Context,
    interaction: Interaction,
    { signIn }: PasskeySignIn,
    answer: string,
  ) {
    const done = await signIn(ctx, interaction, answer)
    if ('login' in done)
      return flow.answerAfter('login', done.account, done.login)
    return render(ctx, interaction, {
      ...done,
      problem: 'passkey_failed',
      status: 400,
    })
  }

  async function usePassword(
    ctx: Context,
    interaction: Interaction,
    form: Form,
  ) {
    const username = form.value('username')
    const credentials = { username, password: form.value('password') }
    const about = aboutInteraction(records, interaction)
    const checked = await authentication.check(ctx, credentials, about)
    if (!checked)
      return render(ctx, interaction, {
        username,
        problem: 'failed',
        status: 400,
      })
    const { account, login, isFactorDue } = checked
    if (!isFactorDue)
      await authentication.noteSuccess(ctx, account, login.ts, about)
    return flow.answerAfter('login', account, login)
  }

  return {
    async show(ctx: Context, interaction: Interaction) {
      const offered = offeredFor(ctx, interaction)
      const loginHint = shownHint(interaction.loginHint) ?? ''
      const problem = PROBLEMS.find(known => known === ctx.query.problem)
      const [reference] =
        /^[0-9a-f]{16}$/.exec(String(ctx.query.reference)) ?? []
      const { host } =
        offered.otherMethods.find(({ name }) => name === ctx.query.method) ?? {}
      if (problem)
        return render(ctx, interaction, {
          problem,
          reference,
          host,
          status: 200,
        })
      const { hasPassword, passkeys, otherMethods } = offered
      const isOnly = otherMethods.length === 1 && !hasPassword && !passkeys
      const direct = otherMethods.find(({ isDirect }) =>
        isDirect(ctx, { loginHint, isOnly }),
      )
      // Without the page, an issuer that returns the same sign-in again would
      // be an endless redirect.
      return direct && !interaction.wantsAnotherAccount
        ? sendToMethod(ctx, interaction, direct)
        : render(ctx, interaction)
    },

    async submit(ctx: Context, interaction: Interaction, form: Form) {
      const offered = offeredFor(ctx, interaction)
      const decision = form.value('decision')
      const method = offered.otherMethods.find(({ name }) => name === decision)
      if (method) return sendToMethod(ctx, interaction, method)
      if (decision === 'sign_up') return { create: { isWanted: true } }
      const answer = form.value('passkey')
      if (offered.passkeys && answer)
        return usePasskey(ctx, interaction, offered.passkeys, answer)
      if (!offered.hasPassword)
        ctx.throw(400, 'this application requires another method of sign-in')
      return usePassword(ctx, interaction, form)
    },
  }
}

/** Returns the page of the select_account prompt. */
export function selectAccountPage({ views }: Site) {
  return {
    async show(ctx: Context, { clientId }: Interaction) {
      const client = await views.nameOf(ctx, clientId)
      views.page(ctx, 'select-account', {
        client,
        isAccount: clientId === ACCOUNT_CLIENT,
      })
    },

    async submit(_ctx: Context, _interaction: Interaction, form: Form) {
      return {
        select_account: { another: form.value('decision') !== 'continue' },
      }
    },
  }
}
