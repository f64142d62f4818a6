// The config folder and the environment become settings, or one report of all that is wrong.
// The only file that reads `process.env`.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { clientFindings } from './client-rules.ts'
import { withoutSecret } from './client-secret.ts'
import { overlays, parseSecrets, secretsFromEnvironment } from './environment.ts'
import { type FileResult, readFile } from './files.ts'
import { readImportedKey } from './imported-keys.ts'
import { isLoopbackHost } from './redirect-uris.ts'
import { ConfigError, type Finding, wrongVariable } from './report.ts'
import {
  type ClaimsFile,
  type ClientMetadata,
  claimsSchema,
  clientSchema,
  type UsherFile,
  usherSchema,
} from './schema.ts'
import { didYouMean } from './wording.ts'

/** All of `usher.yaml` under its own keys, and what follows from it and the other files. */
export interface Settings extends UsherFile {
  folder: string
  /** An origin, byte for byte what clients compare with. */
  issuer: string
  /** A loopback http issuer: generated secrets, the demo account and http redirects are allowed. */
  development: boolean
  listen: UsherFile['listen'] & { host: string }
  /** The first signs and seals, all verify and open; empty: to be made (development only). */
  secrets: Uint8Array[]
  /** Private keys of the operator's, as PKCS #8 PEM. */
  importedKeys: string[]
  claims: ClaimsFile['claims']
  /** All scopes a client can ask for, with the operator's words for those that have some. */
  scopes: Record<string, { description?: string }>
  clients: ClientMetadata[]
}

/** Claims that the protocol itself sets (OIDC Core §2, §5.1; RFC 7519 §4.1). */
const PROTOCOL_CLAIMS = new Set(
  'sub iss aud exp iat nbf jti nonce auth_time acr amr azp sid at_hash c_hash s_hash'.split(' '),
)

export const configFolder = (env: NodeJS.ProcessEnv = process.env) => env.USHER_CONFIG || 'config'

/** What it takes to open the store: an operator's commands work while a client file is wrong. */
export function readStoreSettings(): Pick<Settings, 'store' | 'secrets' | 'redis'> {
  const { usher, secrets, findings } = readUsher(process.env, configFolder())
  if (findings.length || !usher.value) throw new ConfigError(findings)
  return { store: usher.value.store, secrets, redis: usher.value.redis }
}

/** Reads everything, or throws a `ConfigError` with every finding. */
export function readSettings(
  env: NodeJS.ProcessEnv = process.env,
  folder = configFolder(env),
): Settings {
  const { usher, issuer, development, secrets, findings } = readUsher(env, folder)
  findings.push(...strayFindings(folder))
  const importedKeys = importKeys(usher, findings)
  const claims = readFile(join(folder, 'claims.yaml'), claimsSchema)
  const files = listYaml(join(folder, 'clients'), findings)
  const clients = files.map(file => readFile(file, clientSchema))
  findings.push(...[claims, ...clients].flatMap(({ findings }) => findings))
  const scopes = scopesOf(claims, findings)
  if (issuer) findings.push(...clientFindings(clients, claims.value && scopes, development))

  if (findings.length || !usher.value || !claims.value || !issuer) throw new ConfigError(findings)
  const { listen } = usher.value
  return {
    importedKeys,
    ...usher.value,
    folder,
    issuer,
    development,
    listen: { ...listen, host: listen.host ?? (development ? '127.0.0.1' : '0.0.0.0') },
    secrets,
    claims: claims.value.claims,
    scopes,
    clients: clients.flatMap(({ value }) => (value ? [withoutSecret(value)] : [])),
  }
}

/** `issuer` is absent when it is wrong. */
function readUsher(env: NodeJS.ProcessEnv, folder: string) {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigError([{ file: folder, message: 'there is no such folder' }])
  }
  const findings: Finding[] = []
  const { store, secret } = secretsFromEnvironment(env, findings)
  const usher = readFile(join(folder, 'usher.yaml'), usherSchema, overlays(env, store))
  findings.push(...usher.findings)
  const secrets = parseSecrets(secret, findings)
  const issuer = usher.value?.issuer ?? `http://localhost:${usher.value?.listen.port ?? 3000}`
  const { development, problem } = judgeIssuer(issuer)
  if (problem) findings.push(usher.at(['issuer'], problem))
  if (usher.value && !problem) findings.push(...startFindings(usher, secrets, development))
  return { usher, issuer: problem ? undefined : issuer, development, secrets, findings }
}

/** What lies in the folder and is read by nobody: most likely a misspelt name. */
function strayFindings(folder: string): Finding[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const isData = /\.(ya?ml|json)$/.test(entry.name)
    // A mounted ConfigMap keeps what it shows in a folder called ..2026_11_21_….
    if (KNOWN.includes(entry.name) || entry.name.startsWith('.')) return []
    if (!isData && !entry.isDirectory()) return []
    const message = `nothing reads this${didYouMean(entry.name, KNOWN)}`
    return [{ file: join(folder, entry.name), message }]
  })
}

