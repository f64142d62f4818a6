// JWTs of clients: the checks of request objects (RFC 9101) and client
// assertions (RFC 7523) that the library leaves to its deployer.

import { errors, type KoaContextWithOIDC } from 'oidc-provider'
import { fapiAssertionProblem, fapiRequestObjectProblem } from './fapi.ts'
import type { JwtClaims, Parts } from './feature.ts'
import { assertionProblem, headerProblem, timeProblem } from './jwt-rules.ts'

/**
 * Checks the claims and the header of a JWT of a client. Throws to refuse it.
 */
type JwtAssertion = (
  ctx: KoaContextWithOIDC,
  claims: JwtClaims,
  header: JwtClaims,
) => void

/**
 * Returns the check of request objects (RFC 9101) that the library leaves to
 * us.
 */
export const assertRequestObject =
  (ciba: Parts['ciba']): JwtAssertion =>
  (ctx, claims, header) => {
    const { oidc, state } = ctx
    state.requestObject = claims
    // The library wraps a pushed request in a JWT of its own; its contents were
    // checked when it was pushed.
    if (oidc.entities.PushedAuthorizationRequest) return
    // The library makes text of all other parameters.
    const isText = [claims.resource ?? '']
      .flat()
      .every(one => typeof one === 'string')
    const problem = [
      isText ? undefined : 'resource must be text',
      claims.sub === oidc.client?.clientId &&
        'sub must not be the client (RFC 9101 §10.8)',
      headerProblem(header, 'oauth-authz-req+jwt'),
      timeProblem(claims),
      fapiRequestObjectProblem(oidc, claims, header.alg),
      ciba?.requestObjectProblem(oidc, claims),
    ].find(Boolean)
    if (problem)
      throw new errors.InvalidRequestObject(`the request object: ${problem}`)
  }

/** The check of client assertions (RFC 7523) that the library leaves to us. */
export const assertAssertion: JwtAssertion = ({ oidc }, claims, header) => {
  const detail =
    assertionProblem(oidc) ?? fapiAssertionProblem(oidc, claims, header.alg)
  if (detail) throw new errors.InvalidClientAuth({ detail })
}
