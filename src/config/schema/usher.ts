// Schemas of usher.yaml and claims.yaml: types, defaults and validation. The
// descriptions of all keys are in descriptions.yaml.
//
// The folder config/schema/: a schema for each kind of file. Not here: rules
// about several keys or files (rules/).

import { z } from 'zod'
import { countOf } from '../workers.ts'
import { clientSchema, READ_BY_USERS } from './client.ts'
import { detailSchema } from './details.ts'
import { compatibilitySchema, featuresSchema } from './features.ts'
import { localeSchema } from './locale.ts'
import { resourceSchema } from './resource.ts'
import { domain, upstreamSchema } from './upstream.ts'
import {
  colour,
  duration,
  emailAddress,
  languageTag,
  matching,
  path,
  refusing,
  scopeName,
  scopesByName,
  section,
  WRITTEN_OR_NONE,
  webUrl,
  words,
} from './values.ts'

const CERTIFICATE_HEADER =
  'must be the name of a header that contains cert: X-Client-Cert'
const PORTS = 'a port is 1 to 65535'

function originProblem(text: string): string | undefined {
  const { origin, protocol = '' } = URL.parse(text) ?? {}
  const isWeb = /^https?:$/.test(protocol)
  if (isWeb && origin === text) return undefined
  const right = isWeb ? origin : 'https://id.example.org'
  return `must be an origin, without path, query or trailing slash: ${right}`
}
const origin = z
  .string()
  .superRefine(refusing(originProblem, 'issuer'))
  .meta({ format: 'uri' })
const port = z.int(PORTS).min(1, PORTS).max(65_535, PORTS)
const address = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'an address or range: 10.0.0.0/8',
)
const PEER = 'a host, an address or a range: wiki.internal, 10.0.0.0/8'
const hostName = matching(/^(?=.*[a-z])[\w-]+(\.[\w-]+)*$/i, PEER).toLowerCase()
const peer = z.union([address, hostName], PEER)
const prefix = matching(/^[\w:.-]*$/, 'is made of letters, digits, and _ : . -')
const location = matching(
  /^(sqlite:.+|rediss?:\/\/.+|redis\+sentinel:\/\/(.*@)?[^/@]+\/[^/@]+|redis\+cluster:\/\/(.*@)?[^/@]+\/?|redis\+unix:\/\/(.*@)?\/[^@]+)$/,
  'a store is sqlite:PATH, sqlite::memory:, redis://…, rediss://…, redis+sentinel://HOSTS/NAME, redis+cluster://HOSTS or redis+unix:///PATH',
).refine(
  store => !/^rediss?:/.test(store) || URL.canParse(store),
  'is no URL: in a password, write %2F for /, %23 for # and %3F for ?',
)

const workers = z
  .union([z.int().min(1).max(64), z.literal('auto')], 'is 1 to 64, or auto')
  .default(1)
  .transform(countOf)
/** A whole number with a default. */
const whole = (fallback: number, min = 1, max = Number.MAX_SAFE_INTEGER) =>
  z.int().min(min).max(max).default(fallback)

const by = z
  .array(z.enum(['username', 'email']))
  .refine(by => by.includes('username'), 'usernames cannot be left out')

const signInSchema = section({
  by: by.default(['username']),
  methods: z.array(z.string()).min(1).optional(),
  former_hosts: z.array(z.string()).default([]),
  second_factor: z.enum(['off', 'optional', 'required']).default('off'),
  second_factor_required_for: z
    .record(z.string().min(1), z.array(z.string()).min(1))
    .optional(),
  second_factor_grace: duration('90 d', WRITTEN_OR_NONE).prefault('0 s'),
})

/** Keys of a client file that are for one client only. */
const OWN = {
  client_id: true,
  client_name: true,
  client_secret: true,
  client_secret_hashes: true,
  jwks: true,
  redirect_uris: true,
} as const
/**
 * Schema of `defaults`. The JSON Schema does not repeat the keys of a client
 * file.
 */
const clientDefaults = z
  .unknown()
  .meta({ type: 'object' })
  .pipe(clientSchema.omit(OWN).partial())

