// What may stand in usher.yaml and claims.yaml, one schema a file. Types, defaults, validation, the
// JSON Schema that editors use, and what `config explain` says come from here; a description names
// other keys in backticks.

import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { clientSchema, READ_BY_PEOPLE } from './client.ts'
import { detailSchema } from './details.ts'
import { compatibilitySchema, featuresSchema } from './features.ts'
import { localeSchema } from './locale.ts'
import { resourceSchema } from './resource.ts'
import {
  colour,
  durationText,
  path,
  scopeName,
  seconds,
  webUrl,
  words,
  wordsByLanguage,
} from './values.ts'

const PORTS = 'a port is 1 to 65535'

/** `10 min`, `14 d`: read as seconds. */
const duration = (fallback: string, longest: string) =>
  durationText(longest).default(fallback).transform(seconds)

/** `30 s`; unlike other durations it may be none. */
const grace = z
  .string('a number of seconds: 30 s')
  .regex(/^([0-9]|[1-5][0-9]|60) ?s$/, 'is 0 s to 60 s')
  .default('30 s')
  .transform(text => seconds(text))

const origin = z.url({
  protocol: /^https?$/,
  error: 'must be an origin, without path, query or trailing slash: https://id.example.org',
})
const port = z.int(PORTS).min(1, PORTS).max(65_535, PORTS)
const address = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'an address or range: 10.0.0.0/8',
)
const PEER = 'a host, an address or a range: wiki.internal, 10.0.0.0/8'
const hostName = z
  .string()
  .regex(/^(?=.*[a-z])[\w-]+(\.[\w-]+)*$/i, PEER)
  .toLowerCase()
const peer = z.union([address, hostName], PEER)
const prefix = z.string().regex(/^[\w:.-]*$/, 'is made of letters, digits, and _ : . -')
const location = z
  .string()
  .regex(
    /^(sqlite:.+|rediss?:\/\/.+|redis\+sentinel:\/\/(.*@)?[^/@]+\/[^/@]+|redis\+cluster:\/\/(.*@)?[^/@]+\/?|redis\+unix:\/\/(.*@)?\/[^@]+)$/,
    'a store is sqlite:PATH, sqlite::memory:, redis://…, rediss://…, redis+sentinel://HOSTS/NAME, redis+cluster://HOSTS or redis+unix:///PATH',
  )
  .refine(
    store => !/^rediss?:/.test(store) || URL.canParse(store),
    'is no URL: in a password, / is written %2F, # %23 and ? %3F',
  )

// biome-ignore format: a table
const redisTls = {
  ca: path.optional().describe('The certificate authority that Redis is checked against, PEM; absent: those of the system'),
  cert: path.optional().describe('Our certificate, PEM, where Redis asks for one; with `redis.tls.key`'),
  key: path.optional().describe('The private key of `redis.tls.cert`, PEM'),
}
// biome-ignore format: a table
const redisSchema = z.strictObject({
  username: z.string().min(1).optional().describe('The user of Redis; may stand in the URL of `store` instead'),
  password_file: path.optional().describe('A file with the password, read again for every new connection; may stand in the URL of `store` instead'),
  sentinel_password_file: path.optional().describe('A file with the password of the Sentinels, where they have one of their own'),
  database: z.int().min(0).optional().describe('The number of the database, 0 where nothing is said; may stand in the URL of `store` instead. A Redis Cluster has only 0'),
  key_prefix: prefix.default('usher:').describe('What every key begins with, where others share the database. What is kept under another prefix is not seen, so it cannot be changed later on'),
  tls: z.strictObject(redisTls).optional().describe('Given, even as {}, the connection is TLS; rediss:// in `store` does the same'),
  durability: z.enum(['auto', 'replicated', 'primary']).default('auto').describe('Whether an answer waits until a replica has the write too, so that a failover takes nothing back: replicated (without a replica: 503), primary (never), or auto: as soon as a replica is seen'),
})
export type RedisSettings = z.output<typeof redisSchema>
export const REDIS_DEFAULTS: RedisSettings = redisSchema.parse({})

