// The pages of the core, by path.

import Router from '@koa/router'
import type { Middleware } from 'koa'
import type { Feature, LibraryProvider } from '../provider/feature.ts'
import { createAccountPage } from './account.ts'
import { createApplicationPages } from './applications.ts'
import { consentPage } from './consent.ts'
import { createInteractionPages, type Interactions } from './interaction.ts'
import { PLACES } from './page-data.ts'
import type { PageExtensions, Parts } from './parts.ts'
import { createPasswordPages } from './password.ts'
import type { People } from './people.ts'
import { createSessionPages } from './sessions.ts'
import { selectAccountPage, signInPage } from './sign-in.ts'

/** Dependencies of the pages of a feature. */
export interface Site {
  parts: Parts
  people: People
  provider: LibraryProvider
}

/** A feature that may have pages. */
export interface PageFeature extends Feature, PageExtensions {
  /** Adds pages to the router. */
  addPages?(pages: Router, site: Site): void
  /** Runs before the provider, for each request that is not for a page of the router. */
  guard?(site: Site): Middleware
}

/** `signOut`: the path of the end session endpoint. */
export function createPages(
  parts: Parts,
  people: People,
  interactions: Interactions,
  signOut: string,
): Router {
  const promptPages = [signInPage(parts), consentPage(parts), selectAccountPage(parts)]
  const interaction = createInteractionPages(parts, people, interactions, promptPages)
  const applications = createApplicationPages(parts, people)
  const sessions = createSessionPages(parts, people, signOut)
  const password = createPasswordPages(parts, people)
  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, createAccountPage(parts, people, signOut))
    .get(PLACES.applications, applications.list)
    .get(PLACES.removal, applications.askRemoval)
    .post(PLACES.removal, applications.remove)
    .get(PLACES.sessions, sessions.list)
    .get(PLACES.end, sessions.askEnd)
    .post(PLACES.end, sessions.end)
    .get(PLACES.endOthers, sessions.askEndOthers)
    .post(PLACES.endOthers, sessions.endOthers)
    .get(PLACES.password, password.show)
    .post(PLACES.password, password.change)
    .get('/account/signed-in', people.comeBack)
  for (const { path, send } of parts.views.assets) pages.get(path, send)
  return pages
}
