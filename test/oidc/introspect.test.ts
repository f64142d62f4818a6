import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { APIS, FILES, tokensFor } from '../support/apis.ts'
import { configurationOf } from '../support/client-library.ts'
import { browser, moveClock, usher, usherTest } from '../support/fixtures.ts'
import { authorize, post, refresh, tokens } from '../support/journey.ts'
import { SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const INTROSPECT = '/api/oauth/introspect'
const INACTIVE = { active: false }
const ASKED = { scope: 'openid files:read', resources: [FILES] }
const SIGNED = { introspection_signed_response_alg: 'ES256' }

const test = usherTest({
  ...APIS,
  clients: { ...APIS.clients, 'files-api': { ...APIS.clients['files-api'], ...SIGNED } },
  usher: { features: { jwt_introspection: true } },
})

const introspect = (token: string, more: Record<string, string> = {}) =>
  post(usher, INTROSPECT, { token, ...more })

test('only a client that authenticates gets a response', async () => {
  const { access_token: token } = await tokens(usher, { browser })
  const attempts = [
    send(usher, INTROSPECT, { body: { token } }),
    send(usher, INTROSPECT, { body: { token, client_id: 'web' } }),
    send(usher, INTROSPECT, { body: { token }, headers: basic('web', `${SECRET}x`) }),
    send(usher, INTROSPECT, { body: { token }, headers: { authorization: `Bearer ${token}` } }),
  ]
  for (const { status, json } of await Promise.all(attempts)) {
    expect([400, 401]).toContain(status)
    expect(json.error).toMatch(/^invalid_(client|request)$/)
    expect(json).not.toHaveProperty('active')
  }
})

test('a client can introspect its own tokens', async () => {
  const { access_token, refresh_token, id_token } = await tokens(usher, { browser })
  const about = { active: true, client_id: 'web', iss: usher.issuer, sub: decodeJwt(id_token).sub }
  const access = await introspect(access_token)
  expect(access.headers.get('cache-control')).toBe('no-store')
  expect(access.body).toMatchObject({ ...about, token_type: 'Bearer' })
  expect(Number(access.body.exp) - Number(access.body.iat)).toBe(600)
  const refreshing = await introspect(refresh_token)
  expect(refreshing.body).toMatchObject(about)
  expect(refreshing.body).not.toHaveProperty('token_type')
  for (const { body } of [access, refreshing]) {
    expect(String(body.scope).split(' ')).toContain('offline_access')
    expect(JSON.stringify(body)).not.toContain(access_token)
    expect(JSON.stringify(body)).not.toContain(refresh_token)
  }
})

test('a client cannot introspect tokens of another client', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser })
  for (const client_id of ['first', 'post']) {
    for (const token of [access_token, refresh_token]) {
      for (const token_type_hint of ['', 'access_token', 'refresh_token']) {
        const { status, body } = await introspect(token, { client_id, token_type_hint })
        expect([status, body]).toEqual([200, INACTIVE])
      }
    }
  }
})

describe('the response is inactive for a token', () => {
  const expectInactive = async (token: string) => {
    const { status, body } = await introspect(token)
    expect([status, body]).toEqual([200, INACTIVE])
  }

  test.each(['unknown', ' ', '__proto__', 'x'.repeat(10_000)])(
    'that was never issued ("%.20s")',
    expectInactive,
  )

  test('that is a code', async () => {
    await expectInactive((await authorize(usher, { browser })).code)
  })

  test('that was used', async () => {
    const { refresh_token } = await tokens(usher, { browser })
    await refresh(usher, refresh_token)
    await expectInactive(refresh_token)
  })

  test('that has expired', async () => {
    const { access_token } = await tokens(usher, { browser })
    moveClock(601)
    await expectInactive(access_token)
  })
})

const ACCEPT = 'application/token-introspection+jwt'
const introspectSigned = (token: string, client_id: string, accept = ACCEPT) =>
  send(usher, INTROSPECT, { body: { token }, headers: { ...basic(client_id, SECRET), accept } })

test('a signed introspection response is for the calling API only', async () => {
  const { access_token: token } = await tokensFor(usher, { browser, ...ASKED }, FILES)
  const { json } = await send(usher, '/.well-known/openid-configuration')
  expect(json.introspection_signing_alg_values_supported).toEqual(['RS256', 'ES256', 'EdDSA'])

  const config = await configurationOf(usher, 'files-api', SIGNED)
  const about = await openid.tokenIntrospection(config, token)
  expect(about).toMatchObject({ active: true, aud: FILES, scope: 'files:read' })
  const answer = await introspectSigned(token, 'files-api')
  expect(answer.headers.get('content-type')).toContain(ACCEPT)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const { payload } = await jwtVerify(answer.text, jwks, {
    issuer: usher.issuer,
    audience: 'files-api',
    typ: 'token-introspection+jwt',
  })
  expect(payload.token_introspection).toMatchObject({ active: true, client_id: 'web' })
})

test('RS256 is the default, and JSON is the default format', async () => {
  const signed = await introspectSigned('unknown', 'web')
  expect(decodeProtectedHeader(signed.text).alg).toBe('RS256')
  const { headers, json } = await introspectSigned('unknown', 'files-api', '*/*')
  expect(headers.get('content-type')).toContain('application/json')
  expect(json).toEqual({ active: false })
})
