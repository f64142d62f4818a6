// The account page of factors: passkeys, apps, and recovery codes. They are a
// part of the security page (account/security.ts). Every change needs a proof
// (sign-in/changes.ts).

import type { Context } from 'koa'
import {
  type FactorProtection,
  type FactorsOfAccount,
  type FactorsSection,
  type Outcome,
  type ShownFactor,
  shownVerdict,
} from '../../account/security.ts'
import { elsewhereOf } from '../../account/sessions.ts'
import { nameOf } from '../../account/signed-in-browsers.ts'
import { note } from '../../operation/audit.ts'
import { PLACES } from '../../pages/page-data.ts'
import type { Words } from '../../pages/words.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import {
  addFactor,
  type FactorDependencies,
  nameFactor,
  newSecret,
} from './add-factor.ts'
import { placeOf } from './attempts.ts'
import {
  type Factor,
  type Factors,
  isPasskey,
  withoutFactor,
} from './factors.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** The account page that adds an app for one-time codes, or a passkey. */
    'new-factor': Pick<PageData['add-factor'], 'app' | 'passkey' | 'problem'>
    /** The account page that names a factor. `isAdded`: it is new. */
    'name-factor': {
      id: string
      type: Factor['type']
      name: string
      isAdded: boolean
    }
  }
}

/** The results of a change, as the query of the security page names them. */
const OUTCOMES = ['added', 'removed', 'renamed', 'unchanged'] as const
type Result = (typeof OUTCOMES)[number]

/** Returns the text for the result of the last change of factors. */
function outcomeOf({ query }: Context, { t }: Words): Outcome | undefined {
  const result = OUTCOMES.find(known => known === query.outcome)
  if (!result) return undefined
  return { text: t(`factors.${result}`), isWrong: result === 'unchanged' }
}

/** Returns the name of a factor on the pages. */
const nameOn = ({ t }: Words, { type, name }: Factor) =>
  name || t(`factors.${type}`)

/** Returns a factor as the security page shows it. */
function describe(words: Words, factor: Factor): ShownFactor {
  const { t } = words
  const { id, created, used } = factor
  const added = t('factors.since', { date: words.date(created).words })
  const shown = { id, name: nameOn(words, factor), created: added }
  if (!used) return shown
  const time = words.ago(used.at).words
  const browser = used.client && nameOf(words, used.client)
  const last = browser
    ? t('factors.used_with', { time, browser })
    : t('factors.used', { time })
  return { ...shown, used: last }
}

/** Returns which factors and recovery codes remain, as sentences. */
function remainingText(words: Words, { factors, recovery }: Factors) {
  if (!factors.length) return [words.t('factors.remaining_none')]
  const names = words.list(factors.map(factor => nameOn(words, factor)))
  const kept = words.t('factors.remaining', { names })
  return [kept, words.plural('factors.left', recovery.length)]
}

