// Clients, as the library reads them: their metadata and their secrets.

import { hash, randomBytes } from 'node:crypto'
import {
  type BackchannelAuthenticationRequest,
  type Client,
  type ClientMetadata,
  errors,
  type Provider,
} from 'oidc-provider'
import { outageIn } from '../store/reasons.ts'
import { isSameText } from '../store/seal.ts'
import { pause } from '../store/turns.ts'
import { mapOf } from '../store/values.ts'
import type {
  OperatorClient,
  OperatorMetadata,
  ProviderSettings,
  SecretHash,
  User,
} from './dependencies.ts'
import {
  ACCOUNT_CLIENT,
  CIBA_GRANT,
  flowOf,
  LOOPBACK_HOSTS,
} from './vocabulary.ts'

/**
 * Our client metadata beyond RFC 7591. The library drops a key that is neither
 * its own nor in this list.
 */
export const USHER_METADATA: (keyof OperatorMetadata)[] = [
  'client_secret_hashes',
  'any_secret_method',
  'require_pkce',
  'profile',
  'enabled',
  'allow',
  'consent',
  'required_scopes',
  'registered_scope',
  'default_resource',
  'claims',
  'require_sign_in',
  'second_factor',
  'lifetimes',
  'refresh_tokens',
  'rotate_refresh_tokens',
  'require_dpop_nonce',
]

/**
 * Returns the metadata of a client beyond RFC 7591. The schema of client files
 * has checked the values, and a registration cannot set them.
 */
export const operatorMetadata = (
  client: Client | OperatorMetadata,
): OperatorMetadata => client as OperatorMetadata

/**
 * Whether the operator knows the client, and only the client itself sends its
 * requests: it has a file or registered with an invitation, and it
 * authenticates. Anyone can send requests as a public client, and anyone can
 * make a client with a metadata document. Clients of open registration are
 * public.
 */
export const isKnown = ({
  tokenEndpointAuthMethod,
  clientIdMetadataDocument,
}: Client): boolean =>
  tokenEndpointAuthMethod !== 'none' && clientIdMetadataDocument !== true

/** Whether refresh tokens of the client are rotated. */
export const rotates = (client: Client | undefined) =>
  client?.rotate_refresh_tokens !== false

/**
 * The scopes that a client may request, with those of APIs; undefined for all.
 */
export const scopeOf = (client: Client) =>
  operatorMetadata(client).registered_scope ?? client.scope

/**
 * Returns the attributes of `allow` in a client file of which the account has
 * none of the values.
 */
export function missingAttributes(
  { attributes }: Pick<User, 'attributes'>,
  allow: OperatorMetadata['allow'] = {},
): string[] {
  return Object.keys(allow).filter(name =>
    new Set(allow[name]).isDisjointFrom(new Set(valuesOf(attributes, name))),
  )
}

/** Returns the values of an attribute as texts. A list has several. */
export function valuesOf(
  attributes: User['attributes'],
  name: string,
): string[] {
  const value = Object.hasOwn(attributes, name) ? attributes[name] : []
  return [value]
    .flat()
    .flatMap(one => (typeof one === 'object' ? [] : String(one)))
}

/**
 * The beginning of the reason for the log. The attributes that are missing
 * follow.
 */
export const NOT_ALLOWED = 'the account may not use this client'

/** The description of the error for the client. */
export const MAY_NOT_USE =
  'the user may not use this client: its operator limits it to some users'

/**
 * The reason for the log, and the description for the client, where `enabled`
 * in its file is false.
 */
export const SWITCHED_OFF = 'this client is switched off by its operator'

/**
 * Why an account may not use a client: the beginning of the reason for the log.
 * commands/why.ts explains each.
 */
export type UseRefusal = typeof NOT_ALLOWED | typeof SWITCHED_OFF

/** Whether a client is switched off. */
export const isOff = (client: Client | OperatorMetadata | undefined) =>
  client?.enabled === false

/**
 * Returns why an account may not use a client, for the log; undefined if it
 * may.
 */
export function refusalOf(
  client: Client | OperatorMetadata,
  account: Pick<User, 'attributes'>,
): UseRefusal | `${UseRefusal}: ${string}` | undefined {
  if (isOff(client)) return SWITCHED_OFF
  const { allow } = operatorMetadata(client)
  if (!allow) return undefined
  const missing = missingAttributes(account, allow)
  return missing.length ? `${NOT_ALLOWED}: ${missing.join(', ')}` : undefined
}

/**
 * Returns the metadata of a client file for the library. `scopes`: those of
 * claims.yaml, which are the only ones that the library accepts. A file may also
 * name scopes of APIs, such as `orders:read`: `registered_scope` has them all.
 */
export function toLibrary(
  client: OperatorClient,
  { scopes }: Pick<ProviderSettings, 'scopes'>,
): ClientMetadata {
  const { response_types, scope } = client
  const known = scope?.split(' ').filter(name => Object.hasOwn(scopes, name))
  const isCiba = client.grant_types.includes(CIBA_GRANT)
  const isCodeOnly = response_types.every(type => !flowOf(type))
  return {
    ...client,
    registered_scope: scope,
    // Without a scope, the library would allow every scope.
    // `checkAuthorizationRequest` refuses `openid` here.
    scope: known?.length === 0 ? 'openid' : known?.join(' '),
    // A file for the pages. The library takes a URL alone.
    logo_uri: undefined,
    // `openid-client` 6 sends the secret in the body by default.
    any_secret_method: client.token_endpoint_auth_method === undefined,
    response_types: client.grant_types.includes('authorization_code')
      ? response_types
      : [],
    // With `fragment` in the list, the library says of a wrong response type
    // that the type is wrong, not the mode. response-modes.ts refuses the mode.
    response_modes: isCodeOnly
      ? [...client.response_modes, 'fragment']
      : client.response_modes,
    backchannel_token_delivery_mode:
      client.backchannel_token_delivery_mode ?? (isCiba ? 'poll' : undefined),
    ...fapiMetadata(client),
    // The library insists on a secret; this one is never compared
    // (compareHashes in library-overrides.ts).
    ...(client.client_secret_hashes && {
      client_secret: randomBytes(32).toString('base64url'),
    }),
  } as ClientMetadata
}

