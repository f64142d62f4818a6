// Schema of clients/NAME.yaml. Keys are the names of RFC 7591 §2, and a few that Usher adds.

import { z } from 'zod'
import {
  colour,
  isTime,
  mapOf,
  matching,
  nameLike,
  path,
  refusing,
  tagProblem,
  webUrl,
  words,
} from './values.ts'

const redirectUri = z.string().superRefine(refusing(redirectUriProblem, 'redirect-uri'))

/** An address that the provider sends requests to: a web URL without a fragment. */
export const requestedUri = webUrl.refine(uri => !uri.includes('#'), 'has no fragment')

const member = z.string().optional()
const members = z.array(z.string()).optional()
// biome-ignore format: a table
const PUBLIC_JWK = {
  kty: z.string(), use: member, key_ops: members, alg: member, kid: member,
  crv: member, x: member, y: member, n: member, e: member,
  x5u: member, x5c: members, x5t: member, 'x5t#S256': member,
}

/** A public key. Other members are dropped: a registered key may nest them without limit. */
const publicJwk = z
  .looseObject(PUBLIC_JWK)
  .superRefine(refusing(jwkProblem, 'client-key'))
  .transform(jwk => z.object(PUBLIC_JWK).parse(jwk))
const haveOwnKids = (keys: { kid?: string }[]) =>
  keys.length === 1 || new Set(keys.flatMap(({ kid }) => kid ?? [])).size === keys.length
const jwks = z.strictObject({
  keys: z
    .array(publicJwk)
    .min(1)
    .refine(haveOwnKids, 'each of several keys needs a kid of its own')
    .describe('Public keys: RSA, EC or OKP. Several keys need a kid each'),
})

const hash = matching(/^sha256:[\w-]{43}$/, 'make one with: npm run usher -- clients secret NAME')

const until = z.string().refine(isTime, 'is a day, or a time in UTC: 2026-12-01T00:00Z')
/** An item of `client_secret_hashes`. */
export const secretHash = z.union(
  [hash, z.strictObject({ hash, until })],
  'a hash, or {hash, until}: make one with: npm run usher -- clients secret NAME',
)

/** The client_id with which the account pages sign users in. It needs no consent. */
export const ACCOUNT_CLIENT = 'usher-account'

const clientId = nameLike(
  /^[\x21-\x7E]{1,255}$/,
  'a client_id is 1 to 255 visible ASCII characters',
)
  .refine(id => !/^usr_/.test(id), 'usr_ is how subjects begin; a client must not look like one')
  .refine(id => id !== ACCOUNT_CLIENT, `${ACCOUNT_CLIENT} is the client of the account pages`)

// biome-ignore format: a table
const METHODS = [
  'none', 'client_secret_basic', 'client_secret_post',
  'private_key_jwt', 'tls_client_auth', 'self_signed_tls_client_auth',
] as const
/** Grant type of the device flow (RFC 8628 §3.4). */
export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** Grant type of CIBA (OpenID Connect CIBA §10.1). */
export const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
// biome-ignore format: a table
/** Grant types that a client file can name. */
export const GRANT_TYPES = [
  'authorization_code', 'refresh_token', 'client_credentials', DEVICE_GRANT, CIBA_GRANT,
] as const
/** Signing algorithms. All are asymmetric: clients share no key with the provider. */
export const SIGNING_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
/** Key management algorithms of encrypted JWTs. */
export const ENCRYPTION_ALGORITHMS = ['RSA-OAEP-256', 'ECDH-ES'] as const
// biome-ignore format: a table
/** Response types that a client file can name. */
export const RESPONSE_TYPES = [
  'code', 'id_token', 'id_token token',
  'code id_token', 'code token', 'code id_token token',
] as const
// biome-ignore format: a table
/** Response modes that a client file can name. */
export const RESPONSE_MODES = [
  'query', 'form_post', 'jwt', 'query.jwt', 'form_post.jwt', 'fragment',
] as const
const CONTENT_ENCRYPTION = ['A128CBC-HS256', 'A256CBC-HS512', 'A128GCM', 'A256GCM'] as const
const SCOPES = 'must be one text with spaces between scopes: openid profile'

const subject = z.string().min(1).optional()

