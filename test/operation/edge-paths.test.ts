import { describe, expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { SECRET } from '../support/usher.ts'
import { basic, send, type WireOptions } from '../support/wire.ts'

/** Path, method, and the status of a request without parameters. */
const HANDLERS: [string, string, number][] = [
  ['/api/oauth/authorize', 'GET', 400],
  ['/api/oauth/authorize', 'POST', 415],
  ['/api/oauth/token', 'POST', 400],
  ['/api/oauth/userinfo', 'GET', 401],
  ['/api/oauth/revoke', 'POST', 400],
  ['/api/oauth/introspect', 'POST', 400],
  ['/api/oauth/jwks', 'GET', 200],
  ['/api/oauth/par', 'POST', 400],
  ['/api/oauth/logout', 'GET', 200],
  ['/api/oauth/logout/confirm', 'POST', 400],
  ['/.well-known/openid-configuration', 'GET', 200],
  ['/.well-known/oauth-authorization-server', 'GET', 200],
  ['/.well-known/change-password', 'GET', 302],
  ['/account/applications', 'GET', 302],
  ['/account/sessions', 'GET', 302],
  ['/account/password', 'GET', 302],
  ['/account', 'GET', 302],
  ['/errors', 'GET', 200],
  ['/livez', 'GET', 200],
  ['/readyz', 'GET', 200],
]

/** Spellings that a proxy or a router may treat as the same path. */
function spellingsOf(path: string): string[] {
  const last = path.lastIndexOf('/')
  const [head, tail] = [path.slice(0, last), path.slice(last + 1)]
  return [
    `${path}/`,
    `${path}//`,
    `${path};x`,
    `${path};x=1/`,
    `${path}/.`,
    `${path}/x/..`,
    `${path}%2f`,
    `${path}%20`,
    `${path}%00`,
    `${path}.`,
    `${path}.json`,
    `/${path}`,
    `/.${path}`,
    `/x/..${path}`,
    `${head}//${tail}`,
    `${head}/./${tail}`,
    `${head}/;/${tail}`,
    `${head}%2f${tail}`,
    `${head}%5c${tail}`,
    `${head}\\${tail}`,
    `${head}/%2e/${tail}`,
    `${head}/${tail.toUpperCase()}`,
    `${head}/${tail[0]?.toUpperCase()}${tail.slice(1)}`,
    `${head}/%${tail.charCodeAt(0).toString(16)}${tail.slice(1)}`,
    path.toUpperCase(),
  ].filter(spelling => spelling !== path)
}

describe.each(HANDLERS)('%s by %s', (path, method, status) => {
  test('has a handler', async () => {
    expect((await send(usher, path, { method })).status).toBe(status)
  })

  test('has no handler at any other spelling', async () => {
    const answers = await Promise.all(
      spellingsOf(path).map(async spelling => {
        const answer = await send(usher, spelling, { method })
        return `${answer.status} ${spelling}`
      }),
    )
    expect(answers.filter(answer => !/^40[04] /.test(answer))).toEqual([])
  })
})

test('another spelling of the token endpoint never authenticates a client', async () => {
  const body = { grant_type: 'refresh_token', refresh_token: 'x' }
  for (const spelling of spellingsOf('/api/oauth/token')) {
    const answer = await send(usher, spelling, { body, headers: basic('web', SECRET) })
    expect([spelling, answer.status, answer.json.error]).toEqual([spelling, 404, 'not_found'])
  }
})

test('an unknown interaction is answered with a page that explains it', async () => {
  const lengths = ['x', 'x'.repeat(21), 'x'.repeat(43)]
  const odd = ['%ff', '%00', '%f0%28', '%2e%2e', '..%2f', '__proto__', "'", '%E0%A4%A']
  for (const path of [...lengths, ...odd]) {
    for (const method of ['GET', 'POST']) {
      const uid = `/interaction/${path}`
      const body = method === 'POST' ? { csrf: 'x' } : undefined
      const answer = await send(usher, uid, { method, body, headers: { accept: 'text/html' } })
      expect([400, 404]).toContain(answer.status)
      expect(answer.headers.get('content-type')).toMatch(/^text\/html/)
    }
  }
})

test.each([
  ['/account', 'POST', 'HEAD, GET'],
  ['/account/applications', 'POST', 'HEAD, GET'],
  ['/account/password', 'DELETE', 'HEAD, GET, POST'],
  ['/.well-known/change-password', 'POST', 'HEAD, GET'],
  ['/api/oauth/token', 'GET', 'POST'],
  ['/api/oauth/jwks', 'POST', 'GET'],
])('%s refuses %s, and lists the allowed methods', async (path, method, allow) => {
  const answer = await send(usher, path, { method })
  expect(answer.status).toBe(405)
  expect(answer.headers.get('allow')).toBe(allow)
  expect(answer.json.error).toBe('method_not_allowed')
})

/** The methods that the specifications demand of each endpoint. HEAD comes with GET (RFC 9110 §9.1). */
const METHODS: Record<string, string> = {
  '/.well-known/openid-configuration': 'GET HEAD',
  '/.well-known/oauth-authorization-server': 'GET HEAD',
  '/api/oauth/jwks': 'GET HEAD',
  '/api/oauth/authorize': 'GET HEAD POST',
  '/api/oauth/userinfo': 'GET HEAD POST',
  '/api/oauth/logout': 'GET HEAD POST',
  '/api/oauth/token': 'POST',
  '/api/oauth/par': 'POST',
  '/api/oauth/introspect': 'POST',
  '/api/oauth/revoke': 'POST',
}

test.each(Object.entries(METHODS))('%s takes %s, and no other method', async (path, methods) => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const isTaken = (await send(usher, path, { method })).status !== 405
    expect([method, isTaken]).toEqual([method, methods.split(' ').includes(method)])
  }
})

