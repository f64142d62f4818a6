// Connected applications: what each may see, where it is used, and how to take its access away.

import type { Context } from 'koa'
import { type Consent, readKey } from '../accounts/consents.ts'
import type { SignedInBrowser } from '../accounts/sessions.ts'
import { lifetimeOf } from '../config/schema/resource.ts'
import { note } from '../http/audit.ts'
import { readForm } from '../http/forms.ts'
import { now } from '../storage/store.ts'
import { hostOf } from './consent.ts'
import { PLACES } from './page-data.ts'
import type { Parts } from './parts.ts'
import type { People, Person } from './people.ts'
import { scopeWords } from './scope-words.ts'
import type { Words } from './words.ts'

export function createApplicationPages(parts: Parts, people: People) {
  const { settings, clients, views, consents, sessions, detailWords } = parts

  async function renderList(ctx: Context, { account }: Person, removed?: string) {
    const [list, browsers] = await Promise.all([
      consents.list(account.id),
      sessions.list(account.id),
    ])
    const inOrder = list.toSorted((a, b) => b.lastUsed - a.lastUsed)
    views.page(ctx, 'applications', {
      person: account.username,
      applications: await Promise.all(inOrder.map(consent => describe(ctx, consent, browsers))),
      places: PLACES,
      removed,
    })
  }

  async function describe(ctx: Context, consent: Consent, browsers: SignedInBrowser[]) {
    const words = views.words(ctx)
    const { client_id, scopes, details = [], since, lastUsed } = consent
    const client = await views.client(ctx, client_id)
    // No token that they are in can be older.
    const oldest = now() - settings.lifetimes.refresh_token
    const inUse = browsers.filter(browser => browser.clients.includes(client_id)).length
    return {
      name: client?.client_name ?? client_id,
      ...addressOf(client),
      registered: Boolean(client),
      isUnchecked: client?.isUnchecked ?? false,
      implicit: client?.consent === 'implicit',
      scopes: scopes.map(scope => {
        const { words: text, icon, at } = scopeWords(words, settings, scope)
        return { words: at === undefined ? text : `${text} (${at})`, icon }
      }),
      // A type that there is no longer is in no token, either.
      details: details
        .filter(({ detail, at }) => settings.details[detail.type] && at > oldest)
        .flatMap(({ detail, at }) =>
          detailWords(words, detail).map(shown => ({ ...shown, since: words.ago(at) })),
        ),
      since: words.ago(since),
      lastUsed: words.ago(lastUsed),
      inUse: inUse
        ? words.plural('applications.in_use', inUse)
        : words.t('applications.not_in_use'),
      removal: `${PLACES.removal}?${new URLSearchParams({ client_id })}`,
    }
  }

  /** JWT access tokens cannot be revoked: the page names their APIs before access is removed. */
  function lingering({ t, list }: Words, { scopes, details = [] }: Consent): string[] {
    const ofDetails = details.map(({ detail }) => settings.details[detail.type]?.resource)
    const ofScopes = scopes.map(key => readKey(key).resource)
    const names = new Set([...ofScopes, ...ofDetails].map(name => name ?? ''))
    const apis = [...names].flatMap(name => {
      const api = settings.resources[name]
      return api?.token_format === 'jwt' ? [api] : []
    })
    if (!apis.length) return []
    const { access_token } = settings.lifetimes
    const longest = Math.max(...apis.map(api => lifetimeOf(api, access_token)))
    const minutes = String(Math.ceil(longest / 60))
    const named = list(apis.map(api => api.resource_name))
    return [t('applications.lingers', { apis: named, minutes })]
  }

  return {
    async list(ctx: Context) {
      const person = await people.enter(ctx)
      if (person) await renderList(ctx, person)
    },

    async askRemoval(ctx: Context) {
      const person = await people.enterAnew(ctx)
      if (!person) return
      const clientId = String(ctx.query.client_id)
      const consent = await consents.find(person.account.id, clientId)
      if (!consent) ctx.throw(404)
      const words = views.words(ctx)
      const { t } = words
      const client = await views.nameOf(ctx, clientId)
      const isImplicit = clients.get(clientId)?.consent === 'implicit'
      views.page(ctx, 'confirm', {
        person: person.account.username,
        csrf: people.token(ctx, person),
        title: t('applications.question', { client }),
        effects: [
          t('applications.effect'),
          ...lingering(words, consent),
          isImplicit
            ? t('applications.implicit_again', { brand: settings.branding.name })
            : t('applications.again'),
        ],
        confirm: t('applications.remove'),
        back: PLACES.applications,
      })
    },

    async remove(ctx: Context) {
      const form = await readForm(ctx)
      const person = await people.enterAnew(ctx)
      if (!person) return
      people.check(ctx, form, person)
      const { id: account } = person.account
      const client_id = String(ctx.query.client_id)
      const had = await consents.find(account, client_id)
      // Also when nothing is listed any more: twice removed is removed.
      await consents.withdraw(account, client_id)
      if (had) note(ctx, 'access_removed', { client_id, account })
      await renderList(ctx, person, await views.nameOf(ctx, client_id))
    },
  }
}

/** Hosts to which users are redirected. The home page of an unchecked application proves nothing. */
function addressOf(client: Awaited<ReturnType<Parts['views']['client']>>) {
  const { client_uri, redirect_uris = [], isUnchecked } = client ?? {}
  const hosts = [...new Set(redirect_uris.map(hostOf))]
  if (isUnchecked) return { host: hosts.join(', ') }
  return { client_uri, host: client_uri === undefined ? hosts[0] : hostOf(client_uri) }
}
