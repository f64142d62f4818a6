// What may stand in clients/NAME.yaml: keys are the RFC 7591 names, verbatim, and a few of our own.

import { z } from 'zod'
import { isTime } from '../client-secret.ts'
import { colour, httpsUrl, mapOf, path, tagProblem, webUrl, words } from './values.ts'

const redirectUri = z.string().superRefine((uri, ctx) => {
  const message = redirectUriProblem(uri)
  if (message) ctx.addIssue({ code: 'custom', message, params: { rule: 'redirect-uri' } })
})

export const requestedUri = webUrl.refine(uri => !uri.includes('#'), 'has no fragment')

const member = z.string().optional()
const members = z.array(z.string()).optional()
// biome-ignore format: a table
const PUBLIC_JWK = {
  kty: z.string(), use: member, key_ops: members, alg: member, kid: member,
  crv: member, x: member, y: member, n: member, e: member,
  x5u: member, x5c: members, x5t: member, 'x5t#S256': member,
}

/** Public keys. Other members are left out: a registered key may have them nested without end. */
const jwks = z
  .strictObject({
    keys: z
      .array(z.looseObject(PUBLIC_JWK))
      .min(1)
      .describe('Public keys, RSA, EC or OKP; several have a kid each'),
  })
  .superRefine(({ keys }, ctx) => {
    keys.forEach((jwk, i) => {
      const message = jwkProblem(jwk, keys.slice(0, i))
      const params = { rule: 'client-key' }
      if (message) ctx.addIssue({ code: 'custom', message, path: ['keys', i], params })
    })
  })
  .transform(({ keys }) => ({ keys: keys.map(jwk => z.object(PUBLIC_JWK).parse(jwk)) }))

const hash = z
  .string()
  .regex(/^sha256:[\w-]{43}$/, 'make one with: npm run usher -- clients secret NAME')

const until = z
  .string('a time: 2026-12-01T00:00Z')
  .refine(isTime, 'is a time, in UTC: 2026-12-01T00:00Z, or a day: 2026-12-01')
const secretHash = z.union(
  [hash, z.strictObject({ hash, until })],
  'a hash, or {hash, until}: make one with: npm run usher -- clients secret NAME',
)

/** The account pages sign people in as a client of their own, which needs no consent. */
export const ACCOUNT_CLIENT = 'usher-account'

const clientId = z
  .string()
  .regex(/^[\x21-\x7E]{1,255}$/, 'a client_id is 1 to 255 visible ASCII characters')
  .refine(id => !(id in Object.prototype), 'is a name that JavaScript keeps for itself')
  .refine(id => !/^usr_/.test(id), 'usr_ is how subjects begin; a client must not look like one')
  .refine(id => id !== ACCOUNT_CLIENT, `${ACCOUNT_CLIENT} is the client of the account pages`)

const METHODS = [
  'none',
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
  'tls_client_auth',
  'self_signed_tls_client_auth',
] as const
export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
export const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
export const GRANT_TYPES = [
  'authorization_code',
  'refresh_token',
  'client_credentials',
  DEVICE_GRANT,
  CIBA_GRANT,
] as const
/** Asymmetric alone: a client shares no key with us. */
export const SIGNING_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
export const ENCRYPTION_ALGORITHMS = ['RSA-OAEP-256', 'ECDH-ES'] as const
export const RESPONSE_TYPES = [
  'code',
  'id_token',
  'id_token token',
  'code id_token',
  'code token',
  'code id_token token',
] as const
export const RESPONSE_MODES = [
  'query',
  'form_post',
  'jwt',
  'query.jwt',
  'form_post.jwt',
  'fragment',
] as const
/** Those that tokens travel by. */
export const TOKEN_MODES: string[] = ['form_post', 'form_post.jwt', 'fragment']
const CONTENT_ENCRYPTION = ['A128CBC-HS256', 'A256CBC-HS512', 'A128GCM', 'A256GCM'] as const
const SCOPES = 'scopes are one text, separated by spaces: openid profile'

const subject = z.string().min(1).optional()

