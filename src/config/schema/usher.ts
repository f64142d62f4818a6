// Schemas of usher.yaml and claims.yaml. Types, defaults, validation, the JSON Schema for editors and
// the texts of `config explain` come from here. A description names other keys in backticks.

import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { clientSchema, READ_BY_USERS } from './client.ts'
import { detailSchema } from './details.ts'
import { compatibilitySchema, featuresSchema } from './features.ts'
import { localeSchema } from './locale.ts'
import { resourceSchema } from './resource.ts'
import { signInSchema, upstreamSchema } from './upstream.ts'
import {
  colour,
  durationText,
  matching,
  path,
  refusing,
  scopeName,
  seconds,
  webUrl,
  words,
  wordsByLanguage,
} from './values.ts'

const PORTS = 'a port is 1 to 65535'

/** A duration such as `10 min` or `14 d`, as seconds. */
const duration = (fallback: string, longest: string) =>
  durationText(longest).default(fallback).transform(seconds)

/** A duration of 0 s to 60 s, as seconds. */
const grace = z
  .string('a number of seconds: 30 s')
  .regex(/^([0-9]|[1-5][0-9]|60) ?s$/, 'is 0 s to 60 s')
  .default('30 s')
  .transform(text => seconds(text))

function originProblem(text: string): string | undefined {
  const { origin, protocol = '' } = URL.parse(text) ?? {}
  const isWeb = /^https?:$/.test(protocol)
  if (isWeb && origin === text) return undefined
  const right = isWeb ? origin : 'https://id.example.org'
  return `must be an origin, without path, query or trailing slash: ${right}`
}
const origin = z.string().superRefine(refusing(originProblem, 'issuer')).meta({ format: 'uri' })
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
  .transform(count => (count === 'auto' ? availableParallelism() : count))
/** A whole number with a default. */
const whole = (fallback: number, min = 1, max = Number.MAX_SAFE_INTEGER) =>
  z.int().min(min).max(max).default(fallback)

