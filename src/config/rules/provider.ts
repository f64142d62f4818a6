// Rules about usher.yaml that look at several keys, the environment, and the files that it names.

import { createHash, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { RANDOM } from '../environment.ts'
import type { ValidFile } from '../files.ts'
import { checkerOf, type Finding, type Locate, wrongVariable } from '../report/finding.ts'
import { readBytes, readText } from '../report/yaml.ts'
import { isLoopbackHost } from '../schema/client.ts'
import type { UsherFile } from '../schema/usher.ts'

type Usher = ValidFile<UsherFile>

/** Every node has to have a new key, and then every copy of the JWKS, before the key signs. */
const MIN_ANNOUNCE_SECONDS = 60
/** Shorter RSA keys can verify, but must not sign. */
const MIN_RSA_BITS = 2048

const MESSAGES = {
  tls: 'is for an https issuer',
  'memory-store': 'the memory store loses everything at a restart: only for a loopback http issuer',
  'memory-workers': 'need a store that they share: each process would have its own memory store',
  'redis-socket': 'is for the network, and the store is a socket of this machine',
  'redis-database': 'a Redis Cluster has the database 0 only',
  'key-times': 'must be shorter than keys.rotate_every, and at least 1 min',
  'signing-key':
    'no key is RSA, and clients use RS256 unless their file names another algorithm: add one (OIDC Core §15.1)',
  'certificate-header': 'is accepted from a `proxy` only, and no proxy is named',
  'certificate-source':
    'no certificate can arrive: set client_certificates.header for a proxy, or listen.tls',
}

/** Returns whether an issuer is http on loopback, and what is wrong with it. */
export function checkIssuer(issuer: string): { development: boolean; problem?: string } {
  const url = URL.parse(issuer)
  const development = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (!url || url.origin !== issuer) {
    const written = url?.origin ?? 'https://id.example.org'
    const problem = `must be an origin, without path, query or trailing slash: ${written}`
    return { development, problem }
  }
  if (url.protocol === 'http:' && !development) {
    return { development, problem: 'must be https; http is only for loopback addresses' }
  }
  return { development }
}

/** Returns what prevents a start. `hasSecret`: the environment has a USHER_SECRET, right or wrong. */
export function startFindings(usher: Usher, hasSecret: boolean, development: boolean): Finding[] {
  const { at, value } = usher
  const { store, workers, redis, keys, features, client_certificates: mtls, proxy, listen } = value
  const check = checkerOf(usher, MESSAGES)
  const isLocal = store.startsWith('sqlite:')
  const inMemory = store === 'sqlite::memory:'
  const isSecretNeeded = !hasSecret && !(development && isLocal)
  const reason = development
    ? 'Redis needs one: every node has to have the same'
    : `is required: only a loopback http issuer gets a generated one. It ${RANDOM}`
  const { password_file, sentinel_password_file } = redis
  const { announce, rotate_every } = keys
  return [
    ...(isSecretNeeded ? [wrongVariable('USHER_SECRET', 'secret', reason)] : []),
    ...(isLocal ? [] : unreadable(at, ['redis'], { password_file, sentinel_password_file })),
    ...(isLocal ? [] : certificateFindings(at, ['redis', 'tls'], redis.tls)),
    ...check(redis.tls && store.startsWith('redis+unix:'), 'redis-socket', 'redis', 'tls'),
    ...check(
      redis.database && store.startsWith('redis+cluster:'),
      'redis-database',
      'redis',
      'database',
    ),
    ...check(listen.tls && development, 'tls', 'listen', 'tls'),
    ...(development ? [] : certificateFindings(at, ['listen', 'tls'], listen.tls)),
    ...check(!development && inMemory, 'memory-store', 'store'),
    ...check(workers > 1 && inMemory, 'memory-workers', 'workers'),
    ...featureFindings(usher),
    ...check(
      announce >= rotate_every || announce < MIN_ANNOUNCE_SECONDS,
      'key-times',
      'keys',
      'announce',
    ),
    ...check(mtls.header && !proxy.length, 'certificate-header', 'client_certificates', 'header'),
    ...check(
      features.mtls && !mtls.header && !listen.tls,
      'certificate-source',
      'features',
      'mtls',
    ),
    ...originFindings(usher),
  ]
}

/** Features that need another one. */
const NEEDS = [
  ['jwt_introspection', 'introspection'],
  ['rich_authorization_requests', 'resource_indicators'],
  ['rich_authorization_requests', 'pushed_authorization_requests'],
] as const

function featureFindings({ value: { features }, at }: Usher): Finding[] {
  const unmet = NEEDS.filter(([feature, needed]) => features[feature] && !features[needed])
  return unmet.map(([feature, needed]) =>
    at(['features', feature], 'feature-off', `needs \`features.${needed}\`, which is off`),
  )
}

/** Returns the keys of `keys.import` as PKCS #8 PEM. */
export function importKeys(usher: Usher, findings: Finding[]): string[] {
  const pems: string[] = []
  const keys = (usher.value.keys.import ?? []).map(readPrivateKey)
  for (const [i, { key, problem }] of keys.entries()) {
    const pem = String(key?.export({ type: 'pkcs8', format: 'pem' }) ?? '')
    const wrong = pems.includes(pem) ? 'its key is that of a file before it' : problem
    if (wrong) findings.push(usher.at(['keys', 'import', i], 'signing-key', wrong))
    else pems.push(pem)
  }
  const hasNoRsa = keys.every(({ key }) => key && key.asymmetricKeyType !== 'rsa')
  const check = checkerOf(usher, MESSAGES)
  findings.push(...check(keys.length && hasNoRsa, 'signing-key', 'keys', 'import'))
  return pems
}

/** Returns the private key in a file, or what is wrong with the file, without any part of the key. */
function readPrivateKey(file: string): { key?: KeyObject; problem?: string } {
  const { text, problem } = readText(file)
  if (text === undefined) return { problem: `its file ${problem}` }
  if ((statSync(file).mode & 0o007) !== 0) {
    return { problem: 'every user can read its file: chmod 640' }
  }
  const key = parseKey(text)
  if (!key) return { problem: 'its file is not a private key, as PEM or JWK' }
  const weakness = weaknessOf(key)
  return weakness ? { problem: `its key ${weakness}` } : { key }
}

function parseKey(text: string): KeyObject | undefined {
  try {
    if (!text.trimStart().startsWith('{')) return createPrivateKey(text)
    return createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
  } catch {
    return undefined
  }
}

function weaknessOf({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject) {
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
  const { text = '', problem } = ca ? readText(ca) : {}
  const isWrong = problem ?? (ca && !areAuthorities(text))
  const wrong = problem ?? 'contains something else than certificates of authorities (CA:TRUE), PEM'
  if (isWrong) findings.push(at(['client_certificates', 'ca'], 'mtls', `its file ${wrong}`))
  return text
}

function areAuthorities(text: string): boolean {
  try {
    const certificates = certificatesIn(text)
    return certificates.length > 0 && certificates.every(({ ca }) => ca)
  } catch {
    return false
  }
}

/** Returns the port of a URL, 443 by default. */
export const portOf = ({ port }: URL) => Number(port || 443)

function originFindings({ value, at }: Usher): Finding[] {
  const { client_certificates, issuer, listen } = value
  const { origin } = client_certificates
  if (!origin || !issuer) return []
  const [other, own] = [new URL(origin), new URL(issuer)]
  const refuse = (message: string) => [at(['client_certificates', 'origin'], 'mtls', message)]
  if (other.origin !== origin || other.protocol !== own.protocol) {
    return refuse(`must be an origin, as issuer is: ${own.protocol}//${other.host}`)
  }
  if (origin === issuer) return refuse('must differ from `issuer`')
  const isTaken = listen.tls && portOf(other) === listen.port
  return isTaken ? refuse('needs another port than `listen.port`') : []
}

/** Returns `accounts` with the path of its module, and a digest that changes when the file does. */
export function readAccounts(
  { value, at }: Usher,
  folder: string,
  findings: Finding[],
): { module?: string; digest?: string } {
  if (!value.accounts.module) return {}
  const module = resolve(folder, value.accounts.module)
  const { bytes = '', problem } = readBytes(module)
  if (problem) findings.push(at(['accounts', 'module'], 'file', `its file ${problem}`))
  return { module, digest: createHash('sha256').update(bytes).digest('base64url') }
}

type Files = Record<string, string | undefined>

/** Validates PEM files, each alone and all together. */
function certificateFindings(at: Locate, path: string[], tls: Files = {}): Finding[] {
  const findings = unreadable(at, path, tls)
  if (findings.length) return findings
  try {
    const files = Object.entries(tls).map(([name, file]) => [name, readText(file ?? '').text])
    createSecureContext(Object.fromEntries(files))
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [at(path, 'tls', `is not a certificate with its key (${code})`)]
  }
}

/** The message does not repeat the path: it may be the secret itself, in the wrong place. */
function unreadable(at: Locate, above: string[], files: Files): Finding[] {
  return Object.entries(files).flatMap(([key, file]) => {
    const { problem } = file ? readText(file) : {}
    return problem ? [at([...above, key], 'file', `its file ${problem}`)] : []
  })
}
