// Rules about usher.yaml that look at several keys, the environment, and the files that it names.

import { createPrivateKey, hash, type KeyObject, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { PASSWORD } from '../../oidc/vocabulary.ts'
import { RANDOM } from '../environment.ts'
import type { FileResult, ValidFile } from '../files.ts'
import { type Finding, type Locate, wrongVariable } from '../report/finding.ts'
import messages from '../report/messages.json' with { type: 'json' }
import { fill, findingsOf } from '../report/wording.ts'
import { readBytes, readText } from '../report/yaml.ts'
import type { UsherFile } from '../schema/usher.ts'

type Usher = ValidFile<UsherFile>

/** Every node has to have a new key, and then every copy of the JWKS, before the key signs. */
const MIN_ANNOUNCE_SECONDS = 60
/** Shorter RSA keys can verify, but must not sign. */
const MIN_RSA_BITS = 2048
const MAX_ACCESS_TOKEN_SECONDS = 3600
/** Redis with TLS, on this machine, or by a name without a dot, which is one of a container network. */
const SAFE_REDIS = /^rediss:|^redis\+unix:|(\/\/|@)(127\.|\[::1\]|[^.:/@]+(:\d+)?(\/|$))/

const NO_RSA = 'no key is RSA, and clients use RS256 by default: add one (OIDC Core §15.1)'

const NO_SECRET = `is required, or a file that contains it in USHER_SECRET_FILE: only a loopback http issuer with SQLite gets a generated one. It ${RANDOM}`

/** Features that need another one. */
const NEEDS = [
  ['jwt_introspection', 'introspection'],
  ['rich_authorization_requests', 'resource_indicators'],
  ['rich_authorization_requests', 'pushed_authorization_requests'],
] as const

/**
 * Returns the findings about usher.yaml and the environment, with the warnings. `hasSecret`: the environment has a
 * USHER_SECRET, right or wrong.
 */
export function usherFindings(usher: Usher, hasSecret: boolean, development: boolean): Finding[] {
  const { at, value } = usher
  const { store, workers, redis, keys, features, proxy, listen, mail, accounts, sign_up } = value
  const { client_certificates: mtls, lifetimes } = value
  const { methods, second_factor, second_factor_required_for: named } = value.sign_in
  const { self_service, module } = accounts
  const { password_file, sentinel_password_file } = redis
  const isPlain = value.issuer?.startsWith('http:') && !development
  const isLocal = store.startsWith('sqlite:')
  const inMemory = store === 'sqlite::memory:'
  const isSecretNeeded = !hasSecret && !(development && isLocal)
  const isExposed = !development && !isLocal && !redis.tls && !SAFE_REDIS.test(store)
  const { announce, rotate_every } = keys
  const isEarly = announce >= rotate_every || announce < MIN_ANNOUNCE_SECONDS
  const [issuer, origin] = [value.issuer, mtls.origin].map(text => URL.parse(text ?? ''))
  const isWrongOrigin =
    issuer &&
    origin &&
    (origin.protocol !== issuer.protocol ||
      origin.host === issuer.host ||
      (listen.tls && portOf(origin) === listen.port))
  const unmet = NEEDS.filter(([feature, needed]) => features[feature] && !features[needed])
  const set = features.dynamic_registration
  const isClearMail = mail?.smtp.tls === 'none' && !/^(localhost|127\.|\[?::1)/.test(mail.smtp.host)
  const everyone = proxy.findIndex(range => /\/[0-7]$/.test(range))
  return [
    ...(isSecretNeeded ? [wrongVariable('USHER_SECRET', 'secret', NO_SECRET)] : []),
    ...(isLocal ? [] : unreadable(at, ['redis'], { password_file, sentinel_password_file })),
    ...unreadable(at, ['mail', 'smtp'], { password_file: mail?.smtp.password_file }),
    ...(isLocal ? [] : certificateFindings(at, ['redis', 'tls'], redis.tls)),
    ...(development
      ? []
      : certificateFindings(at, ['listen', 'tls'], listen.tls, issuer?.hostname)),
    ...findingsOf(usher, [
      [isPlain, 'issuer', 'issuer'],
      [redis.tls && store.startsWith('redis+unix:'), 'redis-socket', 'redis.tls'],
      [redis.database && store.startsWith('redis+cluster:'), 'redis-database', 'redis.database'],
      [!isLocal && redis.durability === 'primary', 'durability-primary', 'redis.durability'],
      [isExposed, 'redis-plaintext', 'store'],
      [!development && inMemory, 'memory-store', 'store'],
      [workers > 1 && inMemory, 'memory-workers', 'workers'],
      [listen.tls && development, 'tls', 'listen.tls'],
      [everyone >= 0, 'proxy-everyone', `proxy.${everyone}`],
      [!development && !proxy.length && !listen.tls, 'no-tls', 'proxy'],
      [isEarly, 'key-times', 'keys.announce'],
      [mtls.header && !proxy.length, 'certificate-header', 'client_certificates.header'],
      [features.mtls && !mtls.header && !listen.tls, 'certificate-source', 'features.mtls'],
      [isWrongOrigin, 'mtls', 'client_certificates.origin'],
      [isLong(lifetimes.access_token), 'access-token-lifetime', 'lifetimes.access_token'],
      [set && set.mode === 'open', 'registration-open', 'features.dynamic_registration'],
      [sign_up && !mail, 'mail-missing', 'sign_up'],
      [sign_up && methods?.includes(PASSWORD) === false, 'sign-up-method', 'sign_in.methods'],
      [self_service.includes('email') && !mail, 'mail-missing', 'accounts.self_service'],
      [isClearMail, 'mail-plaintext', 'mail.smtp.tls'],
      [module && (sign_up || self_service.length), 'own-accounts', 'accounts.module'],
      [second_factor === 'off' && named, 'second-factor-off', 'sign_in.second_factor_required_for'],
    ]),
    ...unmet.map(([feature, needed]) =>
      at(['features', feature], 'feature-off', `needs \`features.${needed}\`, which is off`),
    ),
  ]
}

/** Whether this is too long for an access token, in seconds. */
export const isLong = (lifetime = 0) => lifetime > MAX_ACCESS_TOKEN_SECONDS

/** Returns the keys of `keys.import` as PKCS #8 PEM. */
export function importKeys(usher: Usher, findings: Finding[]): string[] {
  const pems: string[] = []
  const keys = (usher.value.keys.import ?? []).map(readPrivateKey)
  for (const [i, { pem = '', problem }] of keys.entries()) {
    const wrong = pems.includes(pem) ? 'its key is that of a file before it' : problem
    if (wrong) findings.push(usher.at(['keys', 'import', i], 'signing-key', wrong))
    else pems.push(pem)
  }
  const hasNoRsa = keys.every(({ pem, isRsa }) => pem && !isRsa)
  if (keys.length && hasNoRsa) findings.push(usher.at(['keys', 'import'], 'signing-key', NO_RSA))
  return pems
}

/** Returns the private key in a file as PKCS #8 PEM, or what is wrong with it, without any part of the key. */
export function readPrivateKey(file: string): { pem?: string; isRsa?: boolean; problem?: string } {
  const { text, problem } = readText(file)
  if (text === undefined) return { problem: `its file ${problem}` }
  if ((statSync(file).mode & 0o007) !== 0) {
    return { problem: 'every user can read its file: chmod 640' }
  }
  try {
    const isJwk = text.trimStart().startsWith('{')
    const key = createPrivateKey(isJwk ? { key: JSON.parse(text), format: 'jwk' } : text)
    const weakness = weaknessOf(key)
    if (weakness) return { problem: `its key ${weakness}` }
    const pem = String(key.export({ type: 'pkcs8', format: 'pem' }))
    return { pem, isRsa: key.asymmetricKeyType === 'rsa' }
  } catch {
    return { problem: 'its file is not a private key, as PEM or JWK' }
  }
}

/** Says why a key must not sign; undefined if it may. */
export function weaknessOf({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject) {
  if (type === 'ed25519') return undefined
  if (type === 'ec') return details?.namedCurve === 'prime256v1' ? undefined : 'is not on P-256'
  if (type !== 'rsa') return `has a type that cannot sign ID tokens (${type})`
  const bits = details?.modulusLength ?? 0
  return bits >= MIN_RSA_BITS ? undefined : `has ${bits} bits; RSA needs ${MIN_RSA_BITS}`
}

/** Returns the certificates of a PEM text. Throws if one cannot be parsed. */
export const certificatesIn = (text: string) =>
  (text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
    pem => new X509Certificate(pem),
  )

/** Returns the PEM text of `client_certificates.ca`; empty without one. */
export function readClientAuthorities({ value, at }: Usher, findings: Finding[]): string {
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
    if (certificates.length && certificates.every(({ ca }) => ca)) return undefined
  } catch {
    // It has no certificate that can be read.
  }
  return 'contains something else than certificates of authorities (CA:TRUE), PEM'
}

/** Returns the port of a URL, 443 by default. */
export const portOf = ({ port }: URL) => Number(port || 443)

/** Returns the absolute path of the module under a key, and a digest that changes when the file does. */
export function readModule(
  { value, at }: FileResult<UsherFile>,
  key: 'accounts' | 'keys',
  folder: string,
  findings: Finding[],
) {
  const named = value?.[key].module
  if (!named) return {}
  const module = resolve(folder, named)
  const { bytes = '', problem } = readBytes(module)
  if (problem) findings.push(at([key, 'module'], 'file', `its file ${problem}`))
  return { module, digest: hash('sha256', bytes, 'base64url') }
}

type Files = Record<string, string | undefined>

/** Validates PEM files, each alone and all together. `host`: the name that the certificate must have. */
function certificateFindings(at: Locate, path: string[], tls: Files = {}, host = ''): Finding[] {
  const findings = unreadable(at, path, tls)
  if (findings.length) return findings
  const files = Object.entries(tls).map(([name, file]) => [name, readText(file ?? '').text ?? ''])
  const texts: Record<string, string> = Object.fromEntries(files)
  try {
    createSecureContext(texts)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [at(path, 'tls', `is not a certificate with its key${secureContextProblem(code)}`)]
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
const secureContextProblem = (code = '') => CONTEXT_PROBLEMS[code] ?? ` (${code})`

/** A certificate that expires within this time gets a warning. */
const EXPIRY_NOTICE_MS = 14 * 24 * 3600 * 1000

/** Returns why the first certificate of a PEM text is not valid, or soon will not be: a rule and its message. */
export function validityProblem(pem: string): [rule: string, message: string] | undefined {
  const [certificate] = certificatesIn(pem)
  if (!certificate) return undefined
  const { validFromDate, validToDate } = certificate
  const left = validToDate.getTime() - Date.now()
  const of = (rule: keyof typeof messages.warnings, date: Date): [string, string] => {
    const day = date.toISOString().slice(0, 10)
    return [rule, fill(messages.warnings[rule], { date: day })]
  }
  if (left <= 0) return of('certificate-expired', validToDate)
  if (left <= EXPIRY_NOTICE_MS) return of('certificate-expiring', validToDate)
  if (validFromDate.getTime() > Date.now()) return of('certificate-early', validFromDate)
  return undefined
}

/** Returns the warnings about a certificate: its dates, and its names. */
function validityFindings(at: Locate, path: string[], pem: string, host = ''): Finding[] {
  const problem = validityProblem(pem)
  if (problem) return [at(path, ...problem)]
  const [certificate] = certificatesIn(pem)
  if (!host || !certificate) return []
  const isNamed = isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host)
  const message = fill(messages.warnings['certificate-name'], { name: host })
  return isNamed ? [] : [at(path, 'certificate-name', message)]
}

/** The message does not repeat the path: it may be the secret itself, in the wrong place. */
function unreadable(at: Locate, above: string[], files: Files): Finding[] {
  return Object.entries(files).flatMap(([key, file]) => {
    const { problem } = file ? readText(file) : {}
    return problem ? [at([...above, key], 'file', `its file ${problem}`)] : []
  })
}
