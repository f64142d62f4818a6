// The account page: who you are here, and the way to everything you can do.

import type { Context } from 'koa'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { People } from './people.ts'

export function createAccountPage(
  { views, waiting: countWaiting }: Parts,
  people: People,
  signOut: string,
) {
  return async (ctx: Context) => {
    const person = await people.enter(ctx)
    if (!person) return
    const { t, plural } = views.words(ctx)
    const { username, name, email, email_verified } = person.account
    const waiting = await countWaiting(person.account)
    const unverified = email_verified ? '' : ` (${t('account.unverified')})`
    const facts = [
      { label: t('account.username'), value: username },
      { label: t('account.email'), value: email && email + unverified },
    ].filter(({ value }) => value)
    const canChangePassword = person.account.password !== undefined
    views.page(ctx, 'account', {
      facts,
      person: username,
      name,
      places: PLACES,
      ...(waiting > 0 && { waiting: plural('account.waiting', waiting) }),
      canChangePassword,
      signOut,
    })
  }
}
