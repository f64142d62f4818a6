// The account page with the user's profile, and the page on which the user changes the password.

import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { passwordProblem } from '../accounts/password.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { note } from '../http/audit.ts'
import type { Form } from '../http/forms.ts'
import type { AccountAccess, SignedIn } from './account-access.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'

/** Keys of the texts, by field. */
interface Problems {
  current?: string
  password?: string
  repeat?: string
}

/** Returns the handlers of the account page and of the password page. */
export function createAccountPages(
  { settings, views, directory, authentication, waiting: countWaiting }: Parts,
  access: AccountAccess,
  signOut: string,
) {
  function renderPassword(ctx: Context, signedIn: SignedIn, problems: Problems = {}) {
    const { t } = views.words(ctx)
    const texts = Object.entries(problems).map(([field, key]) => [
      field,
      key && t(`password.${key}`),
    ])
    const data = {
      csrf: access.token(ctx, signedIn),
      problems: Object.fromEntries(texts),
      back: PLACES.home,
    }
    views.page(ctx, 'password', data, texts.some(([, text]) => text) ? 400 : 200)
  }

  /** A change always needs the current password: an open browser is not enough (ASVS 6.2.3). */
  async function validate(ctx: Context, account: Account, form: Form): Promise<Problems> {
    const current = form.value('current')
    const password = form.value('password')
    const isKnown = await authentication.check(ctx, account, current, { client_id: ACCOUNT_CLIENT })
    return {
      current: isKnown ? undefined : 'wrong',
      password: passwordProblem(password) ?? (password === current ? 'unchanged' : undefined),
      repeat: password === form.value('repeat') ? undefined : 'differs',
    }
  }

  /** Throws 404 for an account whose password is in an external source. */
  async function enterWithPassword(ctx: Context) {
    const signedIn = await access.enter(ctx)
    if (signedIn && signedIn.account.password === undefined) ctx.throw(404)
    return signedIn
  }

  return {
    async home(ctx: Context) {
      const signedIn = await access.enter(ctx)
      if (!signedIn) return
      const { t, plural } = views.words(ctx)
      const { username, email, email_verified, password } = signedIn.account
      const waiting = await countWaiting(signedIn.account)
      const unverified = email_verified ? '' : ` (${t('account.unverified')})`
      const facts = [
        { label: t('account.username'), value: username },
        { label: t('account.email'), value: email && email + unverified },
      ].filter(({ value }) => value)
      views.page(ctx, 'account', {
        facts,
        places: PLACES,
        ...(waiting > 0 && { waiting: plural('account.waiting', waiting) }),
        canChangePassword: password !== undefined,
        signOut,
      })
    },

    async password(ctx: Context) {
      const signedIn = await enterWithPassword(ctx)
      if (signedIn) renderPassword(ctx, signedIn)
    },

    async changePassword(ctx: Context) {
      const submitted = await access.submitted(ctx, enterWithPassword)
      if (!submitted) return
      const { account, session, form } = submitted
      const problems = await validate(ctx, account, form)
      if (Object.values(problems).some(Boolean)) return renderPassword(ctx, submitted, problems)

      const keeping = { uid: session.uid, ttl: settings.lifetimes.session_idle }
      const successor = await directory.changePassword?.(
        account.id,
        form.value('password'),
        keeping,
      )
      note(ctx, 'password_changed', { account: account.id })
      if (successor) {
        access.keepSignedIn(ctx, successor)
        authentication.remember(ctx, account, successor.loginTs)
      }
      views.page(ctx, 'password-changed', { places: PLACES })
    },
  }
}
