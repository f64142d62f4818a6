// Files of protected APIs: valid content, and dependencies on other files.

import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkSettings } from '../../src/commands/config.ts'
import { differences } from '../../src/config/diff.ts'
import { readSettings } from '../../src/config/load.ts'
import type { ConfigError } from '../../src/config/report/finding.ts'
import { EXCHANGE_GRANT } from '../../src/oidc/vocabulary.ts'
import { client, type Files, places, read, resource, withFolder } from '../support/config-folder.ts'

const WEB = { 'clients/web.yaml': client() }
const API = client({ client_id: 'api', token_endpoint_auth_method: undefined, client_secret: 'x' })
const withApi = (changes: object, files: Files = {}) =>
  read({ ...WEB, 'clients/api.yaml': API, 'resources/files.yaml': resource(changes), ...files })

/** The keys and rules of the findings for an API with these changes. */
const refused = async (changes: object) =>
  (await withApi(changes)).findings.map(({ key, rule }) => `${key} ${rule}`)

test.each([
  'https://files.example.org',
  'https://files.example.org/',
  'https://files.example.org/v1?tenant=a',
  'urn:example:files',
  'files:all',
])('%s is an identifier', async identifier => {
  expect(await refused({ resource: identifier })).toEqual([])
})

test.each([
  ['', 'invalid-format'],
  ['files', 'value'],
  ['https://files.example.org/#x', 'value'],
  ['https://files.example.org#', 'value'],
  ['https://files example.org', 'invalid-format'],
  ['https://files.example.org/é', 'invalid-format'],
])('"%s" is no identifier', async (identifier, rule) => {
  expect(await refused({ resource: identifier })).toEqual([`resource ${rule}`])
})

test.each<[string, object, string[]]>([
  ['no scope', { scopes: {} }, ['scopes value']],
  [
    'patterns that name no host',
    { clients: ['https://claude.ai*', 'web*', 'https://*.ai/*'] },
    ['clients.0 unknown-client', 'clients.1 unknown-client', 'clients.2 unknown-client'],
  ],
  [
    'a default that is no scope',
    { default_scopes: ['files:raed'] },
    ['default_scopes.0 unknown-scope'],
  ],
  ['a scope with a space', { scopes: { 'a b': {} } }, ['scopes.a b invalid-key']],
  [
    'a public client that introspects',
    { introspected_by: ['web'] },
    ['introspected_by.0 client-public'],
  ],
  ['an unknown algorithm', { token_signing_alg: 'HS256' }, ['token_signing_alg invalid-value']],
  ['an unknown claim', { claims: ['nmae'] }, ['claims.0 unknown-claim']],
  ['the audience of an ID token', { audience: 'web' }, ['audience same-audience']],
  [
    'the audience of an assertion',
    { resource: 'http://localhost:3000' },
    ['resource same-audience'],
  ],
])('%s is refused', async (_, changes, expected) => {
  expect(await refused(changes)).toEqual(expected)
})

test.each<[string, object]>([
  ['a JWT for ten minutes', { token_lifetime: '10 min' }],
  ['an opaque token for an hour', { token_format: 'opaque', token_lifetime: '1 h' }],
  [
    'patterns of clients',
    { clients: ['web', 'app_*', 'https://claude.ai/*', 'https://a.example/b*'] },
  ],
  ['clients and its own', { clients: ['web'], introspected_by: ['api'], token_format: 'opaque' }],
])('%s is right', async (_, changes) => {
  expect(await refused(changes)).toEqual([])
})

const EXCHANGE_CLIENTS = {
  'clients/api.yaml': client({
    client_id: 'api',
    token_endpoint_auth_method: undefined,
    client_secret: 'x',
    redirect_uris: undefined,
    grant_types: [EXCHANGE_GRANT],
  }),
}
const rule = { client: 'api', scopes: ['files:read'] }

