// Keys and certificates that usher.yaml names: files of PEM or JWK.

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import type { FileResult } from '../files.ts'
import type { Finding } from '../report/finding.ts'
import { readText } from '../report/yaml.ts'
import type { UsherFile } from '../schema/usher.ts'

/** RSA keys shorter than this verify, but must not sign anew. */
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
  return bits >= RSA_BITS ? undefined : `has ${bits} bits; RSA needs ${RSA_BITS}`
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws for what is none. */
export const certificatesIn = (text: string) =>
  (text.match(PEM) ?? []).map(pem => new X509Certificate(pem))

/** The text of their file: empty where there is none, absent where it is wrong. What else client certificates need is judged too. */
export function readClientAuthorities(
  { parts, at }: FileResult<UsherFile>,
  findings: Finding[],
): string | undefined {
  const { client_certificates: given, features, proxy, listen } = parts
  if (given?.header && proxy && !proxy.length) {
    const message = 'is believed from a `proxy` alone, and none is named'
    findings.push(at(['client_certificates', 'header'], 'mtls', message))
  }
  if (features?.mtls && given && listen && !given.header && !listen.tls) {
    const message =
      'no certificate can arrive: with a proxy name client_certificates.header, without one listen.tls'
    findings.push(at(['features', 'mtls'], 'mtls', message))
  }
  const misplaced = originProblem(parts)
  if (misplaced) findings.push(at(['client_certificates', 'origin'], 'mtls', misplaced))
  if (!given?.ca) return ''
  const { text = '', problem } = readText(given.ca)
  const wrong = problem ? `its file ${problem}` : problemOf(text)
  if (!wrong) return text
  findings.push(at(['client_certificates', 'ca'], 'mtls', wrong))
  return undefined
}

export const portOf = ({ port }: URL) => Number(port || 443)

function originProblem({ client_certificates, issuer, listen }: Partial<UsherFile>) {
  const { origin } = client_certificates ?? {}
  if (!origin || !issuer) return undefined
  const [other, ours] = [new URL(origin), new URL(issuer)]
  if (other.origin !== origin || other.protocol !== ours.protocol) {
    return `must be an origin, as issuer is: ${ours.protocol}//${other.host}`
  }
  if (origin === issuer) return 'is what `issuer` is: name another, or none'
  const isTaken = listen?.tls && portOf(other) === listen.port
  return isTaken
    ? 'needs another port than `listen.port`, which asks for no certificates'
    : undefined
}

function problemOf(text: string): string | undefined {
  try {
    const certificates = certificatesIn(text)
    if (certificates.length && certificates.every(({ ca }) => ca)) return undefined
  } catch {}
  return 'its file has something else in it than certificates of authorities (CA:TRUE), PEM'
}
