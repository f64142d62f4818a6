// The page of a second factor in a sign-in. It follows the password, or raises
// a session for a request.
//
//   pageAction   the page shows                                 its form leads to
//   askFactor    the means that the account has                 done; again `askFactor` if the factor is wrong
//   offerFactor  a new app, a new passkey                       showCodes; done if the user may add it later
//   showCodes    the recovery codes of the factor just added,    done
//                and a field for its name
//   done         nothing: `flow` has the next step of the sign-in, or the session
//
// feature.ts draws the whole sign-in.

import type { Context } from 'koa'
import type { Elsewhere } from '../../account/security.ts'
import { elsewhereOf, endBrowsers } from '../../account/sessions.ts'
import { browsersOf } from '../../account/signed-in-browsers.ts'
import type { Interaction, Login, Outcome } from '../../oidc/interactions.ts'
import { TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import type { Form } from '../../operation/forms.ts'
import type { Account } from '../../sign-in/account.ts'
import {
  isForChange,
  type PromptPage,
} from '../../sign-in/interaction-pages.ts'
import type { Site } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { required } from '../../store/values.ts'
import {
  addFactor,
  type FactorDependencies,
  nameFactor,
  newSecret,
} from './add-factor.ts'
import {
  type Attempt,
  type AttemptFactor,
  placeOf,
  Refused,
  useOf,
} from './attempts.ts'
import { type Factor, type Factors, isPasskey, type Method } from './factors.ts'
import { credentialIn, type Passkeys, raised } from './passkeys.ts'
import { isStrongest, PHISHING_RESISTANT, RECOVERY_AMR } from './rules.ts'
import { useCode } from './totp.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /**
     * The page of a sign-in that adds an app or a passkey. `later`: until when
     * the user can go on without it, as text.
     */
    'add-factor': {
      app?: NewApp
      passkey?: string
      problem?: string
      later?: string
    }
    /**
     * Asks for a passkey or a code, with the reason. `failed`: the request id
     * of a wrong one.
     */
    'second-factor': Pick<PageData['add-factor'], 'passkey' | 'problem'> & {
      reason?: string
      failed?: string
      hasApp: boolean
      hasRecovery: boolean
    }
    /**
     * New recovery codes. `added`: the new factor, with its name; `isSignIn`:
     * the page is one of a sign-in.
     */
    'recovery-codes': {
      codes: string[]
      added?: { type: Factor['type']; id: string; name: string }
      isSignIn: boolean
      elsewhere?: Elsewhere
    }
  }
}

/**
 * `secret`: as text in groups; `uri`: `otpauth:`, which opens an app; `qr`: as
 * SVG, of the same.
 */
type NewApp = { nonce: string; secret: string; uri: string; qr: string }

/** The facts that decide what the page does. */
export interface StepState {
  /** The request accepts a passkey only. */
  isPasskeyOnly: boolean
  /** The sign-in so far. */
  login: Pick<Login, 'acr' | 'amr'>
  /** The usable factors of the account. */
  own: Factors
  /** The factor that this interaction has added. */
  added?: Factor
  /** The user has seen the recovery codes of `added`. */
  hasSeenCodes: boolean
}

/** See the table at the head of this file. */
type PageAction = 'askFactor' | 'offerFactor' | 'showCodes' | 'done'

/** Returns what the page does with a request. */
export function pageAction(state: StepState): PageAction {
  const { isPasskeyOnly, login, own, added, hasSeenCodes } = state
  const isAddedEnough =
    added !== undefined && (isPasskey(added) || !isPasskeyOnly)
  if (isAddedEnough) return hasSeenCodes ? 'done' : 'showCodes'
  if (!own.factors.length) return 'offerFactor'
  const lacksPasskey = isPasskeyOnly && !own.factors.some(isPasskey)
  // An account without a passkey adds one, after the use of the factor that it
  // has.
  return lacksPasskey && isStrongest(login, own) ? 'offerFactor' : 'askFactor'
}

/** The state of the page, with its account and its interaction. */
interface State extends Omit<StepState, 'hasSeenCodes'> {
  login: Login
  account: Account
  interaction: Interaction
}

/** Returns the means with which the user can answer. */
function meansOf({ isPasskeyOnly, own, interaction }: State) {
  const passkeys = own.factors.filter(isPasskey)
  const isPasskeyNeeded = isPasskeyOnly && passkeys.length > 0
  const mayRecover = !isPasskeyNeeded || isForChange(interaction)
  return {
    passkeys,
    hasApp: !isPasskeyNeeded && own.factors.length > passkeys.length,
    hasRecovery: mayRecover && own.recovery.length > 0,
  }
}

/** Returns an attempt at a factor, for its limits and the log. */
const attemptOf = (
  { account, login, interaction }: State,
  factor: Method,
): Attempt => ({ factor, account, signedInAt: login.ts, interaction })

/**
 * Returns a sign-in with a second factor that is no passkey. `method`: for
 * `amr`.
 */