// biome-ignore format: a table
export const clientSchema = z.strictObject({
  client_id: clientId.describe('What the application calls itself at every endpoint; it never changes'),
  client_name: words(80).describe('What people read on the sign-in and consent pages'),
  client_uri: webUrl.optional().describe('The home page of the application: the way back from our pages'),
  policy_uri: webUrl.optional().describe('Its privacy policy, linked on the consent page'),
  tos_uri: webUrl.optional().describe('Its terms of service, linked on the consent page'),
  contacts: z.array(z.email()).optional().describe('E-mail addresses of the people who run it'),
  application_type: z.enum(['web', 'native']).default('web').describe('native: an application on the device of the person, which may have loopback and custom-scheme `redirect_uris`'),
  redirect_uris: z.array(redirectUri).default([]).describe('Where people may be sent back to with a code, compared byte for byte; the ports of native loopback addresses excepted. Browser applications may call the token endpoint from these origins'),
  post_logout_redirect_uris: z.array(redirectUri).default([]).describe('Where people may be sent back to after they signed out, compared byte for byte'),
  backchannel_logout_uri: requestedUri.optional().describe('An https address of the application that is told when a session ends by which it signed somebody in; what is not public has to stand in egress.allow of usher.yaml'),
  backchannel_logout_session_required: z.boolean().optional().describe('true: it is told which session of the person has ended, and its ID tokens say which they are of (sid); otherwise only who signed out'),
  backchannel_token_delivery_mode: z.enum(['poll', 'ping']).optional().describe('How it learns that a person has answered (features.ciba): poll, it asks every few seconds; ping, it is told at `backchannel_client_notification_endpoint`, and asks then. Absent: poll'),
  backchannel_client_notification_endpoint: requestedUri.regex(/^https:/, 'must be https, on loopback too').optional().describe('An https address of the application that is told so; what is not public has to stand in egress.allow of usher.yaml'),
  initiate_login_uri: httpsUrl.optional().describe('An https address of the application that begins a sign-in'),
  token_endpoint_auth_method: z.enum(METHODS).optional().describe('How the client authenticates, exactly so; absent: with its secret, by client_secret_basic or client_secret_post. With a secret (`client_secret_hashes`), with a key of its own (private_key_jwt: `jwks`), with a certificate (tls_client_auth: one of the tls_client_auth_… below; self_signed_tls_client_auth: `jwks` with x5c), or not at all (none: browser and native applications)'),
  client_secret: z.string().min(1).optional().describe('In plain, for a loopback issuer only; otherwise `client_secret_hashes`'),
  client_secret_hashes: z.array(secretHash).optional().describe('Hashes of the secrets that are valid, several while one is replaced; one that stands here as {hash, until} counts until that time. usher clients secret NAME --until 7d adds one, and ends the others then'),
  jwks: jwks.optional().describe('The public keys of the application: what it signs is verified with them (private_key_jwt), and what it has encrypted is encrypted to one of them'),
  grant_types: z.array(z.enum(GRANT_TYPES)).default(['authorization_code', 'refresh_token']).describe('What the application may redeem; without refresh_token it is never given offline access. client_credentials: tokens of its own, for nobody; alone, it is a service that signs nobody in, and has no `redirect_uris`. urn:ietf:params:oauth:grant-type:device_code: the person enters a code in a browser of theirs (features.device_flow); it needs no `redirect_uris` either, nor does urn:openid:params:grant-type:ciba: the person is asked on /account/requests (features.ciba). []: nothing, an API that only introspects'),
  response_types: z.array(z.enum(RESPONSE_TYPES, `is one of: ${RESPONSE_TYPES.join(', ')}`)).min(1).default(['code']).describe('What people are sent back with. All but code have tokens travel through the browser, and need compatibility of usher.yaml'),
  response_modes: z.array(z.enum(RESPONSE_MODES)).min(1).default(['query', 'form_post']).describe('How the code may travel to `redirect_uris`; jwt (which is query.jwt), query.jwt and form_post.jwt: in a JWT of ours (JARM). Tokens of `response_types` travel by form_post, form_post.jwt or fragment, a code alone never by fragment'),
  authorization_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('What that JWT is signed with; absent: RS256'),
  request_object_signing_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('What its request objects (RFC 9101) are signed with; absent: any of these'),
  require_signed_request_object: z.boolean().optional().describe('true: its authorization requests come as signed request objects alone (RFC 9101)'),
  scope: z.string(SCOPES).min(1).optional().describe('The scopes it may ask for, those of APIs (resources/) too, separated by spaces; absent: all there are, and all there will be'),
  authorization_details_types: z.array(z.string()).min(1).optional().describe('The types of authorization details (details/) it may ask for; absent: none. Needs features.rich_authorization_requests'),
  introspection_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('What the answers of introspection are signed with when it asks for them as JWTs (RFC 9701); absent: RS256'),
  subject_type: z.enum(['public', 'pairwise']).default('public').describe('pairwise: the sub it is told is known to no application outside its sector, the host of its `redirect_uris`. To change it later makes strangers of all people. Needs features.pairwise_subjects'),
  sector_identifier_uri: webUrl.optional().describe('An https address whose host is the sector in place of that: applications that share it are told the same sub. It is not fetched: what stands here is your word'),
  id_token_signed_response_alg: z.enum(SIGNING_ALGORITHMS).default('RS256').describe('What its ID tokens are signed with'),
  id_token_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional().describe('Its ID tokens are encrypted, too, to a key in `jwks`: RSA-OAEP-256 an RSA key, ECDH-ES an EC key. Needs features.encryption'),
  id_token_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional().describe('How the content is encrypted; absent: A128CBC-HS256'),
  userinfo_signed_response_alg: z.enum(SIGNING_ALGORITHMS).optional().describe('UserInfo answers with a JWT that is signed with this; absent: with JSON'),
  userinfo_encrypted_response_alg: z.enum(ENCRYPTION_ALGORITHMS).optional().describe('That JWT is encrypted, too, as `id_token_encrypted_response_alg` has it. Needs features.encryption'),
  userinfo_encrypted_response_enc: z.enum(CONTENT_ENCRYPTION).optional().describe('How the content is encrypted; absent: A128CBC-HS256'),
  default_max_age: z.int().min(0).optional().describe('People who entered their password longer ago, in seconds, enter it again'),
  require_auth_time: z.boolean().optional().describe('Whether its ID tokens always say when the person entered their password'),
  require_pushed_authorization_requests: z.boolean().optional().describe('true: its authorization requests come by the pushed authorization request endpoint alone (RFC 9126)'),
  dpop_bound_access_tokens: z.boolean().optional().describe('true: it is given no tokens but those bound to a key of its own by DPoP (RFC 9449); otherwise it binds them when it likes to'),
  tls_client_auth_subject_dn: subject.describe('The subject of its certificate (RFC 4514): openssl x509 -noout -subject -nameopt RFC2253 -in FILE'),
  tls_client_auth_san_dns: subject.describe('A DNS name that its certificate is for, in its place'),
  tls_client_auth_san_uri: subject.describe('A URI that its certificate is for, in its place'),
  tls_client_auth_san_ip: subject.describe('An address that its certificate is for, in its place'),
  tls_client_auth_san_email: subject.describe('An e-mail address that its certificate is for, in its place'),
  tls_client_certificate_bound_access_tokens: z.boolean().optional().describe('true: its tokens are bound to the certificate that it asks for them with (RFC 8705 §3)'),
  profile: z.enum(['fapi2']).optional().describe('fapi2: everything the FAPI 2.0 security profile asks for, in one: pushed requests, tokens bound to a key, assertions and ID tokens without RS256, refresh tokens that stay the same. The rest of this file must not contradict it'),
  require_pkce: z.boolean().default(true).describe('false exempts a confidential client that cannot do PKCE'),
  branding: z
    .strictObject({
      logo: path.optional().describe('An SVG or PNG of at most 256 KiB, shown beside your logo. The path begins in the config folder'),
      accent: colour.optional().describe('The colour of buttons and links, as `branding.accent` of usher.yaml'),
      accent_dark: colour.optional().describe('The same for users who prefer a dark screen'),
    })
    .optional()
    .describe('How the sign-in and consent pages of this application look'),
  consent: z.enum(['explicit', 'implicit']).default('explicit').describe('implicit: an application of your own, people are not asked, but for authorization details'),
})

