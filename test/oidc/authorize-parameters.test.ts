// The parameters of authorization requests and responses: which are required, allowed and bounded.

import { createHash, randomBytes } from 'node:crypto'
import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { clientSchema } from '../../src/config/schema/client.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, post, redeem } from '../support/journey.ts'
import { CLIENTS, SECRET, startUsher, WEB } from '../support/usher.ts'
import { basic, type Reply, send } from '../support/wire.ts'

const LEGACY = 'https://legacy.example.org/callback'
const LEGACY_CLIENT = {
  ...CLIENTS.web,
  client_id: 'legacy',
  redirect_uris: [LEGACY],
  require_pkce: false,
}

const STRICT = { ...CLIENTS.web, client_id: 'strict', response_modes: ['form_post'] }

const test = usherTest({ clients: { ...CLIENTS, legacy: LEGACY_CLIENT, strict: STRICT } })
test.beforeAll(async () => {
  await authorize(usher, { browser })
})

type Params = Record<string, string | undefined>
const ask = (params: Params = {}) => send(usher, authorizationRequest(usher, params).url)

/** The response parameters in the query of the redirect URI. */
function responseOf({ location, text }: Reply): Record<string, string> {
  if (!location) throw new Error(`no redirect: ${text.slice(0, 500)}`)
  return Object.fromEntries(location.searchParams)
}

const PARAMETERS = {
  client_id: 'web',
  redirect_uri: WEB,
  response_type: 'code',
  response_mode: 'query',
  scope: 'openid',
  state: 'a',
  nonce: 'a',
  code_challenge: createHash('sha256').update('a').digest('base64url'),
  code_challenge_method: 'S256',
  prompt: 'login',
  max_age: '60',
  login_hint: 'ada',
  ui_locales: 'en',
  id_token_hint: 'a.b.c',
  acr_values: '1',
}

describe('a parameter that is sent twice is refused', () => {
  test.each(Object.entries(PARAMETERS))('%s', async (name, value) => {
    for (const second of [value, 'other', '']) {
      const { url } = authorizationRequest(usher)
      url.searchParams.set(name, value)
      url.searchParams.append(name, second)
      const answer = await send(usher, url)
      const { location } = answer
      if (['client_id', 'redirect_uri'].includes(name) || !location) {
        expect(answer).toMatchObject({ status: 400 })
        expect(location).toBeUndefined()
      } else {
        expect(location.href.startsWith(WEB)).toBe(true)
        expect(new URLSearchParams(location.search || location.hash.slice(1)).get('error')).toBe(
          'invalid_request',
        )
      }
    }
  })

  test('in a POST, too', async () => {
    const { url } = authorizationRequest(usher, { prompt: 'none' })
    const body = [...url.searchParams, ['scope', 'openid']] as [string, string][]
    const moved = await send(usher, '/api/oauth/authorize', { body })
    expect(moved.status).toBe(303)
    const answer = await send(usher, moved.location ?? '')
    expect(responseOf(answer)).toMatchObject({ error: 'invalid_request' })
  })
})

const GOOD = randomBytes(32).toString('base64url')
const CHALLENGES: [string, Params][] = [
  ['no challenge', { code_challenge: undefined, code_challenge_method: undefined }],
  ['no challenge, but a method', { code_challenge: undefined }],
  ['an empty challenge', { code_challenge: '' }],
  ['the method plain', { code_challenge_method: 'plain' }],
  ['no method', { code_challenge_method: undefined }],
  ['an empty method', { code_challenge_method: '' }],
  ['the method s256', { code_challenge_method: 's256' }],
  ['the method S512', { code_challenge_method: 'S512' }],
  ['a challenge of 42 characters', { code_challenge: GOOD.slice(1) }],
  ['a challenge of 129 characters', { code_challenge: GOOD.repeat(3) }],
  ['a challenge that is no base64url', { code_challenge: `${GOOD.slice(2)}+/` }],
]

describe.each(['web', 'spa'])('the client "%s"', client_id => {
  test.each(CHALLENGES)('is refused with %s', async (_, params) => {
    const answer = await ask({ client_id, prompt: 'none', ...params })
    expect(responseOf(answer)).toMatchObject({ error: 'invalid_request', iss: usher.issuer })
  })
})

