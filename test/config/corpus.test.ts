// Hundreds of invalid configuration folders. Each is refused, quickly and without a crash. Every finding
// has its file, its position and its rule, and shows no secret. Valid folders beside them are accepted.

import { execFile, execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { checkSettings } from '../../src/commands/config.ts'
import { readSettings } from '../../src/config/load.ts'
import { mapOf } from '../../src/store/values.ts'
import {
  COMPLETE,
  client,
  type Files,
  PRODUCTION,
  readFolder,
  unprivileged,
  withFolder,
} from '../support/config-folder.ts'
import { someOf } from '../support/some-of.ts'

/** A secret that must not be in any report. */
const CANARY = 'canary-1815-that-nobody-may-read'
const SECRET = Buffer.from(`${CANARY}-${CANARY}`).toString('base64url')

const RIGHT = {
  'usher.yaml': COMPLETE.usher,
  'claims.yaml': COMPLETE.claims,
  'clients/web.yaml': COMPLETE.client.replace(
    /client_secret_hashes:\n.*/,
    `client_secret: ${CANARY}`,
  ),
  'resources/files.yaml': COMPLETE.resource.replace(/^clients:\n.*$/ms, ''),
}
type Name = keyof typeof RIGHT
const NAMES = Object.keys(RIGHT) as Name[]

interface Case {
  name: string
  files?: Files
  env?: Record<string, string>
  /** Changes the folder before it is read. */
  arrange?(folder: string): void
  /** Whether a user other than root reads the folder. */
  isUnprivileged?: boolean
}

async function refuse({ name, files, env = {}, arrange, isUnprivileged }: Case) {
  await withFolder({ ...RIGHT, ...files }, async folder => {
    arrange?.(folder)
    const started = process.cpuUsage()
    const read = () => readFolder(folder, { USHER_SECRET: SECRET, ...env })
    const { settings, findings, text } = isUnprivileged ? await unprivileged(read) : await read()
    expect(Boolean(settings), `${name} is taken`).toBe(false)
    expect(findings, name).not.toEqual([])
    const { user, system } = process.cpuUsage(started)
    expect((user + system) / 1000, name).toBeLessThan(5000)
    for (const secret of [CANARY, SECRET]) expect(text, name).not.toContain(secret)
    for (const { file, rule, message, line, column, key } of findings) {
      expect(file, name).toMatch(
        /^(environment|usher\.ya?ml|claims\.yaml|(clien|resource).*|pages)$/,
      )
      expect(rule, name).toMatch(/^[a-z]+(-[a-z]+)*$/)
      expect(message, name).toMatch(/^\S[^\n]{3,}$/)
      const isWhole = file === 'environment' || ['file', 'folder', 'stray-file'].includes(rule)
      if (isWhole) continue
      expect(line, `${name}: ${key} ${message}`).toBeGreaterThan(0)
      expect(column, name).toBeGreaterThan(0)
    }
  })
}

const json = (name: Name) => JSON.stringify(parse(RIGHT[name]))

/** JSON is YAML. A truncated JSON file is never valid. */
const truncated = NAMES.flatMap(name => {
  const text = json(name)
  const ends = Array.from({ length: Math.floor((text.length - 1) / 7) }, (_, i) => 7 * (i + 1))
  return ends.map(end => ({ name: `${name} cut at ${end}`, files: { [name]: text.slice(0, end) } }))
})

function pathsOf(node: unknown, path: string[] = []): string[][] {
  const children = Object.entries(mapOf(node))
  return children.flatMap(([key, child]) => [[...path, key], ...pathsOf(child, [...path, key])])
}

const isMap = (node: unknown) => typeof node === 'object' && !Array.isArray(node)
const at = (node: unknown, path: string[]) =>
  path.reduce<unknown>((parent, key) => mapOf(parent)[key], node)

function changed(name: Name, path: string[], value: unknown): Files {
  const document = mapOf(parse(RIGHT[name]))
  mapOf(at(document, path.slice(0, -1)))[path.at(-1) ?? ''] = value
  return { [name]: document }
}

/** The report shows the names of unknown keys, and not their values. */
const WRONG_TYPES = [[[SECRET]], { x: { y: CANARY } }, null]
const wrongTypes = NAMES.flatMap(name =>
  pathsOf(parse(RIGHT[name])).flatMap(path =>
    WRONG_TYPES.map(value => ({
      name: `${name} ${path.join('.')}: ${JSON.stringify(value)}`,
      files: changed(name, path, value),
    })),
  ),
)

const unknownKeys = NAMES.flatMap(name =>
  [[], ...pathsOf(parse(RIGHT[name]))]
    .filter(path => isMap(at(parse(RIGHT[name]), path)))
    .map(path => ({
      name: `${name} ${path.join('.')}: an unknown key`,
      files: changed(name, [...path, 'clinet_secret'], CANARY),
    })),
)

const swapped = NAMES.flatMap(name =>
  NAMES.filter(other => other !== name).map(other => ({
    name: `${other} in place of ${name}`,
    files: { [name]: RIGHT[other] },
  })),
)

const swap16 = (text: string) => Buffer.from(text, 'utf16le').swap16()
const encodings = NAMES.flatMap(name =>
  Object.entries({
    'UTF-16 LE': Buffer.from(RIGHT[name], 'utf16le'),
    'UTF-16 LE with BOM': Buffer.from(`\uFEFF${RIGHT[name]}`, 'utf16le'),
    'UTF-16 BE': swap16(RIGHT[name]),
    'UTF-16 BE with BOM': swap16(`\uFEFF${RIGHT[name]}`),
    'NUL bytes': RIGHT[name].replace(': ', ': \0'),
    'Latin-1': Buffer.from(`# \xE9\n${RIGHT[name]}`, 'latin1'),
    gzip: Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
  }).map(([encoding, content]) => ({ name: `${name} in ${encoding}`, files: { [name]: content } })),
)

const duplicates = NAMES.flatMap(name =>
  RIGHT[name]
    .split('\n')
    .filter(line => /^[a-z]/.test(line))
    .map(line => ({
      name: `${name} with ${line.split(':')[0]} twice`,
      files: { [name]: `${RIGHT[name]}${line.endsWith(':') ? `${line} {}` : line}\n` },
    })),
)

const inPlaceOf = (name: string, make: (file: string, folder: string) => void) => ({
  arrange(folder: string) {
    const file = join(folder, name)
    rmSync(file, { recursive: true })
    make(file, folder)
  },
})
const oddFiles: Case[] = NAMES.flatMap(name => [
  { name: `${name} of 10 MB`, files: { [name]: `${'# x\n'.repeat(2_500_000)}${RIGHT[name]}` } },
  { name: `${name} as a folder`, ...inPlaceOf(name, file => mkdirSync(file)) },
  { name: `${name} as a pipe`, ...inPlaceOf(name, file => execFileSync('mkfifo', [file])) },
  { name: `${name} as a device`, ...inPlaceOf(name, file => symlinkSync('/dev/zero', file)) },
  { name: `${name} as its own link`, ...inPlaceOf(name, file => symlinkSync(file, file)) },
  { name: `${name} as a dead link`, ...inPlaceOf(name, file => symlinkSync('/nowhere', file)) },
  {
    name: `${name} unreadable`,
    isUnprivileged: true,
    arrange(folder) {
      for (const path of [folder, join(folder, dirname(name))]) chmodSync(path, 0o755)
      chmodSync(join(folder, name), 0)
    },
  },
])
const MANY = Array.from({ length: 10_000 }, (_, i) => i)
const long: Case[] = [
  ...NAMES.map(name => ({
    name: `${name} of 10,000 unknown keys`,
    files: { [name]: MANY.map(i => `key_${i}: 1\n`).join('') },
  })),
  {
    name: '50,000 unknown keys',
    files: { 'clients/web.yaml': Array.from({ length: 50_000 }, (_, i) => `k${i}: 1\n`).join('') },
  },
  { name: '60,000 times the same key', files: { 'usher.yaml': 'issuer: x\n'.repeat(60_000) } },
  { name: '60,000 levels', files: { 'usher.yaml': `a: ${'['.repeat(60_000)}` } },
  {
    name: '20,000 redirect URIs that are wrong',
    files: { 'clients/web.yaml': `redirect_uris:\n${'- http://example.org/\n'.repeat(20_000)}` },
  },
  {
    name: '10,000 scopes that are none',
    files: { 'clients/web.yaml': client({ scope: 'none '.repeat(10_000) }) },
  },
  {
    name: '10,000 claims that are the protocol’s',
    files: {
      'claims.yaml': `claims:\n${MANY.map(i => `  a${i}: 1\n`).join('')}`,
    },
  },
]
const oddFolders: Case[] = [
  { name: 'clients as a file', ...inPlaceOf('clients', file => writeFileSync(file, '')) },
  { name: 'pages as a file', files: { pages: '' } },
  { name: 'clients as a pipe', ...inPlaceOf('clients', file => execFileSync('mkfifo', [file])) },
  { name: 'clients as its own link', ...inPlaceOf('clients', file => symlinkSync(file, file)) },
  ...[
    'clients.yaml',
    'client/x.yaml',
    'resources.yaml',
    'resource/x.yaml',
    'resources/x.yml',
    'usher.yml',
    'clients/x.yml',
    'clients/x.json',
  ].map(name => ({
    name: `${name}, which nobody reads`,
    files: { [name]: RIGHT['clients/web.yaml'] },
  })),
]

/** Redirect URIs that every client is refused (RFC 9700 §4.1, RFC 8252 §7.1). */
const REDIRECTS = [
  'https://*.example.org/callback',
  'https://app.example.org/*',
  'https://app.example.org/callback#x',
  'https://app.example.org/callback#',
  `https://ada:${CANARY}@app.example.org/callback`,
  'https://ada@app.example.org/callback',
  'javascript:alert(1)',
  'JavaScript:alert(1)',
  'data:text/html,x',
  'file:///etc/passwd',
  'vbscript:x',
  'blob:https://app.example.org/x',
  'about:blank',
  'ws://app.example.org/callback',
  'http://app.example.org/callback',
  'http://localhost.example.org/callback',
  'http://127.0.0.2/callback',
  'http://0.0.0.0/callback',
  'myapp://callback',
  'myapp:/callback',
  'com.example.app:/callback',
  'https://bücher.example/callback',
  'https://APP.example.org/callback',
  'https://app.example.org:0443/callback',
  'https://app。example。org/callback',
  'https://2130706433/callback',
  'https://0x7f000001/callback',
  'https://app.example.org/a/../callback',
  'https://app.example.org/a/%2e%2e/callback',
  'https://app.example.org\\evil.example/callback',
  'https:/app.example.org/callback',
  'https:app.example.org/callback',
  'https://',
  '//app.example.org/callback',
  '/callback',
  'app.example.org/callback',
  'https://app.example.org/call back',
  'https://app.example.org/call\tback',
  ' https://app.example.org/callback',
  '',
]
const redirects = REDIRECTS.flatMap(uri =>
  ['redirect_uris', 'post_logout_redirect_uris'].map(key => ({
    name: `${key}: ${uri}`,
    files: changed('clients/web.yaml', [key], ['https://app.example.org/right', uri]),
  })),
)

const secrets = Array.from({ length: 32 }, (_, bytes) => ({
  name: `a secret of ${bytes} bytes`,
  env: { ...PRODUCTION, USHER_SECRET: Buffer.alloc(bytes, CANARY).toString('base64url') },
}))

const pem = (key: ReturnType<typeof generateKeyPairSync>['privateKey']) =>
  key.export({ type: 'pkcs8', format: 'pem' }).toString()
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const rsa1024 = generateKeyPairSync('rsa', { modulusLength: 1024 })
const ed25519 = generateKeyPairSync('ed25519')
const x25519 = generateKeyPairSync('x25519')

const importing = (...names: string[]) => ({ keys: { import: names } })
const IMPORTS: Record<string, string> = {
  'a public key': p256.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  'a public JWK': JSON.stringify(p256.publicKey.export({ format: 'jwk' })),
  'another curve': pem(p384.privateKey),
  'a short RSA key': pem(rsa1024.privateKey),
  'a key that signs nothing': pem(x25519.privateKey),
  'half a key': pem(p256.privateKey).slice(0, 100),
  'a certificate': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
  'a symmetric JWK': JSON.stringify({ kty: 'oct', k: CANARY }),
  'no key': CANARY,
  nothing: '',
}
/** A key file beside the folder, because it may have any name. */
const keyFile = (text: string, make: (file: string) => void = () => {}) => ({
  arrange(folder: string) {
    const file = join(folder, '.key')
    writeFileSync(file, text, { mode: 0o600 })
    make(file)
    writeFileSync(join(folder, 'usher.yaml'), JSON.stringify(importing(file)))
  },
})
const signingKeys: Case[] = [
  ...Object.entries(IMPORTS).map(([name, text]) => ({
    name: `keys.import: ${name}`,
    ...keyFile(text),
  })),
  { name: 'keys.import: no RSA key', ...keyFile(pem(p256.privateKey)) },
  {
    name: 'keys.import: one for everybody to read',
    ...keyFile(pem(p256.privateKey), file => chmodSync(file, 0o644)),
  },
  {
    name: 'keys.import: a pipe',
    ...keyFile('', file => execFileSync('sh', ['-c', `rm ${file}; mkfifo ${file}`])),
  },
  {
    name: 'keys.import: the same twice',
    arrange(folder) {
      const files = ['.a', '.b'].map(name => join(folder, name))
      for (const file of files) writeFileSync(file, pem(p256.privateKey), { mode: 0o600 })
      writeFileSync(join(folder, 'usher.yaml'), JSON.stringify(importing(...files)))
    },
  },
  ...['/nowhere', '/etc', SECRET, pem(p256.privateKey)].map(name => ({
    name: 'keys.import: no file',
    files: { 'usher.yaml': importing(name) },
  })),
]

const publicJwk = p256.publicKey.export({ format: 'jwk' })
const JWKS: Record<string, unknown> = {
  'a private key': { keys: [{ ...p256.privateKey.export({ format: 'jwk' }), d: CANARY }] },
  'a symmetric key': { keys: [{ kty: 'oct', k: CANARY }] },
  'another curve': { keys: [p384.publicKey.export({ format: 'jwk' })] },
  'a short RSA key': { keys: [rsa1024.publicKey.export({ format: 'jwk' })] },
  'a key that signs nothing': { keys: [x25519.publicKey.export({ format: 'jwk' })] },
  'one kid for two': {
    keys: [
      { ...publicJwk, kid: 'a' },
      { ...publicJwk, kid: 'a' },
    ],
  },
  'two without kid': { keys: [publicJwk, publicJwk] },
  'another kind': { keys: [{ kty: 'AKP' }] },
  'no kind': { keys: [{ crv: 'P-256' }] },
  'no keys': { keys: [] },
  'a list': [publicJwk],
  'a key in place of a set': publicJwk,
  'a text': CANARY,
}
const clientKeys = Object.entries(JWKS).map(([name, jwks]) => ({
  name: `jwks: ${name}`,
  files: {
    'clients/web.yaml': client({ token_endpoint_auth_method: 'private_key_jwt', jwks }),
  },
}))

const environments: Case[] = Object.entries({
  USHER_ISSUER: [
    'https://id.example.org/',
    'ftp://x',
    'http://id.example.org',
    `https://a:${CANARY}@x`,
  ],
  PORT: ['0', '65536', 'http', '-1', '3000.5'],
  USHER_METRICS_PORT: ['0', 'http'],
  USHER_STORE: [`postgres://usher:${CANARY}@db`, CANARY, 'sqlite:', `redis:${CANARY}`],
  USHER_STORE_FILE: ['/nowhere', '/etc', '/dev/zero'],
  USHER_SECRET_FILE: ['/nowhere', '/etc', '/dev/zero'],
}).flatMap(([name, values]) =>
  values.map(value => ({ name: `${name}=${value}`, env: { [name]: value } })),
)

const CORPUS: Case[] = [
  ...truncated,
  ...wrongTypes,
  ...unknownKeys,
  ...swapped,
  ...encodings,
  ...duplicates,
  ...oddFiles,
  ...long,
  ...oddFolders,
  ...redirects,
  ...secrets,
  ...signingKeys,
  ...clientKeys,
  ...environments,
]

test('the folder without a change is valid', async () => {
  await withFolder(RIGHT, async folder => {
    expect((await readFolder(folder, { USHER_SECRET: SECRET })).text).toBe('')
  })
})

test('there are more than 400 invalid folders', () => {
  expect(CORPUS.length).toBeGreaterThan(600)
})

test.each(
  Object.entries({
    truncated,
    wrongTypes,
    unknownKeys,
    swapped,
    encodings,
    duplicates,
    oddFiles,
    long,
    oddFolders,
    redirects,
    secrets,
    signingKeys,
    clientKeys,
    environments,
  }),
)('%s: each is refused, without a crash and without showing a secret', async (_, cases: Case[]) => {
  expect(cases.length).toBeGreaterThan(2)
  for (const each of someOf(cases, 5)) await refuse(each)
})

/** Valid variants, each in its own folder. */
const VALID_CLIENTS: object[] = [
  {},
  ...[
    'https://app.example.org/',
    'https://app.example.org:8443/callback?x=1',
    'https://xn--bcher-kva.example/callback',
    'https://192.0.2.1/callback',
    'https://[2001:db8::1]/callback',
    'http://localhost:4000/callback',
    'http://127.0.0.1/callback',
    'http://[::1]:1/callback',
  ].map(uri => ({ redirect_uris: [uri] })),
  ...['com.example.app:/callback', 'http://127.0.0.1/callback', 'https://app.example.org/x'].map(
    uri => ({ application_type: 'native', redirect_uris: [uri] }),
  ),
  ...['RS256', 'ES256', 'EdDSA'].map(id_token_signed_response_alg => ({
    id_token_signed_response_alg,
  })),
  ...[p256, ed25519, generateKeyPairSync('rsa', { modulusLength: 2048 })].map(({ publicKey }) => ({
    token_endpoint_auth_method: 'private_key_jwt',
    jwks: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'a' }] },
  })),
  { token_endpoint_auth_method: 'client_secret_basic', client_secret: CANARY },
  { token_endpoint_auth_method: 'client_secret_post', client_secret: CANARY },
  { token_endpoint_auth_method: undefined, client_secret: CANARY, require_pkce: false },
  { consent: 'implicit' },
  { response_modes: ['form_post'] },
  { response_modes: ['query'] },
  { grant_types: ['authorization_code'] },
  { scope: 'openid' },
  { scope: 'openid offline_access profile hr' },
  { default_max_age: 0 },
  { require_auth_time: true, require_pushed_authorization_requests: true },
  { client_name: 'Ada’s 😀 ünïcode', contacts: ['ada@example.org'] },
  { client_id: 'https://app.example.org/' },
  { client_id: "it's {}", ...(JSON.parse('{"client_id":"quo\'te"}') as object) },
  { initiate_login_uri: 'https://app.example.org/login' },
]
const VALID_USHERS: (string | object)[] = [
  '',
  '# nothing\n',
  '---\n',
  `\uFEFF${COMPLETE.usher}`,
  COMPLETE.usher.replaceAll('\n', '\r\n'),
  COMPLETE.usher.trimEnd(),
  JSON.stringify(parse(COMPLETE.usher)),
  'lifetimes:\n  access_token: &short 5 min\n  id_token: *short\n',
  ...['http://localhost:3000', 'http://127.0.0.1', 'http://[::1]:80'.replace(':80', ':8080')].map(
    issuer => ({ issuer }),
  ),
  ...['10.0.0.1', '10.0.0.0/8', '::1', '2001:db8::/32'].map(range => ({ proxy: [range] })),
  ...['sqlite::memory:', 'sqlite:a b/ü.db', 'rediss://r', 'redis+cluster://a:1,b:2'].map(store => ({
    store,
  })),
  ...['1 s', '60s', '10 min', '12h', '180 d'].map(session => ({ lifetimes: { session } })),
  ...['0 s', '30 s', '60s'].map(refresh_token_grace => ({ lifetimes: { refresh_token_grace } })),
  { keys: { rotate_every: '30 d', announce: '2 h' } },
  { metrics: { port: 9464 } },
  { redis: { database: 3, key_prefix: 'a:b.c-d_', tls: {}, durability: 'replicated' } },
  { id_token: { claims: 'minimal' }, branding: { name: 'Ünïversity 😀' } },
]
const VALID: Files[] = [
  ...VALID_CLIENTS.map(changes => ({ 'clients/web.yaml': client(changes) })),
  ...VALID_USHERS.map(usher => ({ 'usher.yaml': usher })),
]

