// JWTs of clients: request objects (RFC 9101), client assertions (RFC 7523) and
// attestations. The library checks their signatures. It leaves the checks of
// this file to its deployer.

import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Records } from '../store/records.ts'
import { deriveKey } from '../store/seal.ts'
import { now } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import type { Oidc, ProviderSettings } from './dependencies.ts'
import type { JwtClaims, LibraryFeatures, Parts } from './feature.ts'
import { KeyProblem, keyCostProblem } from './keys.ts'

const MAX_JWT_LIFETIME_SECONDS = 600
const MAX_REQUEST_AGE_SECONDS = 3600
/** The default of the library for `clockTolerance`; a test pins it. */
export const CLOCK_TOLERANCE_SECONDS = 15

/**
 * Checks a request object. Throws `InvalidRequestObject` to refuse it. `ciba`
 * has further rules for backchannel authentication.
 */
export function checkRequestObject(
  { oidc, state }: KoaContextWithOIDC,
  claims: JwtClaims,
  header: JwtClaims,
  ciba: Parts['ciba'],
): void {
  state.requestObject = claims
  // The library wraps a pushed request in a JWT of its own; its contents were
  // checked when it was pushed.
  if (oidc.entities.PushedAuthorizationRequest) return
  const problem =
    resourceProblem(claims) ??
    subjectProblem(oidc, claims) ??
    headerProblem(header, 'oauth-authz-req+jwt') ??
    timeProblem(claims) ??
    fapiRequestObjectProblem(oidc, claims, header.alg) ??
    ciba?.requestObjectProblem(oidc, claims)
  if (problem)
    throw new errors.InvalidRequestObject(`the request object: ${problem}`)
}

/** The library makes text of all other parameters. */
function resourceProblem({ resource }: JwtClaims): string | undefined {
  const all = [resource ?? ''].flat()
  const isText = all.every(one => typeof one === 'string')
  return isText ? undefined : 'resource must be text'
}

function subjectProblem({ client }: Oidc, { sub }: JwtClaims) {
  return sub === client?.clientId
    ? 'sub must not be the client (RFC 9101 §10.8)'
    : undefined
}

/** Checks a client assertion. Throws `InvalidClientAuth` to refuse it. */
export function checkAssertion(
  { oidc }: KoaContextWithOIDC,
  claims: JwtClaims,
  header: JwtClaims,
): void {
  const detail =
    assertionProblem(oidc) ?? fapiAssertionProblem(oidc, claims, header.alg)
  if (detail) throw new errors.InvalidClientAuth({ detail })
}

/**
 * Says which rule the client assertion of a request breaks, without its
 * signature and its client: an unknown client gets the same answer. Undefined
 * if it breaks none.
 */
export function assertionProblem(oidc: Oidc): string | undefined {
  const parts = String(oidc.params?.client_assertion).split('.')
  const [header = {}, { iss, sub, aud, jti, ...times } = {}] =
    parts.map(decodePart)
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

/**
 * Returns the header or the claims of a JWT, which is not verified yet; empty if
 * the part is malformed.
 */
export const decodePart = (part: string): JwtClaims =>
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
function timeProblem(claims: JwtClaims): string | undefined {
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

/**
 * Says what FAPI 2.0 has against a client assertion (Security Profile
 * §5.3.2.1); undefined if nothing.
 */
function fapiAssertionProblem(oidc: Oidc, { aud }: JwtClaims, alg: unknown) {
  if (!oidc.isFapi('2.0')) return undefined
  return aud === oidc.issuer ? algProblem(alg) : 'aud must be the issuer'
}

/**
 * Says what FAPI 2.0 has against a request object (Message Signing §5.3.1);
 * undefined if nothing.
 */
function fapiRequestObjectProblem(oidc: Oidc, claims: JwtClaims, alg: unknown) {
  if (!oidc.isFapi('2.0')) return undefined
  return nbfProblem(claims) ?? algProblem(alg)
}

const algProblem = (alg: unknown) =>
  alg === 'RS256' ? 'FAPI 2.0 has no RS256' : undefined

/**
 * Returns the library's setting for clients whose instances show an attestation
 * of the client's backend, in place of a secret that each copy of an
 * application would have (OAuth 2.0 Attestation-Based Client Authentication, a
 * draft). `jwks` in the file of a client has the keys of its backend. The
 * library checks the attestation, and the proof of the instance's key.
 */
export function clientAttestation(
  { features }: Pick<ProviderSettings, 'features'>,
  records: Records,
): LibraryFeatures['attestClientAuth'] {
  return {
    enabled: features.client_attestation,
    ack: 'draft-12',
    // All nodes have the same secret, also during a change of `USHER_SECRET`.
    challengeSecret: deriveKey(
      records.keyedHash('attestation', 'challenges'),
      'challenges',
    ),
    getAttestationSignaturePublicKey(_ctx, { alg, kid }, { cnf }, { jwks }) {
      // The library verifies the proof of the instance with this key: a user of
      // the application has made it.
      const problem = keyCostProblem(mapOf(mapOf(cnf).jwk))
      if (problem)
        throw new KeyProblem(`cnf.jwk of the attestation: ${problem}`)
      return createLocalJWKSet(jwks as JSONWebKeySet)({
        alg: String(alg),
        kid: kid as string,
      })
    },
  }
}
