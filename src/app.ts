// The whole service on one screen: the features, the pages, and the Koa application that answers each
// request with one of them or with the library.

import type { RequestListener } from 'node:http'
import type { RouterContext } from '@koa/router'
import Koa from 'koa'
import mount from 'koa-mount'
import { pino } from 'pino'
import type { Directory } from './accounts/directory.ts'
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
import { health, type Readiness } from './http/health.ts'
import { limitAnonymous, limits } from './http/limits.ts'
import { requestLog } from './http/log.ts'
import { createMetrics } from './http/metrics.ts'
import { securityHeaders } from './http/security-headers.ts'
import { openSigningKeys } from './keys/signing-keys.ts'
import { createErrorPages } from './pages/error.ts'
import { checkOwnTemplates } from './pages/own-templates.ts'
import { PLACES } from './pages/page-data.ts'
import { createParts } from './pages/parts.ts'
import { createPeople } from './pages/people.ts'
import { createPages } from './pages/routes.ts'
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
  const requests = createAccessRequests(records, settings)
  const parts = createParts(environment, directory, views, {
    detailWords: (words, detail) => detailWords(words, settings, detail),
    waiting: async ({ id, ended }) =>
      settings.features.ciba ? (await requests.list(id, ended)).length : 0,
  })
  const errorPages = createErrorPages(parts)
  const showError = showsErrors(errorPages.show)
  const surroundings = { ...environment, directory }
  const features = featuresOf(surroundings, routes, views, showError)
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
  const interactions = createInteractions(provider, settings)
  const pages = createPages(parts, people, interactions, routes.paths.end_session)
  if (settings.features.ciba) {
    const answers = createRequestPages(parts, people, provider, surroundings)
    pages
      .get(PLACES.requests, answers.list)
      .get(PLACES.answer, answers.ask)
      .post(PLACES.answer, answers.answer)
  }
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
      isSignedIn: people.isSignedIn,
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

/** The features beside the core protocol. Settings turn each one on or off. */
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
