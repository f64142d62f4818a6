// What may stand in the config folder, one schema a file. Types, defaults, validation and the
// JSON Schema that editors use come from here; keys of clients are the RFC 7591 names, verbatim.

import { z } from 'zod'
import { redirectUriProblem } from './redirect-uris.ts'

const DURATION = 'a duration is a number and a unit: 60 s, 10 min, 12 h, 14 d'
const PORTS = 'a port is 1 to 65535'
const UNITS = { s: 1, min: 60, h: 3600, d: 86_400 }

/** `10 min`, `14 d`: read as seconds. */
const duration = (fallback: string, longest: string) =>
  z
    .string(DURATION)
    .regex(/^[1-9]\d{0,5} ?(s|min|h|d)$/, { error: DURATION, abort: true })
    .refine(text => seconds(text) <= seconds(longest), `is at most ${longest}`)
    .default(fallback)
    .transform(seconds)

/** `30 s`; unlike other durations it may be none. */
const grace = z
  .string('a number of seconds: 30 s')
  .regex(/^([0-9]|[1-5][0-9]|60) ?s$/, 'is 0 s to 60 s')
  .default('30 s')
  .transform(text => seconds(text))

const seconds = (text: string) =>
  Number.parseInt(text, 10) * UNITS[text.replace(/[\d ]/g, '') as keyof typeof UNITS]

/** Text that pages show. */
const words = (longest: number) =>
  z
    .string()
    .max(longest)
    .regex(/^\P{C}+$/u, 'must have at least one character, and no control characters')

const path = z.string().min(1)

const webUrl = z.url({ protocol: /^https?$/ })

const scopeToken = z
  .string()
  .regex(
    /^[\x21\x23-\x5B\x5D-\x7E]+$/,
    'a scope has no spaces, quotes or backslashes (RFC 6749 §3.3)',
  )
  .refine(name => !(name in Object.prototype), 'is a name that JavaScript keeps for itself')

const redisSchema = z.strictObject({
  username: z.string().min(1).optional(),
  password_file: path.optional().describe('Read again for every new connection'),
  sentinel_password_file: path.optional(),
  database: z.int().min(0).optional(),
  key_prefix: z
    .string()
    .regex(/^[\w:.-]*$/, 'is made of letters, digits, and _ : . -')
    .default('usher:')
    .describe('What every key begins with, where others share the database'),
  tls: z
    .strictObject({ ca: path.optional(), cert: path.optional(), key: path.optional() })
    .optional()
    .describe('PEM files; given, even as {}, the connection is TLS'),
  durability: z
    .enum(['auto', 'replicated', 'primary'])
    .default('auto')
    .describe('Whether a write has to be on a replica too; auto: once replicas are seen'),
})
export type RedisSettings = z.output<typeof redisSchema>
export const REDIS_DEFAULTS: RedisSettings = redisSchema.parse({})

export const usherSchema = z.strictObject({
  issuer: webUrl.optional().describe('The address of this service, as clients know it'),
  listen: z
    .strictObject({
      host: z.string().min(1).optional().describe('Address to listen on'),
      tls: z
        .strictObject({ cert: path, key: path })
        .optional()
        .describe('PEM files, read again when they change'),
      port: z.int().min(1, PORTS).max(65_535, PORTS).default(3000),
    })
    .prefault({}),
  proxy: z
    .array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], 'an address or range: 10.0.0.0/8'))
    .default([])
    .describe('Addresses of the reverse proxies whose X-Forwarded-* headers are believed'),
  store: z
    .string()
    .regex(
      /^(sqlite:.+|rediss?:\/\/.+|redis\+sentinel:\/\/(.*@)?[^/@]+\/[^/@]+|redis\+cluster:\/\/(.*@)?[^/@]+\/?)$/,
      'a store is sqlite:PATH, sqlite::memory:, redis://…, rediss://…, redis+sentinel://HOSTS/NAME or redis+cluster://HOSTS',
    )
    .refine(
      store => !/^rediss?:/.test(store) || URL.canParse(store),
      'is no URL: in a password, / is written %2F, # %23 and ? %3F',
    )
    .default('sqlite:data/usher.db'),
  redis: redisSchema.prefault({}),
  metrics: z
    .strictObject({
      host: z.string().min(1).default('127.0.0.1'),
      port: z.int().min(1, PORTS).max(65_535, PORTS),
    })
    .optional()
    .describe('Where GET /metrics answers, for Prometheus; absent: nowhere'),
  lifetimes: z
    .strictObject({
      code: duration('60 s', '60 s'),
      access_token: duration('10 min', '1 d'),
      id_token: duration('10 min', '1 d'),
      refresh_token_idle: duration('14 d', '180 d'),
      refresh_token: duration('90 d', '180 d'),
      refresh_token_grace: grace,
      session_idle: duration('12 h', '180 d'),
      session: duration('30 d', '180 d'),
      interaction: duration('15 min', '1 d'),
    })
    .prefault({}),
  keys: z
    .strictObject({
      rotate_every: duration('90 d', '400 d'),
      announce: duration('1 d', '30 d').describe('How long a key is published before it signs'),
      import: z
        .array(path)
        .min(1)
        .optional()
        .describe('Private keys of your own, PEM or JWK files, in place of generated ones'),
    })
    .prefault({}),
  id_token: z
    .strictObject({
      claims: z
        .enum(['identity', 'minimal'])
        .default('identity')
        .describe('identity: the claims of the granted scopes, as in UserInfo; minimal: only sub'),
    })
    .prefault({}),
  branding: z
    .strictObject({
      name: words(60).default('Usher').describe('Shown on every page'),
    })
    .prefault({}),
})

