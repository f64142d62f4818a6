// Protected APIs: which client can have a token for which API, what the token
// holds (RFC 8707, RFC 9068), and which API can introspect it (RFC 7662).

import {
  type AccessToken,
  type Client,
  errors,
  type KoaContextWithOIDC,
  type ResourceServer,
} from 'oidc-provider'
import { inResourceFile } from '../config/files.ts'
import type { Settings } from '../config/load.ts'
import { ConfigError } from '../config/report/finding.ts'
import {
  audienceOf,
  isFor,
  normalUri,
  type ResourceFile,
  scopesFor,
} from '../config/schema/resource.ts'
import { signInOf } from '../oidc/adapter/grants.ts'
import { findClient, isOff, refusalOf, scopeOf } from '../oidc/clients.ts'
import type { Detail } from '../oidc/consents.ts'
import type { Oidc, SigningKey } from '../oidc/dependencies.ts'
import type { Feature, IssuedToken } from '../oidc/feature.ts'
import { sentDetails } from '../oidc/grants.ts'
import { canSign } from '../oidc/keys.ts'
import { lifetimeOf, lifetimesOf } from '../oidc/tokens.ts'
import { SIGNING_ALGORITHMS } from '../oidc/vocabulary.ts'
import { claimsOf } from '../sign-in/account.ts'
import type { Dependencies } from '../sign-in/dependencies.ts'
import { required } from '../store/values.ts'
import { mayUse } from './authorization-details.ts'

/** An access token, or a refresh token, which has no `aud`. */
type Token = Partial<
  Pick<AccessToken, 'clientId' | 'accountId' | 'aud' | 'grantId'>
>

/** Returns a new token, or an assertion, for an API. It is not saved yet. */
export function tokenFor(
  { client: sent, provider, resourceServers = {} }: Oidc,
  api: ResourceFile,
  about: { accountId: string; scope: string; grantId: string },
  { lifetimes }: Settings,
): AccessToken {
  const client = required(sent)
  const made = resourceServerOf(
    api,
    about.scope,
    lifetimesOf(lifetimes, client),
  )
  if (api.authorization_server) {
    made.audience = api.authorization_server
    made.accessTokenFormat = 'jwt'
    const alg = SIGNING_ALGORITHMS.find(
      one => one === client.idTokenSignedResponseAlg,
    )
    made.jwt = { sign: { alg } }
  }
  const resourceServer = new provider.ResourceServer(api.resource, made)
  resourceServers[api.resource] = resourceServer
  const token = new provider.AccessToken({
    client,
    gty: 'token_exchange',
    ...about,
  })
  return Object.assign(token, { resourceServer })
}

/**
 * Returns how the library makes tokens for an API. `lifetimes`: those of the
 * client.
 */
function resourceServerOf(
  file: ResourceFile,
  scope: string,
  lifetimes: Settings['lifetimes'],
): ResourceServer {
  const { token_format, token_signing_alg } = file
  return {
    scope,
    audience: audienceOf(file),
    accessTokenFormat: token_format,
    accessTokenTTL: lifetimeOf(file, lifetimes.access_token),
    jwt:
      token_format === 'jwt' ? { sign: { alg: token_signing_alg } } : undefined,
  }
}

/**
 * Returns the feature. Throws a `ConfigError` that names every API without a
 * key for its tokens.
 */
export function resourceIndicators(dependencies: Dependencies): Feature {
  const { settings, keys } = dependencies
  const { features } = settings
  checkResources(settings, keys)
  const nameOf = spellingIn(settings)

  return {
    prepareRequest: ({ oidc }) => writeAsFiles(oidc, nameOf),
    settings: {
      // A token without `resource` is for UserInfo, unless it is about details,
      // which are of an API.
      resourceIndicators: {
        enabled: features.resource_indicators,
        getResourceServerInfo: ({ oidc }, uri, client) =>
          serverFor(settings, oidc, { uri, name: nameOf(uri) }, client),
        defaultResource: ({ oidc }, client, oneOf) =>
          oneOf || defaultOf(settings, oidc, client),
        useGrantedResource: ({ oidc }, { rar, resource }) => {
          const { details } = settings
          const isOfDetails = rar?.some(({ type }) => details[type]?.resource)
          if (isOfDetails && !oidc.params?.scope) return true
          const client = required(oidc.client)
          return (
            resource !== undefined &&
            resource === defaultOfClient(settings, oidc, client)
          )
        },
      },
      introspection: {
        enabled: features.introspection,
        allowedPolicy: (ctx, client, token) =>
          mayIntrospect(dependencies, ctx, client, token),
      },
    },
    tokenClaims: (_ctx, token) => claimsFor(dependencies, token),
  }
}

