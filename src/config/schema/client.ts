// Schema of clients/NAME.yaml. Keys are the names of RFC 7591 §2, and a few
// that Usher adds.

import { z } from 'zod'
import { hashSecret, isSecretExpired } from '../../oidc/clients.ts'
import type { SecretHash } from '../../oidc/dependencies.ts'
import {
  ACCOUNT_CLIENT,
  CONTENT_ENCRYPTION,
  ENCRYPTION_ALGORITHMS,
  GRANT_TYPES,
  RESPONSE_MODES,
  RESPONSE_TYPES,
  SIGNING_ALGORITHMS,
} from '../../oidc/vocabulary.ts'
import { hasKeys, mapOf } from '../../store/values.ts'
import { jwks } from './jwks.ts'
import { redirectUri, signOutUri } from './redirect-uri.ts'
import {
  colour,
  duration,
  emailAddress,
  isTime,
  matching,
  nameLike,
  path,
  scopeName,
  tagProblem,
  timeOf,
  VSCHARS,
  webUrl,
  words,
} from './values.ts'

/**
 * An address that the provider sends requests to: a web URL without a fragment.
 */
export const requestedUri = webUrl.refine(
  uri => !uri.includes('#'),
  'has no fragment',
)

const hash = matching(
  /^sha256:[\w-]{43}$/,
  'make one with: npm run usher -- clients secret {file}',
)

const until = z
  .string()
  .refine(isTime, 'is a day, or a time in UTC: 2026-12-01T00:00Z')
/** An item of `client_secret_hashes`. */
export const secretHash = z.union(
  [hash, z.strictObject({ hash, until })],
  'a hash, or {hash, until}: make one with: npm run usher -- clients secret {file}',
)

const clientId = nameLike(
  /^[\x21-\x7E]{1,255}$/,
  'a client_id is 1 to 255 visible ASCII characters',
)
  .refine(
    id => !/^usr_/.test(id),
    'usr_ is how subjects begin; a client must not look like one',
  )
  .refine(
    id => id !== ACCOUNT_CLIENT,
    `${ACCOUNT_CLIENT} is the client of the account pages`,
  )
const METHODS = [
  'none',
  'client_secret_basic',
  'client_secret_post',
  'attest_jwt_client_auth',
  'private_key_jwt',
  'tls_client_auth',
  'self_signed_tls_client_auth',
] as const

/** Clients send a secret as it is, or in the Basic header. */
export const NO_VSCHARS =
  'has characters that no client can send: only letters, digits, spaces and signs of ASCII (RFC 6749 A.2)'
const ACR =
  'an acr value is visible ASCII characters, without spaces (OIDC Core §3.1.2.1)'
const SCOPES = 'must be one text with spaces between scopes: openid profile'

const branding = z
  .strictObject({ logo: path, accent: colour, accent_dark: colour })
  .partial()
const subject = z.string().min(1).optional()
const ALLOW =
  'names attributes of accounts, each with a list of values: { groups: [finance] }'
const allowed = z.array(z.string(ALLOW).min(1), ALLOW).min(1, ALLOW)
const lifetimes = z
  .strictObject({
    access_token: duration('1 d'),
    id_token: duration('1 d'),
    refresh_token_idle: duration('180 d'),
    refresh_token: duration('180 d'),
  })
  .partial()

const claims = z
  .strictObject({
    rename: z.record(z.string().min(1), z.string()),
    join: z.string().min(1).max(3),
  })
  .partial()