// biome-ignore format: a table
/** Schema of a client file. */
export const clientSchema = z.strictObject({
  client_id: clientId.describe('The identifier of the client (RFC 6749 §2.2). It never changes'),
  client_name: words(80).describe('The name that users see on the sign-in and consent pages'),
  client_uri: webUrl.optional().describe('The home page of the application. Pages of the provider link to it'),
  policy_uri: webUrl.optional().describe('The privacy policy of the application. The consent page links to it'),
  tos_uri: webUrl.optional().describe('The terms of service of the application. The consent page links to them'),
  contacts: z.array(z.email()).optional().describe('E-mail addresses of those responsible for the application'),
  application_type: z.enum(['web', 'native']).default('web').describe('native: an application installed on the computer or phone of the user, whose `redirect_uris` may be loopback addresses or use a custom scheme'),
  redirect_uris: z.array(redirectUri).default([]).describe('The addresses that users can be sent back to with a code, compared byte for byte, except for the port of loopback addresses of native applications. Browser applications may call the token endpoint from these origins'),
  post_logout_redirect_uris: z.array(redirectUri).default([]).describe('The addresses that users can be sent back to after they signed out, compared byte for byte'),
  backchannel_logout_uri: requestedUri.optional().describe('An https address that receives a logout token when a session ends that was used for this application. An address that is not public must be in egress.allow of usher.yaml'),
  backchannel_logout_session_required: z.boolean().optional().describe('true: logout tokens and ID tokens name the session (sid). false: logout tokens name only the user (sub)'),
  backchannel_token_delivery_mode: z.enum(['poll', 'ping']).optional().describe('How the client learns that the user answered (features.ciba). poll: it sends token requests every few seconds. ping: it is notified at `backchannel_client_notification_endpoint`, then sends a token request. Absent: poll'),
  backchannel_client_notification_endpoint: requestedUri.regex(/^https:/, 'must be https, on loopback too').optional().describe('An https address that receives these notifications. An address that is not public must be in egress.allow of usher.yaml'),
  initiate_login_uri: webUrl.refine(uri => /^https:/i.test(uri), 'must be https').optional().describe('An https address of the application that begins a sign-in (OIDC Core §4)'),
  token_endpoint_auth_method: z.enum(METHODS).optional().describe('How the client authenticates; exactly this method is accepted. Absent: with its secret, by client_secret_basic or client_secret_post. client_secret_basic, client_secret_post: with a secret (`client_secret_hashes`). private_key_jwt: with a key of `jwks`. tls_client_auth: with a certificate that matches one of the tls_client_auth_… keys below. self_signed_tls_client_auth: with a certificate in `jwks` (x5c). none: not at all, for browser and native applications'),
  client_secret: z.string().min(1).optional().describe('The secret in plain text, for a loopback issuer only. Otherwise use `client_secret_hashes`'),
  client_secret_hashes: z.array(secretHash).optional().describe('Hashes of the secrets that are accepted; several while a secret is replaced. {hash, until} is accepted until that time. usher clients secret NAME --until 7d adds a hash, and sets that time for the others'),
  jwks: jwks.optional().describe('The public keys of the application. They verify its signatures (private_key_jwt, request objects), and its tokens can be encrypted to them'),
  grant_types: z.array(z.enum(GRANT_TYPES)).default(['authorization_code', 'refresh_token']).describe('The grant types that the client can use. Without refresh_token, the client gets no offline access. client_credentials: tokens for the client itself, without a user; a client with this type alone needs no `redirect_uris`. urn:ietf:params:oauth:grant-type:device_code: the user enters a code in another browser (features.device_flow). urn:openid:params:grant-type:ciba: the user answers on /account/requests (features.ciba). These two need no `redirect_uris` either. []: none, for an API that only introspects'),
  response_types: z.array(z.enum(RESPONSE_TYPES, `is one of: ${RESPONSE_TYPES.join(', ')}`)).min(1).default(['code']).describe('The responses of the authorization endpoint that the client can request. All except code send tokens through the browser, and need compatibility of usher.yaml'),
  response_modes: z.array(z.enum(RESPONSE_MODES)).min(1).default(['query', 'form_post']).describe('How the authorization response is sent to `redirect_uris`. query.jwt (short: jwt) and form_post.jwt are signed JWTs (JARM). Tokens of `response_types` are sent by form_post, form_post.jwt or fragment. A code alone is never sent by fragment'),
  authorization_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('The signing algorithm of authorization responses that are JWTs; absent: RS256'),
  request_object_signing_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('The signing algorithm of request objects of this client (RFC 9101); absent: any of these'),
  require_signed_request_object: z.boolean().optional().describe('true: authorization requests of this client must be signed request objects (RFC 9101)'),
  scope: z.string(SCOPES).min(1).optional().describe('The scopes that the client may request, including those of APIs (resources/), separated by spaces. Absent: every scope, including scopes added later'),
  authorization_details_types: z.array(z.string()).min(1).optional().describe('The types of authorization details (details/) that the client may request; absent: none. Needs features.rich_authorization_requests'),
  introspection_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('The signing algorithm of introspection responses that the client requests as JWTs (RFC 9701); absent: RS256'),
  subject_type: z.enum(['public', 'pairwise']).default('public').describe('pairwise: the client gets a sub that no application outside its sector knows. The sector is the host of `redirect_uris`. If you change this later, the application takes every user for a new one. Needs features.pairwise_subjects'),
  sector_identifier_uri: webUrl.optional().describe('An https address whose host is the sector instead. Applications with the same sector get the same sub. The provider does not fetch this address: make sure that it lists these applications only'),
  id_token_signed_response_alg: z.enum(SIGNING_ALGORITHMS).default('RS256').describe('The signing algorithm of ID tokens'),
  id_token_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional().describe('Encrypts ID tokens, after signing, to a key in `jwks`: RSA-OAEP-256 needs an RSA key, ECDH-ES an EC key. Needs features.encryption'),
  id_token_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional().describe('The content encryption of ID tokens; absent: A128CBC-HS256'),
  userinfo_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('The signing algorithm of UserInfo responses, which are then JWTs; absent: JSON without signature'),
  userinfo_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional().describe('Encrypts UserInfo responses, as `id_token_encrypted_response_alg` does for ID tokens. Needs features.encryption'),
  userinfo_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional().describe('The content encryption of UserInfo responses; absent: A128CBC-HS256'),
  default_max_age: z.int().min(0).optional().describe('Users enter their password again if they last did so more than this number of seconds ago (OIDC Registration §2)'),
  require_auth_time: z.boolean().optional().describe('true: ID tokens always say when the user entered the password (auth_time)'),
  require_pushed_authorization_requests: z.boolean().optional().describe('true: the client must send its authorization requests to the pushed authorization request endpoint (RFC 9126)'),
  dpop_bound_access_tokens: z.boolean().optional().describe('true: the client gets only tokens bound to its key by DPoP (RFC 9449). Otherwise the client decides'),
  tls_client_auth_subject_dn: subject.describe('The subject of the certificate of the client (RFC 4514): openssl x509 -noout -subject -nameopt RFC2253 -in FILE'),
  tls_client_auth_san_dns: subject.describe('A DNS name in the certificate of the client, instead of its subject'),
  tls_client_auth_san_uri: subject.describe('A URI in the certificate of the client, instead of its subject'),
  tls_client_auth_san_ip: subject.describe('An IP address in the certificate of the client, instead of its subject'),
  tls_client_auth_san_email: subject.describe('An e-mail address in the certificate of the client, instead of its subject'),
  tls_client_certificate_bound_access_tokens: z.boolean().optional().describe('true: tokens are bound to the certificate that the client uses at the token endpoint (RFC 8705 §3)'),
  profile: z.enum(['fapi2']).optional().describe('fapi2: all requirements of the FAPI 2.0 Security Profile: pushed authorization requests, tokens bound to a key, no RS256 in assertions and ID tokens, refresh tokens without rotation. No other key of this file may contradict it'),
  require_pkce: z.boolean().default(true).describe('false: the client need not use PKCE. Only for confidential clients that do not support it'),
  branding: z.strictObject({
    logo: path.optional().describe('An SVG or PNG of at most 256 KiB, shown beside your logo. The path begins in the config folder'),
    accent: colour.optional().describe('The colour of buttons and links, as `branding.accent` of usher.yaml'),
    accent_dark: colour.optional().describe('The same for users who prefer a dark colour scheme'),
  }).optional().describe('How the sign-in and consent pages of this application look'),
  require_sign_in: z.string().optional().describe('The only method by which users sign in to this application: password, or the name of a file in upstreams/. Absent: each of sign_in.methods in usher.yaml'),
  consent: z.enum(['explicit', 'implicit']).default('explicit').describe('implicit: users are not asked for consent, except for authorization details. For applications of your own organisation'),
})

