// The pages on which the user changes the password.

import type { Context } from 'koa'
import type { Interaction } from '../oidc/interactions.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { note } from '../operation/audit.ts'
import type { Form } from '../operation/forms.ts'
import type { Words } from '../pages/words.ts'
import type { OwnAccounts } from '../sign-in/directory.ts'
import { admit, checkPassword, passwordProblem } from '../sign-in/password.ts'
import type { SignedIn, Site, Submitted } from '../sign-in/site.ts'

/**
 * Returns the problems of a form with a new password, by field; undefined if
 * there are none. `isUnchanged` may cost a hash: it is called last, if nothing
 * else is wrong.
 */
export async function problemsOf(
  { t }: Words,
  form: Form,
  isUnchanged: () => boolean | Promise<boolean>,
) {
  const password = form.value('password')
  const isDifferent = password !== form.value('repeat')
  const known = passwordProblem(password)
  const problem =
    known ?? (!isDifferent && (await isUnchanged()) ? 'unchanged' : undefined)
  const problems = {
    password: problem && t(`password.${problem}`),
    repeat: isDifferent ? t('password.differs') : undefined,
  }
  return Object.values(problems).some(Boolean) ? problems : undefined
}

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
      const problems = await problemsOf(
        views.words(ctx),
        form,
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
        await authentication.remember(ctx, account, successor.loginTs)
      }
      views.page(ctx, 'password-changed', {})
    },
  }
}

/**
 * Returns the page of the change_password prompt, on which the user replaces a
 * temporary password.
 */
export function newPasswordPage(
  { views, authentication, flow }: Site,
  directory: OwnAccounts,
) {
  return {
    show: (ctx: Context) => views.page(ctx, 'new-password', { problems: {} }),

    async submit(ctx: Context, { clientId, step }: Interaction, form: Form) {
      const { account } = ctx.state
      if (!account || !step)
        return ctx.throw(400, { error: 'interaction_gone' })
      const password = form.value('password')
      const problems = await problemsOf(views.words(ctx), form, async () => {
        await authentication.countForm(ctx, account.id)
        // Sent again after a fault: the password was replaced, and the sign-in
        // was not answered.
        if (account.change_password_by === undefined) return false
        return admit(ctx, () => checkPassword(password, account.password))
      })
      if (problems)
        return void views.page(ctx, 'new-password', { problems }, 400)
      const { ts } = step.login
      const isReplaced = await directory.replaceTemporaryPassword(
        account.id,
        password,
        ts,
      )
      if (!isReplaced) return ctx.throw(400, { error: 'interaction_gone' })
      note(ctx, 'password_changed', {
        client_id: clientId,
        account: account.id,
      })
      return flow.answerAfter('change_password', account, step.login)
    },
  }
}
