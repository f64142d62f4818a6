// Signing keys that an operator brings as files: PEM or JWK, readable by nobody else, strong enough.

import { createPrivateKey, type KeyObject } from 'node:crypto'
import { statSync } from 'node:fs'
import { readText } from './text-file.ts'

/** RSA keys shorter than this verify, but must not sign anew (KY1). */
const RSA_BITS = 2048

/** The key as PKCS #8 PEM, or what is wrong with the file; never a word of what is in it. */
export function readImportedKey(file: string): { pem?: string; isRsa?: boolean; problem?: string } {
  const { text, problem } = readText(file)
  if (text === undefined) return { problem: `its file ${problem}` }
  if ((statSync(file).mode & 0o007) !== 0) {
    return { problem: 'its file can be read by everybody: chmod 640' }
  }
  const key = parseKey(text)
  if (!key) return { problem: 'its file is not a private key, as PEM or JWK' }
  const weak = weakness(key)
  if (weak) return { problem: `its key ${weak}` }
  return { pem: String(key.export(PKCS8)), isRsa: key.asymmetricKeyType === 'rsa' }
}

const PKCS8 = { type: 'pkcs8', format: 'pem' } as const

function parseKey(text: string): KeyObject | undefined {
  try {
    if (!text.trimStart().startsWith('{')) return createPrivateKey(text)
    return createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
  } catch {
    return undefined
  }
}

function weakness({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject) {
  if (type === 'ed25519') return undefined
  if (type === 'ec') return details?.namedCurve === 'prime256v1' ? undefined : 'is not on P-256'
  if (type !== 'rsa') return `is of a kind that signs no ID token here (${type})`
  const bits = details?.modulusLength ?? 0
  return bits >= RSA_BITS ? undefined : `has ${bits} bits; RSA needs ${RSA_BITS}, better 3072`
}
