// The config folder and the environment become settings, or one report of all that is wrong.
// The only file that reads `process.env`.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type FileResult, type Overlay, readFile } from './files.ts'
import { isLoopbackHost, schemeProblem } from './redirect-uris.ts'
import { ConfigError, type Finding } from './report.ts'
import {
  type ClaimsFile,
  type ClientMetadata,
  claimsSchema,
  clientSchema,
  type Lifetimes,
  usherSchema,
} from './schema.ts'

export interface Settings {
  folder: string
  /** An origin, byte for byte what clients compare with. */
  issuer: string
  /** A loopback http issuer: generated secrets, the demo account and http redirects are allowed. */
  development: boolean
  listen: { host: string; port: number }
  proxy: string[]
  store: string
  /** The first signs and seals, all verify and open; empty: to be made (development only). */
  secrets: Uint8Array[]
  lifetimes: Lifetimes
  idTokenClaims: 'identity' | 'minimal'
  brand: string
  claims: ClaimsFile['claims']
  /** All scopes a client can ask for, with the operator's words for those that have some. */
  scopes: Record<string, { description?: string }>
  clients: ClientMetadata[]
}

/** Claims that the protocol itself sets (OIDC Core §2, §5.1; RFC 7519 §4.1). */
const PROTOCOL_CLAIMS = new Set(
  'sub iss aud exp iat nbf jti nonce auth_time acr amr azp sid at_hash c_hash s_hash'.split(' '),
)
const SHORTEST_SECRET = 32

export const configFolder = (env: NodeJS.ProcessEnv = process.env) => env.USHER_CONFIG || 'config'

/** Reads everything, or throws a `ConfigError` with every finding. */
export function readSettings(
  env: NodeJS.ProcessEnv = process.env,
  folder = configFolder(env),
): Settings {
  if (!existsSync(folder))
    throw new ConfigError([{ file: folder, message: 'there is no such folder' }])
  const findings: Finding[] = []
  const { store, secret } = secretsFromEnvironment(env, findings)

  const usher = readFile(join(folder, 'usher.yaml'), usherSchema, overlays(env, store))
  const claims = readFile(join(folder, 'claims.yaml'), claimsSchema)
  const clients = listYaml(join(folder, 'clients'), findings).map(file =>
    readFile(file, clientSchema),
  )
  findings.push(...[usher, claims, ...clients].flatMap(({ findings }) => findings))

  const scopes = scopesOf(claims, findings)
  const secrets = parseSecrets(secret, findings)
  const issuer = usher.value?.issuer ?? `http://localhost:${usher.value?.listen.port ?? 3000}`
  const { development, problem } = judgeIssuer(issuer)
  if (problem) findings.push(usher.at(['issuer'], problem))
  if (usher.value && !problem && !development) {
    findings.push(...productionFindings(usher.value, secrets))
  }
  if (!problem) findings.push(...clientFindings(clients, scopes, development))

  if (findings.length || !usher.value || !claims.value) throw new ConfigError(findings)
  const { listen, proxy, lifetimes, id_token, branding } = usher.value
  return {
    folder,
    issuer,
    development,
    listen: { host: listen.host ?? (development ? '127.0.0.1' : '0.0.0.0'), port: listen.port },
    proxy,
    store: usher.value.store,
    secrets,
    lifetimes,
    idTokenClaims: id_token.claims,
    brand: branding.name,
    claims: claims.value.claims,
    scopes,
    clients: clients.flatMap(({ value }) => (value ? [value] : [])),
  }
}

function overlays(env: NodeJS.ProcessEnv, store: string | undefined): Overlay[] {
  const port = env.PORT && /^\d+$/.test(env.PORT) ? Number(env.PORT) : env.PORT
  const table: Overlay[] = [
    { name: 'USHER_ISSUER', path: ['issuer'], value: env.USHER_ISSUER || undefined },
    { name: 'PORT', path: ['listen', 'port'], value: port || undefined },
    { name: 'HOST', path: ['listen', 'host'], value: env.HOST || undefined },
    { name: 'USHER_STORE', path: ['store'], value: store },
  ]
  return table.filter(({ value }) => value !== undefined)
}

/** Each may come from a file instead, named by its `…_FILE` twin. */
function secretsFromEnvironment(env: NodeJS.ProcessEnv, findings: Finding[]) {
  const read = (name: string) => {
    const file = env[`${name}_FILE`]
    if (!file) return env[name] || undefined
    if (env[name]) {
      findings.push({
        file: 'environment',
        key: name,
        message: `is given twice, as ${name}_FILE too`,
      })
    }
    try {
      return readFileSync(file, 'utf8').trim()
    } catch {
      findings.push({ file: 'environment', key: `${name}_FILE`, message: 'cannot be read' })
      return undefined
    }
  }
  return { store: read('USHER_STORE'), secret: read('USHER_SECRET') }
}

