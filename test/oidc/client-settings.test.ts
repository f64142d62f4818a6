// Settings of a client file that change its tokens and its authentication.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { APIS, CALENDAR, FILES } from '../support/apis.ts'
import { Browser } from '../support/browser.ts'
import { browser, moveClock, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  userinfo,
} from '../support/journey.ts'
import { type KeySite, outcome, setOf, startKeySite } from '../support/key-site.ts'
import { KEYED } from '../support/keyed.ts'
import { silently } from '../support/people.ts'
import { createProver } from '../support/proofs.ts'
import { ADA, CLAIMS, CLIENTS, PASSWORD, SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const DAY_SECONDS = 24 * 3600

/** Never asked: it makes an acr that no user of these tests has. */
const UPSTREAM = {
  issuer: 'https://corp.example.org',
  client_id: 'usher',
  client_secret_file: 'corp.secret',
  label: 'Corp',
  acr: { mfa: 'urn:example:mfa' },
}
const STRICT = { redirect_uri: CLIENTS.first?.redirect_uris[0] ?? '' }
const GROUPS = ['admins', 'staff', { toString: 1 }]
/** Empty values stay at home (OIDC Core §5.3.2). */
const USER = { ...ADA, attributes: { groups: ['', ...GROUPS, null], teams: [''] } }

let site: KeySite

const test = usherTest(async () => {
  site = await startKeySite()
  return {
    ...APIS,
    claims: {
      claims: {
        ...CLAIMS.claims,
        groups: { scope: 'groups', from: 'attributes.groups' },
        teams: { scope: 'groups', from: 'attributes.teams' },
      },
    },
    accounts: [USER],
    resources: {
      files: { ...APIS.resources.files, claims: ['groups', 'teams', 'email'] },
      calendar: { ...APIS.resources.calendar, claims: ['groups', 'teams'] },
    },
    usher: {
      lifetimes: { access_token: '20 min' },
      egress: { allow: ['127.0.0.1'] },
      defaults: { lifetimes: { id_token: '7 min' } },
    },
    files: { 'upstreams/corp.yaml': JSON.stringify(UPSTREAM), 'corp.secret': 'corp' },
    clients: {
      web: {
        ...CLIENTS.web,
        default_resource: FILES,
        lifetimes: { access_token: '2 min', id_token: '3 min', refresh_token: '1 d' },
      },
      spa: { ...CLIENTS.spa, default_resource: CALENDAR },
      'files-api': APIS.clients['files-api'],
      service: APIS.clients.service,
      keyed: { ...KEYED, jwks: undefined, jwks_uri: `http://127.0.0.1:${site.port}/keys` },
      renamed: {
        ...CLIENTS.first,
        client_id: 'renamed',
        claims: { rename: { roles: 'groups' }, join: ' ' },
      },
      strict: {
        ...CLIENTS.first,
        client_id: 'strict',
        default_acr_values: ['urn:example:mfa'],
        require_dpop_nonce: true,
      },
      first: { ...CLIENTS.first, refresh_tokens: 'always', rotate_refresh_tokens: false },
      post: { ...CLIENTS.post, refresh_tokens: 'always' },
    },
  }
})
test.afterAll(() => site.close())

/** Seconds that an ID token is valid for. */
function secondsOf(idToken: string): number {
  const { exp = 0, iat = 0 } = decodeJwt(idToken)
  return exp - iat
}

/** Runs the flow with offline access, and returns the whole token response. */
async function tokensOf(client_id = 'web', scope = 'openid offline_access') {
  const { code, request } = await authorize(usher, { browser, client_id, scope })
  const { status, body } = await redeem(usher, code, request)
  expect([status, body]).toEqual([200, body])
  return body
}

test('lifetimes: a client has its own, and others have those of usher.yaml', async () => {
  const own = await tokensOf()
  expect([own.expires_in, secondsOf(own.id_token)]).toEqual([120, 180])
  const { body } = await refresh(usher, own.refresh_token)
  expect([body.expires_in, secondsOf(body.id_token)]).toEqual([120, 180])
  const about = await post(usher, '/api/oauth/introspect', { token: body.refresh_token })
  expect(Number(about.body.exp) - Number(about.body.iat)).toBeLessThanOrEqual(DAY_SECONDS)
  const others = await tokensOf('spa')
  expect([others.expires_in, secondsOf(others.id_token)]).toEqual([1200, 420])
})

test('refresh_tokens: always gives a token without offline_access; it outlives the session', async () => {
  const { refresh_token, scope } = await tokensOf('post', 'openid')
  expect(scope).toBe('openid')
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  const { status, body } = await refresh(usher, refresh_token, 'post')
  expect([status, body.scope]).toEqual([200, 'openid'])
  expect(body.refresh_token).not.toBe(refresh_token)
})

test('the consent page says that refresh_tokens: always lasts', async () => {
  const fresh = new Browser(usher.issuer)
  await fresh.open(authorizationRequest(usher, { client_id: 'post', prompt: 'consent' }).url)
  await fresh.submit({ username: ADA.username, password: PASSWORD, decision: 'continue' })
  expect(fresh.page.text).toContain('Its access continues after you sign out, for up to 90 days.')
})

test('rotate_refresh_tokens: false: a refresh token stays the same, however often it is used', async () => {
  const { refresh_token } = await tokensOf('first', 'openid')
  for (const _ of [1, 2, 3]) {
    const { status, body } = await refresh(usher, refresh_token, 'first')
    expect([status, body.refresh_token]).toEqual([200, refresh_token])
  }
})

const introspect = async (token: string) =>
  (await post(usher, '/api/oauth/introspect', { token, client_id: 'files-api' })).body

test('default_resource: tokens are for the API if the request has one of its scopes', async () => {
  const about = { aud: FILES, scope: 'files:read' }
  const { access_token, refresh_token } = await tokensOf('web', 'openid offline_access files:read')
  expect(await introspect(access_token)).toMatchObject(about)
  expect((await userinfo(usher, access_token)).status).toBe(401)
  const { body } = await refresh(usher, refresh_token)
  expect(await introspect(body.access_token)).toMatchObject(about)
  const form = { grant_type: 'refresh_token', refresh_token: body.refresh_token, scope: 'openid' }
  const narrow = await post(usher, '/api/oauth/token', form)
  expect((await userinfo(usher, narrow.body.access_token)).status).toBe(200)
  const online = await tokensOf('web', 'openid')
  expect((await userinfo(usher, online.access_token)).status).toBe(200)
})

test('claims of an API are in its tokens only, opaque or JWT, and at every refresh', async () => {
  const first = await tokensOf('web', 'openid offline_access files:read')
  const { body } = await refresh(usher, first.refresh_token)
  for (const token of [first.access_token, body.access_token]) {
    const about = await introspect(token)
    expect(about).toMatchObject({ groups: GROUPS, email: ADA.email })
    expect(about).not.toHaveProperty('name')
    expect(about).not.toHaveProperty('teams')
  }
  const { access_token } = await tokensOf('spa', 'openid calendar:read')
  expect(decodeJwt(access_token)).toMatchObject({ groups: GROUPS, aud: 'calendar' })
  expect(decodeJwt(access_token)).not.toHaveProperty('teams')
  expect(decodeJwt(access_token)).not.toHaveProperty('email')
  expect(decodeJwt(first.id_token)).not.toHaveProperty('groups')
})

test('claims of an API: a service without a user has none', async () => {
  const form = { grant_type: 'client_credentials', resource: FILES, scope: 'files:read' }
  const { body } = await post(usher, '/api/oauth/token', { ...form, client_id: 'service' })
  const about = await introspect(body.access_token)
  expect(about).toMatchObject({ active: true, client_id: 'service' })
  expect(about).not.toHaveProperty('groups')
})

test('jwks_uri: the keys of a client are fetched, and a removed key ends', async () => {
  site.answer(await setOf('old'))
  expect(await outcome(usher, 'keyed', 'old')).toBe('invalid_grant')
  expect(await outcome(usher, 'keyed', 'new')).toBe('invalid_client')
  expect(site.requests()).toBe(1)
  site.answer(await setOf('new'))
  moveClock(300)
  expect(await outcome(usher, 'keyed', 'old')).toBe('invalid_client')
  expect(await outcome(usher, 'keyed', 'new')).toBe('invalid_grant')
})

test('jwks_uri: an address that does not answer is a passing fault', async () => {
  site.answer('down', 500)
  moveClock(900)
  expect(await outcome(usher, 'keyed', 'new')).toBe('temporarily_unavailable')
})

test('default_acr_values: a sign-in of another kind is not enough', async () => {
  await tokensOf('first', 'openid')
  expect(await silently(usher, browser, { client_id: 'first' })).toBeUndefined()
  expect(await silently(usher, browser, { client_id: 'strict', ...STRICT })).toBe('login_required')
})

test('require_dpop_nonce: a proof without a nonce of the provider is refused', async () => {
  const prover = await createProver()
  const path = '/api/oauth/token'
  const present = async (client: string, claims: object = {}) => {
    const dpop = await prover.prove('POST', usher.issuer + path, { claims: { ...claims } })
    const body = { grant_type: 'refresh_token', refresh_token: 'unknown' }
    return send(usher, path, { body, headers: { ...basic(client, SECRET), dpop } })
  }
  expect((await present('first')).json.error).toBe('invalid_grant')
  const { headers, json } = await present('strict')
  expect(json.error).toBe('use_dpop_nonce')
  const nonce = headers.get('dpop-nonce')
  expect((await present('strict', { nonce })).json.error).toBe('invalid_grant')
})

test('claims.rename and claims.join: other names for one client, in ID tokens and UserInfo', async () => {
  const asked = (client_id: string) => ({ client_id, scope: 'openid groups', ...STRICT, browser })
  const { code, request } = await authorize(usher, asked('renamed'))
  const { body } = await redeem(usher, code, request)
  const info = await userinfo(usher, body.access_token)
  for (const claims of [decodeJwt(body.id_token), info.body]) {
    expect(claims).toMatchObject({ roles: 'admins staff' })
    expect(claims).not.toHaveProperty('groups')
  }
  const other = await authorize(usher, asked('first'))
  const { id_token, access_token } = (await redeem(usher, other.code, other.request)).body
  for (const claims of [decodeJwt(id_token), (await userinfo(usher, access_token)).body]) {
    expect(claims).toMatchObject({ groups: GROUPS })
    expect(claims).not.toHaveProperty('roles')
    expect(claims).not.toHaveProperty('teams')
  }
})
