// Where you are signed in: each browser, and how to sign out of the others from here.

import type { Context } from 'koa'
import type { SignedInBrowser } from '../accounts/sessions.ts'
import { note } from '../http/audit.ts'
import type { ClientInfo } from '../http/client-info.ts'
import { readForm } from '../http/forms.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { People, Person } from './people.ts'
import type { Words } from './words.ts'

interface Question {
  title: string
  what: string
  confirm: string
}

export function createSessionPages({ views, sessions }: Parts, people: People, signOut: string) {
  async function renderList(ctx: Context, { account, session }: Person, done?: string) {
    const list = await sessions.list(account.id)
    const isHere = ({ uid }: SignedInBrowser) => uid === session.uid
    const inOrder = [...list.filter(isHere), ...list.filter(browser => !isHere(browser))]
    const browsers = inOrder.map(async browser => ({
      ...(await describe(ctx, browser)),
      isHere: isHere(browser),
    }))
    views.page(ctx, 'sessions', {
      person: account.username,
      browsers: await Promise.all(browsers),
      places: PLACES,
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

  /** One of this person's; 404 for whatever else is named. */
  async function namedBy(ctx: Context, { account }: Person): Promise<SignedInBrowser> {
    const found = await sessions.find(account.id, String(ctx.query.session))
    return found ?? ctx.throw(404)
  }

  async function others({ account, session }: Person): Promise<SignedInBrowser[]> {
    const all = await sessions.list(account.id)
    return all.filter(({ uid }) => uid !== session.uid)
  }

  function renderQuestion(ctx: Context, person: Person, question: Question) {
    const { t } = views.words(ctx)
    views.page(ctx, 'confirm', {
      person: person.account.username,
      csrf: people.token(ctx, person),
      title: question.title,
      effects: [question.what, t('sessions.effect')],
      kept: t('sessions.kept'),
      applications: PLACES.applications,
      confirm: question.confirm,
      back: PLACES.sessions,
    })
  }

  async function end(ctx: Context, { account }: Person, browsers: SignedInBrowser[]) {
    await Promise.all(browsers.map(({ uid }) => sessions.end(uid)))
    for (const { handle: session } of browsers) {
      note(ctx, 'session_ended', { account: account.id, session })
    }
  }

  return {
    async list(ctx: Context) {
      const person = await people.enter(ctx)
      if (person) await renderList(ctx, person)
    },

    async askEnd(ctx: Context) {
      const person = await people.enterAnew(ctx)
      if (!person) return
      const { uid, clientInfo, since } = await namedBy(ctx, person)
      if (uid === person.session.uid) return ctx.redirect(signOut)
      const words = views.words(ctx)
      const date = words.date(since).words
      renderQuestion(ctx, person, {
        title: words.t('sessions.question', { browser: nameOf(words, clientInfo) }),
        what: words.t('sessions.question_text', { date }),
        confirm: words.t('sessions.end'),
      })
    },

    async end(ctx: Context) {
      const form = await readForm(ctx)
      const person = await people.enterAnew(ctx)
      if (!person) return
      // The page gave its token away for what it named: what is not there any more has ended already.
      people.check(ctx, form, person)
      const named = await sessions.find(person.account.id, String(ctx.query.session))
      await end(ctx, person, named ? [named] : [])
      await renderList(ctx, person, views.words(ctx).t('sessions.ended'))
    },

    async askEndOthers(ctx: Context) {
      const person = await people.enterAnew(ctx)
      if (!person) return
      const { length } = await others(person)
      const { t, plural } = views.words(ctx)
      renderQuestion(ctx, person, {
        title: t('sessions.question_others'),
        what: plural('sessions.others', length),
        confirm: t('sessions.end_others'),
      })
    },

    async endOthers(ctx: Context) {
      const form = await readForm(ctx)
      const person = await people.enterAnew(ctx)
      if (!person) return
      people.check(ctx, form, person)
      await end(ctx, person, await others(person))
      await renderList(ctx, person, views.words(ctx).t('sessions.ended_others'))
    },
  }
}

function nameOf({ t }: Words, { browser, system }: Partial<ClientInfo> = {}): string {
  if (browser && system) return t('sessions.browser', { browser, system })
  return browser ?? system ?? t('sessions.unknown')
}
