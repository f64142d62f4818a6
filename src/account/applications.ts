// Connected applications: the scopes of each, its use, and the removal of its
// access.

import type { Context } from 'koa'
import { type Consent, readKey } from '../oidc/consents.ts'
import { lifetimeOf, lifetimesOf } from '../oidc/tokens.ts'
import { note } from '../operation/audit.ts'
import { PLACES } from '../pages/page-data.ts'
import { markOf } from '../pages/views.ts'
import type { Words } from '../pages/words.ts'
import { detailWords, hostOf, scopeWords } from '../sign-in/consent-page.ts'
import type { SignedIn, Site } from '../sign-in/site.ts'
import { now } from '../store/store.ts'
import { browsersOf, type SignedInBrowser } from './signed-in-browsers.ts'

/** Returns the handlers of the application pages. */
export function createApplicationPages(site: Site) {
  const { settings, views, consents } = site

  async function list(ctx: Context, { account }: SignedIn, removed?: string) {
    const [all, browsers] = await Promise.all([
      consents.list(account.id),
      browsersOf(site, account.id),
    ])
    const inOrder = all.toSorted((a, b) => b.lastUsed - a.lastUsed)
    const applications = inOrder.map(consent =>
      describe(ctx, consent, browsers),
    )
    views.page(ctx, 'applications', {
      applications: await Promise.all(applications),
      removed,
    })
  }

  async function describe(
    ctx: Context,
    consent: Consent,
    browsers: SignedInBrowser[],
  ) {
    const words = views.words(ctx)
    const {
      client_id,
      scopes,
      details = [],
      actors = [],
      since,
      lastUsed,
    } = consent
    const client = await views.client(ctx, client_id)
    const name = client?.client_name ?? client_id
    // Older authorization details are in no valid token.
    const oldest = now() - lifetimesOf(settings.lifetimes, client).refresh_token
    const inUse = browsers.filter(browser =>
      browser.clients.includes(client_id),
    ).length
    return {
      name,
      mark: markOf(client_id, name, views.logoOf(client_id)),
      ...addressOf(client),
      registered: Boolean(client),
      isUnchecked: client?.isUnchecked ?? false,
      implicit: client?.consent === 'implicit',
      scopes: scopes.map(scope => {
        const { words: text, icon, at } = scopeWords(words, settings, scope)
        return { words: at === undefined ? text : `${text} (${at})`, icon }
      }),
      // A type that the operator removed is in no token either.
      details: details
        .filter(
          ({ detail, at }) => settings.details[detail.type] && at > oldest,
        )
        .map(({ detail, at }) => ({
          ...detailWords(words, settings, detail),
          since: words.ago(at),
        })),
      actors: words.list(
        await Promise.all(actors.map(id => views.nameOf(ctx, id))),
      ),
      since: words.ago(since),
      lastUsed: words.ago(lastUsed),
      inUse: inUse
        ? words.plural('applications.in_use', inUse)
        : words.t('applications.not_in_use'),
      removal: `${PLACES.removal}?${new URLSearchParams({ client_id })}`,
    }
  }

  /**
   * JWT access tokens cannot be revoked: the page names their APIs before
   * access is removed.
   */
  function lingering(
    { t, list }: Words,
    { scopes, details = [] }: Consent,
  ): string[] {
    const ofDetails = details.map(
      ({ detail }) => settings.details[detail.type]?.resource,
    )
    const ofScopes = scopes.map(key => readKey(key).resource)
    const apis = [...new Set([...ofScopes, ...ofDetails])]
      .flatMap(name => settings.resources[name ?? ''] ?? [])
      .filter(api => api.token_format === 'jwt')
    if (!apis.length) return []
    const { access_token } = settings.lifetimes
    const longest = Math.max(...apis.map(api => lifetimeOf(api, access_token)))
    const minutes = String(Math.ceil(longest / 60))
    const named = list(apis.map(api => api.resource_name))
    return [t('applications.lingers', { apis: named, minutes })]
  }

  return {
    list,

    async askRemoval(ctx: Context, { account }: SignedIn) {
      const clientId = String(ctx.query.client_id)
      const consent =
        (await consents.find(account.id, clientId)) ?? ctx.throw(404)
      const words = views.words(ctx)
      const { t } = words
      const client = await views.client(ctx, clientId)
      views.page(ctx, 'confirm', {
        title: t('applications.question', {
          client: client?.client_name ?? clientId,
        }),
        effects: [
          t('applications.effect'),
          ...lingering(words, consent),
          client?.consent === 'implicit'
            ? t('applications.implicit_again', {
                brand: settings.branding.name,
              })
            : t('applications.again'),
        ],
        confirm: t('applications.remove'),
        back: PLACES.applications,
      })
    },

    async remove(ctx: Context, user: SignedIn) {
      const { id: account } = user.account
      const client_id = String(ctx.query.client_id)
      const had = await consents.find(account, client_id)
      // A second removal succeeds too.
      await consents.withdraw(account, client_id)
      if (had) note(ctx, 'access_removed', { client_id, account })
      await list(ctx, user, await views.nameOf(ctx, client_id))
    },
  }
}

/**
 * Returns the hosts to which users are redirected. An unchecked application may
 * name any home page.
 */
function addressOf(client: Awaited<ReturnType<Site['views']['client']>>) {
  const { client_uri, redirect_uris = [], isUnchecked } = client ?? {}
  const hosts = [...new Set(redirect_uris.map(hostOf))]
  if (isUnchecked) return { host: hosts.join(', ') }
  return {
    client_uri,
    host: client_uri === undefined ? hosts[0] : hostOf(client_uri),
  }
}