/** Returns the spelling in its file of the URI of an API, if there is one. */
type Spelling = (uri: unknown) => string | undefined

function spellingIn({ resources }: Settings): Spelling {
  const byUri = new Map(
    Object.keys(resources).map(name => [normalUri(name), name]),
  )
  return uri => byUri.get(normalUri(String(uri)))
}

/**
 * Writes each `resource` of a request as its file does, so that grants and
 * consents have one spelling.
 */
function writeAsFiles(oidc: Oidc, nameOf: Spelling): void {
  const { params, provider, resourceServers = {} } = oidc
  if (params?.resource === undefined) return
  const sent: unknown[] = [params.resource].flat()
  const names = [...new Set(sent.map(uri => nameOf(uri) ?? uri))]
  params.resource = names.length > 1 ? names : names[0]
  for (const [uri, server] of Object.entries(resourceServers)) {
    const name = nameOf(uri) ?? uri
    if (name === uri) continue
    delete resourceServers[uri]
    resourceServers[name] = new provider.ResourceServer(name, server)
  }
}

/**
 * Returns the API for this client, with the scopes that it may request. Throws
 * if the client may request none. `uri`: as it was sent; `name`: as in the file.
 */
function serverFor(
  settings: Settings,
  oidc: Oidc,
  { uri, name = '' }: { uri: string; name?: string },
  client: Client,
): ResourceServer {
  const { resources, details, lifetimes } = settings
  const { [name]: file } = resources
  const { clientId: client_id } = client
  const about = { client_id, scope: scopeOf(client) }
  const scopes = file ? scopesFor(file, about) : []
  const isUsable = scopes.length > 0 || mayRequestDetails(settings, client, uri)
  const isKnown = file && !file.authorization_server && isFor(file, client_id)
  if (!isKnown || !isUsable) {
    throw new errors.InvalidTarget(
      'resource is unknown or not allowed for this client',
    )
  }
  if (asksForScopes(oidc)) {
    const isAboutDetails = detailsOf(oidc).some(
      ({ type }) => details[type]?.resource === uri,
    )
    checkScopes(oidc, file, scopes, isAboutDetails)
  }
  const ofClient = lifetimesOf(lifetimes, client)
  return resourceServerOf(file, scopes.join(' '), ofClient)
}

/**
 * Whether an API has a type of authorization details that the client may
 * request.
 */
const mayRequestDetails = (
  { details }: Settings,
  client: Client,
  name: string,
) =>
  Object.values(details).some(
    ({ type, resource }) => resource === name && mayUse(client, type),
  )

/**
 * Returns the APIs of a request without `resource`: those of its authorization
 * details, or that of the client.
 */
function defaultOf(settings: Settings, oidc: Oidc, client: Client) {
  const ofDetails = sentDetails(oidc).flatMap(
    ({ type }) => settings.details[type]?.resource ?? [],
  )
  const [first, ...others] = new Set(ofDetails)
  if (first === undefined) return defaultOfClient(settings, oidc, client)
  return others.length ? [first, ...others] : first
}

/**
 * Returns the API of a client that cannot send `resource`; undefined for a
 * request about none of its scopes.
 */
function defaultOfClient(
  { resources }: Settings,
  { params }: Oidc,
  { default_resource: name }: Client,
): string | undefined {
  if (typeof name !== 'string') return undefined
  const scopes = Object.keys(resources[name]?.scopes ?? {})
  const asked = String(params?.scope ?? '').split(' ')
  const isAbout = !params?.scope || scopes.some(scope => asked.includes(scope))
  return isAbout ? name : undefined
}