/** Keys that users read. Each can be given for a language too: `client_name#de` (RFC 7591 §2.2). */
export const READ_BY_USERS = ['client_name', 'client_uri', 'policy_uri', 'tos_uri'] as const

/** Returns the schema with the keys that `data` has for a language. */
export function inLanguages<S extends z.ZodObject>(schema: S, data: unknown): S {
  const tagged = Object.keys(mapOf(data)).flatMap(name => {
    const [, base, tag = ''] = /^(\w+)#(.+)$/.exec(name) ?? []
    const key = READ_BY_USERS.find(key => key === base)
    return key && !tagProblem(tag) ? [[name, schema.shape[key]]] : []
  })
  return schema.extend(Object.fromEntries(tagged)) as S
}

/** A client file with defaults. Only clients that registered themselves have a `jwks_uri`. */
export type ClientFile = z.output<typeof clientSchema> & { jwks_uri?: string }
/** A client as the provider uses it: the secret exists only as a hash. */
export type ClientMetadata = Omit<ClientFile, 'client_secret'>

const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']
const RSA_BITS = 2048

/** Returns what is wrong with a key, without any part of the key; undefined if it is valid. */
function jwkProblem(jwk: Record<string, unknown>): string | undefined {
  const { kty, crv, n = '' } = jwk
  if (kty === 'oct') return 'is a shared secret: give a public key, RSA, EC or OKP'
  if (PRIVATE.some(part => part in jwk))
    return 'is a private key: make a new key, and put only its public part here'
  if (kty === 'EC' && crv !== 'P-256') return 'is not on the curve P-256 (ES256)'
  if (kty === 'OKP' && crv !== 'Ed25519') return 'is not on the curve Ed25519 (EdDSA)'
  if (!['RSA', 'EC', 'OKP'].includes(String(kty))) return 'kty must be RSA, EC or OKP'
  const isShort = kty === 'RSA' && String(n).length * 6 < RSA_BITS
  return isShort ? `RSA needs ${RSA_BITS} bits or more` : undefined
}

