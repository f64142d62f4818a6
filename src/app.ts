// The whole service on one screen: what stands before a request, our pages, and the library.

import Router, { type RouterContext } from '@koa/router'
import { createAuthentication, createRememberedBrowsers } from './accounts/authentication.ts'
import { createConsents } from './accounts/consents.ts'
import { createRateLimit } from './accounts/rate-limit.ts'
import { createAccountSessions } from './accounts/sessions.ts'
import { openDirectory } from './accounts/source.ts'
import { createAccessRequests } from './features/ciba/access-requests.ts'
import { createRequestAnswers } from './features/ciba/feature.ts'
import { createRequestPages } from './features/ciba/page.ts'
import { findByDocument } from './features/client-metadata-documents.ts'
import { createDevicePages, guardDevicePage } from './features/device/page.ts'
import { findRegistered } from './features/registration/feature.ts'
import { edge, originForm } from './http/edge.ts'
import { errors } from './http/errors.ts'
import { createCsrf } from './http/forms.ts'
import { health, type Readiness } from './http/health.ts'
import { limits } from './http/limits.ts'
import { requestLog } from './http/request-log.ts'
import { securityHeaders } from './http/security-headers.ts'
import { createSignatures } from './http/signatures.ts'
import { createAccountPage } from './pages/account.ts'
import { createApplicationPages } from './pages/applications.ts'
import { consentScreen } from './pages/consent.ts'
import { createErrorPages } from './pages/error.ts'
import { createInteractionPages } from './pages/interaction.ts'
import { checkOwnTemplates } from './pages/own-templates.ts'
import { PLACES } from './pages/page-data.ts'
import type { Parts } from './pages/parts.ts'
import { createPasswordPages } from './pages/password.ts'
import { createPeople } from './pages/people.ts'
import { selectAccountScreen } from './pages/select-account.ts'
import { createSessionPages } from './pages/sessions.ts'
import { signInScreen } from './pages/sign-in.ts'
import { createSignOutPages } from './pages/sign-out.ts'
import { createViews } from './pages/views.ts'
import { createProvider, type Environment } from './provider/configuration.ts'
import {
  authorizeByPost,
  canonicalPaths,
  finishAnswers,
  limitBodies,
} from './provider/endpoints.ts'
import { createFailureMemory } from './provider/failures.ts'
import { createBrowserSession, createInteractions } from './provider/interactions.ts'
import { publish } from './provider/published.ts'
import { routesOf } from './provider/routes.ts'
import { deriveKey } from './storage/seal.ts'

/** Makes the service; throws a `ConfigError` for clients that the library, and templates that a page would refuse later. */
export async function createApp(environment: Environment, readiness: Readiness) {
  const { settings, secrets, records, log, metrics } = environment
  checkOwnTemplates(settings)
  const registered = findRegistered(settings, records)
  const views = createViews(settings, {
    registered: async id => (await registered(id)) ?? findByDocument(app, settings, id),
  })
  const routes = routesOf(settings.features)
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const directory = await openDirectory(settings, records, log)
  const devices = createRememberedBrowsers(signatures('devices'), settings.development)
  const parts: Parts = {
    settings,
    clients: new Map(settings.clients.map(client => [client.client_id, client])),
    views,
    csrf: createCsrf(signatures('csrf')),
    directory,
    authentication: createAuthentication(records, directory, devices, settings.security),
    consents: createConsents(records),
    sessions: createAccountSessions(records),
    requests: createAccessRequests(records, settings),
  }

  const errorPages = createErrorPages(parts)
  const device = createDevicePages(views)
  const app = await createProvider(
    { ...environment, directory },
    {
      error: errorPages.show,
      ...createSignOutPages(views),
      formPost: views.formPost,
      device,
      tags: views.tags,
    },
  )
  const screens = [signInScreen(parts), consentScreen(parts), selectAccountScreen(parts)]
  const interaction = createInteractionPages(parts, createInteractions(app, settings), screens)
  const { authorization, end_session } = routes.paths
  const people = createPeople(parts, createBrowserSession(app, settings), authorization)
  const applications = createApplicationPages(parts, people)
  const sessions = createSessionPages(parts, people, end_session)
  const password = createPasswordPages(parts, people)

  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, createAccountPage(parts, people, end_session))
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
    .get('/errors', errorPages.explain)

  if (settings.features.ciba) {
    const answers = createRequestAnswers(app, { settings, records, directory })
    const requests = createRequestPages(parts, people, answers)
    pages
      .get(PLACES.requests, requests.list)
      .get(PLACES.answer, requests.ask)
      .post(PLACES.answer, requests.answer)
  }
  for (const { path, send } of Object.values(views.assets)) pages.get(path, send)

  app.use(securityHeaders(settings.issuer))
  app.use(requestLog(log, metrics, createFailureMemory(records)))
  app.use(errors(errorPages))
  app.use(originForm(settings.issuer))
  app.use(health(readiness))
  app.use(edge(settings, Object.values(routes.byCertificate)))
  app.use(limits)
  app.use(publish(routes))
  app.use((_ctx, next) => records.during(next))
  const showPage = pages.routes()
  // Dozens of patterns that no endpoint fits.
  app.use((ctx: RouterContext, next) => (routes.methods[ctx.path] ? next() : showPage(ctx, next)))
  app.use(canonicalPaths(routes))
  if (settings.features.device_flow) {
    app.use(guardDevicePage(people, createRateLimit(records), device))
  }
  app.use(authorizeByPost)
  app.use(limitBodies(routes))
  app.use(finishAnswers(views, routes, settings))
  return app
}
