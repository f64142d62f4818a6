// The endpoints of the protocol: their paths, and middleware around the
// library's answers. `canonicalPaths` checks path and method, and
// `finishAnswers` completes what the library has answered.

import type { Context, Middleware } from 'koa'
import { errors } from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { mapOf } from '../store/values.ts'
import { BOUNDS } from './bounds.ts'
import type {
  Oidc,
  ProtocolFeatures,
  ProviderDependencies,
} from './dependencies.ts'
import { described } from './error-descriptions.ts'
import { type Feature, type Finisher, merged } from './feature.ts'
import { clientErrorFor } from './library-overrides.ts'
import { logError, noteEvent } from './log.ts'
import { listedResponseModes, withQuery } from './response-modes.ts'

/** Paths of the discovery document (OpenID Connect Discovery, RFC 8414). */
export const DISCOVERY = [
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
]

interface Route {
  path: string
  /** Absent: POST alone. */
  methods?: string
  /** The feature that enables it; absent: always enabled. */
  feature?: keyof ProtocolFeatures
}

const API = '/api/oauth'

/** By the library's names. */
const ROUTES = {
  authorization: { path: `${API}/authorize`, methods: 'GET, POST' },
  token: { path: `${API}/token` },
  userinfo: { path: `${API}/userinfo`, methods: 'GET, POST' },
  jwks: { path: `${API}/jwks`, methods: 'GET' },
  revocation: { path: `${API}/revoke`, feature: 'revocation' },
  introspection: { path: `${API}/introspect`, feature: 'introspection' },
  pushed_authorization_request: {
    path: `${API}/par`,
    feature: 'pushed_authorization_requests',
  },
  end_session: {
    path: `${API}/logout`,
    methods: 'GET, POST',
    feature: 'rp_initiated_logout',
  },
  device_authorization: {
    path: `${API}/device_authorization`,
    feature: 'device_flow',
  },
  backchannel_authentication: {
    path: `${API}/backchannel_authentication`,
    feature: 'ciba',
  },
  code_verification: {
    path: '/device',
    methods: 'GET, POST',
    feature: 'device_flow',
  },
  challenge: { path: `${API}/challenge`, feature: 'client_attestation' },
  registration: { path: `${API}/register`, feature: 'dynamic_registration' },
} satisfies Record<string, Route>

/**
 * Endpoints where clients can authenticate by a certificate (mTLS), or use a
 * token that is bound to one.
 */
const WITH_CERTIFICATE = [
  'token',
  'userinfo',
  'revocation',
  'introspection',
  'pushed_authorization_request',
  'device_authorization',
  'backchannel_authentication',
]

/** The library's name of an endpoint. */
type RouteName = keyof typeof ROUTES
export const { authorization: AUTHORIZATION, registration: REGISTRATION } =
  ROUTES

/**
 * Returns the name of the endpoint at or above a path, whether it is enabled or
 * not.
 */
export function endpointOf(path: string): string | undefined {
  const isAt = ([, { path: at }]: [string, Route]) =>
    path === at || path.startsWith(`${at}/`)
  return Object.entries(ROUTES).find(isAt)?.[0]
}

/**
 * Where password managers find the page (W3C, A Well-Known URL for Changing
 * Passwords). Users open it.
 */
export const CHANGE_PASSWORD = '/.well-known/change-password'

const PROGRAMS =
  /^\/(\.well-known(?!\/change-password$)|api\/oauth(?!\/(authorize|logout)(\/|$)))\//i
/**
 * Whether only programs call a path: an endpoint of the protocol that shows no
 * page.
 */
export const isEndpointForPrograms = (path: string) => PROGRAMS.test(path)

/** The sign-out page without the feature; discovery does not list it. */
const SIGN_OUT = '/account/sign-out'

/** See `routesOf`. */
export type Routes = ReturnType<typeof routesOf>

