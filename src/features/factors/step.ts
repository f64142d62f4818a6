// The page on which users use a second factor, or add the first one: after the password, and for a session that
// a request demands more of.

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { Secret, TOTP } from 'otpauth'
import { renderSVG } from 'uqr'
import { elsewhereOf, endBrowsers } from '../../account/sessions.ts'
import { browsersOf } from '../../account/signed-in-browsers.ts'
import type { Settings } from '../../config/load.ts'
import { beginningOf, shownName } from '../../oidc/display-text.ts'
import type { Interaction, Login, Outcome } from '../../oidc/interactions.ts'
import { TWO_FACTOR_ACR } from '../../oidc/vocabulary.ts'
import { note } from '../../operation/audit.ts'
import type { Form } from '../../operation/forms.ts'
import type { Metrics } from '../../operation/metrics.ts'
import type { Account } from '../../sign-in/account.ts'
import { isForChange, type PromptPage } from '../../sign-in/interaction-pages.ts'
import type { Site } from '../../sign-in/site.ts'
import { now } from '../../store/store.ts'
import { createAttempts, placeOf, useOf } from './attempts.ts'
import {
  asciiDigits,
  type Factor,
  type FactorStore,
  isPasskey,
  type Method,
  type Totp,
  type Use,
} from './factors.ts'
import { credentialIn, type Passkeys, Refused, raised } from './passkeys.ts'
import { isStrongest, PHISHING_RESISTANT, RECOVERY_AMR, type Rules } from './rules.ts'

/** Dependencies of the pages of this feature. `passkeys`: absent if they are off. */
export interface Parts {
  settings: Settings
  factors: FactorStore
  passkeys?: Passkeys
  rules: Rules
}

const MAX_NAME_CHARS = 60

/** The name of a factor in a form. */
const nameIn = (form: Form) => beginningOf(shownName(form.value('name')), MAX_NAME_CHARS)

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

/** The result of `addFactor`. `problem`: the end of the key of its text, `factors.PROBLEM`. */
type Added = { codes: string[]; problem?: undefined } | { codes?: undefined; problem: string }

/** Adds the app or the passkey of a form. Returns the new recovery codes. `uid`: of the interaction. */
export async function addFactor(
  ctx: Context,
  { factors, passkeys, rules }: Parts,
  id: string,
  form: Form,
  { place, uid }: { place: string; uid?: string },
): Promise<Added> {
  const [nonce, code, answer] = [form.value('nonce'), form.value('code'), form.value('passkey')]
  const [name, use] = [nameIn(form), useOf(ctx)]
  const logged = (error: unknown) => {
    if (!(error instanceof Refused)) throw error
    ctx.state.log.detail = `${error.reason}: ${error.message}`
  }
  const isAppAllowed = !rules.isOff && NONCE.test(nonce)
  const secret = isAppAllowed ? secretFrom(factors.secretOf(id, nonce)).base32 : ''
  const confirmApp = () => {
    if (!isAppAllowed) return undefined
    return useCode({ type: 'totp', id: nonce, name, created: use.at, secret, step: 0 }, code, use)
  }
  const factor = answer
    ? await passkeys?.confirm(place, answer, name, use, ctx).catch(logged)
    : confirmApp()
  const codes = factor ? await factors.add(id, factor, uid) : undefined
  if (codes && factor) note(ctx, 'second_factor_added', { account: id, factor: factor.type })
  if (codes) return { codes }
  if (answer) return { problem: 'passkey_not_added' }
  const isLate = isAppAllowed && !factor && deltaOf(secret, code, Date.now(), CLOCK_WINDOW) !== null
  return { problem: isLate ? 'clock' : 'wrong' }
}

