// The account page: who you are here, and the way to everything you can do.

import type { Context } from 'koa'
import type { Parts } from './parts.ts'
import { type People, PLACES } from './people.ts'

export function createAccountPage({ views }: Parts, people: People, signOut: string) {
  return async (ctx: Context) => {
    const person = await people.enter(ctx)
    if (!person) return
    const { t } = views.words(ctx)
    const { username, name, email, email_verified } = person.account
    const unverified = email_verified ? '' : ` (${t('account.unverified')})`
    const facts = [
      { label: t('account.username'), value: username },
      { label: t('account.name'), value: name },
      { label: t('account.email'), value: email && email + unverified },
    ].filter(({ value }) => value)
    const canChangePassword = person.account.password !== undefined
    views.page(ctx, 'account', {
      facts,
      person: username,
      places: PLACES,
      canChangePassword,
      signOut,
    })
  }
}
