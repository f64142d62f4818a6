// An access token for an API is valid at that API only. Services get such tokens by client credentials.

import { createRemoteJWKSet, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { APIS, CALENDAR, configOf, FILES, PAYROLL, tokensFor } from '../support/apis.ts'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { post, userinfo } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const BOTH = {
  scope: 'openid offline_access files:read calendar:read',
  resources: [FILES, CALENDAR],
}

const test = usherTest({ ...APIS, browser: signedIn })

const introspect = (token: string, client_id: string) =>
  post(usher, '/api/oauth/introspect', { token, client_id })

test('UserInfo refuses a token for an API, whatever its format', async () => {
  for (const resource of [FILES, CALENDAR]) {
    const { access_token } = await tokensFor(usher, { browser, ...BOTH }, resource)
    const { status, headers, body } = await userinfo(usher, access_token)
    expect([status, body.error]).toEqual([401, 'invalid_token'])
    expect(headers.get('www-authenticate')).toContain('error="invalid_token"')
  }
})

test('an API sees the access tokens for it, and nothing else', async () => {
  const { access_token, refresh_token } = await tokensFor(usher, { browser, ...BOTH }, FILES)
  const { access_token: other } = await tokensFor(usher, { browser, ...BOTH })
  const seen = [
    [access_token, 'files-api', true],
    [access_token, 'web', true],
    [access_token, 'payroll-api', false],
    [access_token, 'post', false],
    [refresh_token, 'files-api', false],
    [refresh_token, 'web', true],
    [other, 'files-api', false],
  ] as const
  for (const [token, client_id, active] of seen) {
    const { status, body } = await introspect(token, client_id)
    expect([client_id, status, body.active]).toEqual([client_id, 200, active])
    if (!active) expect(body).toEqual({ active: false })
  }
})

test('introspection at an API is inactive for a revoked token, and for one of a disabled account', async () => {
  const { access_token, refresh_token } = await tokensFor(usher, { browser, ...BOTH }, FILES)
  await usher.directory.change(ada, account => ({ ...account, enabled: false }))
  expect((await introspect(access_token, 'files-api')).body).toEqual({ active: false })
  await usher.directory.change(ada, account => ({ ...account, enabled: true }))
  expect((await introspect(access_token, 'files-api')).body).toMatchObject({ active: true })
  await post(usher, '/api/oauth/revoke', { token: refresh_token })
  expect((await introspect(access_token, 'files-api')).body).toEqual({ active: false })
})

test('client_credentials: a service gets tokens for the APIs that it may use', async () => {
  const config = await configOf(usher, 'service')
  const paid = await openid.clientCredentialsGrant(config, { resource: PAYROLL, scope: 'pay' })
  expect(paid).toMatchObject({ scope: 'pay', expires_in: 600 })
  const payroll = await configOf(usher, 'payroll-api')
  const about = await openid.tokenIntrospection(payroll, paid.access_token)
  expect(about).toMatchObject({ active: true, aud: PAYROLL, client_id: 'service', scope: 'pay' })
  expect(about).not.toHaveProperty('sub')
  const asked = { resource: CALENDAR, scope: 'calendar:read' }
  const { access_token } = await openid.clientCredentialsGrant(config, asked)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const { payload } = await jwtVerify(access_token, jwks, { audience: 'calendar', typ: 'at+jwt' })
  expect(payload).toMatchObject({ sub: 'service', client_id: 'service', scope: 'calendar:read' })
  for (const scope of ['', 'files:read', 'profile']) {
    const body = { grant_type: 'client_credentials', resource: PAYROLL, scope }
    const headers = basic('service', SECRET)
    const { status, json } = await send(usher, '/api/oauth/token', { body, headers })
    expect([scope, status, json.error]).toEqual([scope, 400, 'invalid_scope'])
  }
})