/** Host names of loopback addresses. */
export const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])
const DANGEROUS = /^(javascript|data|file|vbscript|blob|about|wss?):$/

/** Returns what is wrong with a redirect URI for every kind of client; undefined if it is valid. */
export function redirectUriProblem(uri: string): string | undefined {
  if (uri.includes('*')) return 'there are no wildcards: register every address'
  if (/[^\x21-\x7E]/.test(uri))
    return 'only visible ASCII, no spaces: check the indentation, or write names in Punycode'
  if (uri.includes('#')) return 'a redirect URI has no fragment (RFC 6749 §3.1.2)'
  const url = URL.parse(uri)
  if (!url) return 'a redirect URI is an absolute URL: https://app.example.org/callback'
  if (DANGEROUS.test(url.protocol)) return `${url.protocol} cannot receive a redirect safely`
  if (url.username || url.password) return 'a redirect URI carries no user name or password'
  if (!/^https?:$/.test(url.protocol)) {
    return url.protocol.includes('.')
      ? undefined
      : 'a scheme of your own is a reversed domain name: com.example.app:/callback (RFC 8252 §7.1)'
  }
  const [, written = ''] = /^[^:]+:\/\/([^/?]*)/.exec(uri) ?? []
  const port = url.protocol === 'https:' ? 443 : 80
  const isCompared = [url.host, `${url.host}:${port}`].includes(written)
  if (!isCompared) return `write the host as it is compared: ${url.host}`
  const hasDots = /\/\.{1,2}(\/|\?|$)|%2e|\\/i.test(uri)
  return hasDots ? 'no dot segments or backslashes in the path' : undefined
}

/** Returns what is wrong with the scheme. `http` is for loopback: native clients and development. */
export function schemeProblem(uri: string, client: { native: boolean; loopbackIssuer: boolean }) {
  const { protocol, hostname } = new URL(uri)
  if (protocol === 'https:') return undefined
  if (protocol !== 'http:') {
    return client.native ? undefined : 'a scheme of your own needs application_type: native'
  }
  if (!LOOPBACK_HOSTS.has(hostname)) return 'must be https; http is only for loopback addresses'
  if (client.native || client.loopbackIssuer) return undefined
  return 'must be https; http on loopback is only for application_type: native'
}
