// The whole product: features, provider, pages, and the middleware of the Koa
// application in order.
//
// The folder src/: the process (main.ts, server.ts), its reload (reload.ts), the
// paths of pages (routes.ts), and this file. Not here: what a request does.
//
//   request                  reload.ts hands it to the app in force
//   endpoint for programs    jsonHeaders, `edges`, quota, the library
//   page                     pageHeaders, `edges`, quota, the page; or the library

import Koa, { type Middleware } from 'koa'
import compose from 'koa-compose'
import mount from 'koa-mount'
import { userEvents } from './account/activity.ts'
import { createMailQueues } from './account/mail-queue.ts'
import type { PageFeature } from './account/page-feature.ts'
import type { Settings } from './config/load.ts'
import { ConfigError } from './config/report/finding.ts'
import { libraryFindings } from './config/rules/client.ts'
import { hasPasskeys } from './config/schema/upstream.ts'
import { openSource } from './features/accounts-module.ts'
import { applicationAccess } from './features/application-access.ts'
import { authorizationDetails } from './features/authorization-details.ts'
import { ciba } from './features/ciba/feature.ts'
import { deviceFlow } from './features/device.ts'
import { createFactors, type FactorStore } from './features/factors/factors.ts'
import { accountLinks } from './features/link-pages.ts'
import { createLinks, type Own } from './features/links.ts'
import { logout, receivesLogoutTokens } from './features/logout.ts'
import { mail } from './features/mail/feature.ts'
import { mutualTls } from './features/mtls.ts'
import {
  clientDocuments,
  completeDocuments,
} from './features/registration/documents.ts'
import { registration } from './features/registration/feature.ts'
import { resourceIndicators } from './features/resources.ts'
import { selfService, signUp } from './features/self-service.ts'
import { tokenExchange } from './features/token-exchange/feature.ts'
import { createSessions } from './oidc/adapter/sessions.ts'
import { RefusedClients } from './oidc/clients.ts'
import { Consents } from './oidc/consents.ts'
import type { Fetch, ProviderDependencies } from './oidc/dependencies.ts'
import {
  canonicalPaths,
  ERROR_FORMATS,
  finishAnswers,
  isEndpointForPrograms,
  routesOf,
  storedPaths,
} from './oidc/endpoints.ts'
import { described } from './oidc/error-descriptions.ts'
import {
  type LibraryProvider,
  merged,
  type Parts,
  type ShowError,
} from './oidc/feature.ts'
import { createProvider } from './oidc/provider.ts'
import { stateLifetimes } from './oidc/tokens.ts'
import { clientInfoOf } from './operation/client-info.ts'
import { cacheKeySets } from './operation/client-key-sets.ts'
import { createClientUses } from './operation/client-uses.ts'
import { edge, jsonHeaders, originForm, pageHeaders } from './operation/edge.ts'
import { createFetch, createStrangersFetch } from './operation/egress.ts'
import type { Environment } from './operation/environment.ts'
import { errors } from './operation/errors.ts'
import { createDeliver, logEvents, logFaults } from './operation/events.ts'
import { createFailureLog } from './operation/failures.ts'
import { health, type Readiness } from './operation/health.ts'
import { limitStored, limits } from './operation/limits.ts'
import { requestLog } from './operation/log.ts'
import { byPost } from './pages/by-post.ts'
import { createErrorPages } from './pages/error.ts'
import type { Area } from './pages/page-data.ts'
import { checkOperatorTemplates } from './pages/templates.ts'
import {
  AREAS,
  areasInOrder,
  createViews,
  type PageAdditions,
} from './pages/views.ts'
import { createPages } from './routes.ts'
import { type Account, claimsOf } from './sign-in/account.ts'
import { createProofs } from './sign-in/changes.ts'
import type { Dependencies } from './sign-in/dependencies.ts'
import { createDirectory, type OwnAccounts } from './sign-in/directory.ts'
import { promptsOf } from './sign-in/prompts.ts'
import { createRateLimit } from './sign-in/rate-limit.ts'
import { changeProofs, createSite } from './sign-in/site.ts'
import { nextTurn } from './store/turns.ts'

/**
 * Returns the application of one configuration. Throws a `ConfigError` for a
 * client or a template that would fail at its first use. `more`: features
 * beside ours.
 */