test.each<[string, object, string[]]>([
  ['a rule for an API that may exchange', {}, []],
  ['a client without a file', { client: 'apy' }, ['exchange.0.client no confidential client']],
  ['a public client', { client: 'web' }, ['exchange.0.client no confidential client']],
  ['an unknown audience', { from: ['shop'] }, ['exchange.0.from no API in resources/ has']],
  ['a scope of another API', { scopes: ['x'] }, ['exchange.0.scopes the API has no scope x']],
])('in exchange: %s', async (_, change, expected) => {
  const { settings } = await withApi({ exchange: [{ ...rule, ...change }] }, EXCHANGE_CLIENTS)
  if (!settings) throw new Error('the folder is valid')
  const findings = await checkSettings(settings).then(
    () => [],
    ({ findings }: ConfigError) => findings,
  )
  expect(findings).toHaveLength(expected.length)
  for (const [i, { key, message }] of findings.entries()) {
    const [path = '', ...words] = expected[i]?.split(' ') ?? []
    expect(key).toBe(path)
    expect(message).toContain(words.join(' '))
  }
})

test('a client that an exchange names needs the grant type in its file', async () => {
  const { settings } = await withApi({ exchange: [rule] })
  if (!settings) throw new Error('the folder is valid')
  await expect(checkSettings(settings)).rejects.toThrow(
    /no confidential client in clients.* has grant_types with urn:ietf/,
  )
})

test('two APIs cannot have the same identifier or audience', async () => {
  const reading = await withApi(
    {},
    {
      'resources/again.yaml': resource(),
      'resources/slash.yaml': resource({ resource: 'https://files.example.org/' }),
      'resources/other.yaml': resource({ resource: 'urn:other', audience: 'urn:one' }),
      'resources/third.yaml': resource({ resource: 'urn:one' }),
    },
  )
  expect(places(reading)).toEqual([
    expect.stringMatching(/^resources\/files\.yaml:1:\d+ resource$/),
    expect.stringMatching(/^resources\/slash\.yaml:1:\d+ resource$/),
    expect.stringMatching(/^resources\/third\.yaml:1:\d+ resource$/),
  ])
  expect(reading.text).toContain('is already the resource of resources/again.yaml')
  expect(reading.text).toContain('the tokens of resources/other.yaml have this audience already')
})

test('a client may name the scopes of an API, and no others', async () => {
  const right = { 'clients/web.yaml': client({ scope: 'openid files:read' }) }
  expect((await withApi({}, right)).text).toBe('')
  const wrong = await withApi({}, { 'clients/web.yaml': client({ scope: 'openid files:raed' }) })
  expect(wrong.text).toContain(
    'no scope "files:raed" in claims.yaml or resources/; did you mean files:read?',
  )
})

test('a key that needs a feature that is off is a finding with the name of the feature', async () => {
  const usher = (features: object) => ({ 'usher.yaml': { features } })
  const off = await withApi({}, usher({ resource_indicators: false }))
  expect(off.text).toContain('features.resource_indicators')
  expect(off.findings.map(({ rule }) => rule)).toContain('feature-off')
  const asking = { token_format: 'opaque', introspected_by: ['api'] }
  const mute = await withApi(asking, usher({ introspection: false }))
  expect(mute.text).toContain(
    'introspected_by: needs a setting that is off: `features.introspection`',
  )
  expect(mute.findings.map(({ rule }) => rule)).toContain('introspection-off')
  const alone = await read(usher({ introspection: false, jwt_introspection: true }))
  expect(alone.text).toContain('features.jwt_introspection: needs `features.introspection`')
  const signed = client({ introspection_signed_response_alg: 'ES256' })
  const unsigned = await read({ 'clients/web.yaml': signed })
  expect(unsigned.text).toContain('needs a setting that is off: `features.jwt_introspection`')
})

test('an API for every metadata document is a warning', async () => {
  const { settings } = await withApi({ clients: ['https://*'] })
  expect(settings?.warnings).toMatchObject([{ rule: 'resource-open', key: 'clients' }])
})

test('an opaque token that no client can introspect is a warning', async () => {
  const { settings } = await withApi({ token_format: 'opaque' })
  expect(settings?.warnings).toMatchObject([{ rule: 'resource-unread', key: 'token_format' }])
  const { settings: asked } = await withApi({ token_format: 'opaque', introspected_by: ['api'] })
  expect(asked?.warnings).toEqual([])
})

