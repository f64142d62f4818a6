// The pages of the core, by path.

import Router from '@koa/router'
import type { Middleware } from 'koa'
import type { Feature, LibraryProvider } from '../provider/feature.ts'
import { createAccountPages } from './account.ts'
import type { AccountAccess } from './account-access.ts'
import { createApplicationPages } from './applications.ts'
import { consentPage } from './consent.ts'
import { createInteractionPages, type Interactions } from './interaction.ts'
import { PLACES } from './page-data.ts'
import type { PageExtensions, Parts } from './parts.ts'
import { createSessionPages } from './sessions.ts'
import { selectAccountPage, signInPage } from './sign-in.ts'

/** Dependencies of the pages of a feature. */
export interface Site {
  parts: Parts
  access: AccountAccess
  provider: LibraryProvider
}

/** A feature that may have pages. */
export interface PageFeature extends Feature, PageExtensions {
  /** Adds pages to the router. */
  addPages?(pages: Router, site: Site): void
  /** Runs before the provider, for each request that is not for a page of the router. */
  guard?(site: Site): Middleware
}

/** Returns the router of the pages. `signOut`: path of the end session endpoint. */
export function createPages(
  parts: Parts,
  access: AccountAccess,
  interactions: Interactions,
  signOut: string,
): Router {
  const promptPages = [signInPage(parts), consentPage(parts), selectAccountPage(parts)]
  const interaction = createInteractionPages(parts, access, interactions, promptPages)
  const applications = createApplicationPages(parts, access)
  const sessions = createSessionPages(parts, access, signOut)
  const account = createAccountPages(parts, access, signOut)
  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, account.home)
    .get(PLACES.applications, applications.list)
    .get(PLACES.removal, applications.askRemoval)
    .post(PLACES.removal, applications.remove)
    .get(PLACES.sessions, sessions.list)
    .get(PLACES.end, sessions.askEnd)
    .post(PLACES.end, sessions.end)
    .get(PLACES.password, account.password)
    .post(PLACES.password, account.changePassword)
    .get('/account/signed-in', access.comeBack)
  for (const { path, send } of parts.views.assets) pages.get(path, send)
  return pages
}
