// Adds an app or a passkey to an account, from a form of the account page
// (account-factors.ts) or of a sign-in (factor-step.ts).
//
//             the page has                          its form has        the check
//   app       a nonce; a secret made of it (QR)     nonce, code         the secret is made again; the code is of it
//   passkey   options with a challenge              answer of the       passkeys.ts: the challenge is of this place,
//                                                   browser             and is used once
//
//   check → FactorStore.add: one change of the record → audit event → the recovery codes, if there were none

import { randomBytes } from 'node:crypto'
import type { Context } from 'koa'
import { nameOf } from '../../account/signed-in-browsers.ts'
import type { Settings } from '../../config/load.ts'
import { beginningOf, shownName } from '../../oidc/display-text.ts'
import { note } from '../../operation/audit.ts'
import { clientInfoOf } from '../../operation/client-info.ts'
import type { Form } from '../../operation/forms.ts'
import type { Metrics } from '../../operation/metrics.ts'
import type { Words } from '../../pages/words.ts'
import type { Account } from '../../sign-in/account.ts'
import { Refused, useOf } from './attempts.ts'
import type { Factor, FactorStore, Factors, Passkey, Totp } from './factors.ts'
import type { Passkeys } from './passkeys.ts'
import type { Rules } from './rules.ts'
import { describeSecret, isClockWrong, secretText, useCode } from './totp.ts'

/** The objects that the pages of this feature use. */
export interface FactorDependencies {
  settings: Settings
  metrics: Metrics
  factors: FactorStore
  /** Returns the factors of an account that the settings allow to use. */
  readUsable(accountId: string): Promise<Factors>
  rules: Rules
  /** Absent if they are off. */
  passkeys?: Passkeys
}

/**
 * A random text on the page with a new secret. It also becomes the id of the
 * factor.
 */
const NONCE = /^[\w-]{16}$/
const NONCE_BYTES = 12

/**
 * Returns the data of a page that shows a new secret. `given`: the nonce of a
 * form with a wrong code.
 */
export async function newSecret(
  { settings, factors }: FactorDependencies,
  account: Account,
  given = '',
) {
  const { factors: known } = await factors.read(account.id)
  // The key of an app that was added is never shown again: its nonce is its id.
  const isOpen = NONCE.test(given) && !known.some(({ id }) => id === given)
  const nonce = isOpen ? given : randomBytes(NONCE_BYTES).toString('base64url')
  const bytes = factors.secretOf(account.id, nonce)
  return {
    nonce,
    ...describeSecret(bytes, settings.branding.name, account.username),
  }
}

/** Why no factor was added: the end of the key of a text, `factors.PROBLEM`. */
type Problem = 'wrong' | 'clock' | 'passkey_not_added'

/**
 * The new factor and the new recovery codes, which may be none; or the problem.
 */
type Added = { factor: Factor; codes: string[] } | { problem: Problem }

/**
 * The form with a new factor: its place, the uid of its interaction, and its
 * language.
 */
interface Adding {
  place: string
  uid?: string
  words: Words
}

/** The longest name of a factor. */
const MAX_NAME_CHARS = 60

/**
 * Gives a factor the name of a form. Without one, it keeps the name that it has.
 * Returns whether the name has changed.
 */
export async function nameFactor(
  factors: FactorStore,
  accountId: string,
  id: string,
  form: Form,
): Promise<boolean> {
  const name = beginningOf(shownName(form.value('name')), MAX_NAME_CHARS)
  return factors.replaceFactor(accountId, factor => {
    const isOther = factor.id === id && name !== '' && factor.name !== name
    return isOther ? { ...factor, name } : undefined
  })
}

/** Returns the name of a new factor: that of the browser and the system. */
function newName(ctx: Context, words: Words, type: Factor['type']) {
  const { browser, system } = clientInfoOf(ctx)
  if (type === 'passkey' && (browser || system))
    return nameOf(words, { browser, system })
  return words.t(`factors.${type}`)
}

/** Adds the app or the passkey of a form, with the usual name. */
export async function addFactor(
  ctx: Context,
  own: FactorDependencies,
  accountId: string,
  form: Form,
  { place, uid, words }: Adding,
): Promise<Added> {
  const isPasskeySent = form.value('passkey') !== ''
  const name = newName(ctx, words, isPasskeySent ? 'passkey' : 'totp')
  const factor = isPasskeySent
    ? await newPasskey(ctx, own, form, { place, name })
    : newApp(ctx, own, form, { accountId, name })
  if (typeof factor === 'string') return { problem: factor }
  const codes = await own.factors.add(accountId, factor, uid)
  if (!codes) return { problem: isPasskeySent ? 'passkey_not_added' : 'wrong' }
  note(ctx, 'second_factor_added', { account: accountId, factor: factor.type })
  return { factor, codes }
}

async function newPasskey(
  ctx: Context,
  { passkeys }: FactorDependencies,
  form: Form,
  { place, name }: { place: string; name: string },
): Promise<Passkey | Problem> {
  if (!passkeys) return 'passkey_not_added'
  try {
    const answer = { text: form.value('passkey'), place, use: useOf(ctx), ctx }
    return await passkeys.confirm(answer, name)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    ctx.state.log.detail = `${error.reason}: ${error.message}`
    return 'passkey_not_added'
  }
}

function newApp(
  ctx: Context,
  { factors, rules }: FactorDependencies,
  form: Form,
  { accountId, name }: { accountId: string; name: string },
): Totp | Problem {
  const nonce = form.value('nonce')
  const code = form.value('code')
  if (rules.isOff || !NONCE.test(nonce)) return 'wrong'
  const use = useOf(ctx)
  const app: Totp = {
    type: 'totp',
    id: nonce,
    name,
    created: use.at,
    secret: secretText(factors.secretOf(accountId, nonce)),
    step: 0,
  }
  const used = useCode(app, code, use)
  if (used) return used
  return isClockWrong(app, code) ? 'clock' : 'wrong'
}