/** Returns the page. */
export function createStepPage(site: Site, parts: Parts & { metrics: Metrics }): PromptPage {
  const { settings, factors, passkeys, rules, metrics } = parts
  const { views, flow, directory } = site
  const attempt = createAttempts(site, metrics)

  /** The user and the sign-in so far. Throws 400 if it has ended. */
  async function read(ctx: Context, interaction: Interaction) {
    const { step, accountId, prompt, uid } = interaction
    const session = step ? undefined : await site.browserSession.read(ctx)
    const login = step?.login ?? {
      accountId: session?.accountId ?? '',
      ts: session?.since ?? 0,
      amr: session?.amr ?? [],
      acr: session?.acr,
    }
    const isSame = step || (session && session.accountId === accountId)
    const account = isSame && (await directory.findEnabled(login.accountId, login.ts))
    if (!account) return ctx.throw(400, { error: 'interaction_gone' })
    const found = rules.usable(await factors.read(account.id))
    const own = found.factors.filter(isPasskey)
    const isPasskeyOnly = prompt.reasons.includes(PHISHING_RESISTANT)
    // An account without a passkey adds one, after the use of the factor that it has.
    const mustAdd = isPasskeyOnly ? !own.length && isStrongest(login, found) : !found.factors.length
    const mayRecover = !isPasskeyOnly || !own.length || isForChange(interaction)
    const latest = factors.isAddedIn(found, uid) ? found.factors.at(-1) : undefined
    return {
      account,
      login,
      own,
      isPasskeyOnly,
      mustAdd,
      added: latest && (!isPasskeyOnly || isPasskey(latest)) ? latest : undefined,
      /** The recovery codes that came with it. */
      codes: latest ? factors.codesOf(found, latest.id) : [],
      hasApp: found.factors.length > own.length && (!isPasskeyOnly || !own.length),
      hasRecovery: mayRecover && found.recovery.length > 0,
      interaction,
    }
  }
  type State = Awaited<ReturnType<typeof read>>

  /** Epoch seconds until which the user may sign in without a factor. Zero if there is no such time. */
  async function graceOf({ account, interaction }: State): Promise<number> {
    const seconds = settings.sign_in.second_factor_grace
    if (!interaction.step || !seconds || !rules.isRequired(account)) return 0
    const due = await factors.startGrace(account.id, seconds)
    return due > now() ? due : 0
  }

  async function ask(ctx: Context, state: State, problem?: string): Promise<undefined> {
    const { own, hasApp, hasRecovery, interaction } = state
    const { t } = views.words(ctx)
    const reason = own.length ? t('factors.for_change_passkey') : t('sign_in.for_change')
    const data = {
      reason: isForChange(interaction) ? reason : undefined,
      problem: problem && t(`factors.${problem}`),
      failed: problem && ctx.state.requestId,
      passkey: own.length ? await passkeys?.useOptions(placeOf(interaction), own) : undefined,
      hasApp,
      hasRecovery,
    }
    views.page(ctx, 'second-factor', data, problem ? 400 : 200)
  }

  async function enrol(ctx: Context, state: State, problem?: string, nonce?: string) {
    const { account, interaction, isPasskeyOnly } = state
    const { t, date } = views.words(ctx)
    const until = await graceOf(state)
    const hasApp = !isPasskeyOnly && !rules.isOff
    const data = {
      app: hasApp ? await newSecret(parts, account, nonce) : undefined,
      passkey: await passkeys?.addOptions(placeOf(interaction), account, []),
      problem: problem && t(`factors.${problem}`),
      later: until ? t('factors.later_until', { date: date(until).words }) : undefined,
    }
    views.page(ctx, 'add-factor', data, problem ? 400 : 200)
  }

  /** The answer that goes on with two factors. */
  async function proceed({ account, interaction }: State, login: Login): Promise<Outcome> {
    return interaction.step ? flow.completeSignIn(account, login, 'second_factor') : { login }
  }

  const withCode = ({ login }: State, method: string): Login => {
    const amr = [...new Set([...login.amr, method, 'mfa'])]
    return { ...login, amr, acr: TWO_FACTOR_ACR }
  }

  /** Checks a passkey, a code of an app, or a recovery code. Returns the sign-in with it. */
  async function use(ctx: Context, state: State, form: Form): Promise<Login | Refused> {
    const { account, login, interaction, hasApp, hasRecovery } = state
    const { id } = account
    const [answer, recovery] = [passkeys && form.value('passkey'), form.value('recovery')]
    const factor: Method = answer ? 'passkey' : recovery ? 'recovery_code' : 'totp'
    const isForeign =
      passkeys && answer ? !(await passkeys.has(id, credentialIn(answer).id)) : false
    const about = { factor, account, isForeign, since: login.ts, interaction }
    return attempt(ctx, 'second_factor', about, async () => {
      const used = useOf(ctx)
      if (passkeys && answer) {
        return raised(login, await passkeys.use(id, placeOf(interaction), answer, used, false, ctx))
      }
      const next = (one: Factor) =>
        isPasskey(one) ? undefined : useCode(one, form.value('code'), used)
      const isRight = recovery
        ? hasRecovery && (await factors.useRecovery(id, recovery))
        : hasApp && (await factors.use(id, next))
      if (!isRight) throw new Refused('wrong_code')
      return withCode(state, recovery ? RECOVERY_AMR : 'otp')
    })
  }

  async function showCodes(ctx: Context, { id }: Account, codes: string[]): Promise<undefined> {
    const session = await site.browserSession.read(ctx)
    const elsewhere = await elsewhereOf(views.words(ctx), site.records, id, session?.uid)
    views.page(ctx, 'recovery-codes', { codes, elsewhere })
  }

  /** Ends the other sessions, which began without the new factor. */
  async function endOthers(ctx: Context, { id }: Account) {
    const session = await site.browserSession.read(ctx)
    const others = (await browsersOf(site.records, id)).filter(({ uid }) => uid !== session?.uid)
    await endBrowsers(ctx, site.sessions, id, others)
  }

  return {
    async show(ctx, interaction) {
      const state = await read(ctx, interaction)
      if (state.added) return showCodes(ctx, state.account, state.codes)
      if (state.mustAdd) return enrol(ctx, state)
      await ask(ctx, state)
    },

    async submit(ctx, interaction, form) {
      const state = await read(ctx, interaction)
      const { account, login, added } = state
      const isPasskeySent = form.value('passkey') !== ''
      // The form that added the factor was sent again, because its answer was lost.
      const isSentAgain = form.value('nonce') !== '' || isPasskeySent
      if (added && isSentAgain) return showCodes(ctx, account, state.codes)
      if (added) {
        metrics.secondFactors.inc({ factor: added.type, outcome: 'ok' })
        await site.authentication.remember(ctx, account, added.created)
        if (form.value('others')) await endOthers(ctx, account)
        return proceed(state, isPasskey(added) ? raised(login, added) : withCode(state, 'otp'))
      }
      if (!state.mustAdd) {
        const used = await use(ctx, state, form)
        if (!(used instanceof Refused)) return proceed(state, used)
        return ask(ctx, state, isPasskeySent ? 'passkey_failed' : 'wrong')
      }
      if (form.value('decision') === 'later' && (await graceOf(state))) {
        return flow.completeSignIn(account, login, 'second_factor')
      }
      const at = { place: placeOf(interaction), uid: interaction.uid }
      const { codes, problem } = await addFactor(ctx, parts, account.id, form, at)
      if (codes) return showCodes(ctx, account, codes)
      await enrol(ctx, state, problem, form.value('nonce'))
    },
  }
}

