// The whole service on one screen: the features, the pages, and the Koa application that answers each
// request with one of them or with the library.

import type { RequestListener } from 'node:http'
import Router, { type RouterContext } from '@koa/router'
import Koa from 'koa'
import mount from 'koa-mount'
import { pino } from 'pino'
import { createAuthentication, createRememberedBrowsers } from './accounts/authentication.ts'
import { createConsents } from './accounts/consents.ts'
import type { Directory } from './accounts/directory.ts'
import { createAccountSessions } from './accounts/sessions.ts'
import { openDirectory } from './accounts/source.ts'
import type { Settings } from './config/load.ts'
import { createAuthorizationDetails, detailWords } from './features/authorization-details.ts'
import { createAccessRequests } from './features/ciba/access-requests.ts'
import { ciba } from './features/ciba/feature.ts'
import { createRequestPages } from './features/ciba/page.ts'
import { clientDocuments } from './features/client-metadata-documents.ts'
import { deviceFlow } from './features/device/feature.ts'
import { guardDevicePage } from './features/device/page.ts'
import { dpop } from './features/dpop.ts'
import { fapi } from './features/fapi.ts'
import { logout } from './features/logout/feature.ts'
import { mutualTls } from './features/mtls.ts'
import { registration } from './features/registration/feature.ts'
import { resourceIndicators } from './features/resources/feature.ts'
import { responseModes } from './features/response-modes.ts'
import { edge, originForm } from './http/edge.ts'
import { errors } from './http/errors.ts'
import { createCsrf } from './http/forms.ts'
import { health, type Readiness } from './http/health.ts'
import { limitAnonymous, limits } from './http/limits.ts'
import { requestLog } from './http/log.ts'
import { createMetrics } from './http/metrics.ts'
import { securityHeaders } from './http/security-headers.ts'
import { createSignatures } from './http/signatures.ts'
import { openSigningKeys } from './keys/signing-keys.ts'
import { createAccountPage } from './pages/account.ts'
import { createApplicationPages } from './pages/applications.ts'
import { consentScreen } from './pages/consent.ts'
import { createErrorPages } from './pages/error.ts'
import { createInteractionPages } from './pages/interaction.ts'
import { checkOwnTemplates } from './pages/own-templates.ts'
import { PLACES } from './pages/page-data.ts'
import type { Parts } from './pages/parts.ts'
import { createPasswordPages } from './pages/password.ts'
import { createPeople, type People } from './pages/people.ts'
import { selectAccountScreen } from './pages/select-account.ts'
import { createSessionPages } from './pages/sessions.ts'
import { signInScreen } from './pages/sign-in.ts'
import { createViews, type Views } from './pages/views.ts'
import {
  createProvider,
  type Environment,
  type ShowError,
  showsErrors,
} from './provider/configuration.ts'
import { createDeliver, type Deliver } from './provider/deliveries.ts'
import {
  authorizeByPost,
  canonicalPaths,
  finishAnswers,
  limitBodies,
} from './provider/endpoints.ts'
import { logFaults } from './provider/events.ts'
import { createFailureMemory } from './provider/failures.ts'
import type { Feature } from './provider/feature.ts'
import { createBrowserSession, createInteractions } from './provider/interactions.ts'
import { anonymousWrites, type Routes, routesOf } from './provider/routes.ts'
import { openInstallation } from './storage/open.ts'
import { deriveKey } from './storage/seal.ts'

type Provider = Awaited<ReturnType<typeof createProvider>>

export interface App {
  provider: Provider
  handle: RequestListener
  /** Sends the notifications of clients that are due in a queue. */
  deliver: Deliver
}