// biome-ignore format: a table
const listen = {
  host: z.string().min(1).optional().describe('Address to listen on; absent: 127.0.0.1 for a loopback `issuer`, else 0.0.0.0'),
  tls: z
    .strictObject({
      cert: path.describe('The certificate and those that lead to it, PEM; with `listen.tls.key`'),
      key: path.describe('The private key of `listen.tls.cert`, PEM'),
    })
    .optional()
    .describe('TLS of our own, where no `proxy` speaks it: PEM files, read again when they change'),
  keep_alive: duration('75 s', '1 h').describe('How long an idle connection stays open: longer than a proxy in front keeps it for its next request (nginx, ALB: 60 s), or some of its requests end as 502'),
  port: port.default(3000).describe('Port to listen on; a loopback `issuer` that is not given follows it'),
}
const WORKERS = 'is 1 to 64, or auto'
const workers = z
  .union([z.int().min(1).max(64), z.literal('auto')], WORKERS)
  .default(1)
  .transform(count => (count === 'auto' ? availableParallelism() : count))
// biome-ignore format: a table
const metrics = {
  host: z.string().min(1).default('127.0.0.1').describe('Address that GET /metrics is answered on'),
  port: port.describe('Port that GET /metrics is answered on, beside `listen.port`'),
}
// biome-ignore format: a table
const lifetimes = {
  code: duration('60 s', '60 s').describe('How long an authorization code may be redeemed, once'),
  access_token: duration('10 min', '1 d').describe('How long an access token works, unless it is revoked before. Clients renew it with a refresh token: `lifetimes.refresh_token`'),
  id_token: duration('10 min', '1 d').describe('How long an ID token may be taken as news of a sign-in; a client’s session is the client’s own affair'),
  refresh_token_idle: duration('14 d', '180 d').describe('A refresh token that is not used for this long ends; `lifetimes.refresh_token` ends it in any case'),
  refresh_token: duration('90 d', '180 d').describe('No refresh token lives longer after the person allowed it, however often it is renewed'),
  refresh_token_grace: grace.describe('A refresh token is used once. When the answer was lost and the client asks again, it is given the same new token for this long; later it counts as stolen, and ends all tokens that came of that sign-in'),
  session_idle: duration('12 h', '180 d').describe('A person is signed out this long after the last sign-in to an application; `lifetimes.session` signs them out in any case'),
  session: duration('30 d', '180 d').describe('A person is signed out this long after they entered their password, however active they are'),
  interaction: duration('15 min', '1 d').describe('How long the sign-in and consent pages may stay open'),
}
// biome-ignore format: a table
const keys = {
  rotate_every: duration('90 d', '400 d').describe('How long a signing key signs before the next one does'),
  announce: duration('1 d', '30 d').describe('How long a key is published before it signs: at least 1 min, shorter than `keys.rotate_every`. Clients may keep the JWKS for half of it, at most an hour'),
  import: z.array(path).min(1).optional().describe('Private keys of your own, PEM or JWK files, in place of generated ones (`keys.rotate_every` then says nothing): the last one signs, once it has been announced'),
}

const ATTEMPTS = 'is a number of attempts'
const attempts = (fallback: number, fewest: number, most: number) =>
  z
    .int(ATTEMPTS)
    .min(fewest, `is at least ${fewest}`)
    .max(most, `is at most ${most}`)
    .default(fallback)
