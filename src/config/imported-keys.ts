// Signing keys that an operator brings as files: PEM or JWK, readable by nobody else, strong enough.

import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'

/** RSA keys shorter than this verify, but must not sign anew (KY1). */
const RSA_BITS = 2048

/** The key as PKCS #8 PEM, or what is wrong with the file; never a word of what is in it. */
export function readImportedKey(file: string): { pem: string } | { problem: string } {
  const text = readKeyFile(file)
  if (text === undefined) return { problem: `${file} cannot be read` }
  if ((statSync(file).mode & 0o007) !== 0) {
    return { problem: `${file} can be read by everybody: chmod 640 ${file}` }
  }
  const key = parseKey(text)
  if (!key) return { problem: `${file} is not a private key, as PEM or JWK` }
  const problem = weakness(key)
  return problem ? { problem: `${file} ${problem}` } : { pem: String(key.export(PKCS8)) }
}

const PKCS8 = { type: 'pkcs8', format: 'pem' } as const

function readKeyFile(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

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