/** Throws a `ConfigError` for clients that the library, and templates that a page would refuse later. */
export async function createApp(environment: Environment, readiness: Readiness): Promise<App> {
  const { settings, records, log, metrics } = environment
  checkOwnTemplates(settings)
  const routes = routesOf(settings.features)
  const directory = await openDirectory(settings, records, log)
  const views = createViews(settings, { registered: id => describeClient(id) })
  const parts = partsOf(environment, directory, views)
  const errorPages = createErrorPages(parts)
  const showError = showsErrors(errorPages.show)
  const features = featuresOf({ ...environment, directory }, routes, views, showError)
  const surroundings = { ...environment, directory }
  const provider = await createProvider(surroundings, features, {
    error: showError,
    tags: views.tags,
  })
  const describeClient = async (id: string) => {
    const found = features.map(feature => feature.describeClient?.(provider, id))
    return (await Promise.all(found)).find(Boolean)
  }
  const browserSession = createBrowserSession(provider, settings)
  const people = createPeople(parts, browserSession, routes.paths.authorization)
  const pages = pagesOf(surroundings, { parts, people, provider, routes })
  pages.get('/errors', errorPages.explain)
  const showPage = pages.routes()

  const app = new Koa({ proxy: true })
  app.on('error', logFaults(log))
  app.use(securityHeaders(settings.issuer))
  app.use(requestLog(log, metrics, createFailureMemory(records)))
  // CIBA §13 has two members for an error.
  app.use(errors(errorPages, [routes.paths.backchannel_authentication]))
  app.use(originForm(settings.issuer))
  app.use(health(readiness))
  app.use(edge(settings, Object.values(routes.byCertificate)))
  app.use(limits)
  // Only the provider has keys to sign cookies with.
  app.use((ctx, next) => {
    ctx.cookies = provider.createContext(ctx.req, ctx.res).cookies
    return next()
  })
  app.use((_ctx, next) => records.during(next))
  app.use(
    limitAnonymous(settings.limits, {
      ...anonymousWrites(routes),
      seconds: settings.lifetimes.interaction,
      isSignedIn: async ctx => (await browserSession.read(ctx)) !== undefined,
    }),
  )
  // Dozens of patterns that no endpoint fits.
  app.use((ctx: RouterContext, next) => (routes.methods[ctx.path] ? next() : showPage(ctx, next)))
  app.use(canonicalPaths(routes))
  if (settings.features.device_flow) app.use(guardDevicePage(people, views, records))
  app.use(authorizeByPost)
  app.use(limitBodies(routes))
  app.use(finishAnswers(views, routes, settings, features))
  app.use(mount(provider))
  return {
    provider,
    handle: app.callback(),
    deliver: createDeliver(provider, features, environment),
  }
}

/** What this Usher speaks beside the core. Each feature is off or on by its own settings. */
function featuresOf(
  environment: Environment & { directory: Directory },
  { byCertificate }: Routes,
  views: Views,
  showError: ShowError,
): Feature[] {
  const { settings, records, keys } = environment
  const details = createAuthorizationDetails(settings)
  return [
    details.feature,
    resourceIndicators(settings, keys, details),
    dpop(settings, records),
    mutualTls(settings, byCertificate),
    fapi(),
    responseModes(settings, views),
    registration(settings, records),
    clientDocuments(settings),
    deviceFlow(settings, records, views, showError),
    ciba(environment),
    logout(settings, records, views),
  ]
}

function partsOf(
  { settings, secrets, records }: Environment,
  directory: Directory,
  views: Views,
): Parts {
  const signatures = (purpose: string) =>
    createSignatures(secrets.map(secret => deriveKey(secret, purpose)))
  const devices = createRememberedBrowsers(signatures('devices'), settings.development)
  const requests = createAccessRequests(records, settings)
  return {
    settings,
    clients: new Map(settings.clients.map(client => [client.client_id, client])),
    views,
    csrf: createCsrf(signatures('csrf')),
    directory,
    authentication: createAuthentication(records, directory, devices, settings.security),
    consents: createConsents(records),
    sessions: createAccountSessions(records),
    detailWords: (words, detail) => detailWords(words, settings, detail),
    waiting: async ({ id, ended }) =>
      settings.features.ciba ? (await requests.list(id, ended)).length : 0,
  }
}

interface Site {
  parts: Parts
  people: People
  provider: Provider
  routes: Routes
}

function pagesOf(
  environment: Environment & { directory: Directory },
  { parts, people, provider, routes: { paths } }: Site,
): Router {
  const { settings } = environment
  const screens = [signInScreen(parts), consentScreen(parts), selectAccountScreen(parts)]
  const interaction = createInteractionPages(parts, createInteractions(provider, settings), screens)
  const applications = createApplicationPages(parts, people)
  const sessions = createSessionPages(parts, people, paths.end_session)
  const password = createPasswordPages(parts, people)
  const pages = new Router({ sensitive: true, strict: true })
    .get('/', ctx => ctx.redirect('/account'))
    .get('/interaction/:uid', interaction.show)
    .post('/interaction/:uid', interaction.submit)
    .get(PLACES.home, createAccountPage(parts, people, paths.end_session))
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
  if (settings.features.ciba) {
    const requests = createRequestPages(parts, people, provider, environment)
    pages
      .get(PLACES.requests, requests.list)
      .get(PLACES.answer, requests.ask)
      .post(PLACES.answer, requests.answer)
  }
  for (const { path, send } of parts.views.assets) pages.get(path, send)
  return pages
}

/** Builds an app that nobody uses. Throws a `ConfigError` with everything that would keep it from starting. */
export async function checkSettings(settings: Settings): Promise<void> {
  const { store, ...installation } = await openInstallation('sqlite::memory:', [])
  const log = pino({ enabled: false })
  const signingKeys = await openSigningKeys(installation.records, settings)
  const keys = await signingKeys.load()
  const environment = { settings, ...installation, keys, log, metrics: createMetrics() }
  const readiness: Readiness = { state: 'ready', probe: async () => {}, checks: [] }
  await createApp(environment, readiness).finally(() => store.close())
}