/**
 * Returns the metadata that `profile: fapi2` (FAPI 2.0 Security Profile) adds to
 * a client, or changes in it. config/rules/client-features.ts refuses files that
 * contradict it.
 */
function fapiMetadata(client: OperatorClient): Record<string, unknown> {
  if (client.profile !== 'fapi2') return {}
  const alg = client.id_token_signed_response_alg
  return {
    authorization_signed_response_alg:
      client.authorization_signed_response_alg ?? 'ES256',
    require_pushed_authorization_requests: true,
    dpop_bound_access_tokens:
      !client.tls_client_certificate_bound_access_tokens,
    id_token_signed_response_alg: alg === 'RS256' ? 'ES256' : alg,
    // A token that is bound to a key needs no rotation (§5.3.2.1).
    rotate_refresh_tokens: false,
  }
}

/**
 * The client of the account pages: it leads through the sign-in page and back,
 * and redeems no code.
 */
export function accountClient(issuer: string): ClientMetadata {
  return {
    client_id: ACCOUNT_CLIENT,
    client_secret: randomBytes(32).toString('base64url'),
    client_secret_hashes: [],
    redirect_uris: [`${issuer}/account/signed-in`],
    response_types: ['code'],
    grant_types: ['authorization_code'],
    scope: 'openid',
    consent: 'implicit',
  } as ClientMetadata
}

/** Why the library refuses the metadata of a client. */
export interface RefusedClient {
  client_id: string
  message: string
}

/** The library refuses the metadata of some clients. */
export class RefusedClients extends Error {
  override name = 'RefusedClients'
  readonly refused: RefusedClient[]

  constructor(refused: RefusedClient[]) {
    super(
      refused
        .map(({ client_id, message }) => `${client_id}: ${message}`)
        .join('; '),
    )
    this.refused = refused
  }
}

/**
 * Adds the clients of the operator. Throws `RefusedClients` with every client
 * that the library refuses.
 */
export async function addClients(
  clients: OperatorClient[],
  add: (client: OperatorClient) => void,
) {
  const refused: RefusedClient[] = []
  for (const client of clients) {
    await pause()
    try {
      add(client)
    } catch (error) {
      const message = String(mapOf(error).error_description ?? error)
      refused.push({ client_id: client.client_id, message })
    }
  }
  if (refused.length) throw new RefusedClients(refused)
}

/**
 * A client with the library's own deliveries, which a queue makes (deliverLater
 * in library-overrides.ts).
 */
export interface Receiver extends Client {
  /**
   * With a new `jti` each time: a client that remembers them accepts a repeated
   * delivery.
   */
  sendLogoutToken(sub: string, sid: string): Promise<void>
  sendPing(request: BackchannelAuthenticationRequest): Promise<void>
}

/**
 * Returns a client; undefined also for a registered one that needs a feature
 * which is now off.
 */
export async function findClient(
  provider: Provider,
  id = '',
): Promise<Receiver | undefined> {
  const found = await provider.Client.find(id).catch(error => {
    const outage = outageIn(error)
    // The library throws these also for the document of a client that is gone
    // or not valid.
    const kinds = [errors.InvalidClientMetadata, errors.InvalidClient]
    if (outage || !kinds.some(kind => error instanceof kind))
      throw outage ?? error
    return undefined
  })
  return found as Receiver | undefined
}

/**
 * Whether a browser application of a client calls from this origin: that of a
 * redirect URI. The port of a loopback address is ignored where redirect URIs
 * ignore it (RFC 8252 §7.3). Other applications have `null`.
 */
export function isOriginOf(
  { redirectUris = [], applicationType }: Client,
  origin: string,
) {
  if (origin === 'null') return false
  const withoutPort = origin.replace(/:\d+$/, '')
  return redirectUris.some(uri => {
    const { origin: own, protocol, hostname } = new URL(uri)
    const hasAnyPort =
      applicationType === 'native' &&
      protocol === 'http:' &&
      LOOPBACK_HOSTS.has(hostname)
    return (
      own === origin || (hasAnyPort && withoutPort === `http://${hostname}`)
    )
  })
}

/**
 * Returns `sha256:BASE64URL` of a secret. Secrets are random, so that a slow
 * hash is not needed.
 */
export function hashSecret(secret: string): string {
  return `sha256:${hash('sha256', secret, 'base64url')}`
}

/** Returns the hash of a client file without its expiry. */
export const secretHashOf = (entry: SecretHash) =>
  typeof entry === 'string' ? entry : entry.hash

/** Whether the secret of a client file has expired. */
export const isSecretExpired = (entry: SecretHash) =>
  typeof entry === 'object' && Date.parse(entry.until) <= Date.now()

/**
 * Whether a secret has one of the hashes that have not expired. Compares with
 * each of them, in constant time.
 */
export function matchesHash(
  secret: string,
  hashes: OperatorMetadata['client_secret_hashes'] = [],
): boolean {
  const offered = hashSecret(secret)
  const valid = hashes.filter(entry => !isSecretExpired(entry))
  const fitting = valid.filter(entry =>
    isSameText(secretHashOf(entry), offered),
  )
  return fitting.length > 0
}
