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
import type { Feature } from '../oidc/feature.ts'
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
  const { settings, records, keys, directory } = dependencies
  const { resources, claims, details: types, lifetimes, features } = settings
  checkResources(settings, keys)
  const byUri = new Map(
    Object.keys(resources).map(name => [normalUri(name), name]),
  )
  const asWritten = (name: unknown) =>
    byUri.get(normalUri(String(name))) ?? name
  const apiOf = ({ type }: Detail) => types[type]?.resource

  /**
   * The API for this client, with the scopes that it may request. Throws if the
   * client may request none.
   */
  function serverFor(
    { oidc }: { oidc: Oidc },
    name: string,
    client: Client,
  ): ResourceServer {
    const file = resources[byUri.get(normalUri(name)) ?? '']
    const { clientId: client_id } = client
    const scopes = file
      ? scopesFor(file, { client_id, scope: scopeOf(client) })
      : []
    const isUsable = scopes.length > 0 || mayRequestDetails(client, name)
    if (
      !file ||
      file.authorization_server ||
      !isUsable ||
      !isFor(file, client_id)
    ) {
      throw new errors.InvalidTarget(
        'resource is unknown or not allowed for this client',
      )
    }
    if (asksForScopes(oidc)) {
      const isAboutDetails = detailsOf(oidc).some(
        detail => apiOf(detail) === name,
      )
      checkScopes(oidc, file, scopes, isAboutDetails)
    }
    return resourceServerOf(
      file,
      scopes.join(' '),
      lifetimesOf(lifetimes, client),
    )
  }

  /**
   * Whether an API has a type of authorization details that the client may
   * request.
   */
  const mayRequestDetails = (client: Client, name: string) =>
    Object.values(types).some(
      ({ type, resource }) => resource === name && mayUse(client, type),
    )

  /**
   * The API of a client that cannot send `resource`; undefined for a request
   * about none of its scopes.
   */
  function defaultOf(
    { params }: Oidc,
    { default_resource: name }: Client,
  ): string | undefined {
    const scopes = Object.keys(resources[String(name)]?.scopes ?? {})
    const asked = String(params?.scope ?? '').split(' ')
    const isAbout =
      !params?.scope || scopes.some(scope => asked.includes(scope))
    return typeof name === 'string' && isAbout ? name : undefined
  }

  /**
   * Writes each `resource` of a request as its file does, so that grants and
   * consents have one spelling.
   */
  function writeAsFiles({ oidc }: { oidc: Oidc }): void {
    const { params, provider, resourceServers = {} } = oidc
    if (params?.resource === undefined) return
    const names = [...new Set([params.resource].flat().map(asWritten))]
    params.resource = names.length > 1 ? names : names[0]
    for (const [sent, server] of Object.entries(resourceServers)) {
      const name = String(asWritten(sent))
      if (name === sent) continue
      delete resourceServers[sent]
      resourceServers[name] = new provider.ResourceServer(name, server)
    }
  }

  /** An API introspects the access tokens that were made for it. */
  function isMadeFor({ clientId }: Client, { aud }: Token): boolean {
    const file = Object.values(resources).find(file => audienceOf(file) === aud)
    return file?.introspected_by?.includes(clientId) ?? false
  }

  /**
   * Whether a client may introspect a token: its own, or one for its API. The
   * token's account and client must still exist, and the account may use the
   * client. endpoints.ts refuses public clients.
   */
  async function mayIntrospect(
    { oidc, state }: KoaContextWithOIDC,
    client: Client,
    token: Token,
  ) {
    const isOwn = token.clientId === client.clientId
    if (!isOwn && !isMadeFor(client, token)) {
      state.log.detail = `the token is for ${token.aud ?? 'UserInfo'}, whose introspected_by does not name the client`
      return false
    }
    const owner = isOwn
      ? client
      : await findClient(oidc.provider, token.clientId)
    if (!owner || isOff(owner) || isOff(client)) return false
    if (!token.accountId) return true
    const signedIn = await signInOf(records, token)
    const account = await directory.findEnabled(token.accountId, signedIn)
    return account !== undefined && !refusalOf(owner, account)
  }

  return {
    checkRequest: writeAsFiles,
    settings: {
      // A token without `resource` is for UserInfo, unless it is about details,
      // which are of an API.
      resourceIndicators: {
        enabled: features.resource_indicators,
        getResourceServerInfo: serverFor,
        // A client that asks for details names their API by that.
        defaultResource({ oidc }, client, oneOf) {
          if (oneOf) return oneOf
          const [first, ...others] = new Set(
            sentDetails(oidc).flatMap(one => apiOf(one) ?? []),
          )
          if (first === undefined) return defaultOf(oidc, client)
          return others.length ? [first, ...others] : first
        },
        useGrantedResource: ({ oidc }, { rar, resource }) =>
          (Boolean(rar?.some(apiOf)) && !oidc.params?.scope) ||
          (resource !== undefined &&
            resource === defaultOf(oidc, required(oidc.client))),
      },
      introspection: {
        enabled: features.introspection,
        allowedPolicy: mayIntrospect,
      },
    },
    async tokenClaims(_ctx, token) {
      const api = resources[token.resourceServer?.identifier() ?? '']
      // An assertion for another authorization server has no claims of its API.
      if (!api?.claims || api.authorization_server || !('accountId' in token))
        return undefined
      const names = api.claims
      const account = await directory.findEnabled(token.accountId)
      const known = Object.entries(account ? claimsOf(account, claims) : {})
      return Object.fromEntries(known.filter(([name]) => names.includes(name)))
    },
  }
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