/**
 * Whether a client may introspect a token: its own, or one for its API. The
 * token's account and client must still exist, and the account may use the
 * client. endpoints.ts refuses public clients.
 */
async function mayIntrospect(
  { settings, records, directory }: Dependencies,
  { oidc, state }: KoaContextWithOIDC,
  client: Client,
  token: Token,
): Promise<boolean> {
  const isOwn = token.clientId === client.clientId
  if (!isOwn && !isMadeFor(settings, client, token)) {
    state.log.detail = `the token is for ${token.aud ?? 'UserInfo'}, whose introspected_by does not name the client`
    return false
  }
  const owner = isOwn ? client : await findClient(oidc.provider, token.clientId)
  if (!owner || isOff(owner) || isOff(client)) return false
  if (!token.accountId) return true
  const signedIn = await signInOf(records, token)
  const account = await directory.findEnabled(token.accountId, signedIn)
  return account !== undefined && !refusalOf(owner, account)
}

/** An API introspects the access tokens that were made for it. */
function isMadeFor(
  { resources }: Settings,
  { clientId }: Client,
  { aud }: Token,
): boolean {
  const file = Object.values(resources).find(file => audienceOf(file) === aud)
  return file?.introspected_by?.includes(clientId) ?? false
}

/** Returns the claims of the user that the file of an API names. */
async function claimsFor(
  { settings, directory }: Dependencies,
  token: IssuedToken,
) {
  const api = settings.resources[token.resourceServer?.identifier() ?? '']
  // An assertion for another authorization server has no claims of its API.
  if (!api?.claims || api.authorization_server || !('accountId' in token))
    return undefined
  const names = api.claims
  const account = await directory.findEnabled(token.accountId)
  const known = account ? claimsOf(account, settings.claims) : {}
  const named = Object.entries(known).filter(([name]) => names.includes(name))
  return Object.fromEntries(named)
}

/** A token request has no scopes of its own, except that of a service. */
function asksForScopes({ params }: Oidc): boolean {
  if (!params) return false
  const { grant_type, scope } = params
  return !grant_type || grant_type === 'client_credentials' || Boolean(scope)
}

/**
 * Refuses a scope of the API that the client may not request. A request with
 * none of its scopes, which is not about details either, gets the default
 * scopes. Throws `InvalidScope` if there are none.
 */
function checkScopes(
  oidc: Oidc,
  file: ResourceFile,
  scopes: string[],
  isAboutDetails: boolean,
) {
  const asked = [...oidc.requestParamScopes]
  const others = Object.keys(file.scopes).filter(
    scope => !scopes.includes(scope),
  )
  const refused = asked.find(scope => others.includes(scope))
  if (refused)
    throw new errors.InvalidScope('requested scope is not allowed', refused)
  if (isAboutDetails || scopes.some(scope => asked.includes(scope))) return
  const defaults =
    file.default_scopes?.filter(scope => scopes.includes(scope)) ?? []
  if (!defaults.length) {
    const message = `scope must have a scope of the resource: ${scopes.join(' ')}`
    throw new errors.InvalidScope(message, asked.join(' '))
  }
  required(oidc.params).scope = [...asked, ...defaults].join(' ')
}

/** The authorization details that the request is about. */
function detailsOf(oidc: Oidc): Detail[] {
  const { RefreshToken, AuthorizationCode, DeviceCode } = oidc.entities
  const { rar = sentDetails(oidc) } =
    RefreshToken ?? AuthorizationCode ?? DeviceCode ?? {}
  return rar
}

function checkResources(
  { resources, files }: Settings,
  keys: SigningKey[],
): void {
  const algorithms = new Set(keys.filter(canSign).map(({ alg }) => alg))
  const findings = Object.values(resources).flatMap(api => {
    const { [api.resource]: file } = files.resources
    if (
      api.token_format === 'opaque' ||
      algorithms.has(api.token_signing_alg) ||
      !file
    )
      return []
    const message = `there is no key for it; those of keys.import sign ${[...algorithms].join(', ')}`
    return [inResourceFile(file)(['token_signing_alg'], 'signing-key', message)]
  })
  if (findings.length) throw new ConfigError(findings)
}