const claim = z.strictObject({
  scope: scopeToken.describe('The scope that gives this claim'),
  from: z
    .string()
    .regex(
      /^(username|name|email|email_verified|updated_at|attributes\.\S+)$/,
      'a claim comes from username, name, email, email_verified, updated_at or attributes.NAME',
    )
    .describe('The part of the account it comes from'),
})

export const claimsSchema = z.strictObject({
  claims: z.record(z.string().min(1), claim).default({}),
  scopes: z
    .record(scopeToken, z.strictObject({ description: words(200) }))
    .default({})
    .describe('What the consent page says about a scope of yours'),
})

const redirectUri = z.string().superRefine((uri, ctx) => {
  const problem = redirectUriProblem(uri)
  if (problem) ctx.addIssue({ code: 'custom', message: problem })
})

const jwk = z.looseObject({ kty: z.string() })

/** The account pages sign people in as a client of their own, which needs no consent. */
export const ACCOUNT_CLIENT = 'usher-account'

export const clientSchema = z.strictObject({
  client_id: z
    .string()
    .regex(/^[\x21-\x7E]{1,255}$/, 'a client_id is 1 to 255 visible ASCII characters')
    .refine(id => !(id in Object.prototype), 'is a name that JavaScript keeps for itself')
    .refine(id => !/^usr_/.test(id), 'usr_ is how subjects begin; a client must not look like one')
    .refine(id => id !== ACCOUNT_CLIENT, `${ACCOUNT_CLIENT} is the client of the account pages`),
  client_name: words(80),
  client_uri: webUrl.optional(),
  policy_uri: webUrl.optional(),
  tos_uri: webUrl.optional(),
  contacts: z.array(z.email()).optional(),
  application_type: z.enum(['web', 'native']).default('web'),
  redirect_uris: z.array(redirectUri).min(1),
  post_logout_redirect_uris: z.array(redirectUri).default([]),
  initiate_login_uri: webUrl.optional(),
  token_endpoint_auth_method: z
    .enum(['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'])
    .default('client_secret_basic'),
  client_secret: z
    .string()
    .min(1)
    .optional()
    .describe('In plain, for a loopback issuer only; otherwise client_secret_hashes'),
  client_secret_hashes: z
    .array(
      z.string().regex(/^sha256:[\w-]{43}$/, 'make one with: npm run usher -- clients secret NAME'),
    )
    .optional()
    .describe('Hashes of the secrets that are valid now; several while one is replaced'),
  jwks: z.strictObject({ keys: z.array(jwk).min(1) }).optional(),
  grant_types: z
    .array(z.enum(['authorization_code', 'refresh_token']))
    .default(['authorization_code', 'refresh_token']),
  response_modes: z
    .array(z.enum(['query', 'form_post']))
    .min(1)
    .default(['query', 'form_post']),
  scope: z.string().min(1).optional().describe('The scopes it may ask for; absent: all'),
  id_token_signed_response_alg: z.enum(['RS256', 'ES256', 'EdDSA']).default('RS256'),
  default_max_age: z.int().min(0).optional(),
  require_auth_time: z.boolean().optional(),
  require_pushed_authorization_requests: z.boolean().optional(),
  require_pkce: z
    .boolean()
    .default(true)
    .describe('false exempts a confidential client that cannot do PKCE'),
  consent: z
    .enum(['explicit', 'implicit'])
    .default('explicit')
    .describe('implicit: an application of your own, people are not asked'),
})

export type UsherFile = z.output<typeof usherSchema>
export type ClaimsFile = z.output<typeof claimsSchema>
export type ClientFile = z.output<typeof clientSchema>
export type ClientMetadata = Omit<ClientFile, 'client_secret'>
export type Lifetimes = UsherFile['lifetimes']

/** What editors complete and check from: the files as they are written, before defaults. */
export function jsonSchemas(): Record<string, object> {
  const written = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input' })
  return {
    usher: written(usherSchema),
    claims: written(claimsSchema),
    client: written(clientSchema),
  }
}
