// The wrapper needs these objects and settings from the product around it.
// `app.ts` hands them over; test/oidc/stand-ins.ts has stand-ins. `Settings` of
// config/load.ts has all settings that are named here, and more.

import type { JWK } from 'jose'
import type { Configuration, KoaContextWithOIDC } from 'oidc-provider'
import type { Name, Records } from '../store/records.ts'
import type { Sessions } from './adapter/sessions.ts'
import type { Consents } from './consents.ts'

/** Lifetimes that an operator sets, in seconds. */
export interface LifetimeSettings {
  code: number
  access_token: number
  id_token: number
  refresh_token_idle: number
  refresh_token: number
  refresh_token_grace: number
  session_idle: number
  session: number
  interaction: number
}

/** Features of the protocol that an operator switches on or off. */
export interface ProtocolFeatures {
  introspection: boolean
  jwt_introspection: boolean
  revocation: boolean
  rp_initiated_logout: boolean
  backchannel_logout: boolean
  resource_indicators: boolean
  client_credentials: boolean
  pushed_authorization_requests: boolean | 'required'
  device_flow: boolean
  ciba: boolean
  signed_userinfo: boolean
  encryption: boolean
  request_objects: boolean
  jwt_response_modes: boolean
  mtls: boolean
  client_attestation: boolean
  dpop: boolean
  claims_parameter: boolean
  rich_authorization_requests: boolean
  pairwise_subjects: boolean
  client_id_metadata_documents: object | boolean
  dynamic_registration: object | boolean
}

/**
 * The hash of a secret in a client file (`hashSecret` in clients.ts), without or
 * with the time at which it expires.
 */
export type SecretHash = string | { hash: string; until: string }

/**
 * Client metadata beyond RFC 7591, which only the operator sets, and that the
 * library hands to the wrapper (USHER_METADATA in clients.ts).
 */
export interface OperatorMetadata {
  client_secret_hashes?: SecretHash[]
  /** The secret is accepted by Basic and in the body. */
  any_secret_method?: boolean
  require_pkce?: boolean
  profile?: string
  enabled?: boolean
  /**
   * Attributes of accounts, each with the values of users who may use the
   * client.
   */
  allow?: Record<string, string[]>
  consent?: 'explicit' | 'implicit'
  required_scopes?: string[]
  /** `scope`, with the scopes of APIs. */
  registered_scope?: string
  default_resource?: string
  claims?: { rename?: Record<string, string>; join?: string }
  require_sign_in?: string
  second_factor?: 'required'
  lifetimes?: Partial<LifetimeSettings>
  refresh_tokens?: 'offline_access' | 'always'
  rotate_refresh_tokens?: boolean
  require_dpop_nonce?: boolean
}

/**
 * A client of the config folder. The wrapper reads these keys of its file, and
 * hands all others to the library.
 */
export interface OperatorClient extends OperatorMetadata {
  client_id: string
  response_types: string[]
  response_modes: string[]
  grant_types: string[]
  scope?: string
  token_endpoint_auth_method?: string
  id_token_signed_response_alg: string
  authorization_signed_response_alg?: string
  tls_client_certificate_bound_access_tokens?: boolean
  backchannel_token_delivery_mode?: 'poll' | 'ping'
}

/** A protected API: what the wrapper itself reads of its file. */
export interface Api {
  token_format: 'opaque' | 'jwt'
  /** In seconds. */
  token_lifetime?: number | undefined
  /** Rules of token exchange. */
  exchange?: unknown[]
}

/** The settings of the operator that decide how the protocol behaves. */
export interface ProviderSettings {
  issuer: string
  /** A loopback http issuer: cookies cannot be `Secure` there. */
  development: boolean
  clients: OperatorClient[]
  /** By the name of the claim. */
  claims: Record<string, { scope: string }>
  /** All scopes except those of APIs, by name. */
  scopes: Record<string, object>
  /** By identifier (RFC 8707). */
  resources: Record<string, Api>
  lifetimes: LifetimeSettings
  features: ProtocolFeatures
  compatibility: { implicit: boolean; hybrid: boolean }
  /** Values of `acr` that a sign-in can have. */
  acrValues: string[]
  /** Seconds for which a new key is published before it signs. */
  keys: { announce: number }
  id_token: { claims: 'identity' | 'minimal' }
  /** Further members of the discovery document. */
  discovery: Record<string, unknown>
  branding: { links: { privacy?: string; terms?: string } }
  /** Authorities of client certificates, PEM; empty if there are none. */
  clientAuthorities: string
}

/**
 * A key that signs or decrypts, as a JWK: the private key, or the public part.
 */
export type SigningKey = JWK & {
  kid: string
  alg: string
  use: 'sig' | 'enc'
  /** Signs in place of a private part. Only keys of `keys.module` have it. */
  sign?: (data: Uint8Array) => Promise<Uint8Array>
}

/** A user, as the wrapper sees one. `id`: the subject of tokens. */
export interface User {
  id: string
  /** Values that `allow` in a client file compares. */
  attributes: Record<string, unknown>
}

/** The users of the product. */
export interface Users<U extends User = User> {
  /**
   * Returns the user if they may still sign in; undefined if they are gone,
   * disabled, or if their access ended after `signedIn` (epoch seconds).
   */
  findEnabled(id: string, signedIn?: number): Promise<U | undefined>
  /** The record of a user in the store, which is read with the consent. */
  recordName(id: string): Name
  /**
   * Returns the claims that a user has a value for, by name. The scopes decide
   * which are returned to a client.
   */
  claimsOf(user: U): Record<string, unknown>
}

/** The library's state of a request. */
export type Oidc = KoaContextWithOIDC['oidc']

/** Sends the requests of the library to addresses that clients name. */
export type Fetch = NonNullable<Configuration['fetch']>

/** Everything that the wrapper is built from. */
export interface ProviderDependencies<U extends User = User> {
  settings: ProviderSettings
  /** At least one: the first signs cookies, all verify. */
  secrets: Uint8Array[]
  /** The first of an algorithm signs, all are published. */
  keys: SigningKey[]
  records: Records
  sessions: Sessions
  consents: Consents
  users: Users<U>
  fetch: Fetch
}
