// Signed-in browsers of the account. The user can sign out of each of them, or of all others at once.

import type { Context } from 'koa'
import type { SignedInBrowser } from '../accounts/sessions.ts'
import { note } from '../http/audit.ts'
import type { ClientInfo } from '../http/client-info.ts'
import type { AccountAccess, SignedIn } from './account-access.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { Words } from './words.ts'

/** Names all other browsers in place of a handle, which is hexadecimal. */
const OTHERS = 'others'

/** Returns the handlers of the session pages. `signOut`: path of the end session endpoint. */
export function createSessionPages(
  { views, sessions }: Parts,
  access: AccountAccess,
  signOut: string,
) {
  async function renderList(ctx: Context, { account, session }: SignedIn, done?: string) {
    const list = await sessions.list(account.id)
    const isHere = ({ uid }: SignedInBrowser) => uid === session.uid
    const inOrder = [...list.filter(isHere), ...list.filter(browser => !isHere(browser))]
    const browsers = inOrder.map(async browser => ({
      ...(await describe(ctx, browser)),
      isHere: isHere(browser),
    }))
    views.page(ctx, 'sessions', {
      browsers: await Promise.all(browsers),
      places: PLACES,
      endOthers: `${PLACES.end}?session=${OTHERS}`,
      signOut,
      done,
    })
  }

  async function describe(
    ctx: Context,
    { handle, since, lastUsed, clientInfo, ...browser }: SignedInBrowser,
  ) {
    const words = views.words(ctx)
    const clients = browser.clients.map(id => views.nameOf(ctx, id))
    return {
      name: nameOf(words, clientInfo),
      isPhone: clientInfo?.system === 'iOS' || clientInfo?.system === 'Android',
      since: words.ago(since),
      lastUsed: words.ago(lastUsed),
      clients: (await Promise.all(clients)).toSorted((a, b) => a.localeCompare(b, words.lang)),
      end: `${PLACES.end}?${new URLSearchParams({ session: handle })}`,
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
    async list(ctx: Context) {
      const signedIn = await access.enter(ctx)
      if (signedIn) await renderList(ctx, signedIn)
    },

    async askEnd(ctx: Context) {
      const signedIn = await access.enterRecently(ctx)
      if (!signedIn) return
      const browsers = await named(ctx, signedIn)
      const words = views.words(ctx)
      const { t, plural, date } = words
      const question = {
        title: t('sessions.question_others'),
        effects: [plural('sessions.others', browsers.length), t('sessions.effect')],
        kept: t('sessions.kept'),
        applications: PLACES.applications,
        confirm: t('sessions.end_others'),
        back: PLACES.sessions,
      }
      if (ctx.query.session === OTHERS) return access.confirm(ctx, signedIn, question)
      const { uid, clientInfo, since } = browsers[0] ?? ctx.throw(404)
      if (uid === signedIn.session.uid) return ctx.redirect(signOut)
      const text = t('sessions.question_text', { date: date(since).words })
      access.confirm(ctx, signedIn, {
        ...question,
        title: t('sessions.question', { browser: nameOf(words, clientInfo) }),
        effects: [text, t('sessions.effect')],
        confirm: t('sessions.sign_out'),
      })
    },

    /** A browser that the form names may have ended already. */
    async end(ctx: Context) {
      const submitted = await access.submitted(ctx, access.enterRecently)
      if (!submitted) return
      const browsers = await named(ctx, submitted)
      await Promise.all(browsers.map(({ uid }) => sessions.end(uid)))
      for (const { handle: session } of browsers) {
        note(ctx, 'session_ended', { account: submitted.account.id, session })
      }
      const { t } = views.words(ctx)
      const isOne = ctx.query.session !== OTHERS
      await renderList(ctx, submitted, isOne ? t('sessions.ended') : t('sessions.ended_others'))
    },
  }
}

function nameOf({ t }: Words, { browser, system }: Partial<ClientInfo> = {}): string {
  if (browser && system) return t('sessions.browser', { browser, system })
  return browser ?? system ?? t('sessions.unknown')
}
