import { createHash, randomBytes } from 'node:crypto'
import { describe, expect } from 'vitest'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, post } from '../support/journey.ts'
import { CLIENTS, startUsher, WEB } from '../support/usher.ts'
import { type Reply, send } from '../support/wire.ts'

const LEGACY = 'https://legacy.example.org/callback'
const LEGACY_CLIENT = {
  ...CLIENTS.web,
  client_id: 'legacy',
  redirect_uris: [LEGACY],
  require_pkce: false,
}

const test = usherTest({
  clients: {
    ...CLIENTS,
    legacy: LEGACY_CLIENT,
  },
})
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

describe.each(['web', 'post', 'spa', 'native', 'first'])('the client "%s"', client_id => {
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

test.each([
  'token',
  'id_token',
  'id_token token',
  'code id_token',
  'code token',
  'code id_token token',
  'none',
  'code none',
  'code code',
  'code  code',
  'code code code',
  'CODE',
  'nonsense',
])('response_type=%s is refused as unsupported', async response_type => {
  const { location } = await ask({ response_type, prompt: 'none' })
  const received = new URLSearchParams(location?.search || location?.hash.slice(1))
  expect(received.get('error')).toBe('unsupported_response_type')
  expect(received.get('iss')).toBe(usher.issuer)
})

test('audience is accepted and ignored, which is logged', async () => {
  const before = usher.output.length
  const { location } = await ask({ audience: 'https://api.example.org' })
  expect(location?.pathname).toMatch(/^\/interaction\//)
  const line = () => usher.output.slice(before).find(text => text.includes('"ignored":"audience"'))
  await expect.poll(line).toContain('/api/oauth/authorize')
})
