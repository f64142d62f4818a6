// The FAPI 2.0 Security Profile: what it demands of the metadata and the JWTs
// of a client with `profile: fapi2`. config/rules/client.ts refuses files that
// contradict it.

import type { ClientMetadata, Oidc } from './dependencies.ts'
import type { JwtClaims, LibraryFeatures } from './feature.ts'
import { nbfProblem } from './jwt-rules.ts'

/** The library's setting. */
export const fapi: LibraryFeatures['fapi'] = {
  enabled: true,
  profile: (_ctx, client) => (client?.profile === 'fapi2' ? '2.0' : undefined),
}

/** Returns the metadata that the profile adds to a client, or changes in it. */
export function fapiMetadata(client: ClientMetadata): Record<string, unknown> {
  if (client.profile !== 'fapi2') return {}
  const alg = client.id_token_signed_response_alg
  return {
    authorization_signed_response_alg:
      client.authorization_signed_response_alg ?? 'ES256',
    require_pushed_authorization_requests: true,
    dpop_bound_access_tokens:
      !client.tls_client_certificate_bound_access_tokens,
    id_token_signed_response_alg: alg === 'RS256' ? 'ES256' : alg,
    // A token that is bound to a key needs no rotation (§5.3.2.1).
    rotate_refresh_tokens: false,
  }
}

/**
 * Says what the profile has against a client assertion (§5.3.2.1); undefined if
 * nothing.
 */
export function fapiAssertionProblem(
  oidc: Oidc,
  { aud }: JwtClaims,
  alg: unknown,
) {
  if (!oidc.isFapi('2.0')) return undefined
  return aud === oidc.issuer ? algProblem(alg) : 'aud must be the issuer'
}

/**
 * Says what the profile has against a request object (FAPI 2.0 Message Signing
 * §5.3.1); undefined if nothing.
 */
export function fapiRequestObjectProblem(
  oidc: Oidc,
  claims: JwtClaims,
  alg: unknown,
) {
  if (!oidc.isFapi('2.0')) return undefined
  return nbfProblem(claims) ?? algProblem(alg)
}

const algProblem = (alg: unknown) =>
  alg === 'RS256' ? 'FAPI 2.0 has no RS256' : undefined
