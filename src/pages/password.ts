// A new password, for who knows the old one.

import type { Context } from 'koa'
import type { Account } from '../accounts/account.ts'
import { passwordProblem } from '../accounts/password.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { note } from '../http/audit.ts'
import { type Form, readForm } from '../http/forms.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { People, Person } from './people.ts'

/** Keys of the words, by field. */
interface Problems {
  current?: string
  password?: string
  repeat?: string
}

export function createPasswordPages(
  { settings, views, directory, authentication }: Parts,
  people: People,
) {
  /** Only for those whose password is kept here. */
  async function enter(ctx: Context): Promise<Person | undefined> {
    const person = await people.enter(ctx)
    if (person && person.account.password === undefined) ctx.throw(404)
    return person
  }

  function render(ctx: Context, person: Person, problems: Problems = {}) {
    const { t } = views.words(ctx)
    const told = Object.entries(problems).map(([field, key]) => [
      field,
      key && t(`password.${key}`),
    ])
    const isWrong = told.some(([, text]) => text)
    const data = {
      person: person.account.username,
      csrf: people.token(ctx, person),
      problems: Object.fromEntries(told),
      back: PLACES.home,
    }
    views.page(ctx, 'password', data, isWrong ? 400 : 200)
  }

  /** The old one is asked for in any case: a browser that was left open is not enough (ASVS 6.2.3). */
  async function judge(ctx: Context, account: Account, form: Form): Promise<Problems> {
    const current = form.value('current')
    const password = form.value('password')
    const isKnown = await authentication.check(ctx, account, current, { client_id: ACCOUNT_CLIENT })
    return {
      current: isKnown ? undefined : 'wrong',
      password: passwordProblem(password) ?? (password === current ? 'unchanged' : undefined),
      repeat: password === form.value('repeat') ? undefined : 'differs',
    }
  }

  return {
    async show(ctx: Context) {
      const person = await enter(ctx)
      if (person) render(ctx, person)
    },

    async change(ctx: Context) {
      const form = await readForm(ctx)
      const person = await enter(ctx)
      if (!person) return
      people.check(ctx, form, person)
      const { account, session } = person
      const problems = await judge(ctx, account, form)
      if (Object.values(problems).some(Boolean)) return render(ctx, person, problems)

      const keeping = { uid: session.uid, ttl: settings.lifetimes.session_idle }
      const successor = await directory.changePassword?.(
        account.id,
        form.value('password'),
        keeping,
      )
      note(ctx, 'password_changed', { account: account.id })
      if (successor) {
        people.keepSignedIn(ctx, successor)
        authentication.remember(ctx, account, successor.loginTs)
      }
      views.page(ctx, 'password-changed', { person: account.username, places: PLACES })
    },
  }
}