export async function createApp(
  environment: Environment,
  readiness: Readiness,
  more: PageFeature[] = [],
) {
  const { settings, records, log } = environment
  const routes = routesOf(settings.features)

  // Objects, each built once
  const dependencies = await createDependencies(environment)
  const own = ownAccounts(dependencies)
  const factorStore = createFactors(records)
  checkOperatorTemplates(settings)
  const additions: PageAdditions = { areas: AREAS }
  const views = createViews(settings, additions)
  const errorPages = createErrorPages(settings, views)
  const showError = showErrorOf(errorPages)

  // Features. Those that are undefined are off
  const upstreams = own && (await loadUpstreams(dependencies, own.directory))
  const factors = await loadFactors(dependencies, factorStore)
  const exchange = tokenExchange(dependencies)
  const registered = registration(dependencies)
  const backchannel = ciba(dependencies)
  const parts: Parts = {
    factors,
    registration: settings.features.dynamic_registration
      ? registered
      : undefined,
    ciba: settings.features.ciba ? backchannel : undefined,
    tokenExchange: exchange,
  }
  const all: (PageFeature | undefined)[] = [
    changeProofs(dependencies),
    selfService(dependencies, own),
    signUp(dependencies, own),
    applicationAccess(),
    resourceIndicators(dependencies),
    exchange,
    mutualTls(settings, routes.byCertificate),
    registered,
    clientDocuments(dependencies),
    deviceFlow(dependencies, views, showError),
    authorizationDetails(settings),
    upstreams,
    factors,
    backchannel,
    accountLinks(dependencies, factorStore, own),
    mail(dependencies, views, own),
    logout(settings, records, views, upstreams?.signOutAt),
    ...more,
  ]
  const features = all.filter(feature => feature !== undefined)
  additions.areas = areasOf(features)

  // The provider
  const provider = await createProvider(dependencies, features, parts, {
    showError,
    handOver: views.handOver,
    prompts: promptsOf(features),
    tags: views.tags,
  }).catch(error => refuseClients(error, settings))
  additions.describeClient = describerOf(features, provider)
  const uses = createClientUses(records, settings)
  logEvents(provider, environment, uses)

  // The pages
  const site = createSite(dependencies, views, provider, factors, backchannel)
  const pages = createPages(site, features, {
    signInMethods: upstreams?.signInMethods,
    passkeySignIn: factors?.passkeySignIn(site),
    factors: factors?.ofAccount(site),
    methods: upstreams?.ofAccount(site),
  })
  for (const feature of features) feature.addPages?.(pages, site)
  pages.get('/errors', errorPages.explain)

  // Two lanes: endpoints for programs, and pages
  const stored = storedPaths(routes)
  const edges = [
    requestLog(environment, createFailureLog(records, settings)),
    errors(errorPages, ERROR_FORMATS, settings.development),
    originForm(settings.issuer),
    health(readiness),
    edge(settings, Object.values(routes.byCertificate)),
    // The length of the URL, and how a page may send it. `quota` has the rate.
    limits(stored),
  ]
  const quota = limitStored(settings.limits, {
    ...stored,
    // The longest lifetime of what such a request stores.
    seconds: stateLifetimes(settings).pushedRequest,
    accountOf: async ctx => (await site.browserSession.read(ctx))?.accountId,
  })
  // The library answers what is thrown inside it: OAuth errors, 503 for an
  // unavailable store, 500 for others. `errors` answers what is thrown around
  // it, and completes every error answer.
  const library = [
    canonicalPaths(routes),
    finishAnswers(views, routes, dependencies, features),
    mount(provider),
  ]
  const forPrograms = compose([
    jsonHeaders(settings.issuer),
    ...edges,
    registered.acceptWithoutToken,
    quota,
    ...library,
  ])
  const forPages = compose([
    pageHeaders(settings.issuer),
    ...edges,
    userEvents(settings, records, views, own),
    byPost(views, routes),
    quota,
    pages.routes() as Middleware,
    ...library,
  ])

  const app = new Koa({ proxy: true })
  // The provider signs its cookies with the keys of the outer application,
  // whose context it gets.
  app.keys = provider.keys
  app.on('error', logFaults(log))
  app.use(async (ctx, next) => {
    await nextTurn()
    const lane = isEndpointForPrograms(ctx.path) ? forPrograms : forPages
    return lane(ctx, next)
  })
  /**
   * Sends the queued notifications that are due, each to its client, and writes
   * when clients were used.
   */
  const deliver = createDeliver(provider, [...features, uses], environment)
  // reload.ts calls the `handle` of the configuration in force.
  return {
    provider,
    accounts: dependencies.directory,
    handle: app.callback(),
    deliver,
  }
}

