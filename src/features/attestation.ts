// Clients whose instances show an attestation of the client's backend, in place of a secret that each copy of an
// application would have (OAuth 2.0 Attestation-Based Client Authentication, a draft). `jwks` in the file of a client
// has the keys of its backend. The library checks the attestation, and the proof of the instance's key.

import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import type { Environment, Feature } from '../provider/feature.ts'
import { deriveKey } from '../storage/seal.ts'

/** Returns the feature attestation-based client authentication. */
export const clientAttestation = ({ settings: { features }, records }: Environment): Feature => ({
  settings: {
    attestClientAuth: {
      enabled: features.client_attestation,
      ack: 'draft-12',
      // All nodes have the same secret, also during a change of `USHER_SECRET`.
      challengeSecret: deriveKey(records.keyedHash('attestation', 'challenges'), 'challenges'),
      getAttestationSignaturePublicKey: (_ctx, { alg, kid }, _payload, { jwks }) =>
        createLocalJWKSet(jwks as JSONWebKeySet)({ alg: String(alg), kid: kid as string }),
    },
  },
})
