// Warnings: settings that are valid but unsafe.

/** The messages by rule: the risk, the fix, and the clause of the specification. */
export const WARNINGS = {
  'pkce-exempt':
    'a stolen or injected code can be redeemed. Use a client library that sends code_challenge, and delete this line (RFC 9700 §2.1.1)',
  'implicit-consent-public':
    'any program can impersonate a client without a secret, and would get tokens without consent. Set explicit (RFC 8252 §8.6, RFC 6749 §10.2)',
  'secret-expired':
    'has expired: delete it. If the application has no other, make one: npm run usher -- clients secret NAME',
  'demo-secret':
    'the secret of the demo application is public. Make a new one: npm run usher -- clients secret NAME, and delete this line',
  'resource-unread':
    'no API can validate these tokens: name the client_id of the API in introspected_by, or set token_format: jwt',
  'upstream-email':
    'a person who controls an address at this issuer can sign in to the account that has it: name the domains that are yours in allow.email_domains',
  'upstream-open': 'every user of this issuer gets an account: name those who may sign in in allow',
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

/** Whether the findings of a rule are warnings. */
export const isWarning = (rule: string) => Object.hasOwn(WARNINGS, rule)