/** Returns the objects that the provider and the features use. */
async function createDependencies(
  environment: Environment,
): Promise<Dependencies> {
  const { settings, records, log } = environment
  const sessions = createSessions(
    records,
    receivesLogoutTokens(settings),
    clientInfoOf,
  )
  const consents = new Consents(records)
  const { module } = settings.accounts
  const directory = module
    ? await openSource(module, records, sessions, log)
    : createDirectory(records, sessions, consents)
  const ofProvider: ProviderDependencies<Account> = {
    ...environment,
    sessions,
    consents,
    users: {
      findEnabled: directory.findEnabled,
      recordName: directory.recordName,
      claimsOf: account => claimsOf(account, settings.claims),
    },
    fetch: fetchOf(environment),
  }
  return {
    ...ofProvider,
    ...environment,
    directory,
    attempts: createRateLimit(records),
    proofs: createProofs(records, settings),
  }
}

/** Returns what sends the requests of the library to addresses of clients. */
function fetchOf({ settings, failureTimes }: Environment): Fetch {
  const { egress } = settings
  const senders = {
    forOperator: createFetch(egress, failureTimes?.requestMs),
    forStrangers: createStrangersFetch(egress, failureTimes?.requestMs),
  }
  const fetch = cacheKeySets(senders, settings)
  const hasDocuments = settings.features.client_id_metadata_documents
  return hasDocuments ? completeDocuments(settings, fetch) : fetch
}

/**
 * Returns the accounts of Usher, their links and mails; undefined where a module of
 * the operator has the accounts.
 */
function ownAccounts({ directory, records }: Dependencies): Own | undefined {
  if (!directory.isOwn) return undefined
  return {
    directory,
    links: createLinks(records, directory),
    mails: createMailQueues(records),
  }
}

/**
 * Loads the sign-in at upstream issuers, with its library, only where there are
 * some.
 */
async function loadUpstreams(
  dependencies: Dependencies,
  directory: OwnAccounts,
) {
  const hasUpstreams = Object.keys(dependencies.settings.upstreams).length > 0
  if (!hasUpstreams) return undefined
  const { upstreamSignIn } = await import('./features/upstream/feature.ts')
  return upstreamSignIn(dependencies, directory)
}

/**
 * Loads second factors and passkeys, with their libraries, only where they are
 * configured.
 */
async function loadFactors(dependencies: Dependencies, store: FactorStore) {
  const { sign_in } = dependencies.settings
  const isOn = sign_in.second_factor !== 'off' || hasPasskeys(sign_in)
  if (!isOn) return undefined
  const { secondFactors } = await import('./features/factors/feature.ts')
  return secondFactors(dependencies, store)
}

/**
 * Shows an error of the library. An interaction that has expired has its own
 * text.
 */
function showErrorOf(
  errorPages: ReturnType<typeof createErrorPages>,
): ShowError {
  return (ctx, out, { name }) => {
    const isGone = name === 'SessionNotFound'
    return errorPages.show(
      ctx,
      isGone ? { error: 'interaction_gone' } : described(ctx, out),
    )
  }
}

/** Returns the account navigation. Throws if two entries have one path. */
function areasOf(features: PageFeature[]): Area[] {
  const byPath = (areas: Area[] = []) =>
    Object.fromEntries(areas.map(area => [area.path, area]))
  const all = merged(
    features,
    'account page',
    ({ areas }) => byPath(areas),
    byPath(AREAS),
  )
  return areasInOrder(Object.values(all))
}

/**
 * Returns the function that finds the metadata of a client that is not in the
 * config folder.
 */
function describerOf(
  features: PageFeature[],
  provider: LibraryProvider,
): PageAdditions['describeClient'] {
  return async (id, ctx) => {
    const found = features.map(feature =>
      feature.describeClient?.(provider, id, ctx),
    )
    return (await Promise.all(found)).find(Boolean)
  }
}

/**
 * Throws the clients that the library refuses as findings of their files, and
 * any other error as it is.
 */
function refuseClients(error: unknown, settings: Settings): never {
  if (!(error instanceof RefusedClients)) throw error
  throw new ConfigError(libraryFindings(error.refused, settings))
}
