import { describe, expect } from 'vitest'
import { browser, test, usher } from '../support/fixtures.ts'
import { authorize, codeForm } from '../support/journey.ts'
import { SECRET } from '../support/usher.ts'
import { basic, type Reply, send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const OWN = 'https://spa.example.org'

const STRANGERS = [
  'https://evil.example',
  'https://spa.example.org.evil.example',
  'https://evilspa.example.org',
  'https://sub.spa.example.org',
  'http://spa.example.org',
  'https://spa.example.org:8443',
  'https://SPA.example.org',
  'https://spa.example.org/',
  'null',
]

async function redeemFrom(origin: string, client_id = 'spa'): Promise<Reply> {
  const { code, request } = await authorize(usher, { browser, client_id })
  const body = { ...codeForm(code, request), client_id }
  return send(usher, TOKEN, { body, headers: { origin } })
}

const allowed = ({ headers }: Reply) => headers.get('access-control-allow-origin')

test('a browser application can redeem a code from its own origin', async () => {
  const answer = await redeemFrom(OWN)
  expect(answer.status).toBe(200)
  expect(allowed(answer)).toBe(OWN)
  expect(answer.headers.get('vary')).toMatch(/\borigin\b/i)
  expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
})

test.each(STRANGERS)(
  'a browser application cannot redeem a code from another origin (%s)',
  async origin => {
    const answer = await redeemFrom(origin)
    expect(answer.json).not.toHaveProperty('access_token')
    // The script may read that its origin is refused, and nothing else.
    expect([answer.status, allowed(answer)]).toEqual([400, origin])
    expect(answer.json.error_description).toBe(`origin ${origin} not allowed for client: spa`)
  },
)

test('the origin of a custom scheme is not allowed', async () => {
  const answer = await redeemFrom('null', 'native')
  expect(answer.json).not.toHaveProperty('access_token')
  expect(answer.status).toBe(400)
})

test.each([
  ['http://127.0.0.1:4780', true],
  ['http://127.0.0.1', true],
  ['https://127.0.0.1:4780', false],
  ['http://localhost:4780', false],
  ['http://127.0.0.1:4780.evil.example', false],
  ['http://127.0.0.1.evil.example:4780', false],
])('a native client with a loopback redirect URI calls from %s: %s', async (origin, isAllowed) => {
  const body = { grant_type: 'authorization_code', code: 'x', client_id: 'native' }
  const { json } = await send(usher, TOKEN, { body, headers: { origin } })
  expect(/^origin .* not allowed/.test(String(json.error_description))).toBe(!isAllowed)
})

test('a browser application reads UserInfo from its own origin only', async () => {
  const { json } = await redeemFrom(OWN)
  const authorization = `Bearer ${json.access_token}`
  const ask = (origin: string) =>
    send(usher, '/api/oauth/userinfo', { headers: { authorization, origin } })
  expect(await ask(OWN)).toMatchObject({ status: 200, json: { sub: expect.any(String) } })
  for (const origin of STRANGERS) {
    const answer = await ask(origin)
    expect(answer.json).not.toHaveProperty('sub')
    expect(answer.status).toBe(400)
  }
})

test('a page cannot send requests for a confidential client', async () => {
  for (const path of ['revoke', 'introspect', 'par', 'token']) {
    const headers = { ...basic('web', SECRET), origin: 'https://evil.example' }
    const body = { token: 'x', grant_type: 'refresh_token', refresh_token: 'x', client_id: 'web' }
    const answer = await send(usher, `/api/oauth/${path}`, { headers, body })
    expect([answer.status, answer.json.error]).toEqual([400, 'invalid_request'])
  }
})

describe('answers that come before the library', () => {
  const elsewhere = { host: 'other.example' }
  const long = { body: { client_id: 'spa', x: 'x'.repeat(60_000) } }
  const CORS = ['token', 'userinfo', 'jwks', 'revoke', 'introspect', 'par']

  test.each(CORS)('have CORS headers at %s', async end => {
    const path = `/api/oauth/${end}`
    const origin = { origin: OWN }
    for (const [status, options] of [
      [421, { headers: { ...elsewhere, ...origin } }],
      [421, { method: 'OPTIONS', headers: { ...elsewhere, ...origin } }],
      [405, { method: 'DELETE', headers: origin }],
      ...(end === 'jwks' ? [] : [[413, { ...long, headers: origin }] as const]),
    ] as const) {
      const answer = await send(usher, path, options)
      expect([answer.status, allowed(answer)]).toEqual([status, OWN])
      expect(answer.headers.get('vary')).toMatch(/\borigin\b/i)
      expect(answer.headers.get('access-control-expose-headers')).toContain('Retry-After')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('have none at endpoints without CORS, and on pages', async () => {
    for (const path of ['/api/oauth/authorize', '/api/oauth/logout', '/account', '/api/oauth/x']) {
      const headers = { origin: OWN, ...elsewhere }
      const answer = await send(usher, path, { headers })
      expect([answer.status, allowed(answer)]).toEqual([421, null])
    }
  })
})

describe('a preflight', () => {
  const preflight = (path: string, origin: string) =>
    send(usher, path, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type, authorization',
      },
    })

  test('is answered at the endpoints of browser applications', async () => {
    for (const path of [TOKEN, '/api/oauth/userinfo', '/api/oauth/revoke']) {
      const answer = await preflight(path, OWN)
      expect(answer.status).toBe(204)
      expect(answer.headers.get('access-control-allow-methods')).toContain('POST')
      expect(answer.headers.get('access-control-allow-headers')).toContain('content-type')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('is not answered for pages', async () => {
    for (const path of ['/account', '/account/applications', '/interaction/x', '/errors']) {
      const answer = await preflight(path, OWN)
      expect(allowed(answer)).toBeNull()
    }
  })
})
