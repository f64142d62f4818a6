// What is allowed and unwise: what RFC 9700 and others advise against, or an operator will regret.
// Each says why, what instead, and where that is written. None of it stops anything.

import { hashOf, isExpired, type SecretHash, timeOf } from '../client-secret.ts'
import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import type { ClientFile } from '../schema/client.ts'
import type { ClaimsFile, UsherFile } from '../schema/usher.ts'

const HOUR = 3600
const DAY = 24 * HOUR
/** Of the secret that the shipped client `demo` has, which everybody knows. */
const DEMO_SECRET = 'sha256:FoWR19LG3fXwJBV3R_vmwQGtKh4Q3swDuTWR06stEOI'

const TOKENS_IN_BROWSER =
  'tokens travel through the browser, where its history and scripts get at them, and are bound to nobody. Leave it off, but for certification and applications that cannot be changed: a code is redeemed for the same tokens (RFC 9700 §2.1.2)'

interface Advice {
  /** Whether it is to be given; false where a key that it looks at is wrong. */
  is: boolean | undefined
  rule: string
  key: PropertyKey[]
  why: string
}

const given = (advice: Advice[], { at }: Pick<FileResult<unknown>, 'at'>): Finding[] =>
  advice.filter(({ is }) => is).map(({ key, rule, why }) => at(key, rule, why))

export function providerAdvice(
  usher: FileResult<UsherFile>,
  claims: FileResult<ClaimsFile>,
  development: boolean,
): Finding[] {
  const {
    proxy,
    listen,
    lifetimes: life,
    redis,
    store,
    metrics,
    keys,
    branding,
    compatibility,
  } = usher.parts
  const https = !development
  const isRedis = store !== undefined && !store.startsWith('sqlite:')
  const everyone = proxy?.findIndex(range => /\/[0-7]$/.test(range)) ?? -1
  // biome-ignore format: a table
  const advice: Advice[] = [
    { is: everyone >= 0, rule: 'proxy-everyone', key: ['proxy', everyone], why: 'takes almost everyone for a proxy: whoever sends X-Forwarded-For chooses the address that is logged. Name the addresses of your proxies alone (RFC 9700 §4.13)' },
    { is: https && proxy && listen && !proxy.length && !listen.tls, rule: 'no-tls', key: ['proxy'], why: 'every request will be refused (421): an https issuer needs either proxy, the addresses of what speaks TLS in front, or listen.tls' },
    { is: life && life.access_token > HOUR, rule: 'access-token-lifetime', key: ['lifetimes', 'access_token'], why: 'a stolen access token works for this long. Stay at an hour or less, clients renew it without anybody noticing: 10 min (RFC 6750 §5.3)' },
    { is: life && life.refresh_token_grace === 0, rule: 'refresh-grace', key: ['lifetimes', 'refresh_token_grace'], why: 'an answer that is lost on the way signs the person out, as if the token had been stolen. Leave some seconds to ask again: 30 s (RFC 9700 §4.14.2)' },
    { is: life && life.refresh_token_grace >= 60, rule: 'refresh-grace', key: ['lifetimes', 'refresh_token_grace'], why: 'for a whole minute a refresh token that was copied can be used unnoticed. Half of it is enough for clients on bad networks: 30 s (RFC 9700 §4.14.2)' },
    { is: life && life.refresh_token_idle > 60 * DAY, rule: 'refresh-idle', key: ['lifetimes', 'refresh_token_idle'], why: 'a refresh token that nobody has used for months still works, from a lost device too. End it after some weeks: 14 d (RFC 9700 §4.14.2)' },
    { is: life && life.refresh_token_idle > life.refresh_token, rule: 'no-effect', key: ['lifetimes', 'refresh_token_idle'], why: 'says nothing: lifetimes.refresh_token is shorter and ends the token before. Make it the shorter one' },
    { is: life && life.session_idle > life.session, rule: 'no-effect', key: ['lifetimes', 'session_idle'], why: 'says nothing: lifetimes.session is shorter and signs people out before. Make it the shorter one' },
    { is: life && life.session > 30 * DAY, rule: 'session-lifetime', key: ['lifetimes', 'session'], why: 'people enter their password less often than once in 30 days. Stay at 30 d or less (NIST SP 800-63B, AAL1)' },
    { is: keys && keys.announce < 600, rule: 'keys-announce', key: ['keys', 'announce'], why: 'many clients keep the JWKS for ten minutes whatever it says, and will not know a key that is announced later than that. Leave them time: 1 d (OIDC Core §10.1.1)' },
    { is: isRedis && redis?.durability === 'primary', rule: 'durability-primary', key: ['redis', 'durability'], why: 'a failover may bring back a code that was used or a token that was revoked. With a replica, let answers wait for it: auto (RFC 6749 §4.1.2, RFC 7009 §2)' },
    { is: isRedis && https && redis && !redis.tls && !/^rediss:|^redis\+unix:|(\/\/|@)(localhost|127\.|\[::1\])/.test(store), rule: 'redis-plaintext', key: ['store'], why: 'the password of Redis and all commands travel in the clear. Use rediss:// or redis.tls, unless the network is yours alone (OWASP ASVS 12.3.1)' },
    { is: metrics && /^(0\.0\.0\.0|::)$/.test(metrics.host), rule: 'metrics-open', key: ['metrics', 'host'], why: 'whoever reaches this machine reads the metrics. Listen on loopback or on an address of the inner network' },
    { is: compatibility?.implicit, rule: 'compatibility', key: ['compatibility', 'implicit'], why: TOKENS_IN_BROWSER },
    { is: compatibility?.hybrid, rule: 'compatibility', key: ['compatibility', 'hybrid'], why: TOKENS_IN_BROWSER },
    { is: https && branding?.name === 'Usher', rule: 'branding', key: ['branding', 'name'], why: 'people are asked for their password by a name they do not know. Put that of your organisation here' },
  ]
  const { claims: told = {} } = claims.parts
  const isUnverified = 'email' in told && !('email_verified' in told)
  const why =
    'applications cannot tell an address that somebody proved to be theirs from one that they typed, and may join accounts by it. Give email_verified beside it (OIDC Core §5.7)'
  const about = { is: isUnverified, rule: 'email-unverified', key: ['claims', 'email'], why }
  return [...given(advice, usher), ...given([about], claims)]
}