/** base64url values, separated by commas or white space; what they are is never repeated. */
export function parseSecrets(text: string | undefined, findings: Finding[]): Uint8Array[] {
  const parts = text?.split(/[\s,]+/).filter(Boolean) ?? []
  return parts.flatMap((part, i) => {
    const bytes = Buffer.from(part, 'base64url')
    if (/^[\w-]+=*$/.test(part) && bytes.length >= SHORTEST_SECRET) return [bytes]
    const which = parts.length > 1 ? `number ${i + 1} ` : ''
    const message = `${which}must be at least 32 random bytes as base64url: openssl rand -base64 32 | tr '+/' '-_' | tr -d =`
    findings.push({ file: 'environment', key: 'USHER_SECRET', message })
    return []
  })
}

function judgeIssuer(issuer: string): { development: boolean; problem?: string } {
  const url = URL.parse(issuer)
  const development = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (!url || url.origin !== issuer) {
    const written = url?.origin ?? 'https://id.example.org'
    return {
      development,
      problem: `must be an origin, without path, query or trailing slash: ${written}`,
    }
  }
  if (url.protocol === 'http:' && !development) {
    return { development, problem: 'must be https; http is only for loopback addresses' }
  }
  return { development }
}

function productionFindings(usher: { store: string }, secrets: Uint8Array[]): Finding[] {
  const findings: Finding[] = []
  const add = (key: string, message: string) => findings.push({ file: 'environment', key, message })
  if (!secrets.length)
    add('USHER_SECRET', 'is needed: only a loopback http issuer gets a generated one')
  if (usher.store === 'sqlite::memory:') {
    add(
      'USHER_STORE',
      'the memory store forgets everything at a restart: only for a loopback http issuer',
    )
  }
  return findings
}

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
    return readdirSync(folder)
      .filter(name => /\.ya?ml$/.test(name))
      .sort()
      .map(name => join(folder, name))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      findings.push({ file: folder, message: 'cannot be read as a folder' })
    }
    return []
  }
}

function clientFindings(
  clients: FileResult<ClientMetadata>[],
  scopes: Settings['scopes'],
  loopbackIssuer: boolean,
): Finding[] {
  const seen = new Map<string, string>()
  return clients.flatMap(({ file, value: client, at }) => {
    if (!client) return []
    const findings: Finding[] = []
    const add = (path: PropertyKey[], message: string) => findings.push(at(path, message))

    const other = seen.get(client.client_id)
    if (other) add(['client_id'], `is already the client_id of ${other}`)
    seen.set(client.client_id, file)

    for (const key of ['redirect_uris', 'post_logout_redirect_uris'] as const) {
      client[key].forEach((uri, i) => {
        const problem = schemeProblem(uri, {
          native: client.application_type === 'native',
          loopbackIssuer,
        })
        if (problem) add([key, i], problem)
      })
    }
    for (const scope of client.scope?.split(' ') ?? []) {
      if (!scopes[scope])
        add(['scope'], `there is no scope ${JSON.stringify(scope)} in claims.yaml`)
    }
    for (const [path, message] of authenticationProblems(client)) add([path], message)
    if (!client.grant_types.includes('authorization_code')) {
      add(['grant_types'], 'must include authorization_code')
    }
    return findings
  })
}

function authenticationProblems(client: ClientMetadata): [string, string][] {
  const method = client.token_endpoint_auth_method
  const problems: [string, string][] = []
  const withSecret = method === 'client_secret_basic' || method === 'client_secret_post'
  if (withSecret && !client.client_secret_hashes?.length) {
    problems.push([
      'client_secret_hashes',
      `${method} needs a secret: npm run usher -- clients secret NAME makes one`,
    ])
  }
  if (!withSecret && client.client_secret_hashes) {
    problems.push([
      'client_secret_hashes',
      `a client that authenticates with ${method} has no secret`,
    ])
  }
  if (method === 'private_key_jwt' && !client.jwks) {
    problems.push(['jwks', 'private_key_jwt needs the public keys of the client here'])
  }
  if (method === 'none' && !client.require_pkce) {
    problems.push(['require_pkce', 'a public client cannot be exempted from PKCE'])
  }
  return problems
}
