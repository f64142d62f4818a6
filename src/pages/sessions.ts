// Signed-in browsers of the account. The user can sign out of each of them, or of all others at once.

import type { Context } from 'koa'
import type { SignedInBrowser } from '../accounts/sessions.ts'
import { note } from '../http/audit.ts'
import type { ClientInfo } from '../http/client-info.ts'
import { PLACES } from './page-data.ts'
import type { SignedIn, Site } from './site.ts'
import type { Words } from './words.ts'

/** Names all other browsers in place of a handle, which is hexadecimal. */
const OTHERS = 'others'
const pathOf = (session: string) => `${PLACES.end}?${new URLSearchParams({ session })}`

/** Returns the handlers of the session pages. */
export function createSessionPages({ views, sessions }: Site) {
  async function list(ctx: Context, { account, session }: SignedIn, done?: string) {
    const all = await sessions.list(account.id)
    const described = await Promise.all(all.map(browser => describe(ctx, browser, session)))
    const browsers = described.toSorted((a, b) => Number(b.isHere) - Number(a.isHere))
    views.page(ctx, 'sessions', { browsers, endOthers: pathOf(OTHERS), done })
  }

  async function describe(ctx: Context, browser: SignedInBrowser, here: SignedIn['session']) {
    const { uid, handle, since, lastUsed, clientInfo, clients } = browser
    const words = views.words(ctx)
    const names = await Promise.all(clients.map(id => views.nameOf(ctx, id)))
    return {
      name: nameOf(words, clientInfo),
      isPhone: clientInfo?.system === 'iOS' || clientInfo?.system === 'Android',
      since: words.ago(since),
      lastUsed: words.ago(lastUsed),
      clients: names.toSorted((a, b) => a.localeCompare(b, words.lang)),
      end: pathOf(handle),
      isHere: uid === here.uid,
    }
  }

  /** The browsers that the URL names: one by its handle, or all others of the account. */
  async function named({ query }: Context, { account, session }: SignedIn) {
    const all = await sessions.list(account.id)
    return query.session === OTHERS
      ? all.filter(({ uid }) => uid !== session.uid)
      : all.filter(({ handle }) => handle === query.session)
  }

  return {
    list,

    async askEnd(ctx: Context, user: SignedIn) {
      const browsers = await named(ctx, user)
      const words = views.words(ctx)
      const { t, plural, date } = words
      const question = {
        title: t('sessions.question_others'),
        effects: [plural('sessions.others', browsers.length), t('sessions.effect')],
        kept: t('sessions.kept'),
        confirm: t('sessions.end_others'),
        back: PLACES.sessions,
      }
      if (ctx.query.session === OTHERS) return views.page(ctx, 'confirm', question)
      const { uid, clientInfo, since } = browsers[0] ?? ctx.throw(404)
      if (uid === user.session.uid) return ctx.redirect(views.signOut)
      const text = t('sessions.question_text', { date: date(since).words })
      views.page(ctx, 'confirm', {
        ...question,
        title: t('sessions.question', { browser: nameOf(words, clientInfo) }),
        effects: [text, t('sessions.effect')],
        confirm: t('sessions.sign_out'),
      })
    },

    /** A browser that the form names may have ended already. */
    async end(ctx: Context, user: SignedIn) {
      const browsers = await named(ctx, user)
      await Promise.all(browsers.map(({ uid }) => sessions.end(uid)))
      for (const { handle: session } of browsers) {
        note(ctx, 'session_ended', { account: user.account.id, session })
      }
      const { t } = views.words(ctx)
      const isOne = ctx.query.session !== OTHERS
      await list(ctx, user, isOne ? t('sessions.ended') : t('sessions.ended_others'))
    },
  }
}

function nameOf({ t }: Words, { browser, system }: Partial<ClientInfo> = {}): string {
  if (browser && system) return t('sessions.browser', { browser, system })
  return browser ?? system ?? t('sessions.unknown')
}
