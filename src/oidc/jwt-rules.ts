// Rules for JWTs that clients and issuers sign, beside those that the library
// checks itself (RFC 8725, RFC 7523).

import { now } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import type { Oidc } from './dependencies.ts'
import type { JwtClaims } from './feature.ts'

const MAX_JWT_LIFETIME_SECONDS = 600
const MAX_REQUEST_AGE_SECONDS = 3600
/** The default of the library for `clockTolerance`; a test pins it. */
export const CLOCK_TOLERANCE_SECONDS = 15

/**
 * Says which rule the client assertion of a request breaks, without its
 * signature and its client: an unknown client gets the same answer. Undefined
 * if it breaks none.
 */
export function assertionProblem(oidc: Oidc): string | undefined {
  const parts = String(oidc.params?.client_assertion).split('.')
  const [header = {}, { iss, sub, aud, jti, ...times } = {}] =
    parts.map(decoded)
  const audiences = oidc.clientJwtAuthExpectedAudience()
  if (!sub || iss !== sub) return 'iss and sub must both be the client_id'
  // A list would be valid at another server too (draft-ietf-oauth-rfc7523bis;
  // CVE-2025-27370).
  if (typeof aud !== 'string')
    return `aud must be a single string: ${oidc.issuer}`
  if (!audiences.has(aud))
    return `aud must be one of ${[...audiences].join(', ')}`
  if (!jti) return 'jti is required: a new one for each assertion'
  return (
    timeProblem(times) ?? headerProblem(header, 'client-authentication+jwt')
  )
}

const decoded = (part: string): JwtClaims =>
  mapOf(readJson(Buffer.from(part, 'base64url').toString()))

/**
 * Says what is wrong with the header of a JWT that a client or an issuer has
 * signed. No other JWT of the signer is accepted in its place (RFC 8725 §3.11).
 * `own`: the `typ` of this kind of JWT.
 */
export function headerProblem(
  { typ, crit, b64 }: JwtClaims,
  own: string,
): string | undefined {
  const types = ['jwt', own, `application/${own}`]
  const isOwn =
    typ === undefined ||
    (typeof typ === 'string' && types.includes(typ.toLowerCase()))
  if (!isOwn) return `typ must be absent, JWT or ${own}`
  return crit === undefined && b64 === undefined
    ? undefined
    : 'crit and b64 are not understood'
}

/**
 * Says what is wrong with the times of a JWT of a client (RFC 7523 §3);
 * undefined if nothing is.
 */
export function timeProblem(claims: JwtClaims): string | undefined {
  // `Number` would throw for an object without a primitive value.
  const secondsTo = (name: string) =>
    (typeof claims[name] === 'number' ? claims[name] : Number.NaN) - now()
  if (!(secondsTo('exp') <= MAX_JWT_LIFETIME_SECONDS)) {
    return `exp is required, at most ten minutes (${MAX_JWT_LIFETIME_SECONDS} s) ahead`
  }
  if (secondsTo('exp') <= -CLOCK_TOLERANCE_SECONDS)
    return 'exp must not be in the past'
  const early = ['nbf', 'iat'].find(
    name => secondsTo(name) > CLOCK_TOLERANCE_SECONDS,
  )
  return (
    early &&
    `${early} must not be in the future: over ${CLOCK_TOLERANCE_SECONDS} s ahead`
  )
}

/**
 * Says what is wrong with `nbf` (FAPI 2.0 Message Signing §5.3.1; FAPI 1.0
 * Advanced §5.2.2, for FAPI-CIBA).
 */
export function nbfProblem({ nbf }: JwtClaims): string | undefined {
  if (nbf === undefined) return 'nbf is needed'
  const isRecent = Number(nbf) >= now() - MAX_REQUEST_AGE_SECONDS
  return isRecent ? undefined : 'nbf is over 60 minutes old'
}
