// `compatibility:` switches on the implicit and the hybrid flow. Clients whose files list such a
// response type get tokens in the authorization response, by fragment or form.

import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { configurationOf, follow, newRequest } from '../support/client-library.ts'
import { browser, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, redeem, refresh, userinfo } from '../support/journey.ts'
import { ADA, CLIENTS, startUsher, type Usher, WEB } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const TYPES = ['id_token', 'id_token token', 'code id_token', 'code token', 'code id_token token']
const MODES = ['query', 'form_post', 'form_post.jwt', 'jwt', 'fragment']
const SCOPE = 'openid profile email offline_access'
const clients = {
  ...CLIENTS,
  web: { ...CLIENTS.web, response_types: ['code', ...TYPES], response_modes: MODES },
  form: { ...CLIENTS.web, client_id: 'form', response_types: ['code id_token'] },
  plain: { ...CLIENTS.web, client_id: 'plain' },
}
const ALL = { compatibility: { implicit: true, hybrid: true } }

let off: Usher
const test = usherTest({ clients, usher: ALL })
test.beforeAll(async () => {
  off = await startUsher()
  const { url } = authorizationRequest(usher, { scope: SCOPE })
  await follow(usher, url, browser)
})
test.afterAll(() => off.close())

const halfOf = (value: string) =>
  createHash('sha256').update(value).digest().subarray(0, 16).toString('base64url')

/** The parameters in the fragment of the response. The user has given consent before. */
async function answer(params: Record<string, string | undefined>) {
  const request = authorizationRequest(usher, { scope: SCOPE, ...params })
  const page = await browser.open(request.url)
  return { request, page, received: new URLSearchParams(page.url.hash.slice(1)) }
}

/** Returns the error of a refused request from the redirect or the error page. */
async function refusal(at: Usher, params: Record<string, string | undefined>) {
  const { url } = authorizationRequest(at, params)
  const { location, status, text } = await send(at, url, {
    headers: { cookie: at === usher ? await browser.cookies() : '' },
  })
  expect(status).toBeLessThan(500)
  const received = new URLSearchParams(location?.search || location?.hash.slice(1))
  const jwt = received.get('response')
  expect(`${location} ${text}`).not.toMatch(/\b(code|id_token|access_token)=/)
  return jwt ? String(decodeJwt(jwt).error) : (received.get('error') ?? text)
}

describe.each(TYPES)('response_type=%s', type => {
  test('the fragment has exactly its parameters, each bound to the ID token, and the query has none', async () => {
    const { received, page, request } = await answer({ response_type: type })
    expect(page.url.search).toBe('')
    expect(received.get('state')).toBe(request.state)
    const has = (part: string) => type.split(' ').includes(part)
    const code = received.get('code')
    const access_token = received.get('access_token')
    const id_token = received.get('id_token')
    expect([code !== null, access_token !== null, id_token !== null]).toEqual(
      ['code', 'token', 'id_token'].map(has),
    )
    expect(received.get('iss') ?? decodeJwt(id_token ?? '').iss).toBe(usher.issuer)
    if (id_token) {
      const { nonce, c_hash, at_hash, aud, amr } = decodeJwt(id_token)
      expect({ nonce, c_hash, at_hash, aud, amr }).toEqual({
        nonce: request.nonce,
        c_hash: code ? halfOf(code) : undefined,
        at_hash: access_token ? halfOf(access_token) : undefined,
        aud: 'web',
        amr: ['pwd'],
      })
    }
    if (access_token && !code) expect(received.get('scope')).toBe('openid profile email')
  })

  // An ID token alone opens nothing.
  if (type !== 'id_token') {
    test('its code and its access token work; the reuse of the code revokes both', async () => {
      const { received, request } = await answer({ response_type: type })
      const code = received.get('code')
      const token = received.get('access_token')
      if (token) expect((await userinfo(usher, token)).body.name).toBe(ADA.name)
      if (!code) return
      const { body } = await redeem(usher, code, request)
      expect((await refresh(usher, body.refresh_token)).status).toBe(200)
      expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
      // The access token that was issued with the code, too (RFC 6749 §4.1.2).
      if (token) expect((await userinfo(usher, token)).status).toBe(401)
    })
  }

  test('can be returned by form_post, with or without a JWT', async () => {
    for (const response_mode of ['form_post', 'form_post.jwt']) {
      const { page } = await answer({ response_type: type, response_mode })
      const form = page.html.querySelector('form')
      expect(form?.getAttribute('action')).toBe(WEB)
      const names = form?.querySelectorAll('input').map(input => input.getAttribute('name'))
      const name = type.includes('id_token') ? 'id_token' : 'access_token'
      expect(names).toContain(response_mode === 'form_post' ? name : 'response')
      expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    }
  })

  test.each(['query', 'query.jwt', 'jwt', 'fragment.jwt'])(
    'is refused with response_mode=%s',
    async response_mode => {
      expect(await refusal(usher, { response_type: type, response_mode })).toMatch(
        /^(invalid_request|unsupported_response_mode)$/,
      )
    },
  )

  test('is refused for a client whose file does not list it, and for all clients while it is off', async () => {
    expect(
      await refusal(usher, { response_type: type, client_id: 'plain', redirect_uri: WEB }),
    ).toBe('invalid_request')
    expect(await refusal(off, { response_type: type })).toBe('unsupported_response_type')
  })
})