/** Schema of usher.yaml. */
export const usherSchema = z.strictObject({
  issuer: origin.optional(),
  listen: section({
    host: z.string().min(1).optional(),
    tls: z.strictObject({ cert: path, key: path }).optional(),
    keep_alive: duration('1 h').prefault('75 s'),
    port: port.default(3000),
  }),
  proxy: z.array(address).default([]),
  workers,
  store: location.default('sqlite:data/usher.db'),
  redis: section({
    username: z.string().min(1).optional(),
    password_file: path.optional(),
    sentinel_password_file: path.optional(),
    database: z.int().min(0).optional(),
    key_prefix: prefix.default('usher:'),
    tls: z
      .strictObject({ ca: path, cert: path, key: path })
      .partial()
      .optional(),
    durability: z.enum(['auto', 'replicated', 'primary']).default('auto'),
  }),
  metrics: z
    .strictObject({ host: z.string().min(1).default('127.0.0.1'), port })
    .optional(),
  lifetimes: section({
    code: duration('60 s').prefault('60 s'),
    access_token: duration('1 d').prefault('10 min'),
    id_token: duration('1 d').prefault('10 min'),
    refresh_token_idle: duration('180 d').prefault('14 d'),
    refresh_token: duration('180 d').prefault('90 d'),
    refresh_token_grace: duration('60 s', WRITTEN_OR_NONE).prefault('30 s'),
    session_idle: duration('180 d').prefault('12 h'),
    session: duration('180 d').prefault('30 d'),
    interaction: duration('1 d').prefault('15 min'),
  }),
  keys: section({
    rotate_every: duration('400 d').prefault('90 d'),
    announce: duration('30 d').prefault('1 d'),
    import: z.array(path).min(1).optional(),
    module: path.optional(),
  }),
  id_token: section({
    claims: z.enum(['identity', 'minimal']).default('identity'),
  }),
  discovery: section({
    service_documentation: webUrl.optional(),
    display_values_supported: z
      .array(z.enum(['page', 'popup', 'touch']))
      .min(1)
      .optional(),
    claims_locales_supported: z.array(languageTag).min(1).optional(),
  }),
  features: featuresSchema,
  compatibility: compatibilitySchema,
  client_certificates: section({
    ca: path.optional(),
    header: matching(
      /^[a-z\d-]*cert[a-z\d-]*$/i,
      CERTIFICATE_HEADER,
    ).optional(),
    origin: origin.optional(),
  }),
  accounts: section({
    module: path.optional(),
    self_service: z.array(z.enum(['name', 'email'])).default([]),
  }),
  mail: z
    .strictObject({
      from: emailAddress,
      smtp: z.strictObject({
        host: z.string().min(1),
        port: port.default(587),
        username: z.string().min(1).optional(),
        password_file: path.optional(),
        tls: z.enum(['starttls', 'implicit', 'none']).default('starttls'),
        ehlo: matching(
          /^[a-z\d-]+(\.[a-z\d-]+)*$/i,
          'a host name: id.example.org',
        ).optional(),
      }),
    })
    .optional(),
  sign_in: signInSchema,
  sign_up: z.strictObject({ email_domains: z.array(domain).min(1) }).optional(),
  egress: section({
    allow: z.array(peer).default([]),
    ports: z.array(port).min(1).default([443]),
  }),
  limits: section({ anonymous: whole(600), anonymous_megabytes: whole(256) }),
  security: section({
    account_attempts: whole(5, 3, 100),
    network_attempts: whole(100, 20, 100_000),
    ciba_requests: whole(20, 1, 1000),
  }),
  defaults: clientDefaults.optional(),
  branding: section({
    name: words(60).default('Usher'),
    logo: path.optional(),
    logo_dark: path.optional(),
    favicon: path.optional(),
    background: colour.optional(),
    background_dark: colour.optional(),
    accent: colour.optional(),
    accent_dark: colour.optional(),
    links: section({
      forgot_password: webUrl.optional(),
      help: webUrl.optional(),
      terms: webUrl.optional(),
      privacy: webUrl.optional(),
    }),
  }),
})

const source = matching(
  /^(username|name|email|email_verified|updated_at|attributes\.\S+)$/,
  'a claim comes from username, name, email, email_verified, updated_at or attributes.NAME',
)
const claim = z.strictObject({ scope: scopeName, from: source })
const claimsSchema = z.strictObject({
  claims: z.record(z.string().min(1), claim).default({}),
  scopes: scopesByName.default({}),
})

/** Claims that the protocol itself sets (OIDC Core §2, §5.1; RFC 7519 §4.1). */
export const PROTOCOL_CLAIMS: ReadonlySet<string> = new Set([
  'sub',
  'iss',
  'aud',
  'exp',
  'iat',
  'nbf',
  'jti',
  'nonce',
  'auth_time',
  'acr',
  'amr',
  'azp',
  'sid',
  'at_hash',
  'c_hash',
  's_hash',
])

/** usher.yaml with defaults. */
export type UsherFile = z.output<typeof usherSchema>
/** claims.yaml with defaults. */
export type ClaimsFile = z.output<typeof claimsSchema>

const IN_LANGUAGES = {
  [`^(${READ_BY_USERS.join('|')})#.+$`]: { type: 'string' },
}

/** The schemas by kind of file. */
export const SCHEMAS = {
  usher: usherSchema,
  claims: claimsSchema,
  client: clientSchema.meta({ patternProperties: IN_LANGUAGES }),
  resource: resourceSchema,
  detail: detailSchema,
  upstream: upstreamSchema,
  get locale() {
    return localeSchema()
  },
}