const JAVA = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2'
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

/** Endpoints for programs, with their methods. */
const PROGRAMS = ['token', 'userinfo', 'introspect', 'revoke', 'par', 'jwks', 'register', 'x']

test.each(PROGRAMS)('errors of %s are JSON, whatever Accept says', async name => {
  const path = `/api/oauth/${name}`
  for (const accept of [JAVA, 'text/html', 'text/*', 'text/html;q=1, application/json;q=0.5']) {
    for (const [status, options] of Object.entries<WireOptions>({
      '400, 401, 404 or 405': { method: 'POST', body: 'x', headers: FORM },
      405: { method: 'PATCH' },
      413: { method: 'POST', body: 'x'.repeat(60_000), headers: FORM },
      415: { method: 'POST', body: '<x/>', headers: { 'content-type': 'text/xml' } },
      421: { headers: { host: 'other.example' } },
    })) {
      const headers = { accept, ...options.headers }
      const answer = await send(usher, path, { ...options, headers })
      expect([status, answer.headers.get('content-type')], `${accept} ${answer.status}`).toEqual([
        status,
        expect.stringMatching(/^application\/(jwk-set\+)?json/),
      ])
    }
  }
})

test('errors of endpoints for browsers are pages, where the browser prefers them', async () => {
  for (const path of ['/api/oauth/authorize', '/api/oauth/logout/confirm', '/unknown']) {
    const { headers } = await send(usher, path, { headers: { accept: JAVA } })
    expect(headers.get('content-type')).toMatch(/^text\/html/)
  }
})

const CHUNKED = ['token', 'introspect', 'revoke', 'par', 'authorize', 'logout']

test.each(CHUNKED)('a chunked body is read at %s, up to the limit', async name => {
  const path = `/api/oauth/${name}`
  const ask = async (form: Record<string, string>, isChunked: boolean) => {
    const body = String(new URLSearchParams(form))
    const headers = { ...FORM, ...basic('web', SECRET) }
    const { status, text } = await sendChunked(path, body, headers, isChunked)
    return [status, text.replace(/"request_id.*|urn:ietf[^"]*|name="xsrf".*/g, '')]
  }
  const form = { client_id: 'web', grant_type: 'x', token: 'x', scope: 'x', logout_hint: 'x' }
  expect(await ask(form, true)).toEqual(await ask(form, false))
  const [status] = await ask({ ...form, state: 'x'.repeat(100_000) }, true)
  expect(status).toBe(413)
})

/** Sends a body with its length, or in two chunks. */
async function sendChunked(
  path: string,
  body: string,
  headers: Record<string, string>,
  isChunked: boolean,
) {
  const stream = new Blob([body.slice(0, 3), body.slice(3)]).stream()
  const init = { method: 'POST', headers, body: isChunked ? stream : body, duplex: 'half' } as const
  const response = await fetch(`${usher.issuer}${path}`, { ...init, redirect: 'manual' })
  return { status: response.status, text: await response.text() }
}
