// The account page with the user's profile, and the page on which the user changes the password.

import type { Context } from 'koa'
import { passwordProblem } from '../accounts/password.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { note } from '../http/audit.ts'
import type { PageData } from './page-data.ts'
import type { SignedIn, Site, Submitted } from './site.ts'

/** Returns the handlers of the account page and of the password page. */
export function createAccountPages({
  settings,
  views,
  directory,
  authentication,
  keepSignedIn,
  waiting: countWaiting,
}: Site) {
  /** A change always needs the current password: an open browser is not enough (ASVS 6.2.3). */
  async function problemsOf(ctx: Context, { account, form }: Submitted) {
    const { t } = views.words(ctx)
    const current = form.value('current')
    const password = form.value('password')
    const isKnown = await authentication.check(ctx, account, current, { client_id: ACCOUNT_CLIENT })
    const problem = passwordProblem(password) ?? (password === current ? 'unchanged' : undefined)
    return {
      current: isKnown ? undefined : t('password.wrong'),
      password: problem && t(`password.${problem}`),
      repeat: password === form.value('repeat') ? undefined : t('password.differs'),
    }
  }

  return {
    async home(ctx: Context, { account }: SignedIn) {
      const { t, plural } = views.words(ctx)
      const { username, email, email_verified, password } = account
      const waiting = await countWaiting(account)
      const unverified = email_verified ? '' : ` (${t('account.unverified')})`
      const facts = [
        { label: t('account.username'), value: username },
        { label: t('account.email'), value: email && email + unverified },
      ]
      views.page(ctx, 'account', {
        facts: facts.filter(({ value }) => value),
        waiting: waiting > 0 ? plural('account.waiting', waiting) : undefined,
        canChangePassword: password !== undefined,
      })
    },

    /** Throws 404 for an account whose password is in an external source. */
    password(ctx: Context, { account }: SignedIn) {
      if (account.password === undefined) ctx.throw(404)
      views.page(ctx, 'password', { problems: {} })
    },

    async changePassword(ctx: Context, user: Submitted) {
      const { account, session, form } = user
      if (account.password === undefined) ctx.throw(404)
      const problems: PageData['password']['problems'] = await problemsOf(ctx, user)
      if (Object.values(problems).some(Boolean)) {
        return views.page(ctx, 'password', { problems }, 400)
      }
      const keeping = { uid: session.uid, ttl: settings.lifetimes.session_idle }
      const password = form.value('password')
      const successor = await directory.changePassword?.(account.id, password, keeping)
      note(ctx, 'password_changed', { account: account.id })
      if (successor) {
        keepSignedIn(ctx, successor)
        authentication.remember(ctx, account, successor.loginTs)
      }
      views.page(ctx, 'password-changed', {})
    },
  }
}
