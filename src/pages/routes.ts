// The pages of the core, by path.

import Router from '@koa/router'
import type { Feature } from '../provider/feature.ts'
import { createAccountPages } from './account.ts'
import { createApplicationPages } from './applications.ts'
import { createInteractionPages } from './interaction.ts'
import { PLACES } from './page-data.ts'
import { createSessionPages } from './sessions.ts'
import { type PageExtensions, RECENT_SECONDS, type Site } from './site.ts'

/** A feature that may have pages. */
export interface PageFeature extends Feature, PageExtensions {
  /** Adds pages to the router. */
  addPages?(pages: Router, site: Site): void
}

/** Returns the router of the pages. */
export function createPages(site: Site): Router {
  const { signedIn, submitted } = site
  const interaction = createInteractionPages(site)
  const applications = createApplicationPages(site)
  const sessions = createSessionPages(site)
  const account = createAccountPages(site)
  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, signedIn(account.home))
    .get(PLACES.applications, signedIn(applications.list))
    .get(PLACES.removal, signedIn(applications.askRemoval, RECENT_SECONDS))
    .post(PLACES.removal, submitted(applications.remove, RECENT_SECONDS))
    .get(PLACES.sessions, signedIn(sessions.list))
    .get(PLACES.end, signedIn(sessions.askEnd, RECENT_SECONDS))
    .post(PLACES.end, submitted(sessions.end, RECENT_SECONDS))
    .get(PLACES.password, signedIn(account.password))
    .post(PLACES.password, submitted(account.changePassword))
    .get('/account/signed-in', site.comeBack)
  for (const { path, send } of site.views.assets) pages.get(path, send)
  return pages
}
