// Client files: valid client_ids, authentication methods and metadata.

import { expect, test } from 'vitest'
import { client, type Files, PRODUCTION, read } from '../support/config-folder.ts'

const HASH = `sha256:${'A'.repeat(43)}`
const BASIC = { token_endpoint_auth_method: 'client_secret_basic', client_secret_hashes: [HASH] }
const CONFIDENTIAL = { token_endpoint_auth_method: undefined, client_secret_hashes: [HASH] }
const KEYS = { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43), kid: 'ada' }] }

/** The keys of the findings for a client file with these changes. */
const refused = async (changes: object) =>
  (await read({ 'clients/web.yaml': client(changes) }, PRODUCTION)).findings.map(({ key }) => key)

test('client_ids that differ in case are two clients', async () => {
  const files = { 'clients/a.yaml': client(), 'clients/b.yaml': client({ client_id: 'WEB' }) }
  expect((await read(files)).settings?.clients).toHaveLength(2)
})

test.each(['usr_', 'usr_ada', `usr_${'a'.repeat(26)}`])(
  'the client_id %s is refused: subjects look like that',
  async client_id => {
    const { text } = await read({ 'clients/web.yaml': client({ client_id }) })
    expect(text).toContain('client_id: usr_ is how subjects begin')
  },
)

test.each(['usr', 'usr-ada', 'my_usr_app', 'a', 'https://app.example.org/', 'x'.repeat(255)])(
  'the client_id %s is valid: it does not look like a subject',
  async client_id => {
    expect(await refused({ client_id })).toEqual([])
  },
)

test.each(['', 'a b', 'ä', 'a\n', 'x'.repeat(256)])('"%s" is no client_id', async client_id => {
  expect(await refused({ client_id })).toEqual(['client_id'])
})

const SIGNING = { token_endpoint_auth_method: 'none', require_signed_request_object: true }

test.each<[object, object, string[]]>([
  [SIGNING, {}, ['require_signed_request_object request-key']],
  [{ ...SIGNING, jwks: KEYS }, {}, []],
  [{ ...SIGNING, jwks_uri: 'https://app.example.org/jwks' }, {}, []],
  [{ require_pushed_authorization_requests: true }, {}, []],
  [
    { require_pushed_authorization_requests: true },
    { pushed_authorization_requests: false },
    ['require_pushed_authorization_requests feature-off'],
  ],
  [{ require_pushed_authorization_requests: false }, { pushed_authorization_requests: false }, []],
  [{ require_signed_request_object: false }, { request_objects: false }, []],
  [{ dpop_bound_access_tokens: false, require_dpop_nonce: false }, { dpop: false }, []],
  [{ tls_client_certificate_bound_access_tokens: false }, { mtls: false }, []],
  [{ use_mtls_endpoint_aliases: false }, { mtls: false }, []],
  [
    { dpop_bound_access_tokens: true, require_dpop_nonce: true },
    { dpop: false },
    ['dpop_bound_access_tokens feature-off', 'require_dpop_nonce feature-off'],
  ],
])('a client with %j and features of %j: %j', async (changes, features, expected) => {
  const files = { 'usher.yaml': { features }, 'clients/web.yaml': client(changes) }
  const { findings } = await read(files, PRODUCTION)
  expect(findings.map(({ key, rule }) => `${key} ${rule}`)).toEqual(expected)
})

test.each([
  'sha256:',
  `sha256:${'A'.repeat(42)}`,
  `sha256:${'A'.repeat(44)}`,
  'A'.repeat(43),
  'canary',
])('the hash %s is refused with the command that makes one', async hash => {
  const { text } = await read({
    'clients/web.yaml': client({
      token_endpoint_auth_method: 'client_secret_basic',
      client_secret_hashes: [hash],
    }),
  })
  expect(text).toContain('client_secret_hashes.0: make one with: npm run usher -- clients secret')
  expect(text).not.toContain('canary')
})

test.each([
  [{ response_types: ['code id_token'] }, ['response_types'], []],
  [{ response_types: ['id_token'], response_modes: ['fragment'] }, ['response_types'], []],
  [{ response_types: ['code', 'token'] }, ['response_types.1'], ['response_types.1']],
  [
    { response_types: ['code id_token'], response_modes: ['query'] },
    ['response_types', 'response_modes'],
    ['response_modes'],
  ],
])('tokens from the browser: %j', async (changes, off, on) => {
  const compatibility = { implicit: true, hybrid: true }
  const files = { 'clients/web.yaml': client(changes), 'usher.yaml': { compatibility } }
  expect(await refused(changes)).toEqual(off)
  expect((await read(files, PRODUCTION)).findings.map(({ key }) => key)).toEqual(on)
})