/** Returns the part of the account pages that is about factors. */
export function createAccountFactors(
  site: Site,
  dependencies: FactorDependencies,
): FactorsOfAccount {
  const { factors, readUsable, passkeys, rules } = dependencies
  const { views } = site
  const addable: Factor['type'][] = []
  if (passkeys) addable.push('passkey')
  if (!rules.isOff) addable.push('totp')

  const isLast = ({ account }: SignedIn, { factors: own }: Factors) =>
    own.length === 1 && rules.isRequired(account)

  const report = (ctx: Context, result: Result) =>
    ctx.redirect(`${PLACES.security}?outcome=${result}`)

  /**
   * The passkeys of an account that are valid. The browser may forget its
   * others.
   */
  function accepted({ account }: SignedIn, { factors: own }: Factors) {
    const allAcceptedCredentialIds = own.filter(isPasskey).map(({ id }) => id)
    const userId = Buffer.from(account.id).toString('base64url')
    return (
      passkeys &&
      JSON.stringify({ rpId: passkeys.rpID, userId, allAcceptedCredentialIds })
    )
  }

  async function section(
    ctx: Context,
    user: SignedIn,
  ): Promise<FactorsSection> {
    const found = await readUsable(user.account.id)
    const words = views.words(ctx)
    const rowsOf = (type: Factor['type']) =>
      found.factors
        .filter(factor => factor.type === type)
        .map(factor => describe(words, factor))
    return {
      passkeys: passkeys && rowsOf('passkey'),
      apps: rules.isOff ? undefined : rowsOf('totp'),
      accepted: accepted(user, found),
      isLast: isLast(user, found),
      left: found.factors.length
        ? words.plural('factors.left', found.recovery.length)
        : undefined,
    }
  }

  /**
   * Shows the page that adds an app, or a passkey. `problem`, `nonce`: of the
   * form that failed.
   */
  async function showNew(
    ctx: Context,
    user: SignedIn,
    problem = '',
    nonce = '',
  ) {
    const isPasskeyPage = ctx.query.add === 'passkey'
    const shown = isPasskeyPage
      ? { passkey: await passkeyOptions(user) }
      : { app: await newSecret(dependencies, user.account, nonce) }
    const text = problem && views.words(ctx).t(`factors.${problem}`)
    const status = problem ? 400 : 200
    views.page(ctx, 'new-factor', { ...shown, problem: text }, status)
  }

  /** Returns the options with which the browser adds a passkey. */
  async function passkeyOptions({ account, session }: SignedIn) {
    const found = await readUsable(account.id)
    const own = found.factors.filter(isPasskey)
    return passkeys?.addOptions(placeOf(session), account, own)
  }

  /**
   * Shows the page that asks before a factor is removed: the effects, the
   * factors that remain, and whether they are enough.
   */
  async function askRemoval(ctx: Context, user: SignedIn) {
    const found = await readUsable(user.account.id)
    const factor = found.factors.find(({ id }) => id === ctx.query.remove)
    if (!factor || isLast(user, found)) return ctx.redirect(PLACES.security)
    const words = views.words(ctx)
    const { t } = words
    const remaining = withoutFactor(found, factor.id)
    const protection = {
      hasPassword: user.account.password !== undefined,
      ...protectionBy(remaining),
    }
    views.page(ctx, 'confirm', {
      title: t('factors.remove_title', { name: nameOn(words, factor) }),
      effects: [
        t(`factors.remove_${factor.type}`),
        ...remainingText(words, remaining),
      ],
      verdict: shownVerdict(words, protection),
      confirm: t('sign_ins.remove'),
      back: PLACES.security,
    })
  }

  /** Returns how these factors protect an account. */
  function protectionBy({ factors: own, recovery }: Factors): FactorProtection {
    const keys = own.filter(isPasskey).length
    return {
      passkeys: passkeys && keys,
      apps: rules.isOff ? undefined : own.length - keys,
      recoveryCodes: recovery.length,
      isPasswordEnough: rules.isOff,
    }
  }

  /** Shows the page that names a factor. */
  async function showName(ctx: Context, { account }: SignedIn) {
    const { factors: own } = await readUsable(account.id)
    const factor = own.find(({ id }) => id === ctx.query.rename)
    if (!factor) return ctx.redirect(PLACES.security)
    const { id, type } = factor
    const name = nameOn(views.words(ctx), factor)
    const isAdded = ctx.query.outcome === 'added'
    views.page(ctx, 'name-factor', { id, type, name, isAdded })
  }

  /** Adds the app or the passkey of a form. */
  async function submitNew(ctx: Context, user: Submitted) {
    const { account, session, form } = user
    const words = views.words(ctx)
    const at = { place: placeOf(session), words }
    const result = await addFactor(ctx, dependencies, account.id, form, at)
    if ('problem' in result)
      return showNew(ctx, user, result.problem, form.value('nonce'))
    await site.authentication.rememberBrowser(ctx, account, now())
    const { codes, factor } = result
    if (!codes.length) {
      const query = new URLSearchParams({ rename: factor.id, outcome: 'added' })
      return ctx.redirect(`${PLACES.security}?${query}`)
    }
    views.page(ctx, 'recovery-codes', {
      codes,
      added: factor,
      isSignIn: false,
      elsewhere: await elsewhereOf(ctx, site, account.id, session.uid),
    })
  }

  async function renewCodes(ctx: Context, { account, session }: Submitted) {
    const { id } = account
    const codes = await factors.renewRecovery(id)
    if (!codes) return ctx.redirect(PLACES.security)
    note(ctx, 'recovery_codes_created', { account: id })
    views.page(ctx, 'recovery-codes', {
      codes,
      isSignIn: false,
      elsewhere: await elsewhereOf(ctx, site, id, session.uid),
    })
  }

  /** Removes the factor that the URL names: its page has asked. */
  async function removeFactor(ctx: Context, { account }: Submitted) {
    const isEnough = (remaining: Factors) =>
      rules.usable(remaining).factors.length > 0 || !rules.isRequired(account)
    const id = String(ctx.query.remove)
    const removed = await factors.remove(account.id, id, isEnough)
    if (!removed) return ctx.redirect(PLACES.security)
    note(ctx, 'second_factor_removed', {
      account: account.id,
      factor: removed.type,
    })
    report(ctx, 'removed')
  }

  async function rename(ctx: Context, { account, form }: Submitted) {
    const id = form.value('rename')
    const isRenamed = await nameFactor(factors, account.id, id, form)
    if (form.value('added')) return report(ctx, 'added')
    report(ctx, isRenamed ? 'renamed' : 'unchanged')
  }

  return {
    section,

    outcomeOf: ctx => outcomeOf(ctx, views.words(ctx)),

    isChange: ({ query }) =>
      query.remove !== undefined || addable.some(type => type === query.add),
    showChange: (ctx, user) =>
      ctx.query.remove === undefined
        ? showNew(ctx, user)
        : askRemoval(ctx, user),
    isName: ({ query }) => query.rename !== undefined,
    showName,
    isNaming: form => form.value('rename') !== '',

    protectionOf: async ({ id }) => protectionBy(await readUsable(id)),

    async submit(ctx, user) {
      const { form } = user
      if (form.value('rename')) await rename(ctx, user)
      else if (form.value('passkey') || form.value('nonce'))
        await submitNew(ctx, user)
      else if (form.value('codes')) await renewCodes(ctx, user)
      else if (ctx.query.remove !== undefined) await removeFactor(ctx, user)
      else return false
      return true
    },
  }
}
