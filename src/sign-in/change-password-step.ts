// The step change_password: the user replaces a temporary password, before the
// session. The account page with the same fields is account/password.ts.

import type { Context } from 'koa'
import type { Interaction } from '../oidc/interactions.ts'
import { note } from '../operation/audit.ts'
import type { Form } from '../operation/forms.ts'
import type { Words } from '../pages/words.ts'
import type { OwnAccounts } from './directory.ts'
import {
  admit,
  checkPassword,
  guessableWords,
  passwordProblem,
} from './password.ts'
import type { Site } from './site.ts'

/**
 * Returns the problems of a form with a new password, by field; undefined if
 * there are none. `guessable`: see `guessableWords`. `isUnchanged` may cost a
 * hash: it is called last, if nothing else is wrong.
 */
export async function problemsOfPassword(
  { t }: Words,
  form: Form,
  guessable: string[],
  isUnchanged: () => boolean | Promise<boolean>,
) {
  const password = form.value('password')
  const isDifferent = password !== form.value('repeat')
  const known = passwordProblem(password, guessable)
  const problem =
    known ?? (!isDifferent && (await isUnchanged()) ? 'unchanged' : undefined)
  const problems = {
    password: problem && t(`password.${problem}`),
    repeat: isDifferent ? t('password.differs') : undefined,
  }
  return Object.values(problems).some(Boolean) ? problems : undefined
}

/**
 * Returns the page of the change_password prompt, on which the user replaces a
 * temporary password.
 */
export function changePasswordStep(
  { settings, views, authentication, flow }: Site,
  directory: OwnAccounts,
) {
  return {
    show: (ctx: Context) => views.page(ctx, 'new-password', { problems: {} }),

    async submit(ctx: Context, { clientId, step }: Interaction, form: Form) {
      const { account } = ctx.state
      if (!account || !step)
        return ctx.throw(400, { error: 'interaction_gone' })
      const password = form.value('password')
      const problems = await problemsOfPassword(
        views.words(ctx),
        form,
        guessableWords(account, settings),
        async () => {
          await authentication.countForm(ctx, account.id)
          // Sent again after a fault: the password was replaced, and the sign-in
          // was not answered.
          if (account.change_password_by === undefined) return false
          return admit(ctx, () => checkPassword(password, account.password))
        },
      )
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