/** What people read of it; RFC 7591 §2.2 has it once more for a language, as `client_name#de`. */
export const READ_BY_PEOPLE = ['client_name', 'client_uri', 'policy_uri', 'tos_uri'] as const

/** A schema with those of them that `data` has for a language. */
export function inLanguages<S extends z.ZodObject>(schema: S, data: unknown): S {
  const tagged = Object.keys(mapOf(data)).flatMap(name => {
    const [, base, tag = ''] = /^(\w+)#(.+)$/.exec(name) ?? []
    const key = READ_BY_PEOPLE.find(key => key === base)
    return key && !tagProblem(tag) ? [[name, schema.shape[key]]] : []
  })
  return schema.extend(Object.fromEntries(tagged)) as S
}

/** `jwks_uri`: only of a client that registered itself (registration.ts). */
export type ClientFile = z.output<typeof clientSchema> & { jwks_uri?: string }
export type ClientMetadata = Omit<ClientFile, 'client_secret'>

const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']
const RSA_BITS = 2048

type Jwk = Record<string, unknown>

/** The problem of a key beside those before it, without any part of the key. Undefined if there is none. */
function jwkProblem(jwk: Jwk, before: Jwk[]): string | undefined {
  const { kty, crv, kid, n } = jwk
  if (kty === 'oct') return 'is a secret that is shared: give a public key, RSA, EC or OKP'
  if (PRIVATE.some(part => part in jwk)) {
    return 'is a private key, and known now to whoever reads this file: make a new one, and leave only its public part here'
  }
  if (before.some(other => kid === undefined || other.kid === kid)) {
    return kid === undefined ? 'one of several keys needs a kid' : 'has the kid of another key'
  }
  if (kty === 'EC' && crv !== 'P-256') return 'is not on the curve P-256 (ES256)'
  if (kty === 'OKP' && crv !== 'Ed25519') return 'is not on the curve Ed25519 (EdDSA)'
  if (!['RSA', 'EC', 'OKP'].includes(String(kty))) return 'kty must be RSA, EC or OKP'
  const bits = typeof n === 'string' ? n.length * 6 : 0
  return kty === 'RSA' && bits < RSA_BITS ? `RSA needs ${RSA_BITS} bits or more` : undefined
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])
const DANGEROUS = /^(javascript|data|file|vbscript|blob|about|wss?):$/