test('valid configuration is accepted, in more than 60 variants', async () => {
  expect(VALID.length).toBeGreaterThanOrEqual(60)
  for (const files of VALID) {
    const text = await withFolder({ ...RIGHT, ...files }, async folder => {
      return (await readFolder(folder, { USHER_SECRET: SECRET })).text
    })
    expect(text, JSON.stringify(files)).toBe('')
  }
})

test('valid configuration is accepted by the library too', async () => {
  const clients = VALID_CLIENTS.map((changes, i) => [
    `clients/c${i}.yaml`,
    client({ ...changes, client_id: `c${i}` }),
  ])
  const files: Files = { ...Object.fromEntries(clients), 'claims.yaml': COMPLETE.claims }
  const settings = await withFolder(files, folder => readSettings({ USHER_CONFIG: folder }))
  await expect(checkSettings(settings)).resolves.toBeUndefined()
})

test.each([
  ...oddFiles.filter(({ name }) => /^usher.*pipe|web.*dead link/.test(name)),
  ...(truncated.slice(3, 4) as Case[]),
])(
  'the command refuses it as well: $name',
  async ({ files, arrange }) => {
    const folder = await withFolder({ ...RIGHT, ...files }, made => {
      arrange?.(made)
      const kept = `${made}-kept`
      execFileSync('cp', ['-R', '-P', made, kept])
      return kept
    })
    const cli = join(import.meta.dirname, '../../src/cli.ts')
    const { code, stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [cli, 'config', 'check', folder],
      { timeout: 30_000 },
    ).catch(error => error)
    rmSync(folder, { recursive: true })
    expect(code).toBe(1)
    expect(stdout).not.toContain(CANARY)
    expect(stdout).toContain(`${dirname(`${folder}/x`)}/`)
    expect(stdout).toContain('1 problem in the configuration.')
    expect(stderr).not.toContain(CANARY)
  },
  60_000,
)