/** Returns the paths and methods of the endpoints with these features. */
export function routesOf(features: ProtocolFeatures) {
  const all: [string, Route][] = Object.entries(ROUTES)
  const there = all.filter(([, { feature }]) => !feature || features[feature])
  const pathsOf = (routes: [string, Route][]) =>
    Object.fromEntries(
      routes.map(([name, { path }]) => [name, path]),
    ) as Record<RouteName, string>

  const endpoints: Partial<Record<RouteName, string>> = pathsOf(there)
  const paths = {
    ...pathsOf(all),
    end_session: endpoints.end_session ?? SIGN_OUT,
  }
  const confirm = `${paths.end_session}/confirm`
  const methods = new Map([
    ...DISCOVERY.map(path => [path, 'GET'] as const),
    [paths.end_session, 'GET'],
    ...there.map(([, { path, methods = 'POST' }]) => [path, methods] as const),
    // Where the browser returns from our pages, and registered clients (RFC
    // 7592).
    [`${paths.authorization}/:id`, 'GET'],
    [`${endpoints.code_verification}/:id`, 'GET'],
    [`${endpoints.registration}/:id`, 'GET, PUT, DELETE'],
    [`${paths.end_session}/success`, 'GET'],
    [confirm, 'POST'],
  ])
  return {
    /** All paths, for the library, which leaves out disabled endpoints. */
    paths,
    /** Paths of the enabled endpoints, which discovery lists. */
    endpoints,
    /** Endpoints where a client can authenticate by a certificate. */
    byCertificate: pathsOf(
      there.filter(
        ([name]) => features.mtls && WITH_CERTIFICATE.includes(name),
      ),
    ),
    /** Returns the methods of an endpoint; each path has one spelling. */
    methodsAt: (path: string): string | undefined =>
      methods.get(path) ?? methods.get(path.replace(/\/[\w-]{1,64}$/, '/:id')),
    /** Where the form of the sign-out page goes. */
    confirm,
  }
}

/** The form of errors, by path. */
export const ERROR_FORMATS = {
  /**
   * Endpoints whose errors have `error` and `error_description` only (CIBA
   * §13).
   */
  bare: /^\/api\/oauth\/backchannel_authentication$/,
  /**
   * Endpoints that scripts of browser applications call, as the library has it.
   */
  cors: /^\/(\.well-known\/(?!change-password$)|api\/oauth\/(token|userinfo|jwks|revoke|introspect|par|device_authorization)$)/,
  /** JSON, whatever `Accept` says (RFC 6749 §5.2). */
  json: new RegExp(`${PROGRAMS.source}|/backchannel-logout$`, 'i'),
}

/**
 * Paths where requests are stored before a user signs in. `byClient`: those
 * where clients authenticate.
 */
export function storedPaths({ paths, confirm }: Routes) {
  const byClient = [
    paths.pushed_authorization_request,
    paths.device_authorization,
  ]
  const pages = [paths.authorization, paths.end_session, confirm]
  return { pages, programs: [paths.registration], byClient }
}

/**
 * Accepts one spelling of each path. The library alone would accept
 * `/API/OAUTH/TOKEN/`, too.
 */
export function canonicalPaths({ methodsAt }: Routes): Middleware {
  return async (ctx, next) => {
    // Methods of the pages at this path. The router found none for the method
    // of the request.
    const ofPages: { methods: string[] }[] = ctx.matched ?? []
    const methods =
      methodsAt(ctx.path) ??
      ofPages.flatMap(({ methods }) => methods).join(', ')
    if (!methods) {
      return ctx.throw(
        404,
        `there is no endpoint at this path; they are listed in ${DISCOVERY[0]}`,
      )
    }
    await next()
    if (ctx.status === 404 && ctx.body == null) {
      ctx.set('Allow', methods)
      ctx.throw(405, `this endpoint takes ${methods}`)
    }
  }
}

/** Discovery and JWKS: for how long clients may cache them. */
const MAX_CACHE_SECONDS = 3600

/** Pages in place of answers of the library. */
interface AnswerPages {
  /** Redirects a GET; a page that navigates on for a POST. */
  navigate(ctx: Context, url: string): void
  /** A form that submits itself. */
  handOver(ctx: Context, action: string, fields: Record<string, unknown>): void
}