test('openid-client signs users in by code id_token and by id_token', async () => {
  const hybrid = await configurationOf(usher, 'web')
  openid.useCodeIdTokenResponseType(hybrid)
  const request = await newRequest({ redirect_uri: WEB })
  const url = openid.buildAuthorizationUrl(hybrid, request.params)
  const back = await follow(usher, url, new Browser(usher.issuer))
  const tokens = await openid.authorizationCodeGrant(hybrid, back, request.checks)
  expect(tokens.claims()?.sub).toMatch(/^usr_/)

  const implicit = await configurationOf(usher, 'web')
  openid.useIdTokenResponseType(implicit)
  const { params, checks } = await newRequest({ redirect_uri: WEB })
  const { url: page } = await browser.open(openid.buildAuthorizationUrl(implicit, params))
  const { expectedNonce, expectedState } = checks
  const claims = await openid.implicitAuthentication(implicit, page, expectedNonce, {
    expectedState,
  })
  expect(claims).toMatchObject({ sub: tokens.claims()?.sub, name: ADA.name })
})

test('PKCE, a nonce, and the response modes of the file are still required', async () => {
  const hybrid = { response_type: 'code id_token' }
  const bare = { code_challenge: undefined, code_challenge_method: undefined }
  expect(await refusal(usher, { ...hybrid, ...bare })).toBe('invalid_request')
  expect(await refusal(usher, { ...hybrid, nonce: undefined })).toBe('invalid_request')
  const form = { ...hybrid, client_id: 'form', redirect_uri: WEB }
  for (const response_mode of ['fragment', undefined]) {
    expect(await refusal(usher, { ...form, response_mode })).toBe('invalid_request')
  }
  // A code alone is never sent in the fragment (RFC 9700 §4.2).
  expect(await refusal(usher, { response_mode: 'fragment' })).toBe('unsupported_response_mode')
})

test('a client with key-bound tokens cannot get tokens from the authorization endpoint', async () => {
  const web = { ...clients.web, dpop_bound_access_tokens: true }
  const start = startUsher({ clients: { web }, usher: ALL })
  await expect(start).rejects.toThrow('must not include "token"')
})

test('errors are returned in the fragment, too', async () => {
  const { page, received } = await answer({
    response_type: 'id_token',
    prompt: 'login',
    max_age: 'x',
  })
  expect(page.url.search).toBe('')
  expect(Object.fromEntries(received)).toMatchObject({
    error: 'invalid_request',
    iss: usher.issuer,
  })
})

test('discovery lists the response types of each flow only while that flow is on', async () => {
  const discovery = async (at: Usher) => (await send(at, '/.well-known/openid-configuration')).json
  const [on, none] = await Promise.all([discovery(usher), discovery(off)])
  expect((on.response_types_supported as string[]).toSorted()).toEqual(
    ['code', ...TYPES].toSorted(),
  )
  expect(on.response_modes_supported).toContain('fragment')
  expect(none.response_types_supported).toEqual(['code'])
  expect(none.response_modes_supported).not.toContain('fragment')
  expect(none.grant_types_supported).not.toContain('implicit')
  const hybrid = await startAnother({ usher: { compatibility: { hybrid: true } } })
  const { response_types_supported } = await discovery(hybrid)
  expect(response_types_supported).toEqual(['code', ...TYPES.filter(type => /code/.test(type))])
})

test('the log records that tokens were issued, without the tokens', async () => {
  const { received } = await answer({ response_type: 'code id_token token' })
  const log = usher.output.join('')
  const line = usher.output.findLast(text => text.includes('tokens_issued')) ?? '{}'
  expect(JSON.parse(line)).toMatchObject({ client_id: 'web', grant_type: 'implicit' })
  for (const name of ['code', 'id_token', 'access_token']) {
    expect(received.get(name)).toMatch(/^[\w.-]{40,}$/)
    expect(log).not.toContain(received.get(name))
  }
})
