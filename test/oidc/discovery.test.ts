// Discovery and JWKS: what they say, the same for all clients, and up to date after a reload.

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import type { JSONWebKeySet } from 'jose'
import { pino } from 'pino'
import { describe, expect, vi } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import { createMetrics } from '../../src/operation/prometheus.ts'
import { openSigningKeys } from '../../src/operation/signing-keys.ts'
import { run } from '../../src/reload.ts'
import { openInstallation } from '../../src/store/open.ts'
import { startAnother, test, usher } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { end, listen } from '../support/ports.ts'
import { writeConfig } from '../support/usher.ts'
import { type Reply, send } from '../support/wire.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const JWKS = '/api/oauth/jwks'
const PUBLISHED = [DISCOVERY, '/.well-known/oauth-authorization-server', JWKS]
const folder = temporaryFolder()

let metadata: Record<string, unknown>
test.beforeAll(async () => {
  metadata = (await send(usher, DISCOVERY)).json
})

test('both discovery documents have the same content', async () => {
  expect((await send(usher, PUBLISHED[1] ?? '')).json).toEqual(metadata)
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
    request_parameter_supported: true,
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
  expect(list('token_endpoint_auth_signing_alg_values_supported')).toEqual([
    'ES256',
    'Ed25519',
    'EdDSA',
    'PS256',
    'RS256',
  ])
  expect(list('scopes_supported')).toEqual(['email', 'offline_access', 'openid', 'profile'])
  const algorithms = Object.entries(metadata).filter(([name]) => /_alg_values_/.test(name))
  expect(algorithms.length).toBeGreaterThan(1)
  expect(JSON.stringify(algorithms)).not.toMatch(/"(HS\d+|none)"/)
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
  const other = await startAnother({ usher: { discovery } })
  expect((await send(other, DISCOVERY)).json).toMatchObject(discovery)
  for (const name of Object.keys(discovery)) expect(metadata).not.toHaveProperty(name)
})

/** The headers without those that differ in each response. */
const headersOf = ({ headers }: Reply) =>
  Object.fromEntries([...headers].filter(([name]) => !/^(date|x-request-id)$/.test(name)))

describe.each(PUBLISHED)('%s', path => {
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    send(usher, path, { headers, method })

  test('the first response equals later ones, except for the allowed origin', async () => {
    const first = await get({ origin: 'https://one.example' })
    const others = [await get({ origin: 'https://two.example' }), await get(), await get()]
    const origins = [first, ...others].map(({ headers }) =>
      headers.get('access-control-allow-origin'),
    )
    expect(origins).toEqual(['https://one.example', 'https://two.example', '*', '*'])
    for (const other of others) {
      expect(other.text).toBe(first.text)
      expect({ ...headersOf(other), 'access-control-allow-origin': '' }).toEqual({
        ...headersOf(first),
        'access-control-allow-origin': '',
      })
    }
    expect(first.headers.get('set-cookie')).toBeNull()
    expect(first.headers.get('access-control-allow-credentials')).toBeNull()
    expect(headersOf(first)).toMatchObject({
      'content-type': expect.stringMatching(/^application\/(jwk-set\+)?json; charset=utf-8$/),
      'content-length': String(Buffer.byteLength(first.text)),
      'cache-control': 'public, max-age=3600',
      vary: 'Origin',
      'x-content-type-options': 'nosniff',
    })
  })

  test('other methods are refused, and a preflight request is answered', async () => {
    expect(await get({}, 'POST')).toMatchObject({
      status: 405,
      json: { error: 'method_not_allowed' },
    })
    const asking = { origin: 'https://one.example', 'access-control-request-method': 'GET' }
    const { status, headers } = await get(asking, 'OPTIONS')
    expect([status, headers.get('access-control-allow-methods')]).toEqual([204, 'GET'])
  })

  test('the request is logged with its route', async () => {
    const before = usher.output.length
    await get()
    const line = () => usher.output.slice(before).find(text => text.includes(`"route":"${path}"`))
    await expect.poll(line).toContain('"status":200')
  })
})

test('no header of the first request changes the responses to other clients', async () => {
  const fresh = await startAnother()
  const claims = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    'x-forwarded-prefix': '/evil',
    forwarded: 'host=evil.example',
  }
  for (const path of PUBLISHED) {
    const headers = { ...claims, host: 'evil.example', origin: 'https://evil.example' }
    expect((await send(fresh, path, { headers })).status).toBe(421)
    const { status } = await send(fresh, `${path}?host=evil.example`, { headers: claims })
    const { text, headers: responseHeaders } = await send(fresh, path)
    expect(status).toBe(200)
    expect(text + JSON.stringify([...responseHeaders])).not.toContain('evil')
  }
})

test('after a reload, or with another key, the response changes at once', async () => {
  writeConfig(folder, {})
  const server = createServer()
  const port = String(await listen(server))
  const settings = await readSettings({ USHER_CONFIG: folder, PORT: port })
  const { store, ...installation } = await openInstallation('sqlite::memory:', settings.secrets)
  const log = pino({ enabled: false })
  const environment = { ...installation, log, audit: log, metrics: createMetrics() }
  const probe = async () => true
  const { handle, reload } = await run(settings, environment, { state: 'ready', probe, checks: [] })
  server.on('request', handle)
  const place = { issuer: settings.issuer, address: `http://127.0.0.1:${port}` }
  try {
    const [document, keys] = [await send(place, DISCOVERY), await send<JSONWebKeySet>(place, JWKS)]
    writeFileSync(join(folder, 'usher.yaml'), '{ features: { claims_parameter: false } }')
    vi.stubEnv('USHER_CONFIG', folder)
    vi.stubEnv('PORT', port)
    await reload()
    const changed = await send(place, DISCOVERY)
    expect(document.json.claims_parameter_supported).toBe(true)
    expect([changed.status, changed.json.claims_parameter_supported]).toEqual([200, false])

    await (await openSigningKeys(installation.records, settings)).rotate()
    writeFileSync(join(folder, 'usher.yaml'), '{}')
    await reload()
    const kids = ({ json }: Reply<JSONWebKeySet>) => json.keys.map(({ kid }) => kid)
    expect(kids(await send(place, JWKS)).length).toBeGreaterThan(kids(keys).length)
    expect(kids(await send(place, JWKS))).toEqual(expect.arrayContaining(kids(keys)))
  } finally {
    vi.unstubAllEnvs()
    await end(server)
    await store.close()
  }
})
