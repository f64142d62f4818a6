// WWW-Authenticate: the challenge has the error and the description of the body, and the request id. Many client
// libraries show their developer only the header (RFC 6749 §5.2, RFC 6750 §3).

import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { configurationOf } from '../support/client-library.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorize, codeForm } from '../support/journey.ts'
import { manage, ON, registerNew } from '../support/registration.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { basic, type Reply, send, type WireOptions } from '../support/wire.ts'

const FEATURES = { ...ON.usher.features, device_flow: true, ciba: true }
const test = usherTest({ ...ON, usher: { ...ON.usher, features: FEATURES }, clients: CLIENTS })

/** The parameters of the only challenge of an answer, as `openid-client` reads them. */
function challengeOf({ headers }: Pick<Reply, 'headers'>) {
  const sent = headers.get('www-authenticate') ?? ''
  const [, scheme = ''] = /^(\w+) /.exec(sent) ?? []
  const pairs = [...sent.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
  const named = pairs.map(([, name, value = '']) => [name, value.replace(/\\(.)/g, '$1')])
  return { scheme, count: pairs.length, ...Object.fromEntries(named) }
}

const API = '/api/oauth'
const WRONG = basic('web', 'wrong')
const BEARER = { authorization: 'Bearer wrong' }
const JSON_BODY = { 'content-type': 'application/json' }

// biome-ignore format: a table
const REFUSED: [what: string, scheme: string, path: string, request: WireOptions][] = [
  ['a wrong secret at the token endpoint', 'Basic', '/token', { headers: WRONG, body: { grant_type: 'refresh_token', refresh_token: 'x' } }],
  ['an unknown client at the token endpoint', 'Basic', '/token', { headers: basic('nobody', 'x'), body: { grant_type: 'client_credentials' } }],
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
      headers: basic('web', SECRET),
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
    headers: basic('web', SECRET),
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
