// Findings of the library about a configuration are in the same report, before the start.

import { expect, test } from 'vitest'
import { checkSettings } from '../../src/commands/config.ts'
import { ConfigError, type Finding } from '../../src/config/report/finding.ts'
import { COMPLETE, client, type Files, readFolder, withFolder } from '../support/config-folder.ts'

const check = (files: Files): Promise<{ findings: Finding[]; text: string }> =>
  withFolder(files, async folder => {
    const { settings, ...refusal } = await readFolder(folder)
    if (!settings) return refusal
    try {
      await checkSettings(settings)
      return { findings: [], text: '' }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return { findings: error.findings, text: error.message }
    }
  })

const keys = (jwk: object) => ({
  token_endpoint_auth_method: 'private_key_jwt',
  jwks: { keys: [jwk] },
})

test('the library accepts files with keys of many types', async () => {
  const { text } = await check({
    'usher.yaml': COMPLETE.usher,
    'claims.yaml': COMPLETE.claims,
    'clients/web.yaml': COMPLETE.client,
  })
  expect(text).toBe('')
})

test('the client_id of the account pages is reserved: the report shows the file that uses it', async () => {
  const { text } = await check({ 'clients/ada.yaml': client({ client_id: 'usher-account' }) })
  expect(text).toContain('usher-account')
  expect(text).toMatch(/in the configuration\./)
})

test.each(['constructor', 'toString', 'valueOf'])(
  'a scope with the name %s is valid or a finding, without a crash',
  async scope => {
    const claims = { claims: { level: { scope, from: 'attributes.level' } } }
    await expect(check({ 'claims.yaml': claims })).resolves.toBeDefined()
  },
)

test.each([
  { kty: 'oct', k: 'canary-1815-canary-1815-canary-1815-cana' },
  {
    kty: 'OKP',
    crv: 'Ed25519',
    x: 'A'.repeat(43),
    d: 'canary-1815-canary-1815-canary-1815-canary1',
  },
])('a jwks with a private or symmetric key is refused, and not shown', async jwk => {
  const { text } = await check({ 'clients/web.yaml': client(keys(jwk)) })
  expect(text).toMatch(/web\.yaml:1:\d+ {2}jwks\.keys\.0: is a (private key|shared secret)/)
  expect(text).not.toContain('canary')
})

test.each([
  [{ token_endpoint_auth_method: 'private_key_jwt' }, 'jwks'],
  [
    {
      grant_types: ['urn:openid:params:grant-type:ciba'],
      token_endpoint_auth_method: undefined,
      client_secret: 'canary-1815',
      backchannel_token_delivery_mode: 'ping',
    },
    'backchannel_client_notification_endpoint',
  ],
])('the library refuses the client %j at %s', async (changes, key) => {
  const { findings } = await check({
    'usher.yaml': { features: { ciba: true } },
    'clients/web.yaml': client(changes),
  })
  expect(findings).toMatchObject([{ key, rule: 'library', line: 1 }])
})

test.each(['token-exchange', 'jwt-bearer'])(
  'the grant type %s, which no other file allows, is refused with the key that allows it',
  async name => {
    const grant_types = ['authorization_code', `urn:ietf:params:oauth:grant-type:${name}`]
    const { findings } = await check({ 'clients/web.yaml': client({ grant_types }) })
    expect(findings).toMatchObject([{ key: 'grant_types', rule: 'library' }])
    expect(findings[0]?.message).toContain(
      'token-exchange needs `exchange` in a file of resources/',
    )
  },
)

test('all clients that the library refuses are in one report', async () => {
  const { findings } = await check({
    'clients/ada.yaml':
      'client_id: ada\nclient_name: Ada\napplication_type: native\ntoken_endpoint_auth_method: none\nredirect_uris: [https://localhost/]\n',
    'clients/grace.yaml': client({ client_id: 'grace' }),
    'clients/native.yaml': client({
      client_id: 'native',
      application_type: 'native',
      redirect_uris: ['https://localhost/callback'],
    }),
  })
  expect(findings).toMatchObject([
    { line: 5, column: 1, key: 'redirect_uris', excerpt: expect.stringContaining('redirect_uris') },
    { line: 1, key: 'redirect_uris', rule: 'library' },
  ])
})
