// Clients, as the library reads them: their metadata and their secrets.

import { randomBytes } from 'node:crypto'
import {
  type BackchannelAuthenticationRequest,
  type Client,
  errors,
  type ClientMetadata as LibraryClientMetadata,
  type Provider,
} from 'oidc-provider'
import { type Account, missingAttributes } from '../sign-in/account.ts'
import { hashOf, hashSecret, isExpired } from '../config/client-secret.ts'
import type { Settings } from '../config/load.ts'
import { ConfigError, type Finding } from '../config/report/finding.ts'
import messages from '../config/report/messages.json' with { type: 'json' }
import { ACCOUNT_CLIENT, type ClientMetadata, clientSchema } from '../config/schema/client.ts'
import { flowOf } from '../config/schema/features.ts'
import { LOOPBACK_HOSTS } from '../config/schema/redirect-uri.ts'
import { isSameText, mapOf, namesIn } from '../config/schema/values.ts'
import { pause } from '../config/turns.ts'
import { outageIn } from '../store/store.ts'
import { type Feature, merged } from './feature.ts'

/** Our client metadata beyond RFC 7591. */
export const USHER_METADATA: string[] = namesIn(
  'client_secret_hashes require_pkce consent require_sign_in rotate_refresh_tokens',
  'any_secret_method profile registered_scope allow enabled required_scopes lifetimes refresh_tokens',
  'default_resource require_dpop_nonce claims second_factor',
)

/**
 * Whether the operator knows the client, and only the client itself sends its requests: it has a file or registered
 * with an invitation, and it authenticates. Anyone can send requests as a public client, and anyone can make a client
 * with a metadata document. Clients of open registration are public.
 */
export const isKnown = ({ tokenEndpointAuthMethod, clientIdMetadataDocument }: Client): boolean =>
  tokenEndpointAuthMethod !== 'none' && clientIdMetadataDocument !== true

/** Whether refresh tokens of the client are rotated. */
export const rotates = (client: Client | undefined) => client?.rotate_refresh_tokens !== false

/** The scopes that a client may request, with those of APIs; undefined for all. */
export const scopeOf = ({ registered_scope, scope }: Client) =>
  typeof registered_scope === 'string' ? registered_scope : scope

/** The beginning of the reason for the log. The attributes that are missing follow. */
export const NOT_ALLOWED = 'the account may not use this client'

/** The description of the error for the client. */
export const MAY_NOT_USE = 'the user may not use this client: its operator limits it to some users'

/** The reason for the log, and the description for the client, where `enabled` in its file is false. */
export const SWITCHED_OFF = 'this client is switched off by its operator'

/** Whether a client is switched off. */
export const isOff = (client: Client | ClientMetadata | undefined) => client?.enabled === false

/** Returns why an account may not use a client, for the log; undefined if it may. */
export function refusalOf(client: Client | ClientMetadata, account: Account): string | undefined {
  if (isOff(client)) return SWITCHED_OFF
  const missing = missingAttributes(account, client.allow as ClientMetadata['allow'])
  return missing.length ? `${NOT_ALLOWED}: ${missing.join(', ')}` : undefined
}

/**
 * Returns the metadata of a client file for the library. `scopes`: those of claims.yaml. The library refuses
 * any other scope, so that the whole `scope` of the file stands in a key of its own.
 */
export function toLibrary(
  client: ClientMetadata,
  { scopes }: Pick<Settings, 'scopes'>,
  features: Feature[],
): LibraryClientMetadata {
  const { response_types, scope } = client
  const known = scope?.split(' ').filter(name => Object.hasOwn(scopes, name))
  const isCodeOnly = response_types.every(type => !flowOf(type))
  return {
    ...client,
    registered_scope: scope,
    // Without a scope, the library would allow every scope. `checkRequest` refuses `openid` here.
    scope: known?.length === 0 ? 'openid' : known?.join(' '),
    // A file for the pages. The library takes a URL alone.
    logo_uri: undefined,
    // `openid-client` 6 sends the secret in the body by default.
    any_secret_method: client.token_endpoint_auth_method === undefined,
    response_types: client.grant_types.includes('authorization_code') ? response_types : [],
    // With `fragment` the library tells a wrong response type from a wrong mode; requests.ts refuses it.
    response_modes: isCodeOnly ? [...client.response_modes, 'fragment'] : client.response_modes,
    ...merged(features, 'client metadata', feature => feature.clientMetadata?.(client)),
    // The library insists on a secret; this one is never compared (compareHashes in library-overrides.ts).
    ...(client.client_secret_hashes && { client_secret: randomBytes(32).toString('base64url') }),
  } as LibraryClientMetadata
}