// biome-ignore format: a table
/** Schema of usher.yaml. */
export const usherSchema = z.strictObject({
  issuer: origin.optional().describe('The address of the provider as clients know it: an origin, https except on loopback. Clients compare it byte for byte, so a change breaks all of them'),
  listen: z.strictObject({
    host: z.string().min(1).optional().describe('Address to listen on; absent: 127.0.0.1 for a loopback `issuer`, else 0.0.0.0'),
    tls: z.strictObject({
      cert: path.describe('The certificate, then the intermediate certificates, PEM; with `listen.tls.key`'),
      key: path.describe('The private key of `listen.tls.cert`, PEM'),
    }).optional().describe('TLS by Usher itself, without a `proxy`: PEM files, read again when they change'),
    keep_alive: duration('75 s', '1 h').describe('How long an idle connection stays open. It must be longer than a proxy in front keeps it open (nginx, ALB: 60 s), otherwise some requests fail with 502'),
    port: port.default(3000).describe('Port to listen on. It is also the port of the default `issuer`'),
  }).prefault({}).describe('Where the provider listens'),
  proxy: z.array(address).default([]).describe('Addresses of the reverse proxies in front. Only their X-Forwarded-For, -Host and -Proto headers are trusted. With an https `issuer`, either they or `listen.tls` provide TLS'),
  workers: workers.describe('The number of processes that share `listen`, or auto: one for each core. One more process supervises them'),
  store: location.default('sqlite:data/usher.db').describe('Where all data is kept, encrypted with USHER_SECRET: a file of one machine, or a Redis that several machines share (`redis`)'),
  redis: z.strictObject({
    username: z.string().min(1).optional().describe('The user name for Redis. It may be in the URL of `store` instead'),
    password_file: path.optional().describe('A file that contains the password. It is read again for every new connection. The password may be in the URL of `store` instead'),
    sentinel_password_file: path.optional().describe('A file that contains the password of the Sentinels, if they have their own'),
    database: z.int().min(0).optional().describe('The number of the database; absent: 0. It may be in the URL of `store` instead. A Redis Cluster has only 0'),
    key_prefix: prefix.default('usher:').describe('The beginning of every key, for a database that other programs use too. Do not change it later: records under another prefix are not found'),
    tls: z.strictObject({
      ca: path.optional().describe('The certificate authority of Redis, PEM; absent: those of the system'),
      cert: path.optional().describe('The client certificate for Redis, PEM, if Redis requires one; with `redis.tls.key`'),
      key: path.optional().describe('The private key of `redis.tls.cert`, PEM'),
    }).optional().describe('TLS for the connection, if this key is present, even as {}; rediss:// in `store` does the same'),
    durability: z.enum(['auto', 'replicated', 'primary']).default('auto').describe('Whether a response waits until a replica has the write, so that a failover loses nothing. replicated: always; without a replica, the response is 503. primary: never. auto: if there is a replica'),
  }).prefault({}).describe('How Redis is reached. No effect when `store` is SQLite'),
  metrics: z.strictObject({
    host: z.string().min(1).default('127.0.0.1').describe('Address to listen on for GET /metrics'),
    port: port.describe('Port to listen on for GET /metrics, other than `listen.port`'),
  }).optional().describe('Where Prometheus reads GET /metrics; absent: nowhere'),
  lifetimes: z.strictObject({
    code: duration('60 s', '60 s').describe('Lifetime of an authorization code. It can be redeemed once'),
    access_token: duration('10 min', '1 d').describe('Lifetime of an access token. Clients renew it with a refresh token: `lifetimes.refresh_token`'),
    id_token: duration('10 min', '1 d').describe('Lifetime of an ID token. It does not limit the session of the application'),
    refresh_token_idle: duration('14 d', '180 d').describe('A refresh token that is not used for this long expires; `lifetimes.refresh_token` limits its lifetime in any case'),
    refresh_token: duration('90 d', '180 d').describe('Lifetime of a chain of refresh tokens, from consent on, however often it is renewed'),
    refresh_token_grace: grace.describe('A refresh token can be used once. If the response was lost and the client sends the request again within this time, it gets the same new token. Any later use revokes all tokens of that authorization'),
    session_idle: duration('12 h', '180 d').describe('A user is signed out this long after the last sign-in to an application; `lifetimes.session` limits the session in any case'),
    session: duration('30 d', '180 d').describe('A user is signed out this long after entering the password, even if active'),
    interaction: duration('15 min', '1 d').describe('How long a sign-in or consent page can stay open'),
  }).prefault({}).describe('Lifetimes of tokens, codes and sessions. Cookies and grants follow from these'),
  keys: z.strictObject({
    rotate_every: duration('90 d', '400 d').describe('How long a signing key is used before the next one replaces it'),
    announce: duration('1 d', '30 d').describe('How long a key is published in the JWKS before it signs: at least 1 min, shorter than `keys.rotate_every`. Clients may cache the JWKS for half of this time, at most an hour'),
    import: z.array(path).min(1).optional().describe('Files with your own private keys, PEM or JWK, instead of generated ones. The last one signs, after `keys.announce`. `keys.rotate_every` has no effect'),
  }).prefault({}).describe('The keys that sign ID tokens. usher keys list shows them'),
  id_token: z.strictObject({
    claims: z.enum(['identity', 'minimal']).default('identity').describe('identity: ID tokens contain the claims of the granted scopes, as UserInfo does. minimal: only sub. Both contain amr, the authentication methods'),
  }).prefault({}).describe('Contents of ID tokens'),
  features: featuresSchema.prefault({}).describe('Optional features. A feature that is off has no endpoint, and discovery does not list it'),
  compatibility: compatibilitySchema.prefault({}).describe('For old applications and certification. RFC 9700 §2.1.2 advises against these'),
  client_certificates: z.strictObject({
    ca: path.optional().describe('Certificates of the authorities, PEM, for clients whose token_endpoint_auth_method is tls_client_auth. Include every authority that signs client certificates directly'),
    header: matching(/^[a-z\d-]*cert[a-z\d-]*$/i, 'must be the name of a header that contains cert: X-Client-Cert').optional().describe('The header in which a `proxy` passes the client certificate on: PEM, URL-encoded or not, or base64 of DER. From any other sender it is ignored. Absent: certificates arrive by `listen.tls`'),
    origin: origin.optional().describe('Another origin of the provider, for requests with client certificates, so that `issuer` does not prompt browsers for one. Discovery lists its endpoints (mtls_endpoint_aliases); it has no others. With `listen.tls`, Usher listens on its port too, after a restart'),
  }).prefault({}).describe('How client certificates arrive, and which authorities issue them, with `features.mtls`'),
  accounts: z.strictObject({
    module: path.optional().describe('A JavaScript or TypeScript module with the functions find and authenticate, for accounts in another system. The path is relative to the config folder. Absent: accounts are in `store`'),
  }).prefault({}).describe('Where accounts are kept'),
  sign_in: signInSchema.prefault({}).describe('How users sign in'),
  egress: z.strictObject({
    allow: z.array(peer).default([]).describe('Hosts, addresses and ranges that are not public, but may be requested: applications in your own network that receive logout tokens (backchannel_logout_uri) or notifications (backchannel_client_notification_endpoint), or publish their keys (jwks_uri). A range includes host names that resolve into it'),
    ports: z.array(port).min(1).default([443]).describe('Ports of public addresses that may be requested. Entries of `egress.allow` may be requested on any port'),
  }).prefault({}).describe('Which addresses the provider may request, of those that clients name'),
  limits: z.strictObject({
    anonymous: whole(600).describe('Requests a minute from one network (/24, or /48 of IPv6) that store data: authorization requests, pushed and device authorization requests of public clients, sign-outs, registrations. Further ones are answered with 429'),
    anonymous_megabytes: whole(256).describe('Approximate size of these records in the store, for all networks. Above it, networks that use more than an equal share are answered with 429'),
  }).prefault({}).describe('How much anonymous requests may store. Signed-in browsers and clients that authenticate are not limited'),
  security: z.strictObject({
    account_attempts: whole(5, 3, 100).describe('How many wrong passwords in a row an account accepts without delay. Each further attempt has to wait: 5 s, doubling up to 15 min. One failure is forgotten every 15 min, all of them after a sign-in. A browser in which the user has signed in before has its own count'),
    network_attempts: whole(100, 20, 100_000).describe('The same for all accounts and one network (/24, or /64 of IPv6): further attempts have to wait 6 s each, and one failure is forgotten every 6 s. Browsers in which the user has signed in before are not limited'),
    ciba_requests: whole(20, 1, 1000).describe('How many CIBA requests of one client to one user can be open or denied within `lifetimes.interaction`. Further ones are answered with access_denied'),
  }).prefault({}).describe('Limits for password attempts, and for CIBA requests to a user'),
  branding: z.strictObject({
    name: words(60).default('Usher').describe('Shown on every page'),
    logo: path.optional().describe('An SVG or PNG of at most 256 KiB, shown instead of `branding.name`, which becomes its text alternative. The path is relative to the config folder'),
    logo_dark: path.optional().describe('The logo for users who prefer a dark colour scheme; absent: `branding.logo`'),
    favicon: path.optional().describe('An SVG or PNG for the tab of the browser; absent: `branding.logo`'),
    background: colour.optional().describe('The colour around the card; text on it needs a contrast of 4.5:1'),
    background_dark: colour.optional().describe('The same for users who prefer a dark colour scheme'),
    accent: colour.optional().describe('The colour of buttons and links: at least 4.5:1 against the light page'),
    accent_dark: colour.optional().describe('The same for users who prefer a dark colour scheme; absent: `branding.accent`, lightened until it has enough contrast'),
    links: z.strictObject({
      forgot_password: webUrl.optional().describe('Where users reset a forgotten password; shown below the password field'),
      help: webUrl.optional().describe('Where users get help; shown below every page, like the next two'),
      terms: webUrl.optional().describe('Your terms of service; discovery names them too'),
      privacy: webUrl.optional().describe('Your privacy policy; discovery names it too'),
    }).prefault({}).describe('Links to your own pages'),
  }).prefault({}).describe('How the pages look'),
})

