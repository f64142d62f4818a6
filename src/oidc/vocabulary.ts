// The values of the protocol that Usher accepts: grant types, response types
// and modes, algorithms, and the values of `acr`. The schemas of config/ and
// the features take them from here.

/**
 * The client_id with which the account pages sign users in. It needs no
 * consent.
 */
export const ACCOUNT_CLIENT = 'usher-account'

/** Grant type of the device flow (RFC 8628 §3.4). */
export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** Grant type of CIBA (OpenID Connect CIBA §10.1). */
export const CIBA_GRANT = 'urn:openid:params:grant-type:ciba'
/** Grant type of token exchange (RFC 8693 §2.1). */
export const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
/** Grant type of assertions (RFC 7523 §2.1). */
export const ASSERTION_GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
/** Grant types that a client can have. */
export const GRANT_TYPES = [
  'authorization_code',
  'refresh_token',
  'client_credentials',
  DEVICE_GRANT,
  CIBA_GRANT,
  EXCHANGE_GRANT,
  ASSERTION_GRANT,
] as const

/** Response types that a client can have. */
export const RESPONSE_TYPES = [
  'code',
  'id_token',
  'id_token token',
  'code id_token',
  'code token',
  'code id_token token',
] as const
/** Response modes that a client can have. */
export const RESPONSE_MODES = [
  'query',
  'form_post',
  'jwt',
  'query.jwt',
  'form_post.jwt',
  'fragment',
] as const

/**
 * Signing algorithms. All are asymmetric: clients share no key with the
 * provider.
 */
export const SIGNING_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
/** Key management algorithms of encrypted JWTs. */
export const ENCRYPTION_ALGORITHMS = ['RSA-OAEP-256', 'ECDH-ES'] as const
/** Content encryption algorithms of encrypted JWTs. */
export const CONTENT_ENCRYPTION = [
  'A128CBC-HS256',
  'A256CBC-HS512',
  'A128GCM',
  'A256GCM',
] as const

/** Hosts of this machine, as `hostname` of a URL has them. */
export const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * The flow that a response type belongs to, as `compatibility` of usher.yaml
 * names it; undefined for `code`.
 */
export function flowOf(responseType: string) {
  if (responseType === 'code') return undefined
  return responseType.includes('code') ? 'hybrid' : 'implicit'
}

/** The `acr` of a sign-in with a password. */
export const PASSWORD_ACR =
  'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'
/** The `acr` of a sign-in with two factors (REFEDS MFA profile). */
export const TWO_FACTOR_ACR = 'https://refeds.org/profile/mfa'
/**
 * The `acr` of a sign-in with a passkey (OpenID Connect EAP ACR Values 1.0):
 * phishing-resistant.
 */
export const PHISHING_RESISTANT_ACR = 'phr'
const RANKED_ACRS = [PASSWORD_ACR, TWO_FACTOR_ACR, PHISHING_RESISTANT_ACR]

/**
 * Whether `acr` is the wanted value, or a stronger one. Values of upstreams
 * have no order.
 */
export function satisfies(acr: string | undefined, wanted: string): boolean {
  const rank = RANKED_ACRS.indexOf(wanted)
  return acr === wanted || (rank >= 0 && RANKED_ACRS.indexOf(acr ?? '') > rank)
}

/** The method of sign-in with a password. */
export const PASSWORD = 'password'
/** The method of sign-in with a passkey. */
export const PASSKEY = 'passkey'

/**
 * Returns the method by which a session signed in: the first name in its `amr`
 * (RFC 8176), or that of an upstream.
 */
export function methodOf([first = '']: string[] = []): string {
  if (first === 'hwk' || first === 'swk') return PASSKEY
  return first === 'pwd' ? PASSWORD : first
}

/**
 * Whether users can sign in by the password, or at the upstream with this name.
 * Without a list, both.
 */
export const isMethodUsed = (
  { methods }: { methods?: string[] },
  name: string,
): boolean => methods?.includes(name) ?? true
