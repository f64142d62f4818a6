import { describe, expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

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
  const paths = ['x', 'x'.repeat(43), '%ff', '%00', '%2e%2e', '..%2f', '__proto__', "'", '%E0%A4%A']
  for (const path of paths) {
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