const source = matching(
  /^(username|name|email|email_verified|updated_at|attributes\.\S+)$/,
  'a claim comes from username, name, email, email_verified, updated_at or attributes.NAME',
)
// biome-ignore format: a table
const claimsSchema = z.strictObject({
  claims: z.record(z.string().min(1), z.strictObject({
    scope: scopeName.describe('The scope that grants this claim. A scope exists when a claim belongs to it'),
    from: source.describe('The field of the account: username, name, email, email_verified, updated_at or attributes.NAME'),
  })).default({}).describe('The claims that applications can get, by name'),
  scopes: z.record(scopeName, z.strictObject({
    description: wordsByLanguage(200).describe('Shown on the consent page: a text, or one for each language: { en: …, de: … }'),
  })).default({}).describe('Descriptions of the scopes in `claims`'),
})

/** usher.yaml with defaults. */
export type UsherFile = z.output<typeof usherSchema>
/** `redis` with defaults. */
export type RedisSettings = UsherFile['redis']
/** `redis` when the file has no such key. */
export const REDIS_DEFAULTS: RedisSettings = usherSchema.shape.redis.parse(undefined)
/** claims.yaml with defaults. */
export type ClaimsFile = z.output<typeof claimsSchema>

/** The schemas by kind of file. */
export const SCHEMAS = {
  usher: usherSchema,
  claims: claimsSchema,
  client: clientSchema,
  resource: resourceSchema,
  detail: detailSchema,
  upstream: upstreamSchema,
  get locale() {
    return localeSchema()
  },
}

/** Returns the JSON Schemas for editors. They describe the files as written, before defaults. */
export function jsonSchemas() {
  const written = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input' })
  const schemas = Object.entries(SCHEMAS).map(([name, schema]) => [name, written(schema)])
  const inLanguages = { [`^(${READ_BY_USERS.join('|')})#.+$`]: { type: 'string' } }
  const client = { ...written(clientSchema), patternProperties: inLanguages }
  return { ...Object.fromEntries(schemas), client }
}
