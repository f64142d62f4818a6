// Subject tokens of a token exchange (RFC 8693 §2.1): opaque and JWT access
// tokens, and ID tokens, of this issuer.

import { createPublicKey } from 'node:crypto'
import { decodeProtectedHeader, errors as jose, jwtVerify } from 'jose'
import {
  type AccessToken,
  type Client,
  errors,
  type KoaContextWithOIDC,
  type RefreshToken,
} from 'oidc-provider'
import { grantIdOfJwt } from '../../oidc/adapter/grants.ts'
import { headerProblem } from '../../oidc/client-jwts.ts'
import {
  CNF_PROBLEM,
  type Confirmation,
  confirmationIn,
} from '../../oidc/dpop.ts'
import { SIGNING_ALGORITHMS } from '../../oidc/vocabulary.ts'
import type { Environment } from '../../operation/environment.ts'
import type { Name } from '../../store/records.ts'
import { mapOf, required } from '../../store/values.ts'

/** Token types (RFC 8693 §3). */
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'
const REFRESH_TOKEN = 'urn:ietf:params:oauth:token-type:refresh_token'
/** Only the format: an access token or an ID token. */
export const JWT = 'urn:ietf:params:oauth:token-type:jwt'
/**
 * An assertion for another authorization server (Identity Assertion JWT
 * Authorization Grant, a draft).
 */
export const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'

/** The parameters of an exchange. */
export type ExchangeParameters = Partial<Record<string, string>>

/**
 * Returns what is wrong with the parameters of an exchange (RFC 8693 §2.1);
 * undefined if they are valid.
 */
export function problemIn(params: ExchangeParameters): string | undefined {
  const { requested_token_type = ACCESS_TOKEN, actor_token } = params
  const missing = ['subject_token', 'subject_token_type'].find(
    name => !params[name],
  )
  if (missing) return `${missing} is required`
  if (actor_token !== undefined)
    return 'actor_token must be absent: the client is the actor'
  if ([ACCESS_TOKEN, JWT, ID_JAG].includes(requested_token_type))
    return undefined
  return `requested_token_type must be ${ACCESS_TOKEN}`
}

/**
 * Refuses a subject token (RFC 8693 §2.2.2). `problem`: the end of a sentence
 * about it.
 */
export function refuseSubject(problem: string): never {
  throw new errors.InvalidRequest(`subject_token ${problem}`)
}

/**
 * Returns the type of the subject token. `jwt` names the format alone: the
 * header has the type.
 */
function typeOf({
  subject_token = '',
  subject_token_type,
}: ExchangeParameters) {
  if (subject_token_type !== JWT) return subject_token_type
  try {
    const { typ } = decodeProtectedHeader(subject_token)
    return /^(application\/)?at\+jwt$/i.test(String(typ))
      ? ACCESS_TOKEN
      : ID_TOKEN
  } catch {
    return refuseSubject('is not a JWT, as subject_token_type says')
  }
}

/** A subject token that was read. */
export interface Subject {
  claims: Record<string, unknown>
  grantId: string
  /** The client that it was issued to. */
  clientId: string
  /** Epoch seconds. */
  exp: number
  /** The API that it is for. */
  aud?: unknown
  scope?: unknown
  /** The key that it is bound to. */
  cnf: Confirmation
  /** Its records. A JWT is not stored. */
  records: Name[]
}

/**
 * Returns the function that reads the subject token of a request. It throws for
 * one that is not valid.
 */
export function createSubjectReader({
  settings,
  keys,
}: Pick<Environment, 'settings' | 'keys'>) {
  const known = keys.map(jwk => ({
    ...jwk,
    key: createPublicKey({ key: jwk, format: 'jwk' }),
  }))
  const keyFor = ({ kid, alg }: { kid?: string; alg?: string }) =>
    required(known.find(one => one.kid === kid && one.alg === alg)).key

  /** Reads a JWT of this issuer. `typ`: of its kind; ID tokens have none. */
  async function readJwt(jwt: string, typ?: string): Promise<Subject> {
    const expected = {
      requiredClaims: ['exp', 'aud', 'jti'],
      issuer: settings.issuer,
      algorithms: [...SIGNING_ALGORITHMS],
      typ,
    }
    const verified = await jwtVerify(jwt, keyFor, expected).catch(error => {
      const isExpired = error instanceof jose.JWTExpired
      return refuseSubject(
        isExpired ? 'has expired' : 'is not a valid token of this provider',
      )
    })
    const { payload: claims, protectedHeader } = verified
    const grantId = grantIdOfJwt(claims.jti)
    const isOfType = !headerProblem({ ...protectedHeader }, typ ?? 'jwt')
    if (!grantId || !isOfType)
      return refuseSubject('is not of the type in subject_token_type')
    const cnf = confirmationIn(claims.cnf)
    if (!cnf) return refuseSubject(CNF_PROBLEM)
    const { client_id, exp = 0, aud, scope } = claims
    return {
      claims,
      grantId,
      clientId: String(client_id),
      exp,
      aud,
      scope,
      cnf,
      records: [],
    }
  }

  /**
   * Reads an ID token. It says that the user signed in to the client, and is
   * for no API.
   */
  async function readIdToken(
    jwt: string,
    { clientId }: Client,
  ): Promise<Subject> {
    const { aud, ...subject } = await readJwt(jwt)
    const isOwn = aud === clientId && (subject.claims.azp ?? aud) === clientId
    return isOwn
      ? { ...subject, clientId }
      : refuseSubject('must have the client as aud and azp')
  }

  return async (
    { oidc }: KoaContextWithOIDC,
    params: ExchangeParameters,
  ): Promise<Subject> => {
    const { subject_token: value = '', requested_token_type } = params
    const client = required(oidc.client)
    const sent = typeOf(params)
    if (sent === ID_TOKEN) return readIdToken(value, client)
    // An assertion is issued for a sign-in, and not for an access token that an
    // API has received.
    const type = requested_token_type === ID_JAG ? REFRESH_TOKEN : ACCESS_TOKEN
    if (sent !== type) {
      throw new errors.InvalidRequest(
        `subject_token_type must be ${type} or ${ID_TOKEN}`,
      )
    }
    if (type === REFRESH_TOKEN)
      return readStored(client, await oidc.provider.RefreshToken.find(value))
    if (value.includes('.')) return readJwt(value, 'at+jwt')
    return readStored(client, await oidc.provider.AccessToken.find(value))
  }
}

/** Returns a token of the store as a subject token. */
async function readStored(
  client: Client,
  token: AccessToken | RefreshToken | undefined,
): Promise<Subject> {
  const isReuse = mapOf(token).consumed !== undefined && !token?.isExpired
  // As a refresh would do (RFC 9700 §4.14.2): a thief may have the token.
  if (isReuse && token?.clientId === client.clientId) await token?.destroy()
  if (!token?.isValid || isReuse) {
    return refuseSubject('is unknown, has expired, or was revoked')
  }
  const { grantId = '', clientId = '', exp = 0, scope, jti } = token
  const { aud, extra } = mapOf(token)
  const records: Name[] = [['AccessToken', jti]]
  return {
    claims: mapOf(extra),
    grantId,
    clientId,
    exp,
    aud,
    scope,
    cnf: token,
    records,
  }
}
