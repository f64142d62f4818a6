// Dynamic client registration (RFC 7591), sign-in with a registered client, and its management (RFC 7592).

import { once } from 'node:events'
import { request } from 'node:http'
import * as openid from 'openid-client'
import { expect, onTestFinished, vi } from 'vitest'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { signInWith } from '../support/client-library.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import {
  CALLBACK,
  invite,
  METADATA,
  manage,
  ON,
  REGISTER,
  register,
  registerNew,
} from '../support/registration.ts'
import { CLIENTS, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile offline_access'

const test = usherTest(ON)

/** The metadata in an answer, without what only answers have. */
function metadataOf(answer: Record<string, unknown>): Record<string, unknown> {
  const { client_secret_expires_at, client_id_issued_at, ...rest } = answer
  const { registration_access_token, registration_client_uri, ...metadata } = rest
  return metadata
}

/** Registers with `openid-client`, and returns its configuration. */
async function registerWith(metadata: Partial<openid.ClientMetadata>) {
  const initialAccessToken = await invite(usher)
  return openid.dynamicClientRegistration(new URL(usher.issuer), metadata, undefined, {
    initialAccessToken,
    execute: [openid.allowInsecureRequests],
  })
}

test('openid-client registers, signs in and refreshes; the response has the metadata and no internal fields', async () => {
  const config = await registerWith({
    ...METADATA,
    token_endpoint_auth_method: 'client_secret_post',
    initiate_login_uri: 'https://stranger.example.net/sign-in',
    logo_uri: 'https://stranger.example.net/logo',
  })
  const client = config.clientMetadata()
  expect(client).toMatchObject({
    client_id: expect.stringMatching(/^app_[0-9a-f]{24}$/),
    client_secret: expect.stringMatching(/^[\w-]{43,}$/),
    client_secret_expires_at: 0,
    client_name: 'Strange application',
    initiate_login_uri: 'https://stranger.example.net/sign-in',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    response_modes: ['query', 'form_post'],
    registration_client_uri: `${usher.issuer}${REGISTER}/${client.client_id}`,
    registration_access_token: expect.any(String),
  })
  for (const key of ['consent', 'require_pkce', 'client_secret_hashes', 'profile', 'logo_uri']) {
    expect(client).not.toHaveProperty(key)
  }
  const tokens = await signInWith(usher, config, { scope: SCOPE, redirect_uri: CALLBACK })
  expect(tokens.claims()?.aud).toBe(client.client_id)
  const again = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
  expect(again.access_token).not.toBe(tokens.access_token)
})

test('a registered client must use PKCE, unless its initial access token allows otherwise', async () => {
  const relaxed = await registerNew(usher, METADATA, 'without-pkce')
  const strict = await registerNew(usher)
  const open = (client_id: string) => {
    const params = { client_id, redirect_uri: CALLBACK, response_type: 'code', scope: 'openid' }
    return new Browser(usher.issuer).open(`/api/oauth/authorize?${new URLSearchParams(params)}`)
  }
  expect((await open(strict.client_id)).params.get('error')).toBe('invalid_request')
  expect((await open(relaxed.client_id)).url.pathname).toMatch(/^\/interaction\//)
  const current = metadataOf((await manage(usher, relaxed)).json)
  expect(current.require_pkce).toBe(false)
  expect((await manage(usher, relaxed, current)).status).toBe(200)
  expect((await open(relaxed.client_id)).url.pathname).toMatch(/^\/interaction\//)
  expect((await manage(usher, relaxed, { ...current, require_pkce: true })).status).toBe(400)
  const browserApp = { ...METADATA, token_endpoint_auth_method: 'none' }
  const secretless = await registerNew(usher, browserApp, 'without-pkce')
  expect(secretless).not.toHaveProperty('client_secret')
  expect((await open(secretless.client_id)).params.get('error')).toBe('invalid_request')
})

test('a scope is not registered: the client may request others later', async () => {
  const { client_id, ...answer } = await registerNew(usher, { ...METADATA, scope: 'mail:read' })
  expect(answer).not.toHaveProperty('scope')
  const asked = authorizationRequest(usher, { client_id, redirect_uri: CALLBACK, scope: SCOPE })
  expect((await send(usher, asked.url)).location?.pathname).toMatch(/^\/interaction\//)
})

test('a client reads and updates its registration with one token, and keeps its secret', async () => {
  const first = await registerNew(usher)
  const read = await manage(usher, first)
  expect(read.json).toMatchObject({ ...METADATA, client_id: first.client_id })
  expect(read.headers.get('cache-control')).toBe('no-store')

  const { registration_access_token: token } = read.json
  const current = metadataOf(read.json)
  const update = await manage(usher, first, { ...current, client_name: 'Another name' })
  expect([update.status, update.json.client_name]).toEqual([200, 'Another name'])
  expect(update.json.registration_access_token).toBe(token)
  expect((await manage(usher, first)).json.client_name).toBe('Another name')

  const body = { grant_type: 'authorization_code', code: 'none', redirect_uri: CALLBACK }
  const headers = basic(first.client_id, first.client_secret)
  const { json } = await send(usher, '/api/oauth/token', { body, headers })
  expect(json.error).toBe('invalid_grant')
})

test('an update with a wrong secret, for another client, or with members of responses, is refused', async () => {
  const mine = await registerNew(usher)
  const other = await registerNew(usher)
  const base = { ...METADATA, client_id: mine.client_id }
  for (const wrong of [
    { ...base, client_secret: 'x'.repeat(43) },
    { ...base, client_id: other.client_id },
    { ...base, registration_access_token: mine.registration_access_token },
    { ...base, client_id_issued_at: 1 },
    { ...base, redirect_uris: ['http://stranger.example.net/'] },
    { ...base, consent: 'implicit' },
  ]) {
    expect([wrong, (await manage(usher, mine, wrong)).status]).toEqual([wrong, 400])
  }
  expect((await manage(usher, mine)).json).toMatchObject(METADATA)
})

test('a client gets a secret when it changes to an authentication method with one, and loses it afterwards', async () => {
  const first = await registerNew(usher, { ...METADATA, token_endpoint_auth_method: 'none' })
  const { client_id } = first
  const update = await manage(usher, first, { ...METADATA, client_id })
  expect(update.json.client_secret).toMatch(/^[\w-]{43,}$/)
  const without = { ...METADATA, client_id, token_endpoint_auth_method: 'none' }
  expect((await manage(usher, first, without)).json).not.toHaveProperty('client_secret')
})

test('the first of two concurrent updates is saved, and the second is refused', async () => {
  const mine = await registerNew(usher)
  const { client_id } = mine
  const metadata = (client_name: string) => ({ ...METADATA, client_id, client_name })
  const reads = vi.spyOn(usher.store, 'getMany')
  onTestFinished(() => reads.mockRestore())
  // The token and the client are read before the body arrives.
  const slow = request(`${usher.address}${REGISTER}/${mine.client_id}`, {
    method: 'PUT',
    headers: {
      host: new URL(usher.issuer).host,
      authorization: `Bearer ${mine.registration_access_token}`,
      'content-type': 'application/json',
    },
  })
  slow.write(' ')
  await expect
    .poll(() => reads.mock.settledResults.filter(({ type }) => type === 'fulfilled'))
    .toHaveLength(2)
  expect((await manage(usher, mine, metadata('First'))).status).toBe(200)
  slow.end(JSON.stringify(metadata('Second')))
  const [{ statusCode }] = await once(slow, 'response')
  expect(statusCode).toBe(409)
  expect((await manage(usher, mine)).json.client_name).toBe('First')
})

test('a registration access token manages only its own client, and no client of a file', async () => {
  const [mine, other] = [await registerNew(usher), await registerNew(usher)]
  expect((await manage(usher, { ...mine, client_id: 'web' })).status).toBe(401)
  const again = await registerNew(usher)
  const theirs = { ...again, client_id: other.client_id }
  expect((await manage(usher, theirs, undefined, 'DELETE')).status).toBe(401)
  expect((await manage(usher, other)).status).toBe(200)
  const wrong = { ...other, registration_access_token: 'x'.repeat(43) }
  expect((await manage(usher, wrong)).status).toBe(401)
})

/** Copies a record to the store of another provider. */
async function copyRecord(kind: string, id: string, { records }: Usher) {
  const { value } = await usher.records.of(kind, { backup: true }).read(id)
  await records.of(kind, { backup: true }).change(id, () => required(value))
}

test('a client_id that a client file has cannot be managed by registration', async () => {
  const { client_id, registration_access_token } = await registerNew(usher)
  const file = { ...CLIENTS.web, client_id, client_name: 'Of a file' }
  const other = await startAnother({ ...ON, clients: { file } })
  await copyRecord('Client', client_id, other)
  await copyRecord('RegistrationAccessToken', registration_access_token, other)
  const answer = await manage(other, { client_id, registration_access_token })
  expect([answer.status, answer.json.error]).toEqual([403, 'invalid_request'])
})

test('while the feature is off, its clients are unknown', async () => {
  const mine = await registerNew(usher)
  const { client_id } = mine
  const off = await startAnother()
  await copyRecord('Client', client_id, off)
  expect((await manage(off, mine)).status).toBe(404)
  const page = await new Browser(off.issuer).open(`/api/oauth/authorize?client_id=${client_id}`)
  expect([page.status, page.text]).toEqual([400, expect.stringContaining('invalid_client')])
})

test('the endpoints refuse other methods', async () => {
  const { client_id } = await registerNew(usher)
  const get = await send(usher, REGISTER)
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
  const post = await send(usher, `${REGISTER}/${client_id}`, { method: 'POST' })
  expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, PUT, DELETE'])
  expect((await send(usher, `${REGISTER}/`)).status).toBe(404)
  expect((await send(usher, `/API/oauth/register/${client_id}`)).status).toBe(404)
})

const LISTS = {
  id_token_signing_alg_values_supported: ['HS256', 'PS256', 'EdDSA', 'RS256'],
  userinfo_signing_alg_values_supported: ['none', 'ES256'],
  token_endpoint_auth_methods_supported: ['tls_client_auth', 'none', 'client_secret_basic'],
  subject_types_supported: ['pairwise', 'public'],
}

test('a client sends the values that it can use, and the answer has those that were chosen', async () => {
  const client = await registerNew(usher, { ...METADATA, ...LISTS })
  expect(client).toMatchObject({
    // PS256 has no key here, and pairwise subjects are off.
    id_token_signed_response_alg: 'EdDSA',
    userinfo_signed_response_alg: 'ES256',
    token_endpoint_auth_method: 'none',
    subject_type: 'public',
  })
  for (const key of [...Object.keys(LISTS), 'client_secret']) expect(client).not.toHaveProperty(key)
  const value = { id_token_signed_response_alg: 'RS256' }
  expect(await registerNew(usher, { ...METADATA, ...LISTS, ...value })).toMatchObject(value)
})

test('a list without a supported value is refused', async () => {
  const token = await invite(usher, 99)
  const rows: [key: string, value: unknown][] = [
    ...Object.keys(LISTS).map((key): [string, unknown] => [key, ['unknown']]),
    ['id_token_signing_alg_values_supported', 'RS256'],
    ['id_token_signing_alg_values_supported', [{ toString: 1 }]],
    ['subject_types_supported', []],
  ]
  for (const [key, value] of rows) {
    const { status, json } = await register(usher, token, { ...METADATA, [key]: value })
    expect([key, status, json.error]).toEqual([key, 400, 'invalid_client_metadata'])
    expect(json.error_description).toContain(key)
  }
})

test('a list for a feature that is off is left out', async () => {
  const off = { signed_userinfo: false, jwt_response_modes: false, request_objects: false }
  const bare = await startAnother({ usher: { features: { ...ON.usher.features, ...off } } })
  const names = ['userinfo_signing', 'authorization_signing', 'request_object_signing']
  const lists = names.map(name => [`${name}_alg_values_supported`, ['none', 'RS256']])
  const client = await registerNew(bare, { ...METADATA, ...Object.fromEntries(lists) })
  const kept = Object.keys(client).filter(key => /^(userinfo|authorization|request)_/.test(key))
  expect(kept).toEqual([])
})
