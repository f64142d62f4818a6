// The pages of the core, by path.

import Router from '@koa/router'
import type { Feature, FeaturePrompt } from '../provider/feature.ts'
import { createAccountPages } from './account.ts'
import { createApplicationPages } from './applications.ts'
import { createInteractionPages, type PromptPage } from './interaction.ts'
import { type Area, PLACES } from './page-data.ts'
import { createSessionPages } from './sessions.ts'
import { type PasskeySignIn, signInPage } from './sign-in.ts'
import { type PageExtensions, RECENT_SECONDS, type Site } from './site.ts'

/** A feature that may have pages. */
export interface PageFeature extends Feature, PageExtensions {
  /** By name. The page of a step answers with `completeSignIn` (provider/interactions.ts). */
  prompts?: Record<string, FeaturePrompt & { page(site: Site): PromptPage }>
  /** Returns the sign-in with a passkey, if users can sign in with one. */
  passkeySignIn?(site: Site): PasskeySignIn | undefined
  /** Entries of the account navigation. A sign-in may return to their pages. */
  areas?: Area[]
  /** Adds pages to the router. */
  addPages?(pages: Router, site: Site): void
}

/** Returns the router of the pages. */
export function createPages(site: Site, features: PageFeature[]): Router {
  const { signedIn, submitted } = site
  const prompts = features.flatMap(feature => Object.entries(feature.prompts ?? {}))
  const more = prompts.map(([name, { page }]) => [name, page(site)] as const)
  const [passkeys] = features.flatMap(feature => feature.passkeySignIn?.(site) ?? [])
  const login = ['login', signInPage(site, passkeys)] as const
  const interaction = createInteractionPages(site, [login, ...more])
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
