// Certificates in PEM files that usher.yaml names: of listeners, of Redis, and
// of the authorities of clients.

import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { readText } from '../disk.ts'
import type { ValidFile } from '../files.ts'
import type { Finding, Locate } from '../report/finding.ts'
import messages from '../report/messages.json' with { type: 'json' }
import { fill } from '../report/wording.ts'
import type { UsherFile } from '../schema/usher.ts'

/** Returns the certificates of a PEM text. Throws if one cannot be parsed. */
export const certificatesIn = (text: string) =>
  (
    text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ??
    []
  ).map(pem => new X509Certificate(pem))

/** Returns the PEM text of `client_certificates.ca`; empty without one. */
export function readClientAuthorities(
  { value, at }: ValidFile<UsherFile>,
  findings: Finding[],
): string {
  const { ca } = value.client_certificates
  if (!ca) return ''
  const { text = '', problem = authoritiesProblem(text) } = readText(ca)
  const path = ['client_certificates', 'ca']
  if (problem) findings.push(at(path, 'mtls', `its file ${problem}`))
  else findings.push(...validityFindings(at, path, text))
  return text
}

function authoritiesProblem(text: string): string | undefined {
  try {
    const certificates = certificatesIn(text)
    if (certificates.length && certificates.every(({ ca }) => ca))
      return undefined
  } catch {
    // It has no certificate that can be read.
  }
  return 'contains something else than certificates of authorities (CA:TRUE), PEM'
}

type Files = Record<string, string | undefined>

/**
 * Validates PEM files, each alone and all together. `host`: the name that the
 * certificate must have.
 */
export function certificateFindings(
  at: Locate,
  path: string[],
  tls: Files = {},
  host = '',
): Finding[] {
  const findings = unreadable(at, path, tls)
  if (findings.length) return findings
  const files = Object.entries(tls).map(([name, file]) => [
    name,
    readText(file ?? '').text ?? '',
  ])
  const texts: Record<string, string> = Object.fromEntries(files)
  try {
    createSecureContext(texts)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [
      at(
        path,
        'tls',
        `is not a certificate with its key${secureContextProblem(code)}`,
      ),
    ]
  }
  const { cert = '', ca = '' } = texts
  return [
    ...validityFindings(at, [...path, 'cert'], cert, host),
    ...validityFindings(at, [...path, 'ca'], ca),
  ]
}

/** The codes of OpenSSL for the usual mistakes, in words. */
const CONTEXT_PROBLEMS: Record<string, string> = {
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: ': the key is of another certificate',
  ERR_OSSL_PEM_NO_START_LINE: ': a file has no PEM (-----BEGIN …)',
  ERR_OSSL_PEM_BAD_BASE64_DECODE: ': a file is damaged',
  ERR_OSSL_PEM_BAD_END_LINE: ': a file is cut off',
  ERR_OSSL_BAD_PASSWORD_READ: ': the key has a passphrase, and must have none',
  ERR_MISSING_PASSPHRASE: ': the key has a passphrase, and must have none',
  ERR_OSSL_EE_KEY_TOO_SMALL: ': its key is too short',
  ERR_OSSL_EE_MD_TOO_WEAK: ': its signature is too weak',
}
const secureContextProblem = (code = '') =>
  CONTEXT_PROBLEMS[code] ?? ` (${code})`

/** A certificate that expires within this time gets a warning. */
const EXPIRY_NOTICE_MS = 14 * 24 * 3600 * 1000

/**
 * Returns why the first certificate of a PEM text is not valid, or soon will
 * not be: a rule and its message.
 */
export function validityProblem(
  pem: string,
): [rule: string, message: string] | undefined {
  const [certificate] = certificatesIn(pem)
  if (!certificate) return undefined
  const { validFromDate, validToDate } = certificate
  const left = validToDate.getTime() - Date.now()
  const of = (
    rule: keyof typeof messages.warnings,
    date: Date,
  ): [string, string] => {
    const day = date.toISOString().slice(0, 10)
    return [rule, fill(messages.warnings[rule], { date: day })]
  }
  if (left <= 0) return of('certificate-expired', validToDate)
  if (left <= EXPIRY_NOTICE_MS) return of('certificate-expiring', validToDate)
  if (validFromDate.getTime() > Date.now())
    return of('certificate-early', validFromDate)
  return undefined
}

/** Returns the warnings about a certificate: its dates, and its names. */
function validityFindings(
  at: Locate,
  path: string[],
  pem: string,
  host = '',
): Finding[] {
  const problem = validityProblem(pem)
  if (problem) return [at(path, ...problem)]
  const [certificate] = certificatesIn(pem)
  if (!host || !certificate) return []
  const isNamed = isIP(host)
    ? certificate.checkIP(host)
    : certificate.checkHost(host)
  const message = fill(messages.warnings['certificate-name'], { name: host })
  return isNamed ? [] : [at(path, 'certificate-name', message)]
}

/**
 * Returns a finding for each file that cannot be read. The message does not
 * repeat the path: it may be the secret itself, in the wrong place.
 */
export function unreadable(
  at: Locate,
  above: string[],
  files: Files,
): Finding[] {
  return Object.entries(files).flatMap(([key, file]) => {
    const { problem } = file ? readText(file) : {}
    return problem ? [at([...above, key], 'file', `its file ${problem}`)] : []
  })
}