// biome-ignore format: a table
const security = {
  account_attempts: attempts(5, 3, 100).describe('How many wrong passwords an account takes in a row. From then on each further one has to wait, from 5 s doubling up to 15 min; one is forgotten every 15 min, all when the person signs in. A browser in which they have signed in before is counted by itself'),
  network_attempts: attempts(100, 20, 100_000).describe('The same for everybody behind one network (/24, or /64 of IPv6), whatever the account: from then on one every 6 s, and one is forgotten every 6 s. Browsers in which that person has signed in before do not count'),
  ciba_requests: attempts(20, 1, 1000).describe('How many CIBA requests of one client to one user can be open or denied within `lifetimes.interaction`. Further ones are answered with access_denied'),
}
// biome-ignore format: a table
const branding = {
  name: words(60).default('Usher').describe('Shown on every page'),
  logo: path.optional().describe('An SVG or PNG of at most 256 KiB, shown in place of `branding.name`, which is its text alternative. The path begins in this folder'),
  logo_dark: path.optional().describe('The same for users who prefer a dark screen; absent: `branding.logo`'),
  favicon: path.optional().describe('An SVG or PNG for the tab of the browser; absent: `branding.logo`'),
  background: colour.optional().describe('The colour around the card; text on it needs a contrast of 4.5:1'),
  background_dark: colour.optional().describe('The same for users who prefer a dark screen'),
  accent: colour.optional().describe('The colour of buttons and links: at least 4.5:1 against the light page'),
  accent_dark: colour.optional().describe('The same where people prefer a dark screen; absent: as much lighter than `branding.accent` as it has to be'),
  links: z
    .strictObject({
      forgot_password: webUrl.optional().describe('Where users reset a forgotten password; shown below the password field'),
      help: webUrl.optional().describe('Where users get help; shown below every page, like the next two'),
      terms: webUrl.optional().describe('Your terms of service; discovery names them too'),
      privacy: webUrl.optional().describe('Your privacy policy; discovery names it too'),
    })
    .prefault({})
    .describe('Links to pages of yours'),
}

// biome-ignore format: a table
const clientCertificates = {
  ca: path.optional().describe('The authorities that issue certificates to clients whose token_endpoint_auth_method is tls_client_auth, PEM: each that has signed a certificate itself'),
  header: z.string().regex(/^[a-z\d-]*cert[a-z\d-]*$/i, 'is the name of a header that says so: X-Client-Cert').optional().describe('The header in which a `proxy` passes the certificate of its client on: PEM, URL-encoded or not, or base64 of DER. From anyone else, and of their own connections, it is not taken; absent: certificates come by `listen.tls`'),
  origin: origin.optional().describe('Another address of this service, at which clients with certificates ask, so that browsers are not asked for one at `issuer`: an origin. Discovery names its endpoints (mtls_endpoint_aliases), and there are no others. With `listen.tls` its port is listened at too, from the next start on'),
}

// biome-ignore format: a table
const accounts = {
  module: path.optional().describe('A JavaScript or TypeScript file that looks up accounts kept elsewhere, by its functions find and authenticate; the path begins in this folder. Absent: accounts are kept here'),
}

const count = (fallback: number) =>
  z.int('is a whole number').min(1, 'is at least 1').default(fallback)
// biome-ignore format: a table
const limits = {
  anonymous: count(600).describe('How many requests a minute of one network (/24, or /48 of IPv6) are stored: authorization requests, pushed ones and device authorization of public clients, sign-outs, registrations. Further ones are answered with 429'),
  anonymous_megabytes: count(256).describe('How much such records of all networks may take in the store, about. Beyond it, networks that use more than an equal share are answered with 429'),
}