/** The problem of a redirect URI for every kind of client. Undefined if there is none. */
export function redirectUriProblem(uri: string): string | undefined {
  if (uri.includes('*'))
    return 'redirect URIs are compared exactly; there are no wildcards: register every address'
  if (/[^\x21-\x7E]/.test(uri)) return 'only visible ASCII: write international names in Punycode'
  if (uri.includes('#')) return 'a redirect URI has no fragment (RFC 6749 §3.1.2)'
  const url = URL.parse(uri)
  if (!url) return 'a redirect URI is an absolute URL: https://app.example.org/callback'
  if (DANGEROUS.test(url.protocol)) return `${url.protocol} cannot receive a redirect safely`
  if (url.username || url.password) return 'a redirect URI carries no user name or password'
  if (url.protocol === 'https:' || url.protocol === 'http:') {
    const written = /^[^:]+:\/\/([^/?]*)/.exec(uri)?.[1]
    if (written !== url.host && written !== `${url.host}:${url.protocol === 'https:' ? 443 : 80}`) {
      return `write the host as it is compared: ${url.host}`
    }
    if (/\/\.{1,2}(\/|\?|$)|%2e|\\/i.test(uri)) return 'no dot segments or backslashes in the path'
    return undefined
  }
  if (!url.protocol.includes('.')) {
    return 'a scheme of your own is a reversed domain name: com.example.app:/callback (RFC 8252 §7.1)'
  }
  return undefined
}

/** `http` is for loopback: native clients, and any client of a loopback issuer (development). */
export function schemeProblem(
  uri: string,
  client: { native: boolean; loopbackIssuer: boolean },
): string | undefined {
  const { protocol, hostname } = new URL(uri)
  if (protocol === 'https:') return undefined
  if (protocol !== 'http:') {
    return client.native ? undefined : 'a scheme of your own needs application_type: native'
  }
  if (!LOOPBACK.has(hostname)) return 'must be https; http is only for loopback addresses'
  if (client.native || client.loopbackIssuer) return undefined
  return 'must be https; http on loopback is only for application_type: native'
}

export const isLoopbackHost = (hostname: string) => LOOPBACK.has(hostname)