test('a key-bound or FAPI 2.0 client gets no tokens from the authorization endpoint', async () => {
  const usher = { compatibility: { implicit: true, hybrid: true } }
  const changes = { response_types: ['code id_token token'], profile: 'fapi2' }
  const { text } = await read(
    { 'clients/web.yaml': client(changes), 'usher.yaml': usher },
    PRODUCTION,
  )
  expect(text).toContain('response_types: profile: fapi2 allows here only code')
})

test.each([
  [undefined, 'must have at least one, such as https://app.example.org/callback'],
  [['https://app.example.org/a other: b'], 'only visible ASCII, no spaces: check the indentation'],
])('redirect_uris of %j are refused with the fix', async (redirect_uris, says) => {
  expect((await read({ 'clients/web.yaml': client({ redirect_uris }) })).text).toContain(says)
})

test('a loopback issuer may send logout tokens over plain http, to loopback only', async () => {
  const refusedFor = async (backchannel_logout_uri: string) =>
    (await read({ 'clients/web.yaml': client({ backchannel_logout_uri }) })).text
  expect(await refusedFor('http://localhost:4000/backchannel')).toBe('')
  const message = 'must be https; http only on loopback, for a loopback issuer'
  expect(await refusedFor('http://app.example.org/backchannel')).toContain(message)
})

test('a text that looks like a key with a value needs no setting', async () => {
  const text = 'id_token_encrypted_response_alg=grant_types=client_credentials'
  const uri = `https://app.example.org/?${text}`
  expect(await refused({ client_name: text, client_uri: uri, redirect_uris: [uri] })).toEqual([])
})

test('a required scope is one that the client may request', async () => {
  const required = async (changes: object) =>
    (
      await read({
        'clients/web.yaml': client({ required_scopes: ['offline_access'], ...changes }),
      })
    ).text
  expect(await required({})).toBe('')
  expect(await required({ scope: 'openid' })).toContain('no scope "offline_access" in `scope`')
  expect(await required({ required_scopes: ['nowhere'] })).toContain('"nowhere" in claims.yaml')
})

test.each<[object, string[]]>([
  [{ token_endpoint_auth_method: 'none' }, []],
  [CONFIDENTIAL, []],
  [{ token_endpoint_auth_method: 'client_secret_basic' }, ['client_secret_hashes']],
  [{ token_endpoint_auth_method: 'client_secret_post' }, ['client_secret_hashes']],
  [
    { token_endpoint_auth_method: 'client_secret_post', client_secret_hashes: [] },
    ['client_secret_hashes'],
  ],
  [{ token_endpoint_auth_method: 'client_secret_post', client_secret_hashes: [HASH, HASH] }, []],
  [{ token_endpoint_auth_method: 'private_key_jwt', jwks: KEYS }, []],
  [
    { token_endpoint_auth_method: 'private_key_jwt', jwks: KEYS, client_secret_hashes: [HASH] },
    ['client_secret_hashes'],
  ],
  [{ token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [] } }, ['jwks.keys']],
  [{ token_endpoint_auth_method: 'client_secret_jwt' }, ['token_endpoint_auth_method']],
  [{ token_endpoint_auth_method: 'tls_client_auth' }, ['token_endpoint_auth_method']],
  [{ scope: 'openid profile' }, ['scope']],
  [{ scope: 'openid offline_access' }, []],
  [{ scope: 'OpenID' }, ['scope']],
  [{ scope: 'openid ada grace' }, ['scope', 'scope']],
  [{ scope: '' }, ['scope']],
  [{ backchannel_logout_uri: 'https://app.example.org/backchannel' }, []],
  [{ backchannel_logout_uri: 'https://10.0.0.1/backchannel?key=x' }, []],
  [{ backchannel_logout_uri: 'http://localhost:4000/backchannel' }, ['backchannel_logout_uri']],
  [{ backchannel_logout_uri: 'http://app.example.org/backchannel' }, ['backchannel_logout_uri']],
  [{ backchannel_logout_uri: 'https://app.example.org/#x' }, ['backchannel_logout_uri']],
  [{ backchannel_logout_uri: 'https://ada:secret@app.example.org/' }, ['backchannel_logout_uri']],
  [{ backchannel_logout_uri: '/backchannel' }, ['backchannel_logout_uri']],
  [{ backchannel_logout_uri: 'ftp://app.example.org/' }, ['backchannel_logout_uri']],
  [{ grant_types: ['authorization_code', 'implicit'] }, ['grant_types.1']],
  [{ grant_types: ['authorization_code'] }, []],
  [{ response_modes: ['query', 'fragment'] }, ['response_modes']],
  [{ response_modes: ['form_post'] }, []],
  [{ response_types: ['code'] }, []],
  [{ require_pkce: false, ...BASIC }, []],
  [{ id_token_signed_response_alg: 'HS256' }, ['id_token_signed_response_alg']],
  [{ id_token_signed_response_alg: 'none' }, ['id_token_signed_response_alg']],
  [{ client_uri: 'javascript:alert(1)' }, ['client_uri']],
  [{ policy_uri: 'data:text/html,x' }, ['policy_uri']],
  [{ tos_uri: 'terms.html' }, ['tos_uri']],
  [{ jwks_uri: 'https://app.example.org/jwks' }, []],
  [{ jwks_uri: 'http://app.example.org/jwks' }, ['jwks_uri']],
  [{ jwks_uri: 'https://app.example.org/#jwks' }, ['jwks_uri']],
  [{ token_endpoint_auth_signing_alg: 'ES256' }, ['token_endpoint_auth_signing_alg']],
  [{ require_dpop_nonce: true, use_mtls_endpoint_aliases: true }, ['use_mtls_endpoint_aliases']],
  [{ use_mtls_endpoint_aliases: false, require_dpop_nonce: false }, []],
  [{ post_logout_redirect_uris: ['https://app.example.org/#x'] }, ['post_logout_redirect_uris.0']],
  [{ post_logout_redirect_uris: ['http://app.example.org/'] }, ['post_logout_redirect_uris.0']],
  [{ logo_uri: 'https://app.example.org/logo.svg' }, ['logo_uri']],
  [{ logo_uri: 'logos/none.svg' }, ['logo_uri']],
])('a client with %j has a finding about %j', async (changes, keys) => {
  expect(await refused(changes)).toEqual(keys)
})

