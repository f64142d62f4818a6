// Subject tokens of a token exchange (RFC 8693 §2.1): opaque and JWT access tokens, and ID tokens, of this issuer.

import { createPublicKey } from 'node:crypto'
import { errors as jose, jwtVerify } from 'jose'
import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import { SIGNING_ALGORITHMS } from '../config/schema/client.ts'
import { mapOf, required } from '../config/schema/values.ts'
import type { Environment } from '../provider/feature.ts'
import { headerProblem } from '../provider/requests.ts'
import { tagOfJwt } from '../state/grants.ts'
import type { Name } from '../storage/records.ts'
import type { Confirmation } from './dpop.ts'

/** Token types (RFC 8693 §3). */
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'

/** What a subject token says. */
interface Subject {
  grantId: string
  /** The client that it was issued to. */
  clientId: string
  /** Epoch seconds. */
  exp: number
  /** Of an access token for an API. */
  aud?: unknown
  scope?: string
  cnf: Confirmation
  claims: Record<string, unknown>
  /** The record of an opaque token; none for a JWT. */
  records: Name[]
}

/** Refuses a subject token (RFC 8693 §2.2.2). `problem`: the end of a sentence about it. */
export function refuseSubject(problem: string): never {
  throw new errors.InvalidRequest(`subject_token ${problem}`)
}

/** Returns the function that reads the subject token of a request. It throws for one that is not valid. */
export function createSubjectReader({ settings, keys }: Pick<Environment, 'settings' | 'keys'>) {
  const known = keys.map(jwk => ({ ...jwk, key: createPublicKey({ key: jwk, format: 'jwk' }) }))
  const keyFor = ({ kid, alg }: { kid?: string; alg?: string }) =>
    required(known.find(one => one.kid === kid && one.alg === alg)).key

  /** Returns what a JWT of this issuer says. `typ`: of its kind; ID tokens have none. */
  async function verify(jwt: string, typ?: string): Promise<Subject> {
    const algorithms = [...SIGNING_ALGORITHMS]
    const required = { requiredClaims: ['exp', 'aud', 'jti'], issuer: settings.issuer }
    const verified = jwtVerify(jwt, keyFor, { ...required, algorithms, typ }).catch(error => {
      const isExpired = error instanceof jose.JWTExpired
      return refuseSubject(isExpired ? 'has expired' : 'is not a valid token of this provider')
    })
    const { payload: claims, protectedHeader } = await verified
    const grantId = tagOfJwt(claims.jti)
    const isOfType = !headerProblem({ ...protectedHeader }, typ ?? 'jwt')
    if (!grantId || !isOfType) return refuseSubject('is not of the type in subject_token_type')
    const { aud, client_id, exp = 0, cnf, scope } = claims
    const about = { grantId, clientId: String(client_id), exp, aud, cnf: mapOf(cnf), records: [] }
    return { ...about, claims, scope: scope as string | undefined }
  }

  return async ({ oidc }: KoaContextWithOIDC, params: Partial<Record<string, string>>) => {
    const { subject_token: value = '', subject_token_type } = params
    if (subject_token_type === ID_TOKEN) {
      const { clientId } = required(oidc.client)
      const { aud, ...subject } = await verify(value)
      const isOwn = aud === clientId && (subject.claims.azp ?? aud) === clientId
      return isOwn ? { ...subject, clientId } : refuseSubject('must have the client as aud and azp')
    }
    if (subject_token_type !== ACCESS_TOKEN) {
      throw new errors.InvalidRequest(`subject_token_type must be ${ACCESS_TOKEN} or ${ID_TOKEN}`)
    }
    if (value.includes('.')) return verify(value, 'at+jwt')
    const token = await oidc.provider.AccessToken.find(value)
    if (!token?.isValid) return refuseSubject('is unknown, has expired, or was revoked')
    const { grantId, clientId = '', exp = 0, aud, scope, extra, jti } = token
    const records: Name[] = [['AccessToken', jti]]
    return { grantId, clientId, exp, aud, scope, cnf: token, claims: mapOf(extra), records }
  }
}
