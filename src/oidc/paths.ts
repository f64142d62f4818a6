// The endpoints of the protocol: their paths, their methods and the features
// that they belong to.

import type { ProtocolFeatures } from './dependencies.ts'

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
