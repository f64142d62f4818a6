// The account page of factors: passkeys, apps, and recovery codes. Every change
// needs a proof (sign-in/changes.ts).

import type { Context } from 'koa'
import { elsewhereOf } from '../../account/sessions.ts'
import { note } from '../../operation/audit.ts'
import type { PageData } from '../../pages/page-data.ts'
import type { Translate, Words } from '../../pages/words.ts'
import type { SignedIn, Site, Submitted } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { addFactor, type FactorDependencies, newSecret } from './add-factor.ts'
import { placeOf } from './attempts.ts'
import { type Factor, type Factors, isPasskey } from './factors.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** The factors of an account. */
    factors: {
      title: string
      factors: {
        id: string
        type: Factor['type']
        name: string
        created: When
        /** `where`: the browser and system; empty if unknown. */
        used?: When & { where: string }
      }[]
      /** Whether the user can add an app. */
      hasApps: boolean
      /**
       * The passkeys that are valid, for `signalAllAcceptedCredentials`, as
       * JSON; absent if they are off.
       */
      passkeys?: string
      /** The last factor of an account that needs one: it cannot be removed. */
      isLast: boolean
      /** How many recovery codes are left, as text. */
      left: string
      /** The result of the last change. */
      outcome?: string
      elsewhere?: Elsewhere
    }
    /** The account page that adds an app for one-time codes, or a passkey. */
    'new-factor': Pick<PageData['add-factor'], 'app' | 'passkey' | 'problem'>
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
     * New recovery codes. `area`: the path of the account page; absent during a
     * sign-in.
     */
    'recovery-codes': { codes: string[]; area?: string; elsewhere?: Elsewhere }
  }
}

/**
 * The other browsers with a session, as text, and the path that ends them (ASVS
 * 5.0 7.4.3).
 */
type Elsewhere = Awaited<ReturnType<typeof elsewhereOf>>

/** `secret`: as text in groups; `qr`: as SVG, of the same. */
type NewApp = { nonce: string; secret: string; qr: string }

/** The path of the page. */
export const FACTORS_PAGE = '/account/factors'

/** Returns the title of the page. */
export const titleOf =
  ({ passkeys, rules }: FactorDependencies) =>
  (t: Translate) => {
    if (!passkeys) return t('factors.title')
    return t(rules.isOff ? 'factors.passkeys' : 'factors.title_passkeys')
  }

/**
 * Returns the text for the result of the last change; undefined if there was
 * none.
 */
function outcomeOf({ query }: Context, t: Translate): string | undefined {
  if (query.outcome === 'added') return t('factors.ready')
  if (query.outcome === 'removed') return t('factors.removed')
  return undefined
}

/** Returns a factor as the page shows it. */
function describeFactor(
  words: Words,
  { id, type, name, created, used }: Factor,
): PageData['factors']['factors'][number] {
  const client = [used?.client?.browser, used?.client?.system]
  const where = client.filter(Boolean).join(', ')
  return {
    id,
    type,
    name: name || words.t(`factors.${type}`),
    created: words.date(created),
    used: used && { ...words.ago(used.at), where },
  }
}

/** Returns the handlers of the page. */
export function createFactorsPage(
  site: Site,
  dependencies: FactorDependencies,
) {
  const { factors, readUsable, passkeys, rules } = dependencies
  const { views } = site
  const addable: Factor['type'][] = []
  if (passkeys) addable.push('passkey')
  if (!rules.isOff) addable.push('totp')

  const isLast = ({ account }: SignedIn, { factors: own }: Factors) =>
    own.length === 1 && rules.isRequired(account)

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

  async function showFactors(ctx: Context, user: SignedIn): Promise<void> {
    const found = await readUsable(user.account.id)
    const words = views.words(ctx)
    const outcome = outcomeOf(ctx, words.t)
    views.page(ctx, 'factors', {
      title: titleOf(dependencies)(words.t),
      factors: found.factors.map(one => describeFactor(words, one)),
      hasApps: !rules.isOff,
      passkeys: accepted(user, found),
      isLast: isLast(user, found),
      left: words.plural('factors.left', found.recovery.length),
      outcome,
      elsewhere: outcome ? await elsewhere(ctx, user) : undefined,
    })
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

  const elsewhere = (ctx: Context, { account, session }: SignedIn) =>
    elsewhereOf(views.words(ctx), site, account.id, session.uid)

  async function showCodes(ctx: Context, user: SignedIn, codes: string[]) {
    const shown = {
      codes,
      area: FACTORS_PAGE,
      elsewhere: await elsewhere(ctx, user),
    }
    views.page(ctx, 'recovery-codes', shown)
  }

  /** Adds the app or the passkey of a form. */
  async function submitNew(ctx: Context, user: Submitted) {
    const { account, session, form } = user
    const at = { place: placeOf(session) }
    const result = await addFactor(ctx, dependencies, account.id, form, at)
    if ('problem' in result)
      return showNew(ctx, user, result.problem, form.value('nonce'))
    await site.authentication.remember(ctx, account, now())
    if (result.codes.length) return showCodes(ctx, user, result.codes)
    ctx.redirect(`${FACTORS_PAGE}?outcome=added`)
  }

  async function renewCodes(ctx: Context, user: Submitted) {
    const { id } = user.account
    const codes = await factors.renewRecovery(id)
    if (!codes) return ctx.redirect(FACTORS_PAGE)
    note(ctx, 'recovery_codes_created', { account: id })
    await showCodes(ctx, user, codes)
  }

  async function removeFactor(ctx: Context, { account, form }: Submitted) {
    const isEnough = (remaining: Factors) =>
      rules.usable(remaining).factors.length > 0 || !rules.isRequired(account)
    const removed = await factors.remove(
      account.id,
      form.value('remove'),
      isEnough,
    )
    if (!removed) return ctx.redirect(FACTORS_PAGE)
    note(ctx, 'second_factor_removed', {
      account: account.id,
      factor: removed.type,
    })
    ctx.redirect(`${FACTORS_PAGE}?outcome=removed`)
  }

  return {
    showFactors,

    /**
     * Whether the request is for the page that adds a factor of a kind that is
     * on.
     */
    isNew: ({ query }: Context) => addable.some(type => type === query.add),

    showNew: (ctx: Context, user: SignedIn) => showNew(ctx, user),

    async submit(ctx: Context, user: Submitted) {
      const { form } = user
      if (form.value('passkey') || form.value('nonce'))
        return submitNew(ctx, user)
      if (form.value('codes')) return renewCodes(ctx, user)
      await removeFactor(ctx, user)
    },
  }
}