test('an algorithm without an imported key is a finding', async () => {
  const sign = (token_signing_alg: string, types = ['rsa', 'ed25519'], changes = {}) => {
    const files = {
      'clients/web.yaml': client(changes),
      'resources/files.yaml': resource({ token_signing_alg }),
    }
    return withFolder(files, async folder => {
      const keys = types.map(type => {
        const file = join(folder, `.${type}`)
        const { privateKey } = generateKeyPairSync(type as 'rsa', { modulusLength: 2048 })
        const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
        writeFileSync(file, pem, { mode: 0o600 })
        return file
      })
      writeFileSync(join(folder, 'usher.yaml'), JSON.stringify({ keys: { import: keys } }))
      return checkSettings(await readSettings({ USHER_CONFIG: folder }))
    })
  }
  await expect(sign('EdDSA')).resolves.toBeUndefined()
  await expect(sign('ES256')).rejects.toThrow(
    'token_signing_alg: there is no key for it; those of keys.import sign RS256, EdDSA',
  )
  await expect(sign('EdDSA', ['ed25519'])).rejects.toThrow(
    'keys.import: no key is RSA, and clients use RS256',
  )
  await expect(sign('RS256', ['rsa'], { id_token_signed_response_alg: 'ES256' })).rejects.toThrow(
    "id_token_signed_response_alg: must be 'RS256', what the keys of keys.import sign with",
  )
})

test('a client that is added is one line, also beside an API for every client', async () => {
  const before = (await withApi({})).settings
  const after = (await withApi({}, { 'clients/a.yaml': client({ client_id: 'added' }) })).settings
  expect(
    before && after && (await differences(before, { ...after, folder: before.folder })),
  ).toEqual(['+ clients.added'])
})

test('a list is one value in the changes', async () => {
  const withUris = async (...redirect_uris: string[]) =>
    (await read({ 'clients/web.yaml': client({ redirect_uris }) })).settings
  const [first, second] = ['https://a.example.org/', 'https://b.example.org/']
  const [before, after] = [await withUris(second), await withUris(first, second)]
  expect(
    before && after && (await differences(before, { ...after, folder: before.folder })),
  ).toEqual([`clients.web.redirect_uris: ["${second}"] → ["${first}","${second}"]`])
})

test('a change between two configurations is reported by the identifier of the API', async () => {
  const { settings: before } = await withApi({})
  const other = { 'resources/other.yaml': resource({ resource: 'urn:other' }) }
  const { settings: after } = await withApi({ token_lifetime: '5 min' }, other)
  expect(
    before && after && (await differences(before, { ...after, folder: before.folder })),
  ).toEqual(['+ resources.https://files.example.org.token_lifetime: 300', '+ resources.urn:other'])
})

test.each<[string, string[]]>([
  ['https://files.example.org', []],
  ['https://files.example.org/', ['default_resource unknown-resource']],
])('a client with default_resource %s has findings: %j', async (default_resource, expected) => {
  const { findings } = await withApi({}, { 'clients/web.yaml': client({ default_resource }) })
  expect(findings.map(({ key, rule }) => `${key} ${rule}`)).toEqual(expected)
})

test('default_resource is refused for an API that is not for the client, or where APIs are off', async () => {
  const own = { 'clients/web.yaml': client({ default_resource: 'https://files.example.org' }) }
  expect((await withApi({ clients: ['api'] }, own)).text).toContain(
    'the API is not for this client',
  )
  const off = { 'usher.yaml': { features: { resource_indicators: false } } }
  expect((await withApi({}, { ...own, ...off })).text).toContain(
    'default_resource: needs a setting',
  )
})

test('a claim that tokens have of themselves is refused', async () => {
  const files = { 'claims.yaml': { claims: { act: { scope: 'act', from: 'name' } } } }
  expect((await withApi({ claims: ['act'] }, files)).text).toContain(
    'is a claim that tokens have of themselves',
  )
})