/**
 * Completes answers of the library: headers, error descriptions, and pages in
 * place of its HTML.
 */
export function finishAnswers(
  pages: AnswerPages,
  routes: Routes,
  dependencies: ProviderDependencies,
  features: Feature[],
): Middleware {
  const { paths, endpoints } = routes
  const finishers = finishersOf(pages, routes, dependencies, features)
  return async (ctx, next) => {
    if (ctx.path === paths.authorization) tidyScope(ctx)
    // Our own sign-out page accepts no parameters: no client decides whom it
    // signs out, or where it leads.
    if (ctx.path === paths.end_session && !endpoints.end_session)
      ctx.querystring = ''
    await next()
    // Absent where the library has no route for the method.
    const oidc: Oidc | undefined = ctx.oidc
    if (!oidc) return
    ctx.state.log.client_id = oidc.client?.clientId
    finishError(ctx, oidc)
    for (const { answers } of features) await answers?.[oidc.route]?.(ctx, oidc)
    const finish = finishers[oidc.route]
    if (finish) await finish(ctx, oidc)
    else signOutAtOnce(ctx, oidc, pages, routes)
  }
}

/** Returns the functions that complete answers, by the library's endpoints. */
function finishersOf(
  { navigate }: AnswerPages,
  { endpoints }: Routes,
  { settings, records }: ProviderDependencies,
  features: Feature[],
): Record<string, Finisher> {
  const { announce } = settings.keys
  // A client that caches the JWKS for this time has each key before it signs.
  const jwksAge = Math.min(MAX_CACHE_SECONDS, Math.floor(announce / 2))
  return {
    discovery: ctx => finishDiscovery(ctx, endpoints, features),
    jwks: ctx => cacheable(ctx, jwksAge),
    token: warnOfLongIdToken,
    introspection: finishIntrospection,
    userinfo: finishUserInfo,
    revocation: (ctx, oidc) => finishRevocation(ctx, oidc, records),
    end_session_confirm: (ctx, oidc) => leaveSignOut(ctx, oidc, navigate),
  }
}

/**
 * Leaves out superfluous spaces in `scope` of an authorization request, which
 * agents in use send. They are not valid (RFC 6749 §3.3). Endpoints for
 * programs refuse them: a developer reads the error.
 */
function tidyScope(ctx: Context) {
  const { scope } = ctx.query
  if (typeof scope !== 'string' || !/^ | $| {2}/.test(scope)) return
  ctx.query = {
    ...ctx.query,
    scope: scope.split(' ').filter(Boolean).join(' '),
  }
}

/**
 * Completes an error of the library. Throws an outage of the store, and a fault
 * that the client caused.
 */
function finishError(ctx: Context, oidc: Oidc): void {
  const { state } = ctx
  // An unavailable store that the library took for an error of the client.
  if (state.outage) throw state.outage
  const repaired =
    ctx.status === 500 ? clientErrorFor(oidc, state.fault) : undefined
  if (repaired) refuse(ctx, repaired)
  if (state.log.detail === 'request entity too large') ctx.status = 413
  const answer = mapOf(ctx.body)
  if (answer.error) ctx.body = described(ctx, answer)
}

function refuse(ctx: Context, error: errors.OIDCProviderError): never {
  ctx.state.fault = undefined
  logError(ctx, error)
  throw Object.assign(error, described(ctx, error))
}

function finishDiscovery(
  ctx: Context,
  { end_session }: Routes['endpoints'],
  features: Feature[],
): void {
  cacheable(ctx, MAX_CACHE_SECONDS)
  const document = ctx.body as Record<string, unknown>
  // Empty lists are left out (RFC 8414 §3.2).
  const members = Object.entries(document).filter(
    ([, value]) => !(Array.isArray(value) && value.length === 0),
  )
  ctx.body = {
    ...Object.fromEntries(members),
    ...(!end_session && { end_session_endpoint: undefined }),
    response_modes_supported: listedResponseModes(document),
    ...merged(features, 'discovery member', feature =>
      feature.discovery?.(document),
    ),
  }
}