const isDemo = (entry: SecretHash) => hashOf(entry) === DEMO_SECRET
const REDIRECTOR = /[?&](url|next|goto|target|continue|return\w*|redirect\w*)=/i
const TEMPLATE = /[{}<>$]|%7B|%3C|%2A/i

export function clientAdvice(client: FileResult<ClientFile>, development: boolean): Finding[] {
  const { parts: set } = client
  const https = !development
  const isPublic = set.token_endpoint_auth_method === 'none'
  const isNative = set.application_type === 'native'
  const hashes = set.client_secret_hashes ?? []
  const isUnset = (key: keyof ClientFile) => Object.hasOwn(set, key) && set[key] === undefined
  // biome-ignore format: a table
  const advice: Advice[] = [
    { is: set.require_pkce === false, rule: 'pkce-exempt', key: ['require_pkce'], why: 'a code that is stolen or slipped in can be redeemed: nothing ties it to who asked. Use a client library that sends code_challenge, and delete this line (RFC 9700 §2.1.1)' },
    { is: set.consent === 'implicit' && isPublic, rule: 'implicit-consent-public', key: ['consent'], why: 'anybody can pass for an application without a secret, and would be given tokens without a question. Leave it explicit (RFC 8252 §8.6, RFC 6749 §10.2)' },
    { is: set.token_endpoint_auth_method === 'client_secret_post', rule: 'secret-in-body', key: ['token_endpoint_auth_method'], why: 'secrets in request bodies end up in logs more easily. Use client_secret_basic, or private_key_jwt, which sends none (RFC 6749 §2.3.1, RFC 9700 §2.5)' },
    { is: isNative && /^(client_secret_|$)/.test(set.token_endpoint_auth_method ?? ''), rule: 'native-secret', key: ['token_endpoint_auth_method'], why: 'a secret on the device of every person is none. Use none, PKCE protects the code (RFC 8252 §8.5)' },
    { is: hashes.filter(entry => typeof entry === 'string').length > 2, rule: 'many-secrets', key: ['client_secret_hashes'], why: 'more secrets are valid than a change needs, and each of them opens. Delete the older lines once nobody uses them' },
    { is: https && hashes.some(isDemo), rule: 'demo-secret', key: ['client_secret_hashes', hashes.findIndex(isDemo)], why: 'everybody knows the secret of the demo application. Make one: npm run usher -- clients secret NAME, and delete this line' },
    { is: https && isUnset('client_uri'), rule: 'client-uri', key: ['client_uri'], why: 'people who end up on one of our pages find no way back to the application. Add its home page' },
    { is: https && isUnset('scope'), rule: 'scope-all', key: ['scope'], why: 'may ask for every scope there is and will be. Name those it needs: openid profile (RFC 9700 §2.3)' },
    { is: https && /^http:/.test(set.client_uri ?? ''), rule: 'plain-link', key: ['client_uri'], why: 'leads people from here to a page that anybody on the way can change. Use its https address' },
  ]
  const isLast = hashes.length > 0 && hashes.every(isExpired) && !set.client_secret
  const lost =
    'the application has no other and cannot authenticate. Make one: npm run usher -- clients secret NAME'
  for (const [i, entry] of hashes.entries()) {
    if (!isExpired(entry)) continue
    const key = ['client_secret_hashes', i]
    const why = `has not counted since ${timeOf(entry)}: ${isLast ? lost : 'delete it'}`
    advice.push({ is: true, rule: 'secret-expired', key, why })
  }
  for (const [i, uri] of (set.redirect_uris ?? []).entries()) {
    const key = ['redirect_uris', i]
    // biome-ignore format: a table
    advice.push(
      { is: TEMPLATE.test(uri), rule: 'redirect-template', key, why: 'looks like a pattern and is compared byte for byte: nothing is put in. Register every address as it is (RFC 9700 §2.1)' },
      { is: REDIRECTOR.test(uri), rule: 'open-redirector', key, why: 'looks like a page that sends on to an address it is given: with it, codes can be stolen. Register the address of the callback itself (RFC 9700 §4.11.1)' },
      { is: isNative && /^http:\/\/localhost\b/.test(uri), rule: 'loopback-name', key, why: 'the name localhost may lead elsewhere than to the device of the person. Use http://127.0.0.1/… and http://[::1]/… (RFC 8252 §8.3)' },
    )
  }
  return given(advice, client)
}
