// Writes config folders, and reads them: the result is settings, or one report of findings.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readSettings, type Settings } from '../../src/config/load.ts'
import { ConfigError, type Finding } from '../../src/config/report/finding.ts'

/** Files by path in the folder: text, bytes, or an object, written as JSON (which is YAML). */
export type Files = Record<string, string | Uint8Array | object>

interface Reading {
  settings?: Settings
  /** File names are relative to the folder. */
  findings: Finding[]
  /** The report for the operator. */
  text: string
}

/** 32 bytes. */
export const GOOD_SECRET = Buffer.alloc(32, 'ada').toString('base64url')
export const PRODUCTION = { USHER_ISSUER: 'https://id.example.org', USHER_SECRET: GOOD_SECRET }

/** Files of the kinds that most tests need, with keys of many types that fit together. */
export const COMPLETE = {
  usher: `issuer: http://localhost:3000
listen:
  host: 127.0.0.1
  port: 3000
proxy:
  - 10.0.0.0/8
store: sqlite:data/usher.db
redis:
  username: usher
  password_file: /run/secrets/redis
  sentinel_password_file: /run/secrets/sentinel
  database: 0
  key_prefix: 'usher:'
  tls:
    ca: /etc/usher/redis-ca.pem
    cert: /etc/usher/redis.pem
    key: /etc/usher/redis-key.pem
  durability: auto
metrics:
  host: 127.0.0.1
  port: 9464
lifetimes:
  code: 60 s
  access_token: 10 min
  id_token: 10 min
  refresh_token_idle: 14 d
  refresh_token: 90 d
  refresh_token_grace: 30 s
  session_idle: 12 h
  session: 30 d
  interaction: 15 min
id_token:
  claims: identity
branding:
  name: Example
  accent: '#14663a'
  accent_dark: '#8fdcae'
  links:
    help: https://example.org/help
    terms: https://example.org/terms
    privacy: https://example.org/privacy
`,
  claims: `claims:
  name:
    scope: profile
    from: name
  department:
    scope: hr
    from: attributes.department
scopes:
  hr:
    description: See your department
`,
  client: `client_id: web
client_name: Web application
client_uri: https://app.example.org/
policy_uri: https://app.example.org/policy
tos_uri: https://app.example.org/terms
contacts:
  - ada@example.org
application_type: web
redirect_uris:
  - https://app.example.org/callback
post_logout_redirect_uris:
  - https://app.example.org/bye
initiate_login_uri: https://app.example.org/login
token_endpoint_auth_method: client_secret_basic
client_secret_hashes:
  - sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
grant_types:
  - authorization_code
  - refresh_token
response_modes:
  - query
scope: openid profile hr
id_token_signed_response_alg: RS256
default_max_age: 3600
require_auth_time: true
require_pushed_authorization_requests: false
require_pkce: true
consent: explicit
`,
  resource: `resource: https://files.example.org
resource_name: Files
audience: files
scopes:
  files:read:
    description: Read your files
  files:write:
    description: Change your files
token_format: opaque
token_signing_alg: ES256
token_lifetime: 5 min
clients:
  - web
introspected_by:
  - web
`,
}

/** A valid API with `changes`. */
export const resource = (changes: object = {}): object => ({
  resource: 'https://files.example.org',
  resource_name: 'Files',
  scopes: { 'files:read': { description: 'Read your files' } },
  token_format: 'jwt',
  ...changes,
})

/** A valid client with `changes`; undefined removes a key. */
export const client = (changes: object = {}): object => ({
  client_id: 'web',
  client_name: 'Web application',
  redirect_uris: ['https://app.example.org/callback'],
  token_endpoint_auth_method: 'none',
  ...changes,
})

const MINIMAL: Files = { 'usher.yaml': '', 'claims.yaml': 'claims: {}\n' }

/** Creates a folder, calls `use` with it, and deletes it. */
export async function withFolder<T>(files: Files, use: (folder: string) => T): Promise<Awaited<T>> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-config-'))
  try {
    for (const [name, content] of Object.entries({ ...MINIMAL, ...files })) {
      const isText = typeof content === 'string' || content instanceof Uint8Array
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), isText ? content : JSON.stringify(content))
    }
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Reads a config folder. Throws every error except `ConfigError`: each other error is a crash. */
export async function readFolder(
  folder: string,
  env: Record<string, string> = {},
): Promise<Reading> {
  try {
    const settings = await readSettings({ USHER_CONFIG: folder, ...env })
    return { settings, findings: [], text: '' }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const findings = error.findings.map(finding => ({
      ...finding,
      file: finding.file.replace(`${folder}/`, ''),
    }))
    return { findings, text: error.message.replaceAll(`${folder}/`, '') }
  }
}

export function read(files: Files = {}, env: Record<string, string> = {}): Promise<Reading> {
  return withFolder(files, folder => readFolder(folder, env))
}

/** The places of the findings as in the report, `file:line:column key`, sorted. */
export function places({ findings }: Reading): string[] {
  return findings
    .map(({ file, line, column, key = '' }) =>
      [line === undefined ? file : `${file}:${line}:${column}`, key].join(' ').trim(),
    )
    .toSorted()
}

/** Calls `act` as the user 65534 (`nobody`) if this process is root, who may read every file. */
export async function unprivileged<T>(act: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return act()
  process.seteuid?.(65_534)
  try {
    return await act()
  } finally {
    process.seteuid?.(0)
  }
}
