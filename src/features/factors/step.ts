// The page on which users use a second factor, or add the first one: after the password, and for a session that
// a request demands more of.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import type { Account } from '../../accounts/account.ts'
import { accountCounter } from '../../accounts/authentication.ts'
import { type Login, TWO_FACTOR_ACR } from '../../accounts/sign-in-method.ts'
import type { Settings } from '../../config/load.ts'
import { note } from '../../http/audit.ts'
import { clientInfoOf } from '../../http/client-info.ts'
import type { Form } from '../../http/forms.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { PromptPage } from '../../pages/interaction.ts'
import type { Site } from '../../pages/site.ts'
import type { Interaction, Outcome } from '../../provider/interactions.ts'
import { now } from '../../storage/store.ts'
import type { FactorStore, Factors, Method, Rules } from './factors.ts'
import { confirmTotp, describeSecret, useCode } from './totp.ts'

/** Dependencies of the pages of this feature. */
export interface Parts {
  settings: Settings
  factors: FactorStore
  rules: Rules
}

/** Authentication methods (RFC 8176); recovery codes have a value of Usher. */
const AMR: Record<Method, string> = { totp: 'otp', recovery_code: 'recovery_code' }
const MAX_NAME_CHARS = 60

/** The name of a factor in a form. */
export const nameIn = (form: Form) =>
  form
    .value('name')
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, MAX_NAME_CHARS)

/** The latest use of a factor is this request. */
export const useOf = (ctx: Context) => ({ at: now(), client: clientInfoOf(ctx) })

/** Returns the data of a page that shows a new secret. `given`: the nonce of a form with a wrong code. */
export async function newSecret({ settings, factors }: Parts, account: Account, given = '') {
  const { factors: known } = await factors.read(account.id)
  // The key of an app that was added is never shown again: its nonce is its id.
  const isOpen = NONCE.test(given) && !known.some(({ id }) => id === given)
  const nonce = isOpen ? given : randomBytes(12).toString('base64url')
  const bytes = factors.secretOf(account.id, nonce)
  return { nonce, ...describeSecret(bytes, settings.branding.name, account.username) }
}

/** A random text on the page with a new secret. It also becomes the id of the factor. */
const NONCE = /^[\w-]{16}$/

/** Adds the app of a form. Returns the new recovery codes; undefined if the code is wrong. */
export async function addApp(
  ctx: Context,
  { factors }: Parts,
  id: string,
  form: Form,
  uid?: string,
) {
  const nonce = form.value('nonce')
  if (!NONCE.test(nonce)) return undefined
  const about = { id: nonce, name: nameIn(form), code: form.value('code'), use: useOf(ctx) }
  const app = confirmTotp(factors.secretOf(id, nonce), about)
  const codes = app && (await factors.add(id, app, uid))
  if (codes) note(ctx, 'second_factor_added', { account: id, factor: 'totp' })
  return codes
}

