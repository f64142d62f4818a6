// The words of rules that look at several keys or files. The rules are beside this file, by kind of file.

import { basename } from 'node:path'
import type { Finding, Locate } from '../report/finding.ts'
import { didYouMean } from '../report/wording.ts'

/** Messages by rule. */
const MESSAGES = {
  // Clients
  'secret-missing': 'this client needs a secret: npm run usher -- clients secret NAME makes one',
  'secret-unused': 'a client with this token_endpoint_auth_method has no secret: delete this key',
  'secret-in-plain':
    'files contain hashes only: npm run usher -- clients secret NAME --secret-stdin writes client_secret_hashes',
  'demo-secret': 'is the public demo secret. Replace it: npm run usher -- clients secret NAME',
  'pkce-exempt-public': 'a public client cannot be exempted from PKCE',
  'grant-public': 'client_credentials and CIBA are for clients that authenticate',
  'grant-pairwise': 'a pairwise client cannot use the device flow or CIBA',
  'sector-missing': 'pairwise needs one sector: redirect_uris of one public host, or this address',
  'response-modes': 'a code is never sent in a fragment: delete fragment here',
  'token-modes': 'tokens are never sent in a query: add form_post',
  'no-redirect': 'must have at least one, such as https://app.example.org/callback',
  'plain-http': 'must be https; http only on loopback, for a loopback issuer',
  'client-key-missing': 'needs a key to encrypt to: in jwks, with use enc or none',
  certificate:
    'tls_client_auth needs the issuing authorities: `client_certificates.ca` in usher.yaml',
  'fapi-par': 'fapi2 needs a setting that is off: `features.pushed_authorization_requests`',
  'fapi-dpop': 'fapi2 needs `features.dpop`, or tls_client_certificate_bound_access_tokens',
  'certificate-missing': 'self_signed_tls_client_auth needs a key with its certificate (x5c)',

  // usher.yaml
  issuer: 'must be https; http is only for loopback addresses',
  tls: 'is for an https issuer',
  'memory-store': 'the memory store loses everything at a restart: only for a loopback http issuer',
  'memory-workers': 'need a store that they share: each process would have its own memory store',
  'redis-socket': 'is for the network, and the store is a socket of this machine',
  'redis-database': 'a Redis Cluster has the database 0 only',
  'key-times': 'must be shorter than keys.rotate_every, and at least 1 min',
  'certificate-header': 'is accepted from a `proxy` only, and no proxy is named',
  'certificate-source': 'no certificate can arrive: set client_certificates.header or listen.tls',
  mtls: 'must have the scheme of `issuer`, and another host or port than `issuer` and `listen.port`',

  // APIs
  'jwt-lifetime': 'is at most 10 min for a jwt, which cannot be revoked (RFC 9068 §5)',
  'feature-off': 'needs a setting that is off: `features.resource_indicators` in usher.yaml',
  'introspection-off': 'needs a setting that is off: `features.introspection` in usher.yaml',

  // Upstream issuers
  'upstream-name':
    'rename its file: a-z first, then a-z, 0-9 and -; password, continue, cancel and the amr values of RFC 8176 are taken',
  'upstream-accounts': 'needs accounts in `store`, and `accounts.module` keeps them elsewhere',
  'upstream-credentials': 'is required, or private_key_file instead of it',
}

/** Messages of rules that only warn: the risk, the fix, and the clause of the specification. */
const WARNINGS = {
  'pkce-exempt':
    'a stolen or injected code can be redeemed. Use a client library that sends code_challenge, and delete this line (RFC 9700 §2.1.1)',
  'implicit-consent-public':
    'any program can impersonate a client without a secret, and would get tokens without consent. Set explicit (RFC 8252 §8.6, RFC 6749 §10.2)',
  'secret-expired': 'has expired: delete it. To make another: npm run usher -- clients secret NAME',
  'resource-unread': 'no API can validate these tokens: set introspected_by or token_format: jwt',
  'upstream-email':
    'has no effect: this issuer verifies addresses of the domains in allow.email_domains only, and there are none',
  'upstream-addresses':
    'no address of this issuer is verified, and some applications find users by unverified ones: set allow.email_domains, or list the other fields in claims (OpenID Connect Core §5.7)',
  'upstream-open': 'every user of this issuer gets an account: name those who may sign in in allow',
  'logo-contrast': 'is hard to see on the light or the dark page: set `logo` and `logo_dark`',
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
}

/** Whether the findings of a rule are warnings: settings that are valid but unsafe. */
export const isWarning = (rule: string) => Object.hasOwn(WARNINGS, rule)

const ALL = { ...MESSAGES, ...WARNINGS }

/** Whether a rule is broken, its name, and the key that the finding is about, as `a.b.0`. */
type Check = readonly [isBroken: unknown, rule: keyof typeof ALL, key: string]

/**
 * Returns a finding for each broken rule, with its message. `NAME` in a message becomes the name of the
 * file, as commands expect it.
 */
export function findingsOf({ file, at }: { file: string; at: Locate }, checks: Check[]): Finding[] {
  const broken = checks.filter(([isBroken]) => isBroken)
  return broken.map(([, rule, key]) =>
    at(key.split('.'), rule, ALL[rule].replace('NAME', basename(file, '.yaml'))),
  )
}

/** Returns the finding about a file that nothing reads: its name is probably misspelt. */
export function strayFile(file: string, known: string[]): Finding {
  const message = `nothing reads this${didYouMean(basename(file), known)}`
  return { file, rule: 'stray-file', message }
}
