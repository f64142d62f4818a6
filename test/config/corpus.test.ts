// Hundreds of invalid configuration folders. Each is refused, quickly and without a crash. Every finding
// has its file, its position and its rule, and shows no secret. Valid folders beside them are accepted.

import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { checkSettings } from '../../src/commands/config.ts'
import { readSettings } from '../../src/config/load.ts'
import { mapOf } from '../../src/store/values.ts'
import { COMPLETE, client, type Files, readFolder, withFolder } from '../support/config-folder.ts'
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
  /** Changes the folder before it is read. */
  arrange?(folder: string): void
}

async function refuse({ name, files, arrange }: Case) {
  await withFolder({ ...RIGHT, ...files }, async folder => {
    arrange?.(folder)
    const started = process.cpuUsage()
    const { settings, findings, text } = await readFolder(folder, { USHER_SECRET: SECRET })
    expect(Boolean(settings), `${name} is taken`).toBe(false)
    expect(findings, name).not.toEqual([])
    const { user, system } = process.cpuUsage(started)
    expect((user + system) / 1000, name).toBeLessThan(5000)
    for (const secret of [CANARY, SECRET]) expect(text, name).not.toContain(secret)
    for (const { file, rule, message, line, column, key } of findings) {
      expect(file, name).toMatch(/^(usher\.yaml|claims\.yaml|(client|resource).*)$/)
      expect(rule, name).toMatch(/^[a-z]+(-[a-z]+)*$/)
      expect(message, name).toMatch(/^\S[^\n]{3,}$/)
      if (rule === 'file') continue
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
/** One redirect URI of each kind that every client is refused. redirect-uris.test.ts has them all. */
const REDIRECTS = [
  'https://*.example.org/callback',
  'https://app.example.org/callback#x',
  `https://ada:${CANARY}@app.example.org/callback`,
  'javascript:alert(1)',
  'http://app.example.org/callback',
  'com.example.app:/callback',
  '',
]
const redirects = REDIRECTS.flatMap(uri =>
  ['redirect_uris', 'post_logout_redirect_uris'].map(key => ({
    name: `${key}: ${uri}`,
    files: changed('clients/web.yaml', [key], ['https://app.example.org/right', uri]),
  })),
)

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

test('the folder without a change is valid', async () => {
  await withFolder(RIGHT, async folder => {
    expect((await readFolder(folder, { USHER_SECRET: SECRET })).text).toBe('')
  })
})

test.each(
  Object.entries({
    truncated,
    unknownKeys,
    swapped,
    long,
    redirects,
    signingKeys,
    clientKeys,
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
    'https://xn--bcher-kva.example/callback',
    'https://[2001:db8::1]/callback',
    'http://localhost:4000/callback',
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
