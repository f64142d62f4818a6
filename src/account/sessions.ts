// Signed-in browsers of the account. The user can sign out of each of them, or
// of all others at once.

import type { Context } from 'koa'
import type { Sessions } from '../oidc/adapter/sessions.ts'
import { note } from '../operation/audit.ts'
import { PLACES, type SessionInWords } from '../pages/page-data.ts'
import type { SignedIn, Site } from '../sign-in/site.ts'
import { recentActivity, shownActivity } from './activity.ts'
import {
  browsersOf,
  nameOf,
  type SignedInBrowser,
  shownNetwork,
} from './signed-in-browsers.ts'

/** Names all other browsers in place of a handle, which is hexadecimal. */
const OTHERS = 'others'
const pathOf = (session: string) =>
  `${PLACES.end}?${new URLSearchParams({ session })}`

/**
 * Returns how many other browsers the user is signed in with, as text, and the
 * path that signs them out.
 */
export async function elsewhereOf(
  ctx: Context,
  { sessions, views }: Site,
  accountId: string,
  uid?: string,
) {
  const all = await sessions.listOfAccount(accountId)
  const others = all.filter(session => session.uid !== uid)
  if (!others.length) return undefined
  return {
    text: views.words(ctx).plural('account.elsewhere', others.length),
    end: pathOf(OTHERS),
  }
}

/** Signs the user out of these browsers. */
export async function endBrowsers(
  ctx: Context,
  sessions: Sessions,
  accountId: string,
  browsers: SignedInBrowser[],
) {
  await sessions.endEach(browsers)
  for (const { handle: session } of browsers) {
    note(ctx, 'session_ended', { account: accountId, session })
  }
}

/** Returns the handlers of the session pages. */
export function createSessionPages(site: Site) {
  const { views, records, sessions } = site

  async function list(
    ctx: Context,
    { account, session }: SignedIn,
    done?: string,
  ) {
    const { t, number } = views.words(ctx)
    const all = await browsersOf(site, account.id)
    const own = all.find(({ uid }) => uid === session.uid)
    const others = all.filter(browser => browser !== own)
    const groups = [...Map.groupBy(others, browser => browser.group)].map(
      async ([group, found]) => ({
        count:
          found.length > 1
            ? t('sessions.count', { count: number(found.length) })
            : undefined,
        end: pathOf(group),
        sessions: await Promise.all(
          found.map(browser => describe(ctx, browser)),
        ),
      }),
    )
    const latest = (await recentActivity(records, account.id)).slice(0, 5)
    views.page(ctx, 'sessions', {
      activity: await Promise.all(
        latest.map(entry => shownActivity(ctx, site, entry)),
      ),
      here: own && (await describe(ctx, own)),
      groups: await Promise.all(groups),
      endOthers: pathOf(OTHERS),
      done,
    })
  }

  async function describe(
    ctx: Context,
    browser: SignedInBrowser,
  ): Promise<SessionInWords> {
    const { handle, since, lastUsed, clientInfo, clients } = browser
    const words = views.words(ctx)
    const names = await Promise.all(clients.map(id => views.nameOf(ctx, id)))
    return {
      name: nameOf(words, clientInfo),
      network: clientInfo && shownNetwork(clientInfo.network),
      isPhone: clientInfo?.system === 'iOS' || clientInfo?.system === 'Android',
      since: words.ago(since),
      lastUsed: words.ago(lastUsed),
      clients: names.toSorted((a, b) => a.localeCompare(b, words.lang)),
      end: pathOf(handle),
    }
  }

  /**
   * Returns the browsers that the URL names: one by its handle, a group, or
   * all. The last two leave out this one.
   */
  async function named({ query }: Context, { account, session }: SignedIn) {
    const all = await browsersOf(site, account.id)
    return all.filter(({ uid, handle, group }) => {
      const names = uid === session.uid ? [handle] : [handle, group, OTHERS]
      return names.includes(String(query.session))
    })
  }

  return {
    list,

    async askEnd(ctx: Context, user: SignedIn) {
      const found = await named(ctx, user)
      const words = views.words(ctx)
      const { t, plural, date } = words
      const question = {
        title: t('sessions.question_others'),
        effects: [
          plural('sessions.others', found.length),
          t('sessions.effect'),
        ],
        kept: t('sessions.kept'),
        confirm: t('sessions.end_others'),
        back: PLACES.sessions,
      }
      if (ctx.query.session === OTHERS)
        return views.page(ctx, 'confirm', question)
      const { uid, clientInfo, since } = found[0] ?? ctx.throw(404)
      if (uid === user.session.uid) return ctx.redirect(views.signOut)
      const text = t('sessions.question_text', { date: date(since).words })
      views.page(ctx, 'confirm', {
        ...question,
        title: t('sessions.question', { browser: nameOf(words, clientInfo) }),
        effects:
          found.length > 1 ? question.effects : [text, t('sessions.effect')],
        confirm: t('sessions.sign_out'),
      })
    },

    /** A browser that the form names may have ended already. */
    async end(ctx: Context, user: SignedIn) {
      const found = await named(ctx, user)
      await endBrowsers(ctx, sessions, user.account.id, found)
      const { t } = views.words(ctx)
      const isOne = ctx.query.session !== OTHERS
      await list(
        ctx,
        user,
        isOne ? t('sessions.ended') : t('sessions.ended_others'),
      )
    },
  }
}
