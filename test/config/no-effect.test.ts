// Files and keys that are valid and have no effect get a warning. Those that have one get none.

import { expect, test } from 'vitest'
import { client, type Files, PRODUCTION, read, resource } from '../support/config-folder.ts'
import { BANKING } from '../support/details.ts'

/** Returns the places and messages of the warnings about what has no effect. */
async function idle(files: Files, env?: Record<string, string>) {
  const { settings, text } = await read({ 'clients/web.yaml': client(), ...files }, env)
  expect(text).toBe('')
  const warnings = settings?.warnings.filter(({ rule }) => rule === 'no-effect') ?? []
  return warnings.map(({ file, key, message }) => {
    const name = file.replace(/^.*usher-config-\w+\//, '')
    expect(message).toMatch(/^has no effect: \S/)
    return key ? `${name} ${key}` : name
  })
}

const corp = (changes: object = {}) => ({
  issuer: 'https://corp.example.org',
  client_id: 'usher',
  client_secret_file: 'corp.secret',
  label: 'Corporation',
  ...changes,
})
const UPSTREAM = { 'upstreams/corp.yaml': corp(), 'corp.secret': 'a secret' }
const MACHINE = client({
  grant_types: ['client_credentials'],
  token_endpoint_auth_method: 'client_secret_basic',
  client_secret_hashes: [`sha256:${'A'.repeat(43)}`],
})
const [[DETAIL_FILE = '', DETAIL = ''] = []] = Object.entries(BANKING.files ?? {})
const BANK = {
  'clients/web.yaml': client({ token_endpoint_auth_method: 'none' }),
  ...Object.fromEntries(
    Object.entries(BANKING.resources ?? {}).map(([name, api]) => [
      `resources/${name}.yaml`,
      { ...api, clients: undefined, introspected_by: undefined, token_format: 'jwt' },
    ]),
  ),
}

const IDLE: Record<string, [files: Files, places: string[]]> = {
  'an upstream that no method names': [
    { ...UPSTREAM, 'usher.yaml': { sign_in: { methods: ['password'] } } },
    ['upstreams/corp.yaml issuer'],
  ],
  'Redis, where the store is SQLite': [
    { 'usher.yaml': { redis: { key_prefix: 'mine:' } } },
    ['usher.yaml redis'],
  ],
  'grace for a second factor that is off': [
    { 'usher.yaml': { sign_in: { second_factor_grace: '7 d' } } },
    ['usher.yaml sign_in.second_factor_grace'],
  ],
  'grace for a second factor that nobody needs': [
    { 'usher.yaml': { sign_in: { second_factor: 'optional', second_factor_grace: '7 d' } } },
    ['usher.yaml sign_in.second_factor_grace'],
  ],
  'former hosts without passkeys': [
    { 'usher.yaml': { sign_in: { former_hosts: ['old.example.org'] } } },
    ['usher.yaml sign_in.former_hosts'],
  ],
  'limits of a feature that is off': [
    { 'usher.yaml': { security: { ciba_requests: 5 } } },
    ['usher.yaml security.ciba_requests'],
  ],
  'redirect URIs without the code grant': [
    { 'clients/web.yaml': MACHINE },
    ['clients/web.yaml redirect_uris'],
  ],
  'a sector of public subjects': [
    { 'clients/web.yaml': client({ sector_identifier_uri: 'https://app.example.org/uris' }) },
    ['clients/web.yaml sector_identifier_uri'],
  ],
  'sessions of a logout that is not requested': [
    { 'clients/web.yaml': client({ backchannel_logout_session_required: true }) },
    ['clients/web.yaml backchannel_logout_session_required'],
  ],
  'the way back from a sign-out that is off': [
    {
      'usher.yaml': { features: { rp_initiated_logout: false } },
      'clients/web.yaml': client({ post_logout_redirect_uris: ['https://app.example.org/bye'] }),
    },
    ['clients/web.yaml post_logout_redirect_uris'],
  ],
  'a name in a language without pages': [
    { 'clients/web.yaml': client({ 'client_name#sv': 'Webb', 'client_name#de-CH': 'Netz' }) },
    ['clients/web.yaml client_name#sv'],
  ],
  'the algorithm of tokens that are not signed': [
    {
      'resources/files.yaml': resource({
        token_format: 'opaque',
        introspected_by: ['api'],
        token_signing_alg: 'ES256',
      }),
      'clients/api.yaml': { ...MACHINE, client_id: 'api', redirect_uris: undefined },
    },
    ['resources/files.yaml token_signing_alg'],
  ],
  'a type of details while the feature is off': [
    { ...BANK, [DETAIL_FILE]: DETAIL },
    [`${DETAIL_FILE} type`],
  ],
  'a language without a text': [{ 'locales/de.yaml': '# later\n' }, ['locales/de.yaml']],
  'the template of a page that is off': [
    { 'pages/device.eta': '<p>Code</p>', 'pages/layout.eta': '<%~ it.body %>' },
    ['pages/device.eta'],
  ],
}

test.each(Object.entries(IDLE))('%s', async (_, [files, places]) => {
  expect(await idle(files)).toEqual(places)
})

const USED: Record<string, Files> = {
  'every upstream, where there are no methods': UPSTREAM,
  'an upstream that a method names': {
    ...UPSTREAM,
    'usher.yaml': { sign_in: { methods: ['password', 'corp'] } },
  },
  'an upstream for assertions': {
    ...UPSTREAM,
    'upstreams/corp.yaml': corp({ assertions: true }),
    'usher.yaml': { sign_in: { methods: ['password'] } },
  },
  'redirect URIs in defaults, for other clients': {
    'usher.yaml': { defaults: { response_modes: ['query'] } },
    'clients/api.yaml': { ...MACHINE, client_id: 'api', redirect_uris: undefined },
  },
  'a name in a language of the operator': {
    'locales/sv.yaml': { sign_in: { title: 'Logga in' } },
    'clients/web.yaml': client({ 'client_name#sv': 'Webb' }),
  },
  'an API that no client has used': { 'resources/files.yaml': resource() },
}

test.each(Object.entries(USED))('no warning: %s', async (_, files) => {
  expect(await idle(files)).toEqual([])
})

test('Redis settings are for a store that a variable names', async () => {
  const files = { 'usher.yaml': { redis: { key_prefix: 'mine:' } } }
  expect(
    await idle(files, { USHER_STORE: 'redis://localhost', USHER_SECRET: PRODUCTION.USHER_SECRET }),
  ).toEqual([])
})

test('a variable with a slip has no effect; those that Kubernetes sets are not of Usher', async () => {
  const kubernetes = { USHER_PORT: 'tcp://10.0.0.1:80', USHER_SERVICE_HOST: '10.0.0.1' }
  const env = { ...kubernetes, USHER_SECRETS: 'x', USHER_ISUER: 'y', USHER_PICTURE: 'z' }
  expect(await idle({}, env)).toEqual(['environment USHER_SECRETS', 'environment USHER_ISUER'])
})
