// Rules about usher.yaml that look beyond one key: at each other, the environment, the files it names.

import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { RANDOM } from '../environment.ts'
import type { FileResult } from '../files.ts'
import { type Finding, type Locate, wrongVariable } from '../report/finding.ts'
import { readBytes, readText } from '../report/yaml.ts'
import { isLoopbackHost } from '../schema/client.ts'
import type { Features } from '../schema/features.ts'
import type { UsherFile } from '../schema/usher.ts'
import { readImportedKey } from './files.ts'

/** Seconds for a new key to be on every node, and then in every copy of the JWKS, before it signs. */
const SOONEST = 60
const NO_RSA =
  'none of its keys is RSA, and clients expect RS256 where nothing else is said, our account pages too (OIDC Core §15.1): add one'

export function judgeIssuer(issuer: string): { development: boolean; problem?: string } {
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

/** `secret` is what was given, right or wrong. */
export function startFindings(
  usher: FileResult<UsherFile>,
  secret: string | undefined,
  development: boolean,
): Finding[] {
  const findings: Finding[] = []
  const { store, listen } = usher.parts
  const isLocal = store === undefined || store.startsWith('sqlite:')
  if (secret === undefined && !(development && isLocal)) {
    const message = development
      ? 'is needed with Redis: every node has to have the same'
      : `is needed: only a loopback http issuer gets a generated one. It ${RANDOM}`
    findings.push(wrongVariable('USHER_SECRET', 'secret', message))
  }
  findings.push(...redisFindings(usher))
  const tls = listen?.tls
  const path = ['listen', 'tls']
  if (tls && development) findings.push(usher.at(path, 'tls', 'is for an https issuer'))
  else if (tls) findings.push(...certificateFindings(usher.at, path, tls))
  if (!development && store === 'sqlite::memory:') {
    const message =
      'the memory store forgets everything at a restart: only for a loopback http issuer'
    findings.push(usher.at(['store'], 'memory-store', message))
  }
  if (store === 'sqlite::memory:' && (usher.parts.workers ?? 1) > 1) {
    const message = 'need a store that they share: each would have a memory of its own'
    findings.push(usher.at(['workers'], 'memory-store', message))
  }
  return findings
}

const NEEDS: [feature: keyof Features, needed: keyof Features][] = [
  ['jwt_introspection', 'introspection'],
  ['rich_authorization_requests', 'resource_indicators'],
  ['rich_authorization_requests', 'pushed_authorization_requests'],
]

/** A feature that is on needs those that it builds on. */
export function featureFindings({ parts, at }: FileResult<UsherFile>): Finding[] {
  return NEEDS.filter(
    ([feature, needed]) => parts.features?.[feature] && !parts.features[needed],
  ).map(([feature, needed]) =>
    at(['features', feature], 'feature-off', `needs \`features.${needed}\`, which is off`),
  )
}

export function importKeys({ parts, at }: FileResult<UsherFile>, findings: Finding[]): string[] {
  const { keys } = parts
  if (keys && keys.announce >= keys.rotate_every) {
    findings.push(at(['keys', 'announce'], 'key-times', 'must be shorter than keys.rotate_every'))
  }
  if (keys && keys.announce < SOONEST) {
    const message = 'is at least 1 min: nodes look for new keys every ten seconds'
    findings.push(at(['keys', 'announce'], 'key-times', message))
  }
  const pems: string[] = []
  const brought = (keys?.import ?? []).map(readImportedKey)
  for (const [i, { pem = '', problem }] of brought.entries()) {
    const wrong = pems.includes(pem) ? 'its key is that of a file before it' : problem
    if (wrong) findings.push(at(['keys', 'import', i], 'signing-key', wrong))
    else pems.push(pem)
  }
  if (brought.length && brought.every(({ isRsa, problem }) => !isRsa && !problem)) {
    findings.push(at(['keys', 'import'], 'signing-key', NO_RSA))
  }
  return pems
}

/** `accounts` with the path of its module, and a digest that changes when the file does. */
export function readAccounts(
  { parts, at }: FileResult<UsherFile>,
  folder: string,
  findings: Finding[],
): { module?: string; digest?: string } {
  if (!parts.accounts?.module) return {}
  const module = resolve(folder, parts.accounts.module)
  const { bytes = '', problem } = readBytes(module)
  if (problem) findings.push(at(['accounts', 'module'], 'file', `its file ${problem}`))
  return { module, digest: createHash('sha256').update(bytes).digest('base64url') }
}

function redisFindings(usher: FileResult<UsherFile>): Finding[] {
  const { redis, store } = usher.parts
  if (!redis || !store?.startsWith('redis')) return []
  const { password_file, sentinel_password_file, tls, database } = redis
  const findings = unread(usher.at, ['redis'], { password_file, sentinel_password_file })
  if (tls) findings.push(...certificateFindings(usher.at, ['redis', 'tls'], tls))
  if (tls && store.startsWith('redis+unix:')) {
    const message = 'is for the network; the store is a socket of this machine'
    findings.push(usher.at(['redis', 'tls'], 'tls', message))
  }
  if (store.startsWith('redis+cluster:') && database) {
    const message = 'a Redis Cluster has no databases but 0'
    findings.push(usher.at(['redis', 'database'], 'redis-database', message))
  }
  return findings
}

/** PEM files, at `path` or at the keys below. */
function certificateFindings(at: Locate, path: string[], tls: Record<string, string | undefined>) {
  const findings = unread(at, path, tls)
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

/** Paths are not repeated: somebody may have put in what belongs into the file. */
function unread(at: Locate, above: string[], files: Record<string, string | undefined>): Finding[] {
  return Object.entries(files).flatMap(([key, file]) => {
    const { problem } = file ? readText(file) : {}
    return problem ? [at([...above, key], 'file', `its file ${problem}`)] : []
  })
}
