import type { JSONWebKeySet } from 'jose'
import { expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { startUsher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const OPENID = '/.well-known/openid-configuration'
const OAUTH = '/.well-known/oauth-authorization-server'

let metadata: Record<string, unknown>
test.beforeAll(async () => {
  metadata = (await send(usher, OPENID)).json
})

test('both discovery documents have the same content', async () => {
  expect((await send(usher, OAUTH)).json).toEqual(metadata)
})

test('the issuer is the configured one, byte for byte', () => {
  expect(metadata.issuer).toBe(usher.settings.issuer)
})

test('the endpoints have their documented paths', () => {
  const at = (path: string) => `${usher.issuer}/api/oauth/${path}`
  expect(metadata).toMatchObject({
    authorization_endpoint: at('authorize'),
    token_endpoint: at('token'),
    userinfo_endpoint: at('userinfo'),
    revocation_endpoint: at('revoke'),
    introspection_endpoint: at('introspect'),
    jwks_uri: at('jwks'),
    pushed_authorization_request_endpoint: at('par'),
    end_session_endpoint: at('logout'),
  })
})

test('discovery advertises only implemented features', () => {
  expect(metadata).toMatchObject({
    response_types_supported: ['code'],
    response_modes_supported: ['query', 'form_post', 'jwt', 'query.jwt', 'form_post.jwt'],
    grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
    code_challenge_methods_supported: ['S256'],
    subject_types_supported: ['public'],
    authorization_response_iss_parameter_supported: true,
    request_uri_parameter_supported: false,
    claims_parameter_supported: true,
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
  })
  const list = (name: string) => [...(metadata[name] as string[])].sort()
  expect(list('token_endpoint_auth_methods_supported')).toEqual([
    'client_secret_basic',
    'client_secret_post',
    'none',
    'private_key_jwt',
  ])
  expect(list('scopes_supported')).toEqual(['email', 'offline_access', 'openid', 'profile'])
  expect(list('claims_supported')).toEqual(
    expect.arrayContaining(['email', 'email_verified', 'name', 'preferred_username', 'sub']),
  )
  const algorithms = Object.entries(metadata).filter(([name]) => /_alg_values_/.test(name))
  expect(algorithms.length).toBeGreaterThan(1)
  expect(JSON.stringify(algorithms)).not.toMatch(/"(HS\d+|none)"/)
  for (const absent of ['registration_endpoint', 'device_authorization_endpoint']) {
    expect(metadata).not.toHaveProperty(absent)
  }
  expect(metadata.request_parameter_supported).toBe(true)
})

test('the JWKS has a key for every advertised ID token algorithm', async () => {
  const { json } = await send<JSONWebKeySet>(usher, '/api/oauth/jwks')
  expect(metadata.id_token_signing_alg_values_supported).toEqual(expect.arrayContaining(['RS256']))
  for (const alg of metadata.id_token_signing_alg_values_supported as string[]) {
    expect(json.keys.map(key => key.alg)).toContain(alg)
  }
})

test('the published keys have no private part', async () => {
  const { json, text } = await send(usher, '/api/oauth/jwks')
  expect(json.keys).not.toEqual([])
  expect(text).not.toMatch(/"(d|p|q|dp|dq|qi|oth|k|priv)":/)
})

test('every URL is on the issuer, and an endpoint answers there', async () => {
  const urls = Object.entries(metadata).filter(([, value]) => /^https?:/.test(String(value)))
  expect(urls.length).toBeGreaterThan(8)
  for (const [name, value] of urls) {
    if (name === 'issuer') continue
    const url = new URL(String(value))
    expect(url.origin).toBe(usher.issuer)
    const isGet = /authorization_endpoint$|userinfo|jwks|end_session/.test(name)
    const method = isGet && !name.startsWith('pushed') ? 'GET' : 'POST'
    const answer = await send(usher, url, { method })
    expect([name, answer.status]).not.toEqual([name, 404])
    expect(answer.status).toBeLessThan(500)
  }
})

test.each([OPENID, OAUTH, '/api/oauth/jwks'])('%s may be cached for an hour', async path => {
  const answer = await send(usher, path)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toMatch(/^application\/(jwk-set\+)?json/)
  expect(answer.headers.get('cache-control')).toBe('public, max-age=3600')
  expect(answer.headers.get('set-cookie')).toBeNull()
})

test.each([OPENID, OAUTH, '/api/oauth/jwks'])('a page of any origin may read %s', async path => {
  const headers = { origin: 'https://anyone.example' }
  const answer = await send(usher, path, { headers })
  expect(answer.headers.get('access-control-allow-origin')).toMatch(/^(\*|https:\/\/anyone)/)
  expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
})

test.each([
  ['GET', '/device'],
  ['POST', '/device'],
  ['GET', '/device/x'],
  ['POST', '/api/oauth/device_authorization'],
  ['POST', '/api/oauth/register'],
  ['GET', '/api/oauth/register/web'],
  ['PUT', '/api/oauth/register/web'],
  ['DELETE', '/api/oauth/register/web'],
  ['POST', '/api/oauth/backchannel'],
  ['POST', '/api/oauth/backchannel_authentication'],
  ['GET', '/account/requests'],
  ['POST', '/account/requests/answer'],
  ['POST', '/backchannel'],
  ['POST', '/api/oauth/challenge'],
  ['GET', '/session/end'],
  ['POST', '/token'],
  ['GET', '/auth'],
  ['GET', '/.well-known/openid-credential-issuer'],
  ['GET', '/.well-known/webfinger'],
])('an endpoint of a feature that is off does not exist: %s %s', async (method, path) => {
  const answer = await send(usher, path, { method })
  expect(answer).toMatchObject({ status: 404, json: { error: 'not_found' } })
})

test('discovery has the members of usher.yaml that only the operator knows', async () => {
  const discovery = {
    service_documentation: 'https://developers.example.org/',
    display_values_supported: ['page', 'popup'],
    claims_locales_supported: ['en', 'pt-BR'],
  }
  const other = await startUsher({ usher: { discovery } })
  try {
    expect((await send(other, OPENID)).json).toMatchObject(discovery)
  } finally {
    await other.close()
  }
  for (const name of Object.keys(discovery)) expect(metadata).not.toHaveProperty(name)
})
