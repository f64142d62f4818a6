// Tokens that are of no use to whoever stole them: bound to a key of the client (DPoP, RFC 9449).

import { decodeJwt } from 'jose'
import { Provider } from 'oidc-provider'
import type { Records } from '../storage/records.ts'
import { deriveKey } from '../storage/seal.ts'

/** Seconds by which the library takes a proof of a clock that is ahead, and does not remember it for. */
export const EARLY_PROOF = 300

/** The same on every node, also while `USHER_SECRET` is being changed. */
export const nonceSecret = (records: Records) =>
  deriveKey(records.prove('dpop', 'nonces'), 'dpop-nonces')

/**
 * Whether this is the id of the proof that the request carries. A client whose proof comes twice asks
 * again with another; by the library's `invalid_grant` or `invalid_token` it would lose its tokens.
 */
export function isProof(jti: string): boolean {
  try {
    return decodeJwt(Provider.ctx?.get('DPoP') ?? '').jti === jti
  } catch {
    return false
  }
}
