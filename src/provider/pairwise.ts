// Pairwise subjects (OIDC Core §8): what an application calls a person is known in its sector alone, so
// that two of them cannot find out that they know the same one.

import type { Client, KoaContextWithOIDC } from 'oidc-provider'
import type { Records } from '../storage/records.ts'

// Keyed with what the store has made for itself and keeps sealed: `USHER_SECRET` changes, and the
// subjects must not.
export function pairwiseSubjects(records: Records) {
  return (_ctx: KoaContextWithOIDC | undefined, accountId: string, client: Client): string => {
    const proof = records.prove('pairwise subject', `${client.sectorIdentifier} ${accountId}`)
    return `usr_${BigInt(`0x${proof.toString('hex')}`)
      .toString(36)
      .padStart(26, '0')}`
  }
}