// biome-ignore format: a table
export const usherSchema = z.strictObject({
  issuer: origin.optional().describe('The address of this service as clients know it: an origin, https except on loopback. Clients compare it byte for byte, so changing it breaks every one of them'),
  listen: z.strictObject(listen).prefault({}).describe('Where requests are taken'),
  proxy: z.array(address).default([]).describe('Addresses of the reverse proxies in front. Only they are believed about X-Forwarded-For, -Host and -Proto; with an https `issuer` either they or `listen.tls` speak TLS'),
  workers: workers.describe('How many processes share `listen` and the work: a number, or auto, one for each core. One more looks after them'),
  store: location.default('sqlite:data/usher.db').describe('Where everything is kept, sealed with USHER_SECRET: a file of one machine, or a Redis that several share (`redis`)'),
  redis: redisSchema.prefault({}).describe('How a Redis is reached; says nothing when `store` is SQLite'),
  metrics: z.strictObject(metrics).optional().describe('Where GET /metrics answers, for Prometheus; absent: nowhere'),
  lifetimes: z.strictObject(lifetimes).prefault({}).describe('How long what is given out counts; cookies and grants follow from these'),
  keys: z.strictObject(keys).prefault({}).describe('The keys that sign ID tokens; what there is: usher keys list'),
  id_token: z
    .strictObject({
      claims: z.enum(['identity', 'minimal']).default('identity').describe('identity: the claims of the granted scopes stand in the ID token, as in UserInfo; minimal: only sub. Both say how the person signed in (amr)'),
    })
    .prefault({})
    .describe('What ID tokens carry'),
  features: featuresSchema.prefault({}).describe('What clients can use; what is off has no endpoint, and discovery does not name it'),
  compatibility: compatibilitySchema.prefault({}).describe('What old applications and certification need, and RFC 9700 §2.1.2 advises against'),
  client_certificates: z.strictObject(clientCertificates).prefault({}).describe('Where the certificates of clients come from, and whose they are; with `features.mtls`'),
  accounts: z.strictObject(accounts).prefault({}).describe('Where accounts are kept'),
  egress: z
    .strictObject({
      allow: z.array(peer).default([]).describe('Hosts, addresses and ranges that requests may go to though they are not public: applications on your own network that are told of sign-outs (backchannel_logout_uri) or of answers (backchannel_client_notification_endpoint), or have their keys there (jwks_uri). A range counts for names that lead into it, too'),
      ports: z.array(port).min(1).default([443]).describe('Ports of public addresses that requests may go to. What stands in `egress.allow` may be requested on any port'),
    })
    .prefault({})
    .describe('Where requests go out to, of the addresses that clients name'),
  limits: z.strictObject(limits).prefault({}).describe('How much strangers may have stored. Signed-in browsers and clients that authenticate are not limited'),
  security: z.strictObject(security).prefault({}).describe('How often a password may be tried, and a user asked'),
  branding: z.strictObject(branding).prefault({}).describe('How the pages look'),
})

// biome-ignore format: a table
const claim = z.strictObject({
  scope: scopeName.describe('The scope that gives this claim; it exists as soon as a claim belongs to it'),
  from: z
    .string()
    .regex(
      /^(username|name|email|email_verified|updated_at|attributes\.\S+)$/,
      'a claim comes from username, name, email, email_verified, updated_at or attributes.NAME',
    )
    .describe('The part of the account it comes from: username, name, email, email_verified, updated_at or attributes.NAME'),
})

// biome-ignore format: a table
const claimsSchema = z.strictObject({
  claims: z.record(z.string().min(1), claim).default({}).describe('What applications can be told about people, by the name of the claim'),
  scopes: z
    .record(scopeName, z.strictObject({ description: wordsByLanguage(200).describe('Shown on the consent page; a text, or one by language: { en: …, de: … }') }))
    .default({})
    .describe('What the consent page says about a scope of `claims`'),
})

export type UsherFile = z.output<typeof usherSchema>
export type ClaimsFile = z.output<typeof claimsSchema>
export type Lifetimes = UsherFile['lifetimes']

/** By what the files are called. */
export const SCHEMAS = {
  usher: usherSchema,
  claims: claimsSchema,
  client: clientSchema,
  resource: resourceSchema,
  detail: detailSchema,
  get locale() {
    return localeSchema()
  },
}

/** What editors complete and check from: the files as they are written, before defaults. */
export function jsonSchemas() {
  const written = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input' })
  const schemas = Object.entries(SCHEMAS).map(([name, schema]) => [name, written(schema)])
  const inLanguages = { [`^(${READ_BY_PEOPLE.join('|')})#.+$`]: { type: 'string' } }
  const client = { ...written(clientSchema), patternProperties: inLanguages }
  return { ...Object.fromEntries(schemas), client }
}
