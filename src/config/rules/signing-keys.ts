// The signing keys of the operator: `keys.import`.

import { createPrivateKey, type KeyObject } from 'node:crypto'
import { statSync } from 'node:fs'
import { readText } from '../disk.ts'
import type { ValidFile } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import type { UsherFile } from '../schema/usher.ts'

/** Shorter RSA keys can verify, but must not sign. */
const MIN_RSA_BITS = 2048

const NO_RSA =
  'no key is RSA, and clients use RS256 by default: add one (OIDC Core §15.1)'

/** Returns the keys of `keys.import` as PKCS #8 PEM. */
export function importKeys(
  usher: ValidFile<UsherFile>,
  findings: Finding[],
): string[] {
  const pems: string[] = []
  const keys = (usher.value.keys.import ?? []).map(readPrivateKey)
  for (const [i, { pem = '', problem }] of keys.entries()) {
    const wrong = pems.includes(pem)
      ? 'its key is that of a file before it'
      : problem
    if (wrong)
      findings.push(usher.at(['keys', 'import', i], 'signing-key', wrong))
    else pems.push(pem)
  }
  const hasNoRsa = keys.every(({ pem, isRsa }) => pem && !isRsa)
  if (keys.length && hasNoRsa)
    findings.push(usher.at(['keys', 'import'], 'signing-key', NO_RSA))
  return pems
}

/**
 * Returns the private key in a file as PKCS #8 PEM, or what is wrong with it,
 * without any part of the key.
 */
export function readPrivateKey(file: string): {
  pem?: string
  isRsa?: boolean
  problem?: string
} {
  const { text, problem } = readText(file)
  if (text === undefined) return { problem: `its file ${problem}` }
  if ((statSync(file).mode & 0o007) !== 0) {
    return { problem: 'every user can read its file: chmod 640' }
  }
  try {
    const isJwk = text.trimStart().startsWith('{')
    const key = createPrivateKey(
      isJwk ? { key: JSON.parse(text), format: 'jwk' } : text,
    )
    const weakness = weaknessOf(key)
    if (weakness) return { problem: `its key ${weakness}` }
    const pem = String(key.export({ type: 'pkcs8', format: 'pem' }))
    return { pem, isRsa: key.asymmetricKeyType === 'rsa' }
  } catch {
    return { problem: 'its file is not a private key, as PEM or JWK' }
  }
}

/** Says why a key must not sign; undefined if it may. */
export function weaknessOf({
  asymmetricKeyType: type,
  asymmetricKeyDetails: details,
}: KeyObject) {
  if (type === 'ed25519') return undefined
  if (type === 'ec')
    return details?.namedCurve === 'prime256v1' ? undefined : 'is not on P-256'
  if (type !== 'rsa') return `has a type that cannot sign ID tokens (${type})`
  const bits = details?.modulusLength ?? 0
  return bits >= MIN_RSA_BITS
    ? undefined
    : `has ${bits} bits; RSA needs ${MIN_RSA_BITS}`
}
