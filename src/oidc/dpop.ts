// Access tokens bound to a key of the client, so that a stolen one cannot be
// used (DPoP, RFC 9449).

import {
  type AccessToken,
  errors,
  type TokenEndpointGrantContext,
} from 'oidc-provider'
import {
  checkDpopReplay,
  validateDpop,
} from 'oidc-provider/lib/helpers/grants.js'
import type { Records } from '../store/records.ts'
import { deriveKey } from '../store/seal.ts'
import { isMap, mapOf } from '../store/values.ts'
import { currentRequest } from './adapter/request.ts'
import { decodePart } from './client-jwts.ts'
import type { ProviderSettings } from './dependencies.ts'
import type { LibraryFeatures } from './feature.ts'
import { keyCostProblem } from './keys.ts'

/** Returns the library's setting. */
export function dpop(
  { features }: Pick<ProviderSettings, 'features'>,
  records: Records,
): LibraryFeatures['dPoP'] {
  return {
    enabled: features.dpop,
    // All nodes have the same secret, also during a change of `USHER_SECRET`.
    nonceSecret: deriveKey(records.keyedHash('dpop', 'nonces'), 'dpop-nonces'),
    // The library calls this before it verifies a proof.
    requireNonce(ctx) {
      refuseCostlyProof(ctx.get('DPoP'))
      const { client } = ctx.oidc
      return client?.profile === 'fapi2' || client?.require_dpop_nonce === true
    },
  }
}

/**
 * Throws `InvalidDpopProof` for a proof with a key whose signatures cost too
 * much: anybody can send one.
 */
function refuseCostlyProof(proof: string): void {
  const [header = ''] = proof.split('.')
  const problem = keyCostProblem(mapOf(decodePart(header).jwk))
  if (problem)
    throw new errors.InvalidDpopProof(`the header DPoP: jwk: ${problem}`)
}

/** The key that a token is bound to. */
export type Confirmation = Pick<AccessToken, 'jkt' | 'x5t#S256'>

const isKnownConfirmation = ([name, value]: [string, unknown]) =>
  ['jkt', 'x5t#S256'].includes(name) && typeof value === 'string'

/**
 * Returns the key in `cnf` of a JWT (RFC 7800 §3.1); undefined if the claim
 * names the key in another way. The key would not be proved, and the new token
 * would be a bearer token: the caller refuses the JWT.
 */
export function confirmationIn(cnf: unknown): Confirmation | undefined {
  if (cnf === undefined) return {}
  const members = isMap(cnf) ? Object.entries(cnf) : []
  const isKnown = members.length > 0 && members.every(isKnownConfirmation)
  return isKnown ? Object.fromEntries(members) : undefined
}

/** The problem of a JWT for which `confirmationIn` returns no key. */
export const CNF_PROBLEM =
  'has a cnf that is not understood: jkt and x5t#S256 are'

/**
 * Binds a new token to the key of the request: that of its DPoP proof, or of
 * its certificate (RFC 8705). `bound`: the key of the token that was exchanged
 * for it. Throws if the request does not prove that it has this key.
 */
export async function bindToken(
  ctx: TokenEndpointGrantContext,
  token: AccessToken,
  bound: Confirmation,
): Promise<void> {
  const { provider, client } = ctx.oidc
  const {
    dpopBoundAccessTokens: needsProof,
    tlsClientCertificateBoundAccessTokens: isByCertificate,
  } = client
  const proof = await validateDpop(provider, ctx)
  const certificate =
    (isByCertificate || bound['x5t#S256']) && ctx.state.clientCertificate
  if (certificate) token.setThumbprint('x5t', certificate)
  if (proof) token.setThumbprint('jkt', proof.thumbprint)
  const isSame = (name: keyof Confirmation) =>
    [undefined, token[name]].includes(bound[name])
  const lacksKey =
    (needsProof && !proof) || (isByCertificate && !token['x5t#S256'])
  if (lacksKey || !isSame('jkt') || !isSame('x5t#S256'))
    throw new errors.InvalidRequest(NEEDS_KEY)
  await checkDpopReplay(
    provider,
    ctx,
    proof,
    client.clientId,
    errors.InvalidDpopProof,
  )
}

const NEEDS_KEY =
  'DPoP or a client certificate is required, by the key of subject_token or as the client is registered'

/** Whether this is the id of the proof that the request carries. */
export function isProof(jti: string): boolean {
  const [, claims = ''] = currentRequest()?.get('DPoP').split('.') ?? []
  return decodePart(claims).jti === jti
}