/** Returns the page. */
export function createStepPage(site: Site, parts: Parts & { metrics: Metrics }): PromptPage {
  const { settings, factors, rules, metrics } = parts
  const { views, authentication, interactions, directory, records } = site

  /** The user and the sign-in so far. Throws 400 if it has ended. */
  async function read(ctx: Context, { pending, accountId }: Interaction) {
    const session = pending ? undefined : await site.sessionOf(ctx)
    const login = pending?.login ?? {
      accountId: session?.accountId ?? '',
      ts: session?.since ?? 0,
      amr: session?.amr ?? [],
      acr: session?.acr,
    }
    const isSame = pending || (session && session.accountId === accountId)
    const account = isSame && (await directory.findEnabled(login.accountId, login.ts))
    if (!account) return ctx.throw(400, { error: 'interaction_gone' })
    return { account, login, found: await factors.read(account.id) }
  }
  type State = Awaited<ReturnType<typeof read>>

  /** Epoch seconds until which the user may sign in without a factor. Zero if there is no such time. */
  async function graceOf({ pending }: Interaction, account: Account): Promise<number> {
    const seconds = settings.sign_in.second_factor_grace
    if (!pending || !seconds || !rules.isRequired(account)) return 0
    const due = await factors.startGrace(account.id, seconds)
    return due > now() ? due : 0
  }

  function ask(ctx: Context, { recovery }: Factors, isWrong = false): undefined {
    const problem = isWrong ? views.words(ctx).t('factors.wrong') : undefined
    const failed = isWrong ? ctx.state.requestId : undefined
    const data = { problem, failed, hasRecovery: recovery.length > 0 }
    views.page(ctx, 'second-factor', data, isWrong ? 400 : 200)
  }

  async function enrol(ctx: Context, interaction: Interaction, account: Account, nonce?: string) {
    const { t, date } = views.words(ctx)
    const until = await graceOf(interaction, account)
    const data = {
      app: await newSecret(parts, account, nonce),
      problem: nonce === undefined ? undefined : t('factors.wrong'),
      later: until ? t('factors.later_until', { date: date(until).words }) : undefined,
    }
    views.page(ctx, 'add-factor', data, nonce === undefined ? 200 : 400)
  }

  /** The answer that goes on with two factors. */
  function proceed(state: State, interaction: Interaction, method: Method): Promise<Outcome> {
    const { account, login: before } = state
    metrics.secondFactor(method, 'ok')
    const amr = [...new Set([...before.amr, AMR[method], 'mfa'])]
    const login: Login = { ...before, amr, acr: TWO_FACTOR_ACR }
    const { pending } = interaction
    return pending
      ? interactions.completeSignIn(account, login, pending)
      : Promise.resolve({ login })
  }

  /** Checks a code of an app, or a recovery code. */
  async function checkCode(ctx: Context, { account, login }: State, form: Form, uid: string) {
    const [code, recovery] = [form.value('code'), form.value('recovery')]
    const method: Method = recovery ? 'recovery_code' : 'totp'
    const interaction = records.keyedHash('interaction', uid).toString('base64url')
    const about = { client_id: ctx.state.clientId ?? '', interaction, factor: method }
    const succeed = await authentication.count(ctx, accountCounter(account.id), account)
    if (succeed && (await isRight(ctx, account, { code, recovery }))) {
      await succeed('whole')
      authentication.complete(ctx, account, login.ts, about)
      return method
    }
    const [event, reason] = succeed
      ? (['second_factor_failed', 'wrong_code'] as const)
      : (['second_factor_throttled', 'throttled'] as const)
    note(ctx, event, { ...about, account: account.id, reason })
    metrics.secondFactor(method, 'failed')
  }

  function isRight(ctx: Context, { id }: Account, typed: { code: string; recovery: string }) {
    if (typed.recovery) return factors.useRecovery(id, typed.recovery)
    const use = useOf(ctx)
    return factors.use(id, app => useCode(app, typed.code, use))
  }

  return {
    async show(ctx, interaction) {
      const { account, found } = await read(ctx, interaction)
      if (factors.isAddedIn(found, interaction.uid)) return showCodes(ctx, [])
      if (found.factors.length) return ask(ctx, found)
      await enrol(ctx, interaction, account)
    },

    async submit(ctx, interaction, form) {
      const state = await read(ctx, interaction)
      const { account, login, found } = state
      const { uid, pending } = interaction
      if (factors.isAddedIn(found, uid)) return proceed(state, interaction, 'totp')
      if (found.factors.length) {
        const method = await checkCode(ctx, state, form, uid)
        return method ? proceed(state, interaction, method) : ask(ctx, found, true)
      }
      if (form.value('decision') === 'later' && (await graceOf(interaction, account))) {
        return interactions.completeSignIn(account, login, pending)
      }
      const codes = await addApp(ctx, parts, account.id, form, uid)
      if (codes) return showCodes(ctx, codes)
      await enrol(ctx, interaction, account, form.value('nonce'))
    },
  }

  function showCodes(ctx: Context, codes: string[]): undefined {
    views.page(ctx, 'recovery-codes', { codes })
  }
}