test('an operator can exempt a confidential client, which may still use PKCE', async () => {
  const without = { code_challenge: undefined, code_challenge_method: undefined }
  const params = { browser, client_id: 'legacy', redirect_uri: LEGACY }
  const { code } = await authorize(usher, { ...params, ...without })
  const form = { grant_type: 'authorization_code', code, redirect_uri: LEGACY, client_id: 'legacy' }
  const code_verifier = 'v'.repeat(43)
  // A verifier for a code without a challenge: somebody has removed the challenge.
  const downgraded = await authorize(usher, { ...params, ...without })
  const verified = { ...form, code: downgraded.code, code_verifier }
  expect(await post(usher, '/api/oauth/token', verified)).toMatchObject({ status: 400 })
  expect((await post(usher, '/api/oauth/token', form)).status).toBe(200)

  const second = await authorize(usher, params)
  const refused = await post(usher, '/api/oauth/token', { ...form, code: second.code })
  expect(refused).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  const plain = await ask({ ...params, browser: undefined, code_challenge_method: 'plain' })
  expect(responseOf(plain)).toMatchObject({ error: 'invalid_request' })
})

test('a public client cannot be exempted', async () => {
  const spa = { ...CLIENTS.spa, require_pkce: false }
  await expect(startUsher({ clients: { spa } })).rejects.toThrow(/require_pkce/)
})

const PATH = '/api/oauth/authorize'
const LIMITS = { state: 4096, nonce: 4096, scope: 4096, claims: 4096 }

/** A value of this length that is otherwise valid for the parameter. */
const valueFor = (name: string, length: number) => {
  if (name === 'scope') return 'openid '.padEnd(length, 'x')
  return name === 'claims' ? '{"userinfo":{}}'.padEnd(length) : 'x'.repeat(length)
}

test.each(Object.entries(LIMITS))(
  '%s may have %i characters, also in a pushed request',
  async (...row) => {
    const [name, limit] = row
    const request = (length: number) =>
      authorizationRequest(usher, { prompt: 'none', [name]: valueFor(name, length) }).url
    const { params } = await browser.open(request(limit))
    expect([params.get('error'), params.has('code')]).toEqual([null, true])
    if (name === 'state') expect(params.get('state')).toHaveLength(limit)
    const { location } = await send(usher, request(limit + 1))
    expect(location?.origin).toBe(new URL(WEB).origin)
    expect(Object.fromEntries(location?.searchParams ?? [])).toMatchObject({
      error: 'invalid_request',
      error_description: `${name} is longer than ${limit} characters`,
    })
    const push = (length: number) => {
      const body = [...request(length).searchParams]
      return send(usher, '/api/oauth/par', { body, headers: basic('web', SECRET) })
    }
    expect((await push(limit)).status).toBe(201)
    expect(await push(limit + 1)).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
  },
)

test('a request may be 8 KiB long, and not a byte longer', async () => {
  const { url } = authorizationRequest(usher, { prompt: 'none', login_hint: '' })
  const path = `${url.pathname}${url.search}`
  const fits = path.replace('login_hint=', `login_hint=${'x'.repeat(8192 - path.length)}`)
  expect((await send(usher, fits)).location?.href.startsWith(WEB)).toBe(true)
  const answer = await send(usher, fits.replace('login_hint=', 'login_hint=x'))
  expect(answer.status).toBe(414)
  expect(answer.json).toMatchObject({ error: expect.any(String), request_id: expect.any(String) })
})

