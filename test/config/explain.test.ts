// config explain: every key has a description, and every value has its source.

import { expect, test } from 'vitest'
import { clientMetadata, effectiveKeys } from '../../src/commands/explain.ts'
import { allPlaces, keysOf } from '../../src/config/key-list.ts'
import { readFolder } from '../../src/config/load.ts'
import { SCHEMAS } from '../../src/config/schema/usher.ts'
import { COMPLETE, type Files, PRODUCTION, withFolder } from '../support/config-folder.ts'

const USHER = COMPLETE.usher.replace('code: 60 s', 'code: 30 s')
const FILES: Files = {
  'usher.yaml': USHER,
  'claims.yaml': COMPLETE.claims,
  'clients/web.yaml': COMPLETE.client,
}

const explained = (env: Record<string, string> = {}) =>
  withFolder(FILES, async folder => {
    const reading = await readFolder(env, folder)
    const keys = new Map(effectiveKeys(reading).map(key => [key.key, key]))
    return { folder, keys, clients: reading.clients.map(clientMetadata) }
  })

const allKeys = Object.keys(SCHEMAS).flatMap(file => keysOf(file))
const describedKeys = allKeys.filter(
  ({ path, file }) => !path.endsWith('NAME') && file !== 'locale',
)
test.each(describedKeys)('$file: $path has a description of its effect', key => {
  expect(key.description).toMatch(/^\S.{15,}/)
})

test('the places of all keys, which a running service lists without JSON Schemas, are those of the schemas', () => {
  const placeOf = ({ file, path }: { file: string; path: string }) => `${file}: ${path}`
  expect(allPlaces().map(placeOf)).toEqual(allKeys.map(placeOf))
})

test('a name in backticks in a description is a key of its file', () => {
  const named = allKeys.flatMap(({ file, description = '' }) =>
    [...description.matchAll(/`([^`]+)`/g)].map(([, path]) => ({ file, path })),
  )
  expect(named.length).toBeGreaterThan(25)
  const strays = named.filter(
    ({ file, path }) => !allKeys.some(key => key.file === file && key.path === path),
  )
  expect(strays).toEqual([])
})

test('the source of a value is its line, its variable, or the default', async () => {
  const { keys, folder } = await explained({ PORT: '4001' })
  expect(keys.get('lifetimes.code')).toMatchObject({
    value: '30 s',
    from: `${folder}/usher.yaml:${USHER.split('\n').indexOf('  code: 30 s') + 1}`,
    default: '60 s',
    change: 'takes effect at once',
  })
  expect(keys.get('listen.port')).toMatchObject({ value: 4001, from: 'PORT', variable: 'PORT' })
  expect(keys.get('listen.port')?.change).toBe('takes effect after a restart')
  expect(keys.get('keys.announce')).toMatchObject({ value: '1 d', from: 'default' })
  expect(keys.get('claims.department.from')).toMatchObject({
    value: 'attributes.department',
    from: `${folder}/claims.yaml:7`,
  })
})

test('a client is shown with its settings and defaults, and without hashes', async () => {
  const [values = {}] = (await explained()).clients
  expect(values.response_modes?.value).toEqual(['query'])
  expect(values.client_secret_hashes?.value).toBe('(not shown)')
  expect(values.consent?.from).toMatch(/web\.yaml:28$/)
})

const PEM = '-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIHunter\\n-----END PRIVATE KEY-----'
test.each([
  ['listen.tls.key', { listen: { tls: { key: PEM, cert: 'c.pem' } } }],
  ['redis.tls.key', { redis: { tls: { key: PEM, cert: 'c.pem' } } }],
  ['keys.import', { keys: { import: ['k.pem', PEM] } }],
  ['keys.import', { keys: { import: ['{"kty":"OKP","d":"hunter2"}'] } }],
  ['issuer', { issuer: 'https://ada:hunter2@login.example.org' }],
  ['accounts.module', { accounts: { module: 'https://:hunter2@example.org/accounts.ts' } }],
  ['branding.name', { branding: { name: PEM } }],
])('a secret that stands at %s is not shown', async (path, usher) => {
  const shown = await withFolder({ 'usher.yaml': JSON.stringify(usher) }, async folder =>
    effectiveKeys(await readFolder({}, folder)),
  )
  expect(shown.find(({ key }) => key === path)?.value).toBe('(not shown)')
  expect(JSON.stringify(shown)).not.toMatch(/hunter/i)
})

test.each([
  ['issuer', { issuer: 'https://login.example.org:8443/a?b=c@d' }],
  [
    'branding.links.forgot_password',
    { branding: { links: { forgot_password: 'https://example.org' } } },
  ],
])('%s is an address, and shown', async (path, usher) => {
  const shown = await withFolder({ 'usher.yaml': JSON.stringify(usher) }, async folder =>
    effectiveKeys(await readFolder({}, folder)),
  )
  expect(shown.find(({ key }) => key === path)?.value).toMatch(/^https:/)
})

test('the password of a store is not shown', async () => {
  const USHER_STORE = 'redis://usher:hunter2@redis.example.org'
  const { keys } = await explained({ ...PRODUCTION, USHER_STORE })
  expect(keys.get('store')).toMatchObject({ value: '(not shown)', from: 'USHER_STORE' })
})
