// The FAPI 2.0 Security Profile, for clients whose file has `profile: fapi2`. The rules of the
// configuration refuse files that contradict the profile (config/rules/client.ts).

import { type Client, errors } from 'oidc-provider'
import type { Feature } from '../provider/feature.ts'
import { now } from '../storage/store.ts'

/** FAPI 2.0 Message Signing §5.3.1. */
const MAX_REQUEST_AGE_SECONDS = 3600

const isFapi = (client: Client | undefined) => client?.profile === 'fapi2'

/** Returns the feature FAPI 2.0. */
export function fapi(): Feature {
  return {
    settings: {
      fapi: { enabled: true, profile: (_ctx, client) => (isFapi(client) ? '2.0' : undefined) },
      dPoP: { requireNonce: ({ oidc }) => isFapi(oidc.client) },
    },
    clientMetadata: ['profile'],

    clientDefaults(client) {
      if (client.profile !== 'fapi2') return {}
      const { id_token_signed_response_alg: alg, authorization_signed_response_alg = 'ES256' } =
        client
      return {
        authorization_signed_response_alg,
        require_pushed_authorization_requests: true,
        dpop_bound_access_tokens: !client.tls_client_certificate_bound_access_tokens,
        id_token_signed_response_alg: alg === 'RS256' ? 'ES256' : alg,
        // A token that is bound to a key needs no rotation (FAPI 2.0 §5.3.2.1).
        rotate_refresh_tokens: false,
      }
    },

    checkClientJwt({ oidc }, client, { kind, header, claims }) {
      if (!isFapi(client)) return
      const refuse = (detail: string): never => {
        if (kind === 'assertion') throw new errors.InvalidClientAuth({ detail })
        throw new errors.InvalidRequestObject(`the request object: ${detail}`)
      }
      if (header.alg === 'RS256') refuse('FAPI 2.0 has no RS256')
      if (kind === 'assertion') {
        if (claims.aud !== oidc.issuer) refuse('aud must be the issuer')
      } else if (!(Number(claims.nbf) >= now() - MAX_REQUEST_AGE_SECONDS)) {
        refuse('nbf is needed, and must be at most 60 minutes old')
      }
    },
  }
}