function withCode(login: Login, method: string): Login {
  const amr = new Set([...login.amr, method, 'mfa'])
  return { ...login, amr: [...amr], acr: TWO_FACTOR_ACR }
}

/** Returns the page. */
export function createFactorStep(
  site: Site,
  dependencies: FactorDependencies,
  attempt: AttemptFactor,
): PromptPage {
  const { settings, metrics, factors, readUsable, rules, passkeys } =
    dependencies
  const { views, flow, directory } = site

  /**
   * Returns the sign-in whose step this is, or that of the session; undefined
   * if another user is signed in.
   */
  async function readLogin(
    ctx: Context,
    interaction: Interaction,
  ): Promise<Login | undefined> {
    if (interaction.step) return interaction.step.login
    const session = await site.browserSession.read(ctx)
    if (!session || session.accountId !== interaction.accountId)
      return undefined
    const { accountId, signedInAt, amr = [], acr } = session
    return { accountId, ts: signedInAt, amr, acr }
  }

  /** Returns the state. Throws 400 if the sign-in has ended. */
  async function readState(
    ctx: Context,
    interaction: Interaction,
  ): Promise<State> {
    const login = await readLogin(ctx, interaction)
    const account =
      login && (await directory.findEnabled(login.accountId, login.ts))
    if (!account) return ctx.throw(400, { error: 'interaction_gone' })
    const own = await readUsable(account.id)
    const isAdded = factors.isAddedIn(own, interaction.uid)
    return {
      account,
      interaction,
      login,
      own,
      isPasskeyOnly: interaction.prompt.reasons.includes(PHISHING_RESISTANT),
      added: isAdded ? own.factors.at(-1) : undefined,
    }
  }

  /**
   * Returns the time until which the user may sign in without a factor (epoch
   * seconds); zero if there is none. The first call starts the time.
   */
  async function startOrReadGrace({
    account,
    interaction,
  }: State): Promise<number> {
    const seconds = settings.sign_in.second_factor_grace
    if (!interaction.step || !seconds || !rules.isRequired(account)) return 0
    const due = await factors.startOrReadGrace(account.id, seconds)
    return due > now() ? due : 0
  }

  async function showUse(
    ctx: Context,
    state: State,
    problem?: string,
  ): Promise<undefined> {
    const { interaction } = state
    const { passkeys: own, hasApp, hasRecovery } = meansOf(state)
    const { t } = views.words(ctx)
    const reason = own.length
      ? t('factors.for_change_passkey')
      : t('sign_in.for_change')
    const data = {
      reason: isForChange(interaction) ? reason : undefined,
      problem: problem && t(`factors.${problem}`),
      failed: problem && ctx.state.requestId,
      passkey: own.length
        ? await passkeys?.useOptions(placeOf(interaction), own)
        : undefined,
      hasApp,
      hasRecovery,
    }
    views.page(ctx, 'second-factor', data, problem ? 400 : 200)
  }

  /** `problem`, `nonce`: of a form that failed. */
  async function showNew(
    ctx: Context,
    state: State,
    problem?: string,
    nonce?: string,
  ): Promise<undefined> {
    const { account, interaction, isPasskeyOnly } = state
    const { t, date } = views.words(ctx)
    const until = await startOrReadGrace(state)
    const hasApp = !isPasskeyOnly && !rules.isOff
    const data = {
      app: hasApp ? await newSecret(dependencies, account, nonce) : undefined,
      passkey: await passkeys?.addOptions(placeOf(interaction), account, []),
      problem: problem && t(`factors.${problem}`),
      later: until
        ? t('factors.later_until', { date: date(until).words })
        : undefined,
    }
    views.page(ctx, 'add-factor', data, problem ? 400 : 200)
  }

  async function showCodes(
    ctx: Context,
    { id }: Account,
    codes: string[],
    added: Factor,
  ): Promise<undefined> {
    const session = await site.browserSession.read(ctx)
    const elsewhere = await elsewhereOf(ctx, site, id, session?.uid)
    views.page(ctx, 'recovery-codes', {
      codes,
      added,
      isSignIn: true,
      elsewhere,
    })
  }

  /** Shows the recovery codes of the added factor again. */
  function showCodesAgain(ctx: Context, { account, own, added }: State) {
    const factor = required(added)
    const codes = factors.codesOf(own, factor.id)
    return showCodes(ctx, account, codes, factor)
  }

  /** Returns the answer with this sign-in, for the step or for the session. */
  async function answerWith(
    { account, interaction }: State,
    login: Login,
  ): Promise<Outcome> {
    return interaction.step
      ? flow.answerAfter('second_factor', account, login)
      : { login }
  }

  /** Checks the passkey or the code of a form. */
  async function submitUse(
    ctx: Context,
    state: State,
    form: Form,
  ): Promise<Outcome | undefined> {
    const login = await useFactor(ctx, state, form)
    if (!(login instanceof Refused)) return answerWith(state, login)
    return showUse(
      ctx,
      state,
      form.value('passkey') ? 'passkey_failed' : 'wrong',
    )
  }

  /**
   * Checks a passkey, a recovery code, or a code of an app. Returns the sign-in
   * with it.
   */
  async function useFactor(
    ctx: Context,
    state: State,
    form: Form,
  ): Promise<Login | Refused> {
    const text = form.value('passkey')
    if (passkeys && text) return usePasskey(ctx, state, passkeys, text)
    const recovery = form.value('recovery')
    if (recovery) return useRecoveryCode(ctx, state, recovery)
    return useApp(ctx, state, form.value('code'))
  }

  async function usePasskey(
    ctx: Context,
    state: State,
    known: Passkeys,
    text: string,
  ): Promise<Login | Refused> {
    const { account, login, interaction } = state
    const isForeign = !(await known.has(account.id, credentialIn(text).id))
    const about = { ...attemptOf(state, 'passkey'), isForeign }
    const use = useOf(ctx)
    return attempt(ctx, 'second_factor', about, async () => {
      const answer = { text, place: placeOf(interaction), use, ctx }
      const options = { mustVerify: false }
      return raised(login, await known.use(account.id, answer, options))
    })
  }

  async function useRecoveryCode(
    ctx: Context,
    state: State,
    code: string,
  ): Promise<Login | Refused> {
    const { account, login } = state
    const { hasRecovery } = meansOf(state)
    const about = attemptOf(state, 'recovery_code')
    return attempt(ctx, 'second_factor', about, async () => {
      const isRight =
        hasRecovery && (await factors.useRecovery(account.id, code))
      if (!isRight) throw new Refused('wrong_code')
      return withCode(login, RECOVERY_AMR)
    })
  }

  async function useApp(
    ctx: Context,
    state: State,
    code: string,
  ): Promise<Login | Refused> {
    const { account, login } = state
    const { hasApp } = meansOf(state)
    const about = attemptOf(state, 'totp')
    const used = useOf(ctx)
    const use = (factor: Factor) =>
      isPasskey(factor) ? undefined : useCode(factor, code, used)
    return attempt(ctx, 'second_factor', about, async () => {
      const isRight = hasApp && (await factors.replaceFactor(account.id, use))
      if (!isRight) throw new Refused('wrong_code')
      return withCode(login, 'otp')
    })
  }

  /** Adds the factor of a form, or lets the user sign in without one. */
  async function submitNew(
    ctx: Context,
    state: State,
    form: Form,
  ): Promise<Outcome | undefined> {
    const { account, login, interaction } = state
    const isLater =
      form.value('decision') === 'later' && (await startOrReadGrace(state)) > 0
    if (isLater) return answerWith(state, login)
    const at = {
      place: placeOf(interaction),
      uid: interaction.uid,
      words: views.words(ctx),
    }
    const result = await addFactor(ctx, dependencies, account.id, form, at)
    if ('codes' in result)
      return showCodes(ctx, account, result.codes, result.factor)
    return showNew(ctx, state, result.problem, form.value('nonce'))
  }

  /** Completes the sign-in with the factor that was added, and names it. */
  async function completeAddedFactor(
    ctx: Context,
    state: State,
    form: Form,
  ): Promise<Outcome> {
    const { account, login } = state
    const added = required(state.added)
    metrics.secondFactors.inc({ factor: added.type, outcome: 'ok' })
    await nameFactor(factors, account.id, added.id, form)
    await site.authentication.rememberBrowser(ctx, account, added.created)
    if (form.value('others')) await endOthers(ctx, account)
    return answerWith(
      state,
      isPasskey(added) ? raised(login, added) : withCode(login, 'otp'),
    )
  }

  /** Ends the other sessions, which began without the new factor. */
  async function endOthers(ctx: Context, { id }: Account) {
    const session = await site.browserSession.read(ctx)
    const others = (await browsersOf(site, id)).filter(
      ({ uid }) => uid !== session?.uid,
    )
    await endBrowsers(ctx, site.sessions, id, others)
  }

  return {
    async show(ctx, interaction) {
      const state = await readState(ctx, interaction)
      const action = pageAction({ ...state, hasSeenCodes: false })
      if (action === 'showCodes') return showCodesAgain(ctx, state)
      if (action === 'offerFactor') return showNew(ctx, state)
      return showUse(ctx, state)
    },

    async submit(ctx, interaction, form) {
      const state = await readState(ctx, interaction)
      // A form with a factor that was added before was sent again, because its
      // answer was lost.
      const hasSeenCodes = !form.value('nonce') && !form.value('passkey')
      const action = pageAction({ ...state, hasSeenCodes })
      if (action === 'done') return completeAddedFactor(ctx, state, form)
      if (action === 'showCodes') return showCodesAgain(ctx, state)
      if (action === 'offerFactor') return submitNew(ctx, state, form)
      return submitUse(ctx, state, form)
    },
  }
}