const KNOWN = 'usher.yaml claims.yaml clients schema'.split(' ')

function judgeIssuer(issuer: string): { development: boolean; problem?: string } {
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

function startFindings(
  usher: FileResult<UsherFile>,
  secrets: Uint8Array[],
  development: boolean,
): Finding[] {
  const findings: Finding[] = []
  const { store = '', listen } = usher.value ?? {}
  if (!secrets.length && !(development && store.startsWith('sqlite:'))) {
    const message = development
      ? 'is needed with Redis: every node has to have the same'
      : 'is needed: only a loopback http issuer gets a generated one'
    findings.push(wrongVariable('USHER_SECRET', message))
  }
  findings.push(...redisFindings(usher))
  const tls = listen?.tls
  if (tls && development) findings.push(usher.at(['listen', 'tls'], 'is for an https issuer'))
  else if (tls) findings.push(...certificateFindings(usher, ['listen', 'tls'], tls))
  if (!development && store === 'sqlite::memory:') {
    const message =
      'the memory store forgets everything at a restart: only for a loopback http issuer'
    findings.push(usher.at(['store'], message))
  }
  return findings
}

function importKeys(usher: FileResult<UsherFile>, findings: Finding[]): string[] {
  const { keys } = usher.value ?? {}
  if (keys && keys.announce >= keys.rotate_every) {
    findings.push(usher.at(['keys', 'announce'], 'must be shorter than rotate_every'))
  }
  return (keys?.import ?? []).flatMap((file, i) => {
    const read = readImportedKey(file)
    if ('pem' in read) return [read.pem]
    findings.push(usher.at(['keys', 'import', i], read.problem))
    return []
  })
}

function redisFindings(usher: FileResult<UsherFile>): Finding[] {
  const { redis, store = '' } = usher.value ?? {}
  if (!redis || !store.startsWith('redis')) return []
  const { password_file, sentinel_password_file, tls, database } = redis
  const files = Object.entries({ password_file, sentinel_password_file })
  const findings = files.flatMap(([name, file]) =>
    file && !isReadable(file) ? [usher.at(['redis', name], `${file} cannot be read`)] : [],
  )
  if (tls) findings.push(...certificateFindings(usher, ['redis', 'tls'], tls))
  if (store.startsWith('redis+cluster:') && database) {
    findings.push(usher.at(['redis', 'database'], 'a Redis Cluster has no databases but 0'))
  }
  return findings
}

function isReadable(file: string): boolean {
  try {
    readFileSync(file)
    return true
  } catch {
    return false
  }
}

/** PEM files, at `at` or at the keys below. */
function certificateFindings(usher: FileResult<UsherFile>, at: string[], tls: Tls): Finding[] {
  const files = Object.entries(tls).map(([name, file]) => ({ name, file }))
  const lost = files.filter(({ file }) => !isReadable(file))
  if (lost.length) {
    return lost.map(({ name, file }) => usher.at([...at, name], `${file} cannot be read`))
  }
  try {
    createSecureContext(
      Object.fromEntries(files.map(({ name, file }) => [name, readFileSync(file)])),
    )
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [usher.at(at, `is not a certificate with its key (${code})`)]
  }
}

type Tls = { ca?: string; cert?: string; key?: string }

function scopesOf(claims: FileResult<ClaimsFile>, findings: Finding[]): Settings['scopes'] {
  const scopes: Settings['scopes'] = { openid: {}, offline_access: {} }
  for (const [name, { scope }] of Object.entries(claims.value?.claims ?? {})) {
    scopes[scope] ??= {}
    if (PROTOCOL_CLAIMS.has(name)) {
      findings.push(claims.at(['claims', name], 'is set by the protocol, not here'))
    }
    if (scope === 'offline_access') {
      findings.push(claims.at(['claims', name, 'scope'], 'offline_access carries no claims'))
    }
  }
  for (const [scope, { description }] of Object.entries(claims.value?.scopes ?? {})) {
    if (scopes[scope]) scopes[scope] = { description }
    else findings.push(claims.at(['scopes', scope], 'no claim belongs to this scope'))
  }
  return scopes
}

function listYaml(folder: string, findings: Finding[]): string[] {
  try {
    const names = readdirSync(folder).filter(name => !name.startsWith('.'))
    const read = names.filter(name => name.endsWith('.yaml'))
    const isData = (name: string) => /\.(ya?ml|json)$/i.test(name)
    for (const name of names.filter(name => isData(name) && !read.includes(name))) {
      findings.push({ file: join(folder, name), message: 'is not read: clients are NAME.yaml' })
    }
    return read.sort().map(name => join(folder, name))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      findings.push({ file: folder, message: 'cannot be read as a folder' })
    }
    return []
  }
}
