// The account page on which the user changes the password.

import type { Context } from 'koa'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import { problemsOfPassword } from '../sign-in/change-password-step.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import { guessableWords } from '../sign-in/password.ts'
import type { SignedIn, Site, Submitted } from '../sign-in/site.ts'

/** Returns the handlers of the page on which the user changes the password. */
export function passwordPage(
  { settings, views, authentication, browserSession }: Site,
  directory: OwnAccounts,
) {
  return {
    show(ctx: Context, { account }: SignedIn) {
      if (account.password === undefined) return ctx.throw(404)
      views.page(ctx, 'password', { problems: {} })
    },

    async submit(ctx: Context, { account, session, form }: Submitted) {
      if (account.password === undefined) return ctx.throw(404)
      const current = form.value('current')
      const password = form.value('password')
      const problems = await problemsOfPassword(
        views.words(ctx),
        form,
        guessableWords(account, settings),
        () => password === current,
      )
      if (problems) return views.page(ctx, 'password', { problems }, 400)
      await authentication.countForm(ctx, session.uid)
      // A change always needs the current password: an open browser is not
      // enough (ASVS 6.2.3).
      const about = { client_id: ACCOUNT_CLIENT }
      const credentials = { username: account.username, password: current }
      const known = await authentication.check(ctx, credentials, about)
      if (known?.account.id !== account.id) {
        const problems = { current: views.words(ctx).t('password.wrong') }
        return views.page(ctx, 'password', { problems }, 400)
      }
      // Each change begins a new session.
      await authentication.countForm(ctx, account.id)
      const { session_idle: ttl } = settings.lifetimes
      const successor = await directory.changePassword(
        account.id,
        password,
        session.uid,
        ttl,
      )
      note(ctx, 'password_changed', { account: account.id })
      if (successor) {
        browserSession.replace(ctx, successor)
        await authentication.rememberBrowser(ctx, account, successor.loginTs)
      }
      views.page(ctx, 'password-changed', {})
    },
  }
}
