// The keys that sign ID tokens. Made once for each store, kept in it sealed, the same on every node.

import { generateKeyPair, type JsonWebKey, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint } from 'jose'
import type { Records } from '../store/records.ts'

export type SigningKey = JsonWebKey & { kid: string; alg: string; use: 'sig' }

const generate = promisify(generateKeyPair)

/** RS256 first: it is what every client library expects without being told (OIDC Core §3.1.3.7). */
const MAKERS: Record<string, () => Promise<JsonWebKey>> = {
  RS256: async () => exportKey(await generate('rsa', { modulusLength: 3072 })),
  ES256: async () => exportKey(await generate('ec', { namedCurve: 'P-256' })),
  EdDSA: async () => exportKey(await generate('ed25519')),
}

/** The private keys, those of the first node that asked. */
export async function loadSigningKeys(records: Records): Promise<SigningKey[]> {
  const found = await records.read<{ keys: SigningKey[] }>('SigningKeys', 'current')
  if (found.value) return found.value.keys
  const keys = await makeKeys()
  if (await records.save('SigningKeys', 'current', { keys }, { version: found.version }))
    return keys
  return loadSigningKeys(records)
}

async function makeKeys(): Promise<SigningKey[]> {
  return Promise.all(
    Object.entries(MAKERS).map(async ([alg, make]) => {
      const jwk = await make()
      return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg, use: 'sig' as const }
    }),
  )
}

function exportKey({ privateKey }: { privateKey: KeyObject }): JsonWebKey {
  return privateKey.export({ format: 'jwk' })
}