// One-time codes of an app (TOTP, RFC 6238): six digits, each valid for 30 s, with SHA-1, as all apps have it.

/** Steps of 30 s by which the clocks of app and server may differ. */
const WINDOW = 1
/** A code of these steps shows, while an app is added, that the clock of the phone is wrong: ten minutes. */
const CLOCK_WINDOW = 20

/** Returns the secret of a new app: as text in groups of four, and as QR code (SVG) of its URI. */
export function describeSecret(bytes: Buffer, issuer: string, label: string) {
  const secret = secretFrom(bytes)
  const totp = new TOTP({ secret, issuer: plain(issuer), label: plain(label) })
  return {
    secret: secret.base32.replace(/(.{4})(?=.)/g, '$1 '),
    qr: renderSVG(totp.toString(), { ecc: 'M', border: 2 }),
  }
}

/** A colon separates issuer and label in the URI. */
const plain = (text: string) => text.replaceAll(':', ' ')

const secretFrom = (bytes: Buffer) =>
  new Secret({ buffer: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) })

/** Returns the steps by which the clock of a code differs; null for a code that is wrong within this window. */
function deltaOf(base32: string, typed: string, timestamp: number, window: number) {
  // Apps and keyboards write 123 456, 123-456, and digits of other scripts.
  const token = asciiDigits(typed).replace(/\D/g, '')
  if (!/^\d{6}$/.test(token)) return null
  return TOTP.validate({ token, secret: Secret.fromBase32(base32), window, timestamp })
}

/** Returns the app after the use of a code; undefined if the code is wrong, or was used before. */
function useCode(app: Totp, typed: string, used: Use): Totp | undefined {
  const timestamp = Date.now()
  const delta = deltaOf(app.secret, typed, timestamp, WINDOW)
  if (delta === null) return undefined
  const step = TOTP.counter({ timestamp }) + delta
  return step > app.step ? { ...app, step, used } : undefined
}
