// Access tokens bound to a key of the client, so that a stolen one cannot be used (DPoP, RFC 9449).

import { decodeJwt } from 'jose'
import { errors } from 'oidc-provider'
import type { Environment, Feature } from '../provider/feature.ts'
import { currentRequest } from '../state/request.ts'
import { deriveKey } from '../storage/seal.ts'

/** Returns the feature DPoP. */
export function dpop({ settings: { features }, records }: Environment): Feature {
  return {
    settings: {
      dPoP: {
        enabled: features.dpop,
        // All nodes have the same secret, also during a change of `USHER_SECRET`.
        nonceSecret: deriveKey(records.keyedHash('dpop', 'nonces'), 'dpop-nonces'),
        requireNonce: ({ oidc: { client } }) =>
          client?.profile === 'fapi2' || client?.require_dpop_nonce === true,
      },
    },
    // The client repeats the request with another proof. The library's `invalid_grant` or
    // `invalid_token` would make it drop its tokens.
    replayError: jti =>
      isProof(jti) ? new errors.InvalidDpopProof('the proof was used before') : undefined,
  }
}

/** Whether this is the id of the proof that the request carries. */
function isProof(jti: string): boolean {
  try {
    return decodeJwt(currentRequest()?.get('DPoP') ?? '').jti === jti
  } catch {
    return false
  }
}
