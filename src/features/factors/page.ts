// The account page of second factors: apps, and recovery codes. Every change needs a sign-in of the last
// minutes, with a second factor if the account has one.

import type { Context } from 'koa'
import { satisfies, TWO_FACTOR_ACR } from '../../accounts/sign-in-method.ts'
import { note } from '../../http/audit.ts'
import { RECENT_SECONDS, type SignedIn, type Site, type Submitted } from '../../pages/site.ts'
import { now } from '../../storage/store.ts'
import type { Factor, Factors } from './factors.ts'
import { addApp, newSecret, type Parts } from './step.ts'

declare module '../../pages/page-data.ts' {
  interface PageData {
    /** The second factors of an account. */
    factors: {
      factors: {
        id: string
        name: string
        created: When
        /** `where`: the browser and system; empty if unknown. */
        used?: When & { where: string }
      }[]
      /** The last factor of an account that needs one: it cannot be removed. */
      isLast: boolean
      /** How many recovery codes are left, as text. */
      left: string
      /** The result of the last change. */
      outcome?: string
    }
    /** The account page that adds an app for one-time codes. */
    'factor-app': { app: NewApp; problem?: string }
    /** The page of a sign-in that adds one. `later`: until when the user can go on without it, as text. */
    'add-factor': { app: NewApp; problem?: string; later?: string }
    /** Asks for a code. `failed`: the request id of a wrong one. */
    'second-factor': { problem?: string; failed?: string; hasRecovery: boolean }
    /** New recovery codes. `area`: the path of the account page; absent during a sign-in. */
    'recovery-codes': { codes: string[]; area?: string }
  }
}

/** `secret`: as text in groups; `qr`: as SVG, of the same. */
type NewApp = { nonce: string; secret: string; qr: string }

/** The path of the page. */
export const FACTORS_PAGE = '/account/factors'

/** Returns the handlers of the page. */
export function createFactorsPage(site: Site, parts: Parts) {
  const { factors, rules } = parts
  const { views } = site

  /** False after a redirect to sign-in. */
  function isProven(ctx: Context, { session }: SignedIn, { factors: own }: Factors): boolean {
    const isRecent = now() - session.since <= RECENT_SECONDS
    if (isRecent && (!own.length || satisfies(session.acr, TWO_FACTOR_ACR))) return true
    const demands = { max_age: String(RECENT_SECONDS) }
    site.signIn(ctx, own.length ? { ...demands, acr_values: TWO_FACTOR_ACR } : demands)
    return false
  }

  const isLast = ({ account }: SignedIn, { factors: own }: Factors) =>
    own.length === 1 && rules.isRequired(account)

  function list(ctx: Context, user: SignedIn, found: Factors): void {
    const words = views.words(ctx)
    const describe = ({ id, name, created, used }: Factor) => ({
      id,
      name: name || words.t('factors.totp'),
      created: words.date(created),
      used: used && {
        ...words.ago(used.at),
        where: [used.client?.browser, used.client?.system].filter(Boolean).join(', '),
      },
    })
    views.page(ctx, 'factors', {
      factors: found.factors.map(describe),
      isLast: isLast(user, found),
      left: words.plural('factors.left', found.recovery.length),
      outcome: ctx.query.outcome === 'removed' ? words.t('factors.removed') : undefined,
    })
  }

  async function showApp(ctx: Context, { account }: SignedIn, nonce?: string): Promise<void> {
    const problem = nonce === undefined ? undefined : views.words(ctx).t('factors.wrong')
    const data = { app: await newSecret(parts, account, nonce), problem }
    views.page(ctx, 'factor-app', data, problem ? 400 : 200)
  }

  const showCodes = (ctx: Context, codes: string[]) =>
    codes.length
      ? views.page(ctx, 'recovery-codes', { codes, area: FACTORS_PAGE })
      : ctx.redirect(FACTORS_PAGE)

  return {
    async show(ctx: Context, user: SignedIn) {
      const found = await factors.read(user.account.id)
      if (ctx.query.add !== 'totp') return list(ctx, user, found)
      if (isProven(ctx, user, found)) await showApp(ctx, user)
    },

    async submit(ctx: Context, user: Submitted) {
      const { form } = user
      const { id } = user.account
      const found = await factors.read(id)
      if (!isProven(ctx, user, found)) return
      if (form.value('nonce')) {
        const codes = await addApp(ctx, parts, id, form)
        return codes ? showCodes(ctx, codes) : showApp(ctx, user, form.value('nonce'))
      }
      if (form.value('codes')) {
        const codes = await factors.renewRecovery(id)
        if (codes) note(ctx, 'recovery_codes_created', { account: id })
        return showCodes(ctx, codes ?? [])
      }
      const removed = await factors.remove(
        id,
        form.value('remove'),
        !rules.isRequired(user.account),
      )
      if (removed) note(ctx, 'second_factor_removed', { account: id, factor: removed.type })
      ctx.redirect(removed ? `${FACTORS_PAGE}?outcome=removed` : FACTORS_PAGE)
    },
  }
}
