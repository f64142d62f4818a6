import { describe, expect } from 'vitest'
import { hashSecret } from '../../src/oidc/clients.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorize, codeForm, post, redeem } from '../support/journey.ts'
import { CLIENTS, SECRET, WEB } from '../support/usher.ts'
import { basic, send, type WireOptions } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const NEXT_SECRET = 'another-secret-of-at-least-thirty-two'
const ODD_SECRET = 'a secret: with 100% of the+odd&characters='

const test = usherTest({
  usher: { proxy: ['127.0.0.1'] },
  clients: {
    ...CLIENTS,
    two: {
      ...CLIENTS.web,
      client_id: 'two',
      client_secret_hashes: [hashSecret(SECRET), hashSecret(NEXT_SECRET)],
    },
    named: {
      ...CLIENTS.web,
      client_id: 'named',
      token_endpoint_auth_method: 'client_secret_basic',
    },
    odd: { ...CLIENTS.web, client_id: 'odd:1', client_secret_hashes: [hashSecret(ODD_SECRET)] },
  },
})

async function newForm(client_id = 'web') {
  const redirect_uri = CLIENTS[client_id]?.redirect_uris[0] ?? ''
  const { code, request } = await authorize(usher, { browser, client_id, redirect_uri })
  return codeForm(code, request)
}

/** A form that gets invalid_grant if the client is authenticated. */
const FORM = { grant_type: 'refresh_token', refresh_token: 'x' }
const ask = (options: WireOptions) => send(usher, TOKEN, { body: FORM, ...options })
const asPost = (client_id: string, client_secret: string) =>
  ask({ body: { ...FORM, client_id, client_secret } })

describe('only a form by POST is accepted', () => {
  test('parameters in the URL are not read', async () => {
    const form = await newForm()
    const path = `${TOKEN}?${new URLSearchParams(form)}`
    const answer = await send(usher, path, { method: 'POST', headers: basic('web', SECRET) })
    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
    const secret = new URLSearchParams({ client_id: 'post', client_secret: SECRET })
    const other = await send(usher, `${TOKEN}?${secret}`, { body: FORM })
    expect(other.json.error).toMatch(/^invalid_(request|client)$/)
  })

  test('a parameter that is sent twice is refused', async () => {
    const form = await newForm()
    for (const name of Object.keys(form) as (keyof typeof form)[]) {
      const body: [string, string][] = [...Object.entries(form), [name, form[name]]]
      const answer = await ask({ body, headers: basic('web', SECRET) })
      expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
    }
  })
})

describe('a client whose file names no method', () => {
  test.each([
    ['in the body', () => asPost('web', SECRET)],
    ['in the Authorization header', () => ask({ headers: basic('web', SECRET) })],
  ])('authenticates with its secret %s', async (_, answer) => {
    expect(await answer()).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
  })

  test('is refused with a wrong secret', async () => {
    const { json, headers } = await asPost('web', `${SECRET}x`)
    expect([json.error, headers.get('www-authenticate')]).toEqual(['invalid_client', null])
  })
})

describe('a client whose file names a method authenticates with that method', () => {
  test.each([
    ['in the form what is registered for the header', () => asPost('named', SECRET)],
    ['a public client with a secret', () => asPost('spa', SECRET)],
    ['a public client with a secret by header', () => ask({ headers: basic('spa', SECRET) })],
    ['a confidential client without any', () => ask({ body: { ...FORM, client_id: 'web' } })],
    ['a secret in other case', () => ask({ headers: basic('web', SECRET.toUpperCase()) })],
    ['the hash instead of the secret', () => ask({ headers: basic('web', hashSecret(SECRET)) })],
    ['a client named __proto__', () => ask({ headers: basic('__proto__', SECRET) })],
    ['the account pages', () => ask({ headers: basic('usher-account', SECRET) })],
  ])('401 invalid_client: %s', async (_, attempt) => {
    const answer = await attempt()
    expect(answer).toMatchObject({ status: 401, json: { error: 'invalid_client' } })
  })

  test('each of several secrets is valid, also with special characters', async () => {
    for (const secret of [SECRET, NEXT_SECRET]) {
      expect((await ask({ headers: basic('two', secret) })).json.error).toBe('invalid_grant')
    }
    expect((await ask({ headers: basic('odd:1', ODD_SECRET) })).json.error).toBe('invalid_grant')
    expect((await ask({ headers: basic('two', ODD_SECRET) })).json.error).toBe('invalid_client')
  })

  test.each(['Basic', 'Basic ', 'Basic ====', 'Basic d2Vi', 'Bearer x', 'Basic  d2ViOng=', 'x'])(
    'the header "%s" is refused as malformed',
    async authorization => {
      const answer = await ask({ headers: { authorization } })
      expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
    },
  )
})

// From a loopback address the response would also have the detail for operators.
test('an unknown client and a wrong secret get the same response', async () => {
  const shape = async (client_id: string) => {
    const remote = { ...basic(client_id, 'wrong'), 'x-forwarded-for': '203.0.113.7' }
    const { status, json, headers } = await ask({ headers: remote })
    const challenge = headers.get('www-authenticate')?.replace(String(json.request_id), '')
    return [status, { ...json, request_id: '' }, challenge]
  }
  expect(await shape('nobody')).toEqual(await shape('web'))
})

test('no response may be cached, neither tokens nor an error', async () => {
  const { code, request } = await authorize(usher, { browser })
  const good = await redeem(usher, code, request)
  const bad = await post(usher, TOKEN, FORM)
  const worse = await ask({ headers: basic('web', 'wrong') })
  expect([good.status, bad.status, worse.status]).toEqual([200, 400, 401])
  for (const { headers } of [good, bad, worse]) {
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('content-type')).toMatch(/^application\/json/)
  }
})

test.each(['password', 'AUTHORIZATION_CODE', '__proto__', 'constructor'])(
  'grant_type=%s is not supported',
  async grant_type => {
    const form = { grant_type, username: 'ada', password: 'x', redirect_uri: WEB }
    const answer = await post(usher, TOKEN, form)
    expect(answer).toMatchObject({ status: 400, body: { error: 'unsupported_grant_type' } })
  },
)
