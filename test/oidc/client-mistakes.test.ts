// Mistakes of client developers: each response names the parameter and the expected value.

import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { APIS, CALENDAR, FILES } from '../support/apis.ts'
import { Browser } from '../support/browser.ts'
import { configurationOf } from '../support/client-library.ts'
import { PRODUCTION } from '../support/config-folder.ts'
import { browser, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import {
  authorizationRequest,
  authorize,
  codeForm,
  redeem,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { words } from '../support/people.ts'
import { boundTokens, createProver } from '../support/proofs.ts'
import { manage, ON, registerNew } from '../support/registration.ts'
import { CLIENTS, SECRET, WEB } from '../support/usher.ts'
import { type Reply, send, type WireOptions } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const BASIC = { authorization: `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}` }
const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` })

const { web } = CLIENTS
const clients = {
  ...APIS.clients,
  bound: { ...web, client_id: 'bound', dpop_bound_access_tokens: true },
  pushing: { ...web, client_id: 'pushing', require_pushed_authorization_requests: true },
}
const PROXY = { proxy: ['127.0.0.1'] }
const folder = temporaryFolder()
const test = usherTest({
  ...APIS,
  clients,
  usher: { features: { ...ON.usher.features, device_flow: true, ciba: true }, ...PROXY },
})
test.beforeAll(async () => {
  await authorize(usher, { browser })
})

// biome-ignore format: a table
const AUTHORIZATION: [mistake: string, params: Record<string, string | undefined>, answer: RegExp][] = [
  ['no response_type', { response_type: undefined }, /^response_type must be present/],
  ['an unsupported response_type', { response_type: 'token' }, /^response_type must be one of/],
  ['an unknown response_mode', { response_mode: 'nonsense' }, /^response_mode must be/],
  ['no PKCE', { code_challenge: undefined, code_challenge_method: undefined }, /^code_challenge is required: this client must use PKCE with S256$/],
  ['plain PKCE', { code_challenge_method: 'plain' }, /^code_challenge_method must be S256$/],
  ['no code_challenge_method', { code_challenge_method: undefined }, /^code_challenge_method is required: S256$/],
  ['a short code_challenge', { code_challenge: 'abc' }, /^code_challenge must be a string with a minimum length of 43/],
  ['an unknown prompt', { prompt: 'signup' }, /^prompt must be none, or of login/],
  ['a max_age that is no number', { max_age: 'x' }, /^max_age must be a number of seconds/],
  ['an unknown resource', { resource: 'https://nothing.example' }, /resource/],
  ['a resource without its scopes', { resource: FILES, scope: 'openid' }, /scope of the resource/],
  ['a resource without any scope', { resource: FILES, scope: undefined, nonce: undefined }, /^scope must have a scope of the resource: files:read/],
  ['a scope of another API', { resource: FILES, scope: 'calendar:read', nonce: undefined }, /^scope must have a scope of the resource: files:read/],
  ['no scope', { scope: undefined }, /^scope is required/],
  ['an empty scope', { scope: ' ' }, /^scope is required/],
  ['a tab in the scope', { scope: 'openid\tprofile' }, /^scope must have visible characters/],
  ['no scope and no nonce', { scope: undefined, nonce: undefined }, /^scope is required/],
  ['commas in the scope', { scope: 'openid,profile,email' }, /^scope must have spaces/],
  ['commas in the scope, and no nonce', { scope: 'openid,profile,email', nonce: undefined }, /^scope must have spaces/],
  ['a literal + in the scope', { scope: 'openid+profile' }, /^scope must have spaces/],
  ['capitals in the scope', { scope: 'OpenID Profile' }, /^scope is case-sensitive/],
  ['capitals in the scope, and no nonce', { scope: 'OPENID', nonce: undefined }, /^scope is case-sensitive/],
  ['an unknown scope only', { scope: 'calendars', nonce: undefined }, /^scope must have a value/],
  ['a scope of an API without its resource', { scope: 'files:read', nonce: undefined }, /^scope must have a value/],
  ['an invalid id_token_hint', { id_token_hint: 'x' }, /^id_token_hint must be an ID token/],
  ['registration metadata', { registration: '{}' }, /^registration must be absent/],
  ['a request_uri of its own', { request_uri: 'https://web.example.org/request' }, /^request_uri must be absent, or/],
  ['no request_uri of a client that must push', { client_id: 'pushing', redirect_uri: WEB }, /^request_uri is required/],
]

test.each(AUTHORIZATION)('authorization request with %s', async (_, params, answer) => {
  const { location } = await send(usher, authorizationRequest(usher, params).url)
  const returned = new URLSearchParams(location?.search || location?.hash.slice(1))
  expect(returned.get('error_description')).toMatch(answer)
  const isScope = Object.hasOwn(params, 'scope') && params.resource === undefined
  if (isScope) expect(returned.get('error')).toBe('invalid_scope')
})

test.each(['openid,email', 'OpenID', undefined])(
  'scope=%s is refused in a pushed request',
  async scope => {
    const line = usher.output.length
    const { url } = authorizationRequest(usher, { scope })
    const { status, json } = await send(usher, '/api/oauth/par', {
      headers: BASIC,
      body: [...url.searchParams],
    })
    expect([status, json.error]).toEqual([400, 'invalid_scope'])
    expect(json.error_description).toMatch(/^scope /)
    await loggedAfter(line, '"error":"invalid_scope"')
  },
)

test.each([' openid profile ', 'openid  profile'])(
  'superfluous spaces are ignored in an authorization request, and explained elsewhere: "%s"',
  async scope => {
    const { url } = authorizationRequest(usher, { scope })
    expect((await send(usher, url)).location?.pathname).toMatch(/^\/interaction\//)
    const { code, request } = await authorize(usher, { browser, scope })
    expect((await redeem(usher, code, request)).body.scope).toBe('openid profile')
    for (const path of ['/api/oauth/par', TOKEN]) {
      const form: [string, string][] = [...url.searchParams, ['grant_type', 'refresh_token']]
      const { json } = await send(usher, path, { headers: BASIC, body: form })
      expect([path, json.error_description]).toEqual([path, expect.stringMatching(/one space/)])
    }
  },
)

test('scopes without openid, or of an API with its resource, are enough', async () => {
  for (const params of [{ scope: 'profile' }, { scope: 'files:read', resource: FILES }]) {
    const { url } = authorizationRequest(usher, { nonce: undefined, ...params })
    expect((await send(usher, url)).location?.pathname).toMatch(/^\/interaction\//)
  }
})

// biome-ignore format: a table
const TOKENS: [mistake: string, headers: Record<string, string>, change: Record<string, string | undefined>, error: string, description: RegExp][] = [
  ['no client_id', {}, {}, '400 invalid_request', /^client_id is required/],
  ['an unknown client', {}, { client_id: 'nobody' }, '401 invalid_client', /^check client_id/],
  ['a wrong secret', basic('web:wrong'), {}, '401 invalid_client', /^check client_id, its secret/],
  ['the wrong method', basic(`post:${SECRET}`), {}, '401 invalid_client', /token_endpoint_auth_method$/],
  ['two methods', BASIC, { client_id: 'web', client_secret: SECRET }, '400 invalid_request', /^send only one of Authorization, client_secret/],
  ['a Bearer token', { authorization: 'Bearer x' }, {}, '400 invalid_request', /^Authorization must be: Basic/],
  ['an unencoded secret', { authorization: `Basic web:${SECRET}` }, {}, '400 invalid_request', /^Authorization must be: Basic/],
  ['two client_ids', BASIC, { client_id: 'spa' }, '400 invalid_request', /^client_id must be the same/],
  ['no grant_type', BASIC, { grant_type: undefined }, '400 invalid_request', /'grant_type'/],
  ['an unknown grant_type', BASIC, { grant_type: 'password' }, '400 unsupported_grant_type', /^grant_type must be one of/],
  ['no code', BASIC, { code: undefined }, '400 invalid_request', /'code'/],
  ['no redirect_uri', BASIC, { redirect_uri: undefined }, '400 invalid_request', /'redirect_uri'/],
  ['an unknown code', BASIC, { code: 'x' }, '400 invalid_grant', /^code is unknown, expired, already used/],
  ['the code of another client', basic(`first:${SECRET}`), {}, '400 invalid_grant', /^code is unknown, expired, already used/],
  ['no code_verifier', BASIC, { code_verifier: undefined }, '400 invalid_grant', /^code_verifier is required/],
  ['an empty code_verifier', BASIC, { code_verifier: '' }, '400 invalid_grant', /^code_verifier is required/],
  ['a short code_verifier', BASIC, { code_verifier: 'x' }, '400 invalid_request', /^code_verifier must be a string/],
  ['a wrong code_verifier', BASIC, { code_verifier: 'x'.repeat(43) }, '400 invalid_grant', /^code_verifier must be the one/],
  ['another redirect_uri', BASIC, { redirect_uri: `${WEB}/` }, '400 invalid_grant', /^redirect_uri must be the one/],
  ['a resource that was not named before', BASIC, { resource: FILES }, '400 invalid_target', /^resource must be/],
  ['a DPoP proof that is none', { ...BASIC, dpop: 'x' }, {}, '400 invalid_dpop_proof', /^the header DPoP must be one proof/],
  ['no refresh_token', BASIC, { grant_type: 'refresh_token' }, '400 invalid_request', /'refresh_token'/],
  ['an unknown refresh_token', BASIC, { grant_type: 'refresh_token', refresh_token: 'x' }, '400 invalid_grant', /^refresh_token is unknown/],
]

test.each(TOKENS)('token request with %s', async (_, headers, change, error, description) => {
  const { code, request } = await authorize(usher, { browser })
  const form = { ...codeForm(code, request), ...change }
  const body = Object.entries(form).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const { status, json } = await send(usher, TOKEN, { headers, body })
  expect(`${status} ${json.error}`).toBe(error)
  expect(json.error_description).toMatch(description)
})

// Any sender can use the client_id of a public client.
test('a public client gets the same error for a code or token of another client as for an unknown one', async () => {
  const { code } = await authorize(usher, { browser })
  const { refresh_token } = await tokens(usher, { browser })
  const answer = async (body: Record<string, string>) => {
    const { status, json } = await send(usher, TOKEN, { body: { client_id: 'spa', ...body } })
    return { status, error: json.error, description: json.error_description }
  }
  const redeem = (sent: string) =>
    answer({ grant_type: 'authorization_code', code: sent, redirect_uri: WEB })
  const refresh = (sent: string) => answer({ grant_type: 'refresh_token', refresh_token: sent })
  const [unknownCode, unknownToken] = [await redeem('x'), await refresh('x')]
  expect(unknownCode).toMatchObject({ status: 400, error: 'invalid_grant' })
  expect(unknownToken).toMatchObject({ status: 400, error: 'invalid_grant' })
  expect(await redeem(code)).toEqual(unknownCode)
  expect(await refresh(String(refresh_token))).toEqual(unknownToken)
})

test('a used code, other scopes at a refresh, and requests in another format get descriptions', async () => {
  const { code, request, refresh_token } = await tokens(usher, { browser })
  const more = { grant_type: 'refresh_token', refresh_token, scope: 'openid files:read' }
  const wider = await send(usher, TOKEN, { headers: BASIC, body: more })
  expect(wider.json.error_description).toMatch(/^scope must only have scopes/)
  const body = codeForm(code, request)
  const reused = await send(usher, TOKEN, { headers: BASIC, body })
  expect(reused.json.error_description).toMatch(/already used|ended this access/)
  const headers = { ...BASIC, 'content-type': 'application/json' }
  const json = await send(usher, TOKEN, { headers, body: JSON.stringify(body) })
  expect(json.json.error_description).toMatch(/application\/x-www-form-urlencoded/)
  const get = await send(usher, TOKEN, { headers: BASIC, method: 'GET' })
  expect(get.json.error_description).toBe('this endpoint takes POST')
})

test('an Authorization header of another form gets the description of its endpoint', async () => {
  const userinfo = (authorization: string) =>
    send(usher, '/api/oauth/userinfo', { headers: { authorization } })
  for (const sent of ['x', 'Bearer', 'Bearer a b']) {
    const { status, json } = await userinfo(sent)
    expect([status, json.error_description]).toEqual([400, 'Authorization must be: Bearer TOKEN'])
  }
  const { json } = await manage(usher, await registerNew(usher))
  expect(json.error).toBeUndefined()
  const at = String(json.registration_client_uri)
  const wrong = await send(usher, new URL(at).pathname, { headers: { authorization: 'x' } })
  expect(wrong.json.error_description).toBe('Authorization must be: Bearer TOKEN')
  const created = {
    body: '{}',
    headers: { 'content-type': 'application/json', authorization: 'x' },
  }
  const register = await send(usher, '/api/oauth/register', created)
  if (register.status >= 400) expect(register.json.error_description).not.toContain('Basic')
})

test('UserInfo without a token, or with an expired one, gets a description', async () => {
  const { json } = await send(usher, '/api/oauth/userinfo')
  expect(json.error_description).toBe('an access token is required: Authorization: Bearer TOKEN')
  const headers = { authorization: 'Bearer x' }
  const wrong = await send(usher, '/api/oauth/userinfo', { headers })
  expect(wrong.json.error_description).toMatch(
    /^the access token is unknown, expired, revoked or of no user/,
  )
})

test('UserInfo, a code and a refresh for an account that is disabled get a description', async () => {
  const { id } = await usher.addAccount({ username: 'away' })
  const { access_token, refresh_token } = await tokens(usher, { username: 'away' })
  const { code, request } = await authorize(usher, { username: 'away' })
  await usher.directory.change(id, account => ({ ...account, enabled: false }))
  const headers = { authorization: `Bearer ${access_token}` }
  const { json } = await send(usher, '/api/oauth/userinfo', { headers })
  expect(json.error_description).toMatch(/^the access token is unknown, expired or revoked/)
  for (const { body } of [
    await refresh(usher, refresh_token),
    await redeem(usher, code, request),
  ]) {
    expect(body.error_description).toMatch(/ended this access; sign the user in again$/)
  }
})

test('a code of a bound client, and a bound refresh token, need the header DPoP', async () => {
  const bound = { browser, client_id: 'bound', redirect_uri: WEB }
  const { code, request } = await authorize(usher, bound)
  const unproved = await redeem(usher, code, request)
  expect(unproved.body.error_description).toBe('the header DPoP with a proof is required')
  const { refresh_token } = await boundTokens(usher, await createProver(), { browser })
  const { body } = await refresh(usher, refresh_token, 'spa')
  expect(body.error_description).toMatch(/^the header DPoP is required, with a proof/)
})

test('a request that the user cancels, and an invalid registration access token, get descriptions', async () => {
  const user = new Browser(usher.issuer)
  await user.open(authorizationRequest(usher).url)
  await user.submit({ decision: 'cancel' })
  expect(user.page.params.get('error')).toBe('access_denied')
  expect(user.page.params.get('error_description')).toMatch(/^the user did not sign in, or/)
  const { json } = await manage(usher, {
    ...(await registerNew(usher)),
    registration_access_token: 'x',
  })
  expect(json.error_description).toMatch(/^the registration access token is unknown/)
})

test('introspection by a public client gets a description, and the log has the reason', async () => {
  const line = usher.output.length
  const { status, json } = await send(usher, '/api/oauth/introspect', {
    body: { client_id: 'spa', token: 'x' },
  })
  expect([status, json.error]).toEqual([401, 'invalid_client'])
  expect(json.error_description).toMatch(/^client_id must be of a confidential client/)
  expect(json.detail).toBe('a public client cannot introspect')
  await loggedAfter(line, '"detail":"a public client cannot introspect"')
})

test('the log says why an introspection found no active token: a JWT, and an API that the file does not name', async () => {
  const introspectBy = async (client: string, token: string) => {
    const line = usher.output.length
    const asked = { headers: basic(`${client}:${SECRET}`), body: { token } }
    const { json } = await send(usher, '/api/oauth/introspect', asked)
    expect(json).toEqual({ active: false })
    return line
  }
  const forCalendar = { browser, scope: 'openid calendar:read', resource: CALENDAR }
  const calendar = await authorize(usher, forCalendar)
  const jwt = await redeem(usher, calendar.code, calendar.request, CALENDAR)
  const verified = await introspectBy('files-api', jwt.body.access_token)
  await loggedAfter(verified, 'a JWT is not stored: the API verifies it with the keys of the JWKS')
  const forFiles = { browser, scope: 'openid files:read', resource: FILES }
  const files = await authorize(usher, forFiles)
  const opaque = await redeem(usher, files.code, files.request, FILES)
  const foreign = await introspectBy('payroll-api', opaque.body.access_token)
  await loggedAfter(foreign, `the token is for ${FILES}, whose introspected_by does not name`)
})

const loggedAfter = (line: number, text: string) =>
  expect.poll(() => usher.output.slice(line).some(logged => logged.includes(text))).toBe(true)

test.each([
  ['an unknown scope', { scope: 'openid calendars' }, 'scope calendars'],
  ['a scope of an API without its resource', { scope: 'openid files:read' }, 'scope files:read'],
  ['audience', { audience: FILES }, 'audience'],
])('%s is accepted and ignored, which is logged', async (_, params, ignored) => {
  const line = usher.output.length
  const { location } = await send(usher, authorizationRequest(usher, params).url)
  expect(location?.pathname).toMatch(/^\/interaction\//)
  await loggedAfter(line, `"ignored":"${ignored}"`)
})

/** Token requests of a service, and whether nothing accepts the token that they ask for. */
const WITHOUT_RESOURCE: [what: string, body: Record<string, string>, isRefused: boolean][] = [
  ['the scope of an API', { scope: 'pay' }, true],
  ['an unknown scope', { scope: 'payments' }, true],
  ['audience', { audience: FILES }, true],
  ['audience and the scope of an API', { audience: FILES, scope: 'pay' }, true],
  ['the scope of an API and another one', { scope: 'pay profile' }, false],
  ['audience and another scope', { audience: FILES, scope: 'profile' }, false],
]
test.each(WITHOUT_RESOURCE)('a token for %s without resource: %j', async (_, more, isRefused) => {
  const line = usher.output.length
  const body = { grant_type: 'client_credentials', ...more }
  const { status, json } = await send(usher, TOKEN, { headers: basic(`service:${SECRET}`), body })
  expect([status, json.error]).toEqual(isRefused ? [400, 'invalid_target'] : [200, undefined])
  if (isRefused) expect(json.error_description).toContain('send resource=URL of the API')
  else await loggedAfter(line, 'send resource=URL of the API')
})

test('with a code, audience is logged, because the token is for UserInfo; a refresh for the scope of an API is for the API', async () => {
  const line = usher.output.length
  const { code, request } = await authorize(usher, { browser })
  const form = codeForm(code, request)
  const body = { ...form, audience: FILES, scope: 'files:read' }
  const { status } = await send(usher, TOKEN, { headers: BASIC, body })
  expect(status).toBe(200)
  await loggedAfter(line, '"ignored":"audience, scope files:read"')
  const params = { scope: 'openid offline_access files:read', resource: FILES }
  const { refresh_token = '' } = await tokens(usher, { browser, ...params })
  const refresh = { grant_type: 'refresh_token', refresh_token, scope: 'files:read' }
  const { json } = await send(usher, TOKEN, { headers: BASIC, body: refresh })
  const api = await userinfo(usher, String(json.access_token))
  expect([json.scope, api.status]).toEqual(['files:read', 401])
})

describe('the detail for operators', () => {
  const wrong = { headers: basic('web:wrong'), body: { grant_type: 'authorization_code' } }

  test('is in the response to a request from loopback to a loopback issuer', async () => {
    const { json } = await send(usher, TOKEN, wrong)
    expect(json.detail).toBe('invalid secret provided')
    const forwarded = { ...wrong.headers, 'x-forwarded-for': '203.0.113.7' }
    const remote = await send(usher, TOKEN, { ...wrong, headers: forwarded })
    expect(remote.json.error).toBe('invalid_client')
    expect(remote.json).not.toHaveProperty('detail')
  })

  test('is in no response of another issuer', async () => {
    const store = `sqlite:${folder}/usher.db`
    const remote = await startAnother({ env: PRODUCTION, usher: PROXY, store })
    const headers = { ...wrong.headers, 'x-forwarded-proto': 'https' }
    const { json } = await send(remote, TOKEN, { ...wrong, headers })
    expect(json.error).toBe('invalid_client')
    expect(json).not.toHaveProperty('detail')
  })
})

// WWW-Authenticate: the challenge has the error and the description of the body, and the request id. Many client
// libraries show their developer only the header (RFC 6749 §5.2, RFC 6750 §3).

/** The parameters of the only challenge of an answer, as `openid-client` reads them. */
function challengeOf({ headers }: Pick<Reply, 'headers'>) {
  const sent = headers.get('www-authenticate') ?? ''
  const [, scheme = ''] = /^(\w+) /.exec(sent) ?? []
  const pairs = [...sent.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
  const named = pairs.map(([, name, value = '']) => [name, value.replace(/\\(.)/g, '$1')])
  return { scheme, count: pairs.length, ...Object.fromEntries(named) }
}

const API = '/api/oauth'
const WRONG = basic('web:wrong')
const BEARER = { authorization: 'Bearer wrong' }
const JSON_BODY = { 'content-type': 'application/json' }

// biome-ignore format: a table
const REFUSED: [what: string, scheme: string, path: string, request: WireOptions][] = [
  ['a wrong secret at the token endpoint', 'Basic', '/token', { headers: WRONG, body: { grant_type: 'refresh_token', refresh_token: 'x' } }],
  ['an unknown client at the token endpoint', 'Basic', '/token', { headers: basic('nobody:x'), body: { grant_type: 'client_credentials' } }],
  ['a wrong secret at introspection', 'Basic', '/introspect', { headers: WRONG, body: { token: 'x' } }],
  ['a wrong secret at revocation', 'Basic', '/revoke', { headers: WRONG, body: { token: 'x' } }],
  ['a wrong secret at pushed requests', 'Basic', '/par', { headers: WRONG, body: { response_type: 'code' } }],
  ['a wrong secret at device authorization', 'Basic', '/device_authorization', { headers: WRONG, body: { scope: 'openid' } }],
  ['a wrong secret at backchannel authentication', 'Basic', '/backchannel_authentication', { headers: WRONG, body: { scope: 'openid' } }],
  ['an unknown token at UserInfo', 'Bearer', '/userinfo', { headers: BEARER }],
  ['a token in the form at UserInfo', 'Bearer', '/userinfo', { body: { access_token: 'wrong' } }],
  ['two tokens at UserInfo', 'Bearer', '/userinfo', { headers: BEARER, body: { access_token: 'wrong' } }],
  ['a malformed header at UserInfo', 'Bearer', '/userinfo', { headers: { authorization: 'Bearer a b' } }],
  ['a wrong initial access token', 'Bearer', '/register', { headers: { ...BEARER, ...JSON_BODY }, body: '{"redirect_uris":["https://a.example/cb"]}' }],
]

describe('the challenge has the error of the body and the request id:', () => {
  test.each(REFUSED)('%s', async (_, scheme, path, request) => {
    const answer = await send(usher, API + path, request)
    const { error, error_description } = answer.json
    const request_id = answer.headers.get('x-request-id')
    expect(error_description).toMatch(/\w{3}/)
    expect(challengeOf(answer)).toEqual({
      scheme,
      count: 4,
      realm: usher.issuer,
      error,
      error_description,
      request_id,
    })
  })

  test('a wrong registration access token', async () => {
    const client = await registerNew(usher)
    const answer = await manage(usher, { ...client, registration_access_token: 'x' })
    const { error, error_description, request_id } = answer.json
    expect(challengeOf(answer)).toMatchObject({ error, error_description, request_id })
  })

  test('a wrong proof, beside the algorithms', async () => {
    const headers = { authorization: 'DPoP wrong', dpop: 'x' }
    const answer = await send(usher, `${API}/userinfo`, { headers })
    const { error, error_description, request_id } = answer.json
    const expected = { scheme: 'DPoP', error, error_description, request_id }
    expect(challengeOf(answer)).toMatchObject({
      ...expected,
      algs: expect.stringContaining('ES256'),
    })
  })

  test('a token without the scope that is asked for, beside the scope', async () => {
    const { code, request } = await authorize(usher, { browser, scope: 'openid' })
    const form = codeForm(code, request)
    const { json } = await send(usher, `${API}/token`, {
      headers: BASIC,
      body: form,
    })
    const headers = { authorization: `Bearer ${json.access_token}` }
    const answer = await send(usher, `${API}/userinfo?scope=email`, { headers })
    const { error_description, request_id } = answer.json
    const expected = { error: 'insufficient_scope', error_description, request_id, scope: 'email' }
    expect(challengeOf(answer)).toMatchObject(expected)
  })
})

test('a challenge for a request without a token has no error (RFC 6750 §3.1)', async () => {
  const { headers } = await send(usher, `${API}/userinfo`)
  expect(headers.get('www-authenticate')).toMatch(/^Bearer realm="[^"]+", DPoP realm=/)
  expect(headers.get('www-authenticate')).not.toContain('error')
})

test('a good request has no challenge', async () => {
  const { headers, status } = await send(usher, `${API}/introspect`, {
    headers: BASIC,
    body: { token: 'x' },
  })
  expect([status, headers.get('www-authenticate')]).toEqual([200, null])
})

describe('the developer who uses openid-client reads our description and the request id:', () => {
  const seen = async (attempt: Promise<unknown>) => {
    const error = await attempt.catch((thrown: unknown) => thrown)
    if (!(error instanceof openid.WWWAuthenticateChallengeError)) throw error
    return error.cause[0]?.parameters
  }

  test('a wrong secret', async () => {
    const config = await configurationOf(usher, 'web', {}, openid.ClientSecretBasic('wrong'))
    expect(await seen(openid.refreshTokenGrant(config, 'x'))).toMatchObject({
      error: 'invalid_client',
      error_description: expect.stringMatching(/^check client_id, its secret or assertion/),
      request_id: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
  })

  test('an unknown access token', async () => {
    const config = await configurationOf(usher, 'web')
    expect(await seen(openid.fetchUserInfo(config, 'x', openid.skipSubjectCheck))).toMatchObject({
      error: 'invalid_token',
      error_description: expect.stringMatching(/^the access token is unknown, expired, revoked/),
      request_id: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
  })
})

// The error page on the machine of a developer: the application, what it sent, and what is registered.

const REMOTE = { 'x-forwarded-for': '203.0.113.7' }

async function detailsOf(url: string | URL, headers: Record<string, string> = {}) {
  const browser = new Browser(usher.issuer)
  const page = await browser.open(url, headers)
  expect(page.status).toBe(400)
  return page.html.querySelector('details')?.rawText ?? ''
}

const authorizing = (params: Record<string, string>) => authorizationRequest(usher, params).url
const BYE = 'https://app.example.org/bye'
const signingOut = (uri: string) =>
  `/api/oauth/logout?${new URLSearchParams({ client_id: 'web', post_logout_redirect_uri: uri })}`

// biome-ignore format: a table
const DETAILS: [mistake: string, url: () => URL | string, texts: (string | RegExp)[]][] = [
  ['a wrong redirect URI', () => authorizing({ redirect_uri: `${WEB}/?next=1` }), ['Web application', 'Sent: redirect_uri', `${WEB}/?next=1`, 'Registered: redirect_uri', WEB]],
  ['a redirect URI with letters that hide or reorder', () => authorizing({ redirect_uri: 'https://a.example/\u202Ex<b>' }), ['https://a.example/?x&lt;b&gt;']],
  ['an unknown client', () => authorizing({ client_id: 'wbe', redirect_uri: WEB }), [/Sent: client_id.*wbe.*Registered: client_id.*web/s]],
  ['a wrong address after a sign-out', () => signingOut(`${BYE}/x`), ['Web application', `${BYE}/x`, 'Registered: post_logout_redirect_uri', BYE]],
]

describe('the details name the application, and what was sent and is registered:', () => {
  test.each(DETAILS)('%s', async (_, url, texts) => {
    const details = await detailsOf(url())
    for (const text of texts) expect(details).toMatch(text)
  })

  test('a client that registered itself', async () => {
    const { client_id } = await registerNew(usher)
    const details = await detailsOf(authorizing({ client_id, redirect_uri: WEB }))
    expect(details).toContain('Strange application')
    expect(details).toContain('https://stranger.example.net/callback')
  })
})

test('another address than loopback gets the name of a client file only', async () => {
  const details = await detailsOf(authorizing({ redirect_uri: `${WEB}/x` }), REMOTE)
  expect(details).toContain('Web application')
  expect(details).not.toContain(WEB)
  expect(details).not.toContain('Registered')
  const { client_id } = await registerNew(usher)
  const unchecked = await detailsOf(authorizing({ client_id, redirect_uri: WEB }), REMOTE)
  expect(unchecked).not.toContain('Strange application')
})

test('the page leads back to the application, also to one without a home page', async () => {
  const actionsOf = async (client_id: string) => {
    const browser = new Browser(usher.issuer)
    const wrong = authorizing({ client_id, redirect_uri: 'https://evil.example/' })
    const { html } = await browser.open(wrong, REMOTE)
    const links = html.querySelectorAll('.actions a').map(link => link.getAttribute('href'))
    return { links, text: html.querySelector('main')?.rawText ?? '' }
  }
  expect((await actionsOf('web')).links).toEqual(['https://app.example.org/'])
  expect((await actionsOf('post')).links).toEqual(['https://post.example.org/'])
  // A program has no site.
  const native = await actionsOf('native')
  expect(native.links).toEqual([])
  const client = String(CLIENTS.native?.client_name)
  expect(native.text).toContain(words('error.of_application', { client }))
})
