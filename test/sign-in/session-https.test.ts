import { parse } from 'node-html-parser'
import { type Cookie, CookieJar } from 'tough-cookie'
import { expect } from 'vitest'
import { PRODUCTION } from '../support/config-folder.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials } from '../support/people.ts'
import { type Reply, send } from '../support/wire.ts'

const ISSUER = PRODUCTION.USHER_ISSUER
const PROXIED = { 'x-forwarded-proto': 'https', accept: 'text/html' }

const test = usherTest({
  env: PRODUCTION,
  usher: { proxy: ['127.0.0.1'] },
  store: `sqlite:${temporaryFolder()}/usher.db`,
})

/** Sends a request as a TLS proxy does. The cookie jar enforces `__Host-` and `Secure`. */
async function visit(jar: CookieJar, url: URL, body?: Record<string, string>): Promise<Reply> {
  const cookie = await jar.getCookieString(url.href)
  const headers = { ...PROXIED, cookie, ...(body && { origin: ISSUER }) }
  const answer = await send(usher, url, { headers, body })
  for (const set of answer.headers.getSetCookie()) {
    await jar.setCookie(set, url.href, { ignoreError: false })
  }
  return answer
}

async function signIn(jar: CookieJar) {
  const seen = new Map<string, Cookie>()
  const keep = async (url: URL) => {
    for (const cookie of await jar.getCookies(url.href)) seen.set(cookie.key, cookie)
  }
  const asked = await visit(jar, authorizationRequest({ issuer: ISSUER }).url)
  const page = asked.location ?? new URL(ISSUER)
  await keep(page)
  const html = parse((await visit(jar, page)).text)
  const csrf = html.querySelector('input[name=csrf]')?.getAttribute('value') ?? ''
  const sent = await visit(jar, page, { ...credentials(), csrf })
  const [, next = ''] = /content="0;url=([^"]+)"/.exec(sent.text) ?? []
  await keep(new URL(next))
  const resumed = await visit(jar, new URL(next))
  await keep(new URL(ISSUER))
  return { seen, resumed }
}

test('behind TLS the session cookie is __Host-, Secure, HttpOnly, Lax and for the whole origin', async () => {
  const jar = new CookieJar(undefined, { prefixSecurity: 'strict' })
  const { seen, resumed } = await signIn(jar)
  expect(resumed.status).toBe(303)
  expect(resumed.location?.pathname).toContain('/interaction/')
  for (const [key, { secure, httpOnly, sameSite, hostOnly }] of seen) {
    expect(key).toMatch(/^__(Host|Secure)-usher_/)
    expect({ key, secure, httpOnly, sameSite, hostOnly }).toEqual({
      key,
      secure: true,
      httpOnly: true,
      sameSite: 'lax',
      hostOnly: true,
    })
  }
  const names = [...seen.keys()].filter(key => !key.endsWith('.sig'))
  expect(names.toSorted()).toEqual([
    '__Host-usher_browser',
    '__Host-usher_device',
    '__Host-usher_session',
    '__Secure-usher_interaction',
    '__Secure-usher_resume',
  ])
  expect(seen.get('__Host-usher_session')?.path).toBe('/')
  expect((await visit(jar, new URL('/account', ISSUER))).status).toBe(200)
})

test('a session cookie without the prefix is ignored', async () => {
  const jar = new CookieJar()
  await signIn(jar)
  const header = await jar.getCookieString(ISSUER)
  expect(header).toContain('__Host-usher_session=')
  const cookie = header.replaceAll('__Host-', '')
  const answer = await send(usher, '/account', { headers: { ...PROXIED, cookie } })
  expect(answer.status).toBe(302)
})

test('behind TLS every response has Strict-Transport-Security', async () => {
  for (const path of ['/account', '/errors', '/api/oauth/jwks', '/nothing']) {
    const { headers } = await send(usher, path, { headers: PROXIED })
    const [, age] = /^max-age=(\d+)/.exec(headers.get('strict-transport-security') ?? '') ?? []
    expect(Number(age), path).toBeGreaterThanOrEqual(365 * 24 * 3600)
  }
})

test('every URL and redirect is on the issuer, whatever address the proxy connects to', async () => {
  const { text } = await send(usher, '/.well-known/openid-configuration', { headers: PROXIED })
  expect(JSON.parse(text)).toMatchObject({
    issuer: ISSUER,
    token_endpoint: `${ISSUER}/api/oauth/token`,
  })
  expect(text).not.toContain('127.0.0.1')
  const { location } = await send(usher, '/account', { headers: PROXIED })
  expect(location?.origin).toBe(ISSUER)
  const direct = await send(usher, '/account')
  expect(direct.status).toBe(421)
})