/** The client of the account pages: it leads through the sign-in page and back, and redeems no code. */
export function accountClient(issuer: string): LibraryClientMetadata {
  return {
    client_id: ACCOUNT_CLIENT,
    client_secret: randomBytes(32).toString('base64url'),
    client_secret_hashes: [],
    redirect_uris: [`${issuer}/account/signed-in`],
    response_types: ['code'],
    grant_types: ['authorization_code'],
    scope: 'openid',
    consent: 'implicit',
  } as LibraryClientMetadata
}

/** Adds the clients of the files. Throws a `ConfigError` for those that the library refuses. */
export async function addClients(settings: Settings, add: (client: ClientMetadata) => void) {
  const findings: Finding[] = []
  for (const client of settings.clients) {
    await pause()
    try {
      add(client)
    } catch (error) {
      const message = String(mapOf(error).error_description ?? error)
      // Without a key in its message, the error is about authentication.
      const isNamed = (key: string) => new RegExp(`\\b${key}\\b`).test(message)
      const key = Object.keys(clientSchema.shape).find(isNamed) ?? 'token_endpoint_auth_method'
      const isAbout = ([name]: [string, string]) => key.endsWith(name)
      const [, why = ''] = Object.entries(messages.library).find(isAbout) ?? []
      const at = settings.clientFiles.get(client.client_id)
      if (at) findings.push(at([key], 'library', `${message.replace(`${key} `, '')}${why}`))
    }
  }
  if (findings.length) throw new ConfigError(findings)
}

/** A client with the library's own deliveries, which a queue makes (deliverLater in library-overrides.ts). */
export interface Receiver extends Client {
  /** With a new `jti` each time: a client that remembers them accepts a repeated delivery. */
  sendLogoutToken(sub: string, sid: string): Promise<void>
  sendPing(request: BackchannelAuthenticationRequest): Promise<void>
}

/** Returns a client; undefined also for a registered one that needs a feature which is now off. */
export async function findClient(provider: Provider, id = ''): Promise<Receiver | undefined> {
  const found = await provider.Client.find(id).catch(error => {
    const outage = outageIn(error)
    // The library throws these also for the document of a client that is gone or not valid.
    const kinds = [errors.InvalidClientMetadata, errors.InvalidClient]
    if (outage || !kinds.some(kind => error instanceof kind)) throw outage ?? error
    return undefined
  })
  return found as Receiver | undefined
}

/**
 * Whether a browser application of a client calls from this origin: that of a redirect URI. The port of a
 * loopback address is ignored where redirect URIs ignore it (RFC 8252 §7.3). Other applications have `null`.
 */
export function isOriginOf({ redirectUris = [], applicationType }: Client, origin: string) {
  if (origin === 'null') return false
  const withoutPort = origin.replace(/:\d+$/, '')
  return redirectUris.some(uri => {
    const { origin: own, protocol, hostname } = new URL(uri)
    const hasAnyPort =
      applicationType === 'native' && protocol === 'http:' && LOOPBACK_HOSTS.has(hostname)
    return own === origin || (hasAnyPort && withoutPort === `http://${hostname}`)
  })
}

/** Compares with every hash that has not expired, in constant time for each. */
export function matchesHash(actual: string, hashes: ClientMetadata['client_secret_hashes'] = []) {
  const offered = hashSecret(actual)
  const known = hashes.filter(entry => !isExpired(entry))
  return known.filter(entry => isSameText(hashOf(entry), offered)).length > 0
}
