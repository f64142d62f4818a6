// Clients whose instances show an attestation of the client's backend, in place
// of a secret that each copy of an application would have (OAuth 2.0
// Attestation-Based Client Authentication, a draft). `jwks` in the file of a
// client has the keys of its backend. The library checks the attestation, and
// the proof of the instance's key.

import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import type { Records } from '../store/records.ts'
import { deriveKey } from '../store/seal.ts'
import { mapOf } from '../store/values.ts'
import type { ProviderSettings } from './dependencies.ts'
import type { LibraryFeatures } from './feature.ts'
import { KeyProblem, keyCostProblem } from './keys.ts'

/** Returns the library's setting. */
export function clientAttestation(
  { features }: Pick<ProviderSettings, 'features'>,
  records: Records,
): LibraryFeatures['attestClientAuth'] {
  return {
    enabled: features.client_attestation,
    ack: 'draft-12',
    // All nodes have the same secret, also during a change of `USHER_SECRET`.
    challengeSecret: deriveKey(
      records.keyedHash('attestation', 'challenges'),
      'challenges',
    ),
    getAttestationSignaturePublicKey(_ctx, { alg, kid }, { cnf }, { jwks }) {
      // The library verifies the proof of the instance with this key: a user of
      // the application has made it.
      const problem = keyCostProblem(mapOf(mapOf(cnf).jwk))
      if (problem)
        throw new KeyProblem(`cnf.jwk of the attestation: ${problem}`)
      return createLocalJWKSet(jwks as JSONWebKeySet)({
        alg: String(alg),
        kid: kid as string,
      })
    },
  }
}