const CIBA = {
  grant_types: ['urn:openid:params:grant-type:ciba'],
  redirect_uris: undefined,
  ...BASIC,
}
const NOTIFIED = { backchannel_client_notification_endpoint: 'https://app.example.org/ping' }
const PING = { backchannel_token_delivery_mode: 'ping' }
test.each([
  [{}, []],
  [{ ...PING, ...NOTIFIED }, []],
  [
    { ...PING, backchannel_client_notification_endpoint: 'http://app.example.org/ping' },
    ['backchannel_client_notification_endpoint'],
  ],
  [{ backchannel_token_delivery_mode: 'push' }, ['backchannel_token_delivery_mode']],
  [{ backchannel_user_code_parameter: true }, ['backchannel_user_code_parameter']],
  [{ token_endpoint_auth_method: 'none', client_secret_hashes: undefined }, ['grant_types']],
  [{ subject_type: 'pairwise', sector_identifier_uri: 'https://a.example/' }, ['subject_type']],
])('a CIBA client with %j has a finding about %j', async (changes, keys) => {
  const features = { ciba: true, pairwise_subjects: true }
  const files = { 'usher.yaml': { features }, 'clients/web.yaml': client({ ...CIBA, ...changes }) }
  expect((await read(files, PRODUCTION)).findings.map(({ key }) => key)).toEqual(keys)
})

/** The keys and rules of the findings and warnings for a client file with these changes. */
async function judged(changes: object): Promise<string[]> {
  const { settings, findings } = await read({ 'clients/web.yaml': client(changes) })
  return [...findings, ...(settings?.warnings ?? [])].map(({ key, rule }) => `${key} ${rule}`)
}

const CODE_ONLY = { grant_types: ['authorization_code'] }
const IDLE = 'lifetimes.refresh_token_idle'
test.each<[object, string[]]>([
  [{ lifetimes: { access_token: '5 min', id_token: '1 h', refresh_token: '180 d' } }, []],
  [{ lifetimes: { access_token: '2 d' } }, ['lifetimes.access_token value']],
  [{ lifetimes: { access_token: '2 h' } }, ['lifetimes.access_token access-token-lifetime']],
  [
    { lifetimes: { refresh_token: '1 d' }, ...CODE_ONLY },
    ['lifetimes.refresh_token refresh-grant'],
  ],
  [{ lifetimes: { refresh_token_idle: '91 d' } }, [`${IDLE} idle-longer`]],
  [{ lifetimes: { refresh_token_idle: '91 d', refresh_token: '92 d' } }, []],
  [{ refresh_tokens: 'always' }, []],
  [{ refresh_tokens: 'always', ...CODE_ONLY }, ['refresh_tokens refresh-grant']],
  [{ rotate_refresh_tokens: true }, []],
  [{ rotate_refresh_tokens: true, ...CODE_ONLY }, ['rotate_refresh_tokens refresh-grant']],
  [{ rotate_refresh_tokens: false }, ['rotate_refresh_tokens rotation-public']],
  [{ rotate_refresh_tokens: false, dpop_bound_access_tokens: true }, []],
  [
    { rotate_refresh_tokens: false, ...CONFIDENTIAL, lifetimes: { refresh_token_idle: '1 d' } },
    [`${IDLE} idle-unrotated`],
  ],
  [{ lifetimes: { code: '30 s' } }, ['lifetimes.code unknown-key']],
])('tokens of a client with %j: %j', async (changes, expected) => {
  expect(await judged(changes)).toEqual(expected)
})

