// Warnings about settings that are valid but unsafe. Each names the risk, the fix, and the clause of
// the specification. A warning does not prevent a start.

import { hashOf, isExpired, timeOf } from '../client-secret.ts'
import type { ValidFile } from '../files.ts'
import { checkerOf, type Finding } from '../report/finding.ts'
import type { ClientFile } from '../schema/client.ts'
import type { ResourceFile } from '../schema/resource.ts'
import type { UsherFile } from '../schema/usher.ts'

const MAX_ACCESS_TOKEN_SECONDS = 3600
/** Hash of the public secret of the shipped client `demo`. */
const DEMO_SECRET = 'sha256:FoWR19LG3fXwJBV3R_vmwQGtKh4Q3swDuTWR06stEOI'
/** Redis without a network: TLS has nothing to protect there. */
const LOCAL_REDIS = /^rediss:|^redis\+unix:|(\/\/|@)(localhost|127\.|\[::1\])/

const WHY = {
  'proxy-everyone':
    'almost every sender is trusted: any client can choose its logged address by X-Forwarded-For. Name only the addresses of your proxies (RFC 9700 §4.13)',
  'no-tls':
    'every request will be refused (421): an https issuer needs the addresses of the TLS proxy in front in proxy, or listen.tls',
  'access-token-lifetime':
    'a stolen access token is valid for this long. Set an hour or less, such as 10 min; clients renew it without asking the user (RFC 6750 §5.3)',
  'durability-primary':
    'after a failover, a used code or a revoked token may be valid again. If there is a replica, set auto (RFC 6749 §4.1.2, RFC 7009 §2)',
  'redis-plaintext':
    'the password and all commands for Redis are sent without encryption. Use rediss:// or redis.tls, except in a private network (OWASP ASVS 12.3.1)',
  'pkce-exempt':
    'a stolen or injected code can be redeemed. Use a client library that sends code_challenge, and delete this line (RFC 9700 §2.1.1)',
  'implicit-consent-public':
    'any program can impersonate a client without a secret, and would get tokens without consent. Set explicit (RFC 8252 §8.6, RFC 6749 §10.2)',
  'demo-secret':
    'the secret of the demo application is public. Make a new one: npm run usher -- clients secret NAME, and delete this line',
  'resource-unread':
    'no API can validate these tokens: name the client_id of the API in introspected_by, or set token_format: jwt',
}

/** Returns the warnings about usher.yaml. */
export function providerWarnings(usher: ValidFile<UsherFile>, development: boolean): Finding[] {
  const { proxy, listen, lifetimes, redis, store } = usher.value
  const check = checkerOf(usher, WHY)
  const isRedis = !store.startsWith('sqlite:')
  const everyone = proxy.findIndex(range => /\/[0-7]$/.test(range))
  const isBare = !development && !proxy.length && !listen.tls
  const isPlain = !development && isRedis && !redis.tls && !LOCAL_REDIS.test(store)
  const isLong = lifetimes.access_token > MAX_ACCESS_TOKEN_SECONDS
  const isUnsafe = isRedis && redis.durability === 'primary'
  return [
    ...check(everyone >= 0, 'proxy-everyone', 'proxy', everyone),
    ...check(isBare, 'no-tls', 'proxy'),
    ...check(isLong, 'access-token-lifetime', 'lifetimes', 'access_token'),
    ...check(isUnsafe, 'durability-primary', 'redis', 'durability'),
    ...check(isPlain, 'redis-plaintext', 'store'),
  ]
}

/** Returns the warnings about a client. */
export function clientWarnings(client: ValidFile<ClientFile>, development: boolean): Finding[] {
  const { value, at } = client
  const check = checkerOf(client, WHY)
  const isPublic = value.token_endpoint_auth_method === 'none'
  const hashes = value.client_secret_hashes ?? []
  const demo = hashes.findIndex(entry => hashOf(entry) === DEMO_SECRET)
  const isLast = hashes.every(isExpired) && !value.client_secret
  const next = isLast
    ? 'the application has no other. Make one: npm run usher -- clients secret NAME'
    : 'delete it'
  const expired = hashes.flatMap((entry, i) =>
    isExpired(entry)
      ? [at(['client_secret_hashes', i], 'secret-expired', `expired at ${timeOf(entry)}: ${next}`)]
      : [],
  )
  return [
    ...check(!value.require_pkce, 'pkce-exempt', 'require_pkce'),
    ...check(value.consent === 'implicit' && isPublic, 'implicit-consent-public', 'consent'),
    ...check(!development && demo >= 0, 'demo-secret', 'client_secret_hashes', demo),
    ...expired,
  ]
}

/** Returns the warnings about an API. */
export function resourceWarnings(resource: ValidFile<ResourceFile>): Finding[] {
  const { token_format, introspected_by } = resource.value
  const isUnread = token_format === 'opaque' && !introspected_by
  return checkerOf(resource, WHY)(isUnread, 'resource-unread', 'token_format')
}