/** Schema of a client file. */
export const clientSchema = z.strictObject({
  client_id: clientId,
  client_name: words(80),
  client_uri: webUrl.optional(),
  logo_uri: path
    .refine(name => !name.includes(':'), 'is a file in the config folder')
    .optional(),
  policy_uri: webUrl.optional(),
  tos_uri: webUrl.optional(),
  contacts: z.array(emailAddress).optional(),
  application_type: z.enum(['web', 'native']).default('web'),
  redirect_uris: z.array(redirectUri).default([]),
  post_logout_redirect_uris: z.array(signOutUri).default([]),
  backchannel_logout_uri: requestedUri.optional(),
  backchannel_logout_session_required: z.boolean().optional(),
  backchannel_token_delivery_mode: z.enum(['poll', 'ping']).optional(),
  backchannel_client_notification_endpoint: requestedUri
    .regex(/^https:/, 'must be https, on loopback too')
    .optional(),
  initiate_login_uri: webUrl
    .refine(uri => /^https:/i.test(uri), 'must be https')
    .optional(),
  token_endpoint_auth_method: z.enum(METHODS).optional(),
  client_secret: matching(VSCHARS, NO_VSCHARS).optional(),
  client_secret_hashes: z.array(secretHash).optional(),
  jwks: jwks.optional(),
  jwks_uri: requestedUri.optional(),
  token_endpoint_auth_signing_alg: z.enum(SIGNING_ALGORITHMS).optional(),
  grant_types: z
    .array(z.enum(GRANT_TYPES))
    .default(['authorization_code', 'refresh_token']),
  response_types: z
    .array(z.enum(RESPONSE_TYPES, `is one of: ${RESPONSE_TYPES.join(', ')}`))
    .min(1)
    .default(['code']),
  response_modes: z
    .array(z.enum(RESPONSE_MODES))
    .min(1)
    .default(['query', 'form_post']),
  authorization_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional(),
  authorization_encrypted_response_alg: z
    .enum(ENCRYPTION_ALGORITHMS)
    .optional(),
  authorization_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional(),
  request_object_signing_alg: z.enum(SIGNING_ALGORITHMS).optional(),
  request_object_encryption_alg: z.enum(ENCRYPTION_ALGORITHMS).optional(),
  request_object_encryption_enc: z.enum(CONTENT_ENCRYPTION).optional(),
  require_signed_request_object: z.boolean().optional(),
  scope: z.string(SCOPES).min(1).optional(),
  authorization_details_types: z.array(z.string()).min(1).optional(),
  introspection_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional(),
  introspection_encrypted_response_alg: z
    .enum(ENCRYPTION_ALGORITHMS)
    .optional(),
  introspection_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional(),
  subject_type: z.enum(['public', 'pairwise']).default('public'),
  sector_identifier_uri: webUrl.optional(),
  id_token_signed_response_alg: z.enum(SIGNING_ALGORITHMS).default('RS256'),
  id_token_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional(),
  id_token_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional(),
  userinfo_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional(),
  userinfo_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional(),
  userinfo_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional(),
  default_max_age: z.int().min(0).optional(),
  default_acr_values: z
    .array(matching(/^[\x21-\x7E]+$/, ACR))
    .min(1)
    .optional(),
  require_auth_time: z.boolean().optional(),
  require_pushed_authorization_requests: z.boolean().optional(),
  dpop_bound_access_tokens: z.boolean().optional(),
  require_dpop_nonce: z.boolean().optional(),
  tls_client_auth_subject_dn: subject,
  tls_client_auth_san_dns: subject,
  tls_client_auth_san_uri: subject,
  tls_client_auth_san_ip: subject,
  tls_client_auth_san_email: subject,
  tls_client_certificate_bound_access_tokens: z.boolean().optional(),
  use_mtls_endpoint_aliases: z.boolean().optional(),
  profile: z.enum(['fapi2']).optional(),
  require_pkce: z.boolean().default(true),
  branding: branding.optional(),
  require_sign_in: z.string().optional(),
  second_factor: z.enum(['required']).optional(),
  enabled: z.boolean().optional(),
  required_scopes: z.array(scopeName).min(1).optional(),
  allow: z.record(z.string().min(1), allowed).refine(hasKeys, ALLOW).optional(),
  consent: z.enum(['explicit', 'implicit']).default('explicit'),
  lifetimes: lifetimes.optional(),
  refresh_tokens: z.enum(['offline_access', 'always']).optional(),
  rotate_refresh_tokens: z.boolean().optional(),
  default_resource: z.string().optional(),
  claims: claims.optional(),
})

/**
 * Keys that users read. Each can be given for a language too: `client_name#de`
 * (RFC 7591 §2.2).
 */
export const READ_BY_USERS = [
  'client_name',
  'client_uri',
  'policy_uri',
  'tos_uri',
] as const

/** Returns the schema with the keys that `data` has for a language. */
export function inLanguages<S extends z.ZodObject>(
  schema: S,
  data: unknown,
): S {
  const tagged = Object.keys(mapOf(data)).flatMap(name => {
    const [, base, tag = ''] = /^(\w+)#(.+)$/.exec(name) ?? []
    const key = READ_BY_USERS.find(key => key === base)
    return key && !tagProblem(tag) ? [[name, schema.shape[key]]] : []
  })
  return schema.extend(Object.fromEntries(tagged)) as S
}

/** A client file with defaults. */
export type ClientFile = z.output<typeof clientSchema>
/** A client as the provider uses it: the secret exists only as a hash. */
export type ClientMetadata = Omit<ClientFile, 'client_secret'>

/**
 * Returns a client whose plain secret, which only a loopback issuer accepts,
 * became a hash.
 */
export function withoutSecret<T extends Partial<ClientFile>>({
  client_secret,
  ...client
}: T) {
  if (client_secret === undefined) return client
  const hashes = [
    ...(client.client_secret_hashes ?? []),
    hashSecret(client_secret),
  ]
  return { ...client, client_secret_hashes: hashes }
}

/**
 * Returns `1 for good, 1 until 2026-12-01 00:00 UTC, 1 expired`; undefined
 * without secrets.
 */
export function describeSecrets(
  entries: SecretHash[] = [],
): string | undefined {
  const groups = [...Map.groupBy(entries, lifetimeOf)]
  return (
    groups
      .map(([lifetime, { length }]) => `${length} ${lifetime}`)
      .join(', ') || undefined
  )
}

function lifetimeOf(entry: SecretHash): string {
  if (typeof entry === 'string') return 'for good'
  return isSecretExpired(entry)
    ? 'expired'
    : `until ${timeOf(Date.parse(entry.until) / 1000)}`
}
