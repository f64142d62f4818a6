// The FAPI 2.0 Security Profile: what it demands of the metadata and the JWTs of a client.

import type { Feature } from './feature.ts'
import { nbfProblem } from './requests.ts'

/** The profile, for clients with `profile: fapi2`. config/rules/client.ts refuses files that contradict it. */
export const fapi: Feature = {
  settings: {
    fapi: {
      enabled: true,
      profile: (_ctx, client) => (client?.profile === 'fapi2' ? '2.0' : undefined),
    },
  },

  clientMetadata(client) {
    if (client.profile !== 'fapi2') return {}
    const { id_token_signed_response_alg: alg, authorization_signed_response_alg = 'ES256' } =
      client
    return {
      authorization_signed_response_alg,
      require_pushed_authorization_requests: true,
      dpop_bound_access_tokens: !client.tls_client_certificate_bound_access_tokens,
      id_token_signed_response_alg: alg === 'RS256' ? 'ES256' : alg,
      // A token that is bound to a key needs no rotation (§5.3.2.1).
      rotate_refresh_tokens: false,
    }
  },

  assertionProblem(oidc, { aud }, alg) {
    if (!oidc.isFapi('2.0')) return undefined
    return aud === oidc.issuer ? algProblem(alg) : 'aud must be the issuer'
  },

  requestObjectProblem: (oidc, claims, alg) =>
    oidc.isFapi('2.0') ? (nbfProblem(claims) ?? algProblem(alg)) : undefined,
}

const algProblem = (alg: unknown) => (alg === 'RS256' ? 'FAPI 2.0 has no RS256' : undefined)
