// The FAPI 2.0 Security Profile, for clients whose file has `profile: fapi2`. The rules of the
// configuration refuse files that contradict the profile (config/rules/client.ts); provider/requests.ts checks
// the JWTs of the clients.

import type { Client } from 'oidc-provider'
import type { Feature } from '../provider/feature.ts'

/** Whether the profile is that of the client. */
export const isFapi = (client: Client | undefined) => client?.profile === 'fapi2'

/** Returns the feature FAPI 2.0. */
export function fapi(): Feature {
  return {
    settings: {
      fapi: { enabled: true, profile: (_ctx, client) => (isFapi(client) ? '2.0' : undefined) },
    },

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
  }
}