function cacheable(ctx: Context, seconds: number): void {
  if (ctx.status === 200) ctx.set('Cache-Control', `public, max-age=${seconds}`)
}

/**
 * Warns the operator of an ID token that cannot come back as `id_token_hint`.
 */
function warnOfLongIdToken({ body, state }: Context): void {
  const { length } = String(mapOf(body).id_token ?? '')
  if (length <= BOUNDS.idTokenHints.max) return
  state.log.warning = `the ID token has ${length} characters: it is too long for id_token_hint. Map fewer claims, or set id_token.claims: minimal`
}

/**
 * Refuses a public client, whether the token is active or not (RFC 7662 §2.1).
 */
function finishIntrospection(ctx: Context, { client }: Oidc): void {
  if (client?.tokenEndpointAuthMethod === 'none') {
    refuse(
      ctx,
      new errors.InvalidClientAuth({
        detail: 'a public client cannot introspect',
      }),
    )
  }
  // JWTs are not stored. A caller that presents one to an API must not cause an
  // error there (§2.2).
  if (mapOf(ctx.body).error !== 'unsupported_token_type') return
  ctx.state.log.detail =
    'a JWT is not stored: the API verifies it with the keys of the JWKS'
  ctx.status = 200
  ctx.body = { active: false }
}

/**
 * Answers `invalid_token` for a token of an API (RFC 6750 §3.1), not the
 * library's 403.
 */
function finishUserInfo(ctx: Context, { issuer, entities }: Oidc): void {
  if (ctx.status !== 403 || entities.AccessToken?.aud === undefined) return
  ctx.set('WWW-Authenticate', `Bearer realm="${issuer}", error="invalid_token"`)
  refuse(ctx, new errors.InvalidToken('the token is for another resource'))
}

async function finishRevocation(
  ctx: Context,
  { entities }: Oidc,
  records: Records,
) {
  if (ctx.status !== 200) return
  const { RefreshToken, AccessToken } = entities
  // Some clients insist on JSON where RFC 7009 asks for nothing.
  ctx.body = {}
  const token = RefreshToken ?? AccessToken
  // No token was found: it may have been revoked before. `currentRequest()` is
  // already undefined here, hence `ctx`.
  if (!token) return records.confirmRemovals(ctx)
  const about = { client_id: token.clientId, account: token.accountId }
  noteEvent(ctx, 'token_revoked', {
    ...about,
    token: RefreshToken ? 'refresh' : 'access',
  })
}

/**
 * The library signs out without a question, by a bare page of its own, where no
 * user or another one is signed in: at the end session endpoint, and when a
 * sign-in has replaced the user. Shows our page in its place.
 */
function signOutAtOnce(
  ctx: Context,
  { session }: Oidc,
  { handOver }: AnswerPages,
  { confirm }: Routes,
): void {
  const xsrf = session?.state?.secret
  const isBare =
    ctx.status === 200 && ctx.type === 'text/html' && !ctx.state.isPage
  if (isBare && xsrf) handOver(ctx, confirm, { xsrf, logout: 'yes' })
}

/**
 * Signing out leads to the application, where the form may not go by a redirect.
 */
function leaveSignOut(
  ctx: Context,
  { entities }: Oidc,
  navigate: AnswerPages['navigate'],
): void {
  const location = ctx.response.get('Location')
  if (ctx.status !== 303 || !location) return
  ctx.remove('Location')
  navigate(ctx, asRegistered(location, entities.Client?.postLogoutRedirectUris))
}

/**
 * Returns the address after sign-out, as it is registered. The library writes
 * it anew, with `state`.
 */
function asRegistered(location: string, uris: readonly string[] = []): string {
  const state = new URL(location).searchParams.get('state')
  const written = (uri: string) =>
    Object.assign(new URL(uri), { search: new URL(uri).searchParams }).href
  const all = uris.map(uri => withQuery(uri, state === null ? {} : { state }))
  return all.find(uri => written(uri) === written(location)) ?? location
}
