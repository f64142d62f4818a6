// The pages of the core, by path.

import Router from '@koa/router'
import { activityPage } from './account/activity.ts'
import { createApplicationPages } from './account/applications.ts'
import { homePage } from './account/overview.ts'
import type { PageFeature } from './account/page-feature.ts'
import { passwordPage } from './account/password.ts'
import {
  addSecurityPage,
  type FactorsOfAccount,
  type MethodsOfAccount,
} from './account/security.ts'
import { createSessionPages } from './account/sessions.ts'
import { CHANGE_PASSWORD } from './oidc/endpoints.ts'
import { isMethodUsed, PASSWORD } from './oidc/vocabulary.ts'
import { PLACES } from './pages/page-data.ts'
import { RECENT_SECONDS } from './sign-in/changes.ts'
import { createInteractionPages } from './sign-in/interaction-pages.ts'
import { promptPages } from './sign-in/prompts.ts'
import type { PasskeySignIn, SignInMethod } from './sign-in/sign-in-page.ts'
import type { Site } from './sign-in/site.ts'

/** Parts of features for pages of the core. Absent: the feature is off. */
interface PageParts {
  /** The methods of sign-in beside the password. */
  signInMethods?: SignInMethod[]
  passkeySignIn?: PasskeySignIn
  factors?: FactorsOfAccount
  methods?: MethodsOfAccount
}

/** Returns the router of the pages. */
export function createPages(
  site: Site,
  features: PageFeature[],
  { signInMethods = [], passkeySignIn, factors, methods }: PageParts,
): Router {
  const { signedIn, changing, directory, settings } = site
  const also = { methods: signInMethods, passkeySignIn }
  const interaction = createInteractionPages(
    site,
    promptPages(features, site, also),
  )
  const applications = createApplicationPages(site)
  const sessions = createSessionPages(site)
  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, signedIn(homePage(site, factors, methods)))
    .get(PLACES.applications, signedIn(applications.list))
    .get(PLACES.removal, signedIn(applications.askRemoval, RECENT_SECONDS))
    .post(PLACES.removal, signedIn(applications.remove, RECENT_SECONDS))
    .get(PLACES.sessions, signedIn(sessions.list))
    .get(PLACES.activity, signedIn(activityPage(site)))
    .get(PLACES.end, signedIn(sessions.askEnd, RECENT_SECONDS))
    .post(PLACES.end, signedIn(sessions.end, RECENT_SECONDS))
    .get('/account/signed-in', site.comeBack)
  addSecurityPage(pages, site, factors, methods)
  // Passwords of a source outside are changed there: no page, and so no address
  // of it.
  if (directory.isOwn) {
    const password = passwordPage(site, directory)
    pages.get(PLACES.password, changing('password_changed', password.show))
    pages.post(PLACES.password, changing('password_changed', password.submit))
    const isUsed = isMethodUsed(settings.sign_in, PASSWORD)
    if (isUsed) pages.get(CHANGE_PASSWORD, ctx => ctx.redirect(PLACES.password))
  }
  for (const { path, send } of site.views.assets) pages.get(path, send)
  return pages
}
