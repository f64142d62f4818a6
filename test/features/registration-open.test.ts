// `dynamic_registration: open`: public clients register without an initial access token.

import { expect, vi } from 'vitest'
import { APIS, FILES } from '../support/apis.ts'
import { moveClock, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorize, codeForm } from '../support/journey.ts'
import { REGISTRATIONS } from '../support/mcp-clients.ts'
import {
  invite,
  METADATA,
  manage,
  REGISTER,
  type Registration,
  register,
  registered,
  registerNew,
} from '../support/registration.ts'
import { PUBLIC_JWKS } from '../support/signers.ts'
import { ADA, CLIENTS, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const HOUR = 3600
const LOOPBACK = 'http://localhost:3334/callback'
const LISTED = 'https://vscode.dev/redirect'
const PUBLIC = { token_endpoint_auth_method: 'none' }
const NATIVE = { ...PUBLIC, client_name: 'Agent', redirect_uris: [LOOPBACK] }

const optionsWith = (set: object = {}) => {
  const dynamic_registration = { mode: 'open', redirect_hosts: ['vscode.dev'], ...set }
  const files = { ...APIS.resources.files, default_scopes: ['files:read'], clients: ['app_*'] }
  return {
    clients: { ...CLIENTS, ...APIS.clients },
    resources: { ...APIS.resources, files },
    usher: { features: { dynamic_registration }, proxy: ['127.0.0.1'] },
  }
}
const test = usherTest(optionsWith())

/** Starts another Usher, for one test. */
async function start(set: object = {}): Promise<Usher> {
  const started = await startAnother(optionsWith(set))
  await started.addAccount(ADA)
  return started
}

let networks = 0
const newNetwork = () => `10.${++networks}.0.1`

/** Registers without a token, from a network of its own. */
function registerFrom(at: Usher, metadata: object = NATIVE, address = newNetwork(), more = {}) {
  const headers = { 'content-type': 'application/json', 'x-forwarded-for': address, ...more }
  return send<Registration>(at, REGISTER, { headers, body: JSON.stringify(metadata) })
}

async function signIn(at: Usher, client_id: string, more: object = {}) {
  const { code, request } = await authorize(at, { client_id, redirect_uri: LOOPBACK, ...more })
  const resource = 'resource' in more && { resource: FILES }
  const body = { ...codeForm(code, request), client_id, ...resource }
  return send(at, '/api/oauth/token', { body })
}

test('public clients on loopback and at the listed hosts register; all others are refused', async () => {
  const refused = 'invalid_client_metadata'
  const elsewhere = 'invalid_redirect_uri'
  const kept = (redirect_uris: string[]) => ({ ...PUBLIC, redirect_uris })
  const rows: [metadata: object, error: string | undefined, answer: object][] = [
    [NATIVE, undefined, { ...NATIVE, application_type: 'native' }],
    [{ redirect_uris: [LOOPBACK] }, undefined, PUBLIC],
    [{ redirect_uris: [LOOPBACK], token_endpoint_auth_method: null }, undefined, PUBLIC],
    [kept([LISTED]), undefined, { ...kept([LISTED]), application_type: 'web' }],
    [kept(['http://[::1]:9/cb']), undefined, kept(['http://[::1]:9/cb'])],
    [kept(['https://evil.example/cb', LOOPBACK]), undefined, kept([LOOPBACK])],
    [kept(['com.example.app:/cb', LOOPBACK]), undefined, kept([LOOPBACK])],
    [
      { ...NATIVE, post_logout_redirect_uris: ['https://evil.example/', LISTED] },
      undefined,
      { post_logout_redirect_uris: [LISTED] },
    ],
    [{ ...NATIVE, token_endpoint_auth_method: 7 }, refused, {}],
    [kept(['https://evil.example/cb']), elsewhere, {}],
    [kept(['https://vscode.dev:444/redirect']), elsewhere, {}],
    [kept(['http://vscode.dev/redirect']), elsewhere, {}],
    [kept(['com.example.app:/cb']), elsewhere, {}],
    [kept(['https://user@vscode.dev/redirect']), elsewhere, {}],
    [kept([]), elsewhere, {}],
    [{ ...PUBLIC, redirect_uris: [{}, null] }, elsewhere, {}],
    [{ ...NATIVE, consent: 'implicit' }, refused, {}],
  ]
  for (const [metadata, error, answer] of rows) {
    const { status, json } = await registerFrom(usher, metadata)
    const expected = error ? { error } : answer
    expect([metadata, status, json]).toEqual([
      metadata,
      error ? 400 : 201,
      expect.objectContaining(expected),
    ])
    expect(json).not.toHaveProperty('client_secret')
  }
  const { json } = await registerFrom(usher, { ...NATIVE, jwks_uri: 'https://keys.example/jwks' })
  expect(json).not.toHaveProperty('jwks_uri')
})

// biome-ignore format: a table
const REPLACED: [sent: object, registered: Record<string, unknown>][] = [
  [{ token_endpoint_auth_method: 'client_secret_post' },     { token_endpoint_auth_method: 'none' }],
  [{ token_endpoint_auth_method: 'client_secret_basic' },    { token_endpoint_auth_method: 'none' }],
  [{ token_endpoint_auth_method: 'client_secret_jwt' },      { token_endpoint_auth_method: 'none' }],
  [{ token_endpoint_auth_method: 'private_key_jwt', jwks: PUBLIC_JWKS }, { token_endpoint_auth_method: 'none' }],
  [{ token_endpoint_auth_method: 'tls_client_auth', tls_client_auth_subject_dn: 'CN=x' }, { token_endpoint_auth_method: 'none', tls_client_auth_subject_dn: undefined }],
  [{ token_endpoint_auth_method: '' },                       { token_endpoint_auth_method: 'none' }],
  [{ token_endpoint_auth_methods_supported: ['client_secret_post'] }, { token_endpoint_auth_method: 'none' }],
  [{ logo_uri: 'data:image/png;base64,AA' },                 { logo_uri: undefined }],
  [{ logo_uri: '', client_uri: '', tos_uri: '', policy_uri: null }, { client_uri: undefined, tos_uri: undefined, policy_uri: undefined }],
  [{ scope: 'openid files:read' },                           { scope: undefined }],
  [{ response_types: ['code', 'code id_token', 'token'] },   { response_types: ['code'] }],
  [{ grant_types: ['authorization_code', 'client_credentials', 'implicit'] }, { grant_types: ['authorization_code'] }],
  [{ contacts: ['Ann', 'https://help.example.net/', 'ann@example.net'] }, { contacts: ['ann@example.net'] }],
  [{ software_id: '4NRB1', software_version: '2.1' },        { software_id: undefined, software_version: undefined }],
  [{ jwks_uri: 'https://keys.example.net/jwks' },            { jwks_uri: undefined }],
  [{ client_id: 'mine', client_secret: 'mine' },             { client_secret: undefined }],
  [{ client_name: '', unknown: { deep: [1] } },              { client_name: 'localhost:3334', unknown: undefined }],
]
test('values that such a client cannot have are replaced or left out, and the answer says so', async () => {
  for (const [sent, expected] of REPLACED) {
    const { status, json } = await registerFrom(usher, { ...NATIVE, ...sent })
    const registered = Object.fromEntries(Object.keys(expected).map(key => [key, json[key]]))
    expect([sent, status, registered]).toEqual([sent, 201, expected])
  }
  const { json } = await registerFrom(usher, {
    ...NATIVE,
    token_endpoint_auth_method: 'client_secret_post',
  })
  expect(await signIn(usher, json.client_id)).toMatchObject({ status: 200 })
})

test('metadata of more than 4 KiB are refused, and what is left out does not count', async () => {
  const uris = (bytes: number) => [`${LOOPBACK}?x=${'x'.repeat(bytes)}`]
  const { status, json } = await registerFrom(usher, { ...NATIVE, redirect_uris: uris(4096) })
  expect([status, json.error]).toEqual([400, 'invalid_client_metadata'])
  expect(json.error_description).toMatch(
    /^the metadata have \d+ bytes; at most 4096 are registered$/,
  )
  const short = { ...NATIVE, redirect_uris: uris(3000) }
  const { json: client } = await registerFrom(usher, { ...short, unknown: 'x'.repeat(8000) })
  expect(client).toMatchObject(short)
  const update = (redirect_uris: string[]) =>
    manage(usher, client, { ...NATIVE, client_id: client.client_id, redirect_uris })
  expect((await update(uris(4096))).status).toBe(400)
  expect((await update(uris(3100))).status).toBe(200)
})

test('invitations are used beside open registration, and a wrong token is refused', async () => {
  const { status, json } = await register(usher, await invite(usher))
  expect([status, json]).toEqual([201, expect.objectContaining(METADATA)])
  expect(json.client_secret).toEqual(expect.any(String))
  expect((await register(usher, 'x'.repeat(43), NATIVE)).status).toBe(401)
  const invited = await start({ mode: 'invited', redirect_hosts: [] })
  expect((await registerFrom(invited)).status).toBe(401)
})

test('an update cannot leave the rules of open registration', async () => {
  const { json: client } = await registerFrom(usher)
  const update = (changes: object) =>
    manage(usher, client, { ...NATIVE, client_id: client.client_id, ...changes })
  expect((await update({ client_name: 'Other agent' })).json.client_name).toBe('Other agent')
  for (const changes of [{ consent: 'implicit' }, { redirect_uris: ['https://evil.example/cb'] }]) {
    expect((await update(changes)).status).toBe(400)
  }
  const confidential = await update({ token_endpoint_auth_method: 'client_secret_basic' })
  expect(confidential.json).toMatchObject(PUBLIC)
  expect(confidential.json).not.toHaveProperty('client_secret')
  expect((await manage(usher, client)).json).toMatchObject({ redirect_uris: [LOOPBACK], ...PUBLIC })
})

test('each network has a quota, which refused metadata do not use up', async () => {
  for (let i = 0; i < 3; i++) await registerFrom(usher, {}, '192.0.2.1')
  const answers = []
  for (let i = 0; i < 21; i++) answers.push(await registerFrom(usher, NATIVE, `192.0.2.${i + 1}`))
  const last = answers.pop()
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
  expect([last?.status, last?.json.error]).toEqual([429, 'invalid_request'])
  expect((await registerFrom(usher, NATIVE, '198.51.100.1')).status).toBe(201)
  expect((await register(usher, await invite(usher))).status).toBe(201)
})

test('a thousand clients without an invitation and a user keep no invited client out', async () => {
  const usher = await start()
  const clients = registered(usher)
  const { json } = await registerFrom(usher)
  const kept = await clients.read(json.client_id)
  const since = kept?.since ?? 0
  for (let i = 1; i < 1000; i++) {
    const client = { ...kept?.client, client_id: `app_${i.toString(16).padStart(24, '0')}` }
    await clients.add({ client, since })
  }
  const walk = vi.spyOn(usher.store, 'walk')
  expect((await registerFrom(usher, NATIVE, '198.51.100.1')).status).toBe(429)
  expect((await register(usher, await invite(usher))).status).toBe(201)
  // A registration reads no other client.
  expect(walk).not.toHaveBeenCalled()
  await clients.touch(json.client_id)
  expect((await registerFrom(usher, NATIVE, '198.51.100.1')).status).toBe(201)
})

test('a client without an invitation is gone after an hour, unless a user signed in', async () => {
  const { json: unused } = await registerFrom(usher)
  const { json: used } = await registerFrom(usher)
  const { json: invited } = await register(usher, await invite(usher))
  expect(await signIn(usher, used.client_id)).toMatchObject({ status: 200 })
  moveClock(HOUR + 120)
  expect((await manage(usher, unused)).status).toBe(401)
  expect((await manage(usher, used)).status).toBe(200)
  expect((await manage(usher, invited)).status).toBe(200)
})

test('a page of any origin registers: preflight, answer and refusal have CORS headers', async () => {
  const origin = 'https://inspector.example'
  const preflight = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type,mcp-protocol-version',
  }
  const options = { method: 'OPTIONS', headers: preflight }
  const { status, headers } = await send(usher, REGISTER, options)
  expect([status, headers.get('access-control-allow-origin')]).toEqual([204, '*'])
  expect(headers.get('access-control-allow-headers')).toBe('content-type,mcp-protocol-version')
  const byPage = { origin, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }
  for (const [metadata, expected] of [
    [NATIVE, 201],
    [{}, 400],
  ] as const) {
    const answer = await registerFrom(usher, metadata, newNetwork(), byPage)
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([
      expected,
      '*',
    ])
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
  }
  const invited = await start({ mode: 'invited', redirect_hosts: [] })
  const closed = await send(invited, REGISTER, options)
  expect([closed.status, closed.headers.get('access-control-allow-origin')]).toEqual([405, null])
})

test('the registrations of MCP clients need no invitation', async () => {
  for (const sent of Object.values(REGISTRATIONS)) {
    const { status, json } = await registerFrom(usher, sent)
    expect([json.client_name, status]).toEqual([sent.client_name, 201])
  }
})

test('refresh_tokens: always gives a refresh token to clients that registered themselves', async () => {
  const typesAt = async (set: object) => {
    const usher = await start(set)
    const { client_id } = (await registerFrom(usher)).json
    const invited = await registerNew(usher, NATIVE)
    const requests: [id: string, scope: string][] = [
      [client_id, 'files:read'],
      [invited.client_id, 'files:read'],
      [client_id, 'openid files:read'],
    ]
    const types = []
    for (const [id, scope] of requests) {
      const params = { scope, resource: FILES, nonce: undefined }
      const { json } = await signIn(usher, id, params)
      types.push(typeof json.refresh_token)
    }
    return types
  }
  expect(await typesAt({ refresh_tokens: 'always' })).toEqual(['string', 'string', 'undefined'])
  expect(await typesAt({})).toEqual(['undefined', 'undefined', 'undefined'])
})