describe('an authorization request by POST', () => {
  test('is redirected to the same request by GET, with the same response', async () => {
    const { url, state } = authorizationRequest(usher, { prompt: 'none' })
    const moved = await send(usher, PATH, { body: [...url.searchParams] })
    expect(moved.status).toBe(303)
    expect(moved.location?.origin).toBe(usher.issuer)
    expect(moved.location?.pathname).toBe(PATH)
    expect([...(moved.location?.searchParams ?? [])]).toEqual([...url.searchParams])
    const page = await browser.open(moved.location ?? '')
    expect(page.params.get('code')).toBeTruthy()
    expect(page.params.get('state')).toBe(state)
  })

  test('keeps every character of its parameters', async () => {
    const state = 'a b+c&d=e%20é\u{1f600}"<>#\r\n'
    const { url } = authorizationRequest(usher, { state, prompt: 'none' })
    const moved = await send(usher, PATH, { body: [...url.searchParams] })
    const answer = await send(usher, moved.location ?? '')
    expect(answer.location?.searchParams.get('state')).toBe(state)
  })

  test.each([
    ['a JSON body', { body: '{}', headers: { 'content-type': 'application/json' } }, 415],
    ['a body without type', { body: 'client_id=web' }, 415],
    ['no body', { method: 'POST' }, 415],
    ['a large body', { body: { state: 'x'.repeat(8192) } }, 413],
    ['a huge body', { body: { state: 'x'.repeat(1_000_000) } }, 413],
  ])('is refused with %s', async (_, options, status) => {
    const answer = await send(usher, PATH, options)
    expect(answer.status).toBe(status)
    expect(answer.location).toBeUndefined()
    expect(answer.json).toMatchObject({ error: expect.any(String), request_id: expect.any(String) })
  })

  test('is not redirected when its URL would be too long', async () => {
    const { url } = authorizationRequest(usher, { prompt: 'none', login_hint: '' })
    const body = `${url.searchParams}${'é'.repeat(3500)}`
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const answer = await send(usher, PATH, { body, headers, method: 'POST' })
    expect(answer.location?.href.length ?? 0).toBeLessThanOrEqual(8192 + usher.issuer.length)
    expect([400, 413, 414]).toContain(answer.status)
  })
})

describe('response modes', () => {
  test.each(['fragment', 'fragment.jwt', 'web_message', 'jwt', 'query.jwt', 'nonsense'])(
    '%s is refused, and no code is sent by it',
    async response_mode => {
      const cookie = await browser.cookies()
      const { url } = authorizationRequest(usher, { response_mode })
      const { location } = await send(usher, url, { headers: { cookie } })
      const params = new URLSearchParams(location?.search || location?.hash.slice(1))
      // A request for a JWT response mode gets the error in a JWT.
      const response = params.get('response')
      expect(response ? decodeJwt(response).error : params.get('error')).toMatch(
        /^(invalid_request|unsupported_response_mode)$/,
      )
      expect(location?.href).not.toContain('code=')
      expect(response && decodeJwt(response).code).toBeFalsy()
    },
  )

  test('an operator can restrict a client to one response mode', async () => {
    const client = { client_id: 'strict', redirect_uri: WEB }
    expect(responseOf(await ask({ ...client, prompt: 'none' }))).toMatchObject({
      error: 'invalid_request',
    })
    const answer = await ask({ ...client, prompt: 'none', response_mode: 'form_post' })
    expect(answer.text).toContain('login_required')
  })
})

test('every response has the parameter iss, with a code or with an error', async () => {
  const { page, request } = await authorize(usher, { browser })
  expect(Object.fromEntries(page.params)).toEqual({
    code: expect.stringMatching(/^[\w-]{65}$/),
    state: request.state,
    iss: usher.issuer,
  })
  for (const params of [{ prompt: 'none' }, { scope: 'nonsense' }, { prompt: 'nonsense' }]) {
    const received = responseOf(await ask({ state: 'kept', ...params }))
    expect(received).toMatchObject({ iss: usher.issuer, state: 'kept', error: expect.any(String) })
  }
  await browser.open(authorizationRequest(usher, { prompt: 'consent' }).url)
  const denied = await browser.submit({ decision: 'deny' })
  expect(Object.fromEntries(denied.params)).toMatchObject({
    error: 'access_denied',
    iss: usher.issuer,
  })
})

test('a client_id cannot look like a subject', async () => {
  const { code, request } = await authorize(usher, { browser })
  const { body } = await redeem(usher, code, request)
  const { sub = '' } = decodeJwt(body.id_token)
  expect(clientSchema.safeParse(CLIENTS.web).success).toBe(true)
  for (const client_id of [sub, 'usr_', 'usr_web']) {
    expect(clientSchema.safeParse({ ...CLIENTS.web, client_id }).success).toBe(false)
  }
})