const WEB = { 'clients/web.yaml': client(), 'clients/two.yaml': client({ client_id: 'two' }) }
const withDefaults = (defaults: object, files: Files = WEB) =>
  read({ ...files, 'usher.yaml': { defaults } })

test('defaults stand for the keys that a client file does not have', async () => {
  const lifetimes = { access_token: '5 min' }
  const own = client({ client_id: 'two', lifetimes: { id_token: '1 h' }, consent: 'explicit' })
  const files = { ...WEB, 'clients/two.yaml': own }
  const { settings } = await withDefaults({ lifetimes, refresh_tokens: 'always' }, files)
  expect(settings?.clients).toMatchObject([
    { client_id: 'two', lifetimes: { id_token: 3600 }, refresh_tokens: 'always' },
    { client_id: 'web', lifetimes: { access_token: 300 }, refresh_tokens: 'always' },
  ])
})

test.each<[object, string[]]>([
  [{ rotate_refresh_tokens: false }, ['defaults.rotate_refresh_tokens rotation-public']],
  [{ lifetimes: { access_token: '2 d' } }, ['defaults.lifetimes.access_token value']],
  [{ consnet: 'implicit' }, ['defaults.consnet unknown-key']],
  [{ client_id: 'web' }, ['defaults.client_id unknown-key']],
  [{ subject_type: 'pairwise' }, ['defaults.subject_type feature-off']],
])('defaults of %j: one finding, in usher.yaml', async (defaults, expected) => {
  const { findings } = await withDefaults(defaults)
  expect(findings.map(({ key, rule }) => `${key} ${rule}`)).toEqual(expected)
  expect(findings.map(({ file }) => file)).toEqual(['usher.yaml'])
})

test('a finding about defaults names the clients that inherit the key', async () => {
  const rotating = client({ client_id: 'own', rotate_refresh_tokens: true })
  const many = Object.fromEntries(
    ['a', 'b', 'c', 'd', 'e'].map(name => [`clients/${name}.yaml`, client({ client_id: name })]),
  )
  const messages = async (defaults: object, files: Files) =>
    (await withDefaults(defaults, files)).findings.map(({ message }) => message)
  const [two] = await messages(
    { rotate_refresh_tokens: false },
    { ...WEB, 'clients/own.yaml': rotating },
  )
  expect(two).toMatch(/ \(clients\/two\.yaml, clients\/web\.yaml\)$/)
  const [five] = await messages({ rotate_refresh_tokens: false }, many)
  expect(five).toMatch(/ \(clients\/a\.yaml, clients\/b\.yaml, clients\/c\.yaml and 2 more\)$/)
  expect((await messages({ consnet: 'implicit' }, WEB)).join()).not.toContain('clients/')
})

test('a finding about a key of the file itself is in the file, whatever the default is', async () => {
  const own = client({ rotate_refresh_tokens: false })
  const { findings } = await withDefaults(
    { rotate_refresh_tokens: true },
    { 'clients/web.yaml': own },
  )
  expect(findings.map(({ file }) => file)).toEqual(['clients/web.yaml'])
})

const NAMES = {
  groups: { scope: 'groups', from: 'attributes.groups' },
  name: { scope: 'profile', from: 'name' },
}
test.each<[object, string[]]>([
  [{ roles: 'groups', team: 'groups' }, []],
  [{ name: 'groups' }, ['claims.rename.name claim-taken']],
  [{ name: 'groups', groups: 'name' }, []],
  [{ roles: 'gruops' }, ['claims.rename.roles unknown-claim']],
  [{ sub: 'name' }, ['claims.rename.sub protocol-claim']],
])('claims.rename of %j: %j', async (rename, expected) => {
  const files = {
    'claims.yaml': { claims: NAMES },
    'clients/web.yaml': client({ claims: { rename } }),
  }
  expect((await read(files)).findings.map(({ key, rule }) => `${key} ${rule}`)).toEqual(expected)
})

test.each([
  ['client_secret', { client_secret: 'gehe\u00efm', token_endpoint_auth_method: undefined }],
  ['client_secret', { client_secret: 'a\tb', token_endpoint_auth_method: undefined }],
  ['default_acr_values.0', { default_acr_values: ['two factors'] }],
  ['client_id', { client_id: 'wik\u00ed' }],
])('a value that no request can carry is refused: %s', async (key, changes) => {
  const { findings } = await read({ 'clients/web.yaml': client(changes) })
  expect(findings.map(finding => finding.key)).toEqual([key])
  expect(findings[0]?.message).toMatch(/ASCII/)
})
