import { CookieJar } from 'tough-cookie'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { PRODUCTION } from '../support/config-folder.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials, words } from '../support/people.ts'
import { send } from '../support/wire.ts'

const ISSUER = PRODUCTION.USHER_ISSUER
const PROXIED = { 'x-forwarded-proto': 'https', accept: 'text/html' }

const test = usherTest({
  env: PRODUCTION,
  usher: { proxy: ['127.0.0.1'] },
  store: `sqlite:${temporaryFolder()}/usher.db`,
})

/** A browser that has signed in through a TLS proxy. Its jar enforces `__Host-` and `Secure`. */
async function signedInByTls() {
  const browser = new Browser(ISSUER, async (url, init) => {
    const headers = { ...Object.fromEntries(new Headers(init?.headers)), ...PROXIED }
    const body = init?.body instanceof URLSearchParams ? [...init.body] : undefined
    const { text, ...answer } = await send(usher, new URL(String(url)), { headers, body })
    return new Response(text, answer)
  })
  browser.jar = new CookieJar(undefined, { prefixSecurity: 'strict' })
  await browser.open(authorizationRequest(usher).url)
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('consent.title'))
  return browser
}

test('behind TLS the session cookie is __Host-, Secure, HttpOnly, Lax and for the whole origin', async () => {
  const browser = await signedInByTls()
  const { cookies } = await browser.jar.serialize()
  for (const { key, secure, httpOnly, sameSite, hostOnly } of cookies) {
    expect(key).toMatch(/^__(Host|Secure)-usher_/)
    expect({ key, secure, httpOnly, sameSite, hostOnly }).toEqual({
      key,
      secure: true,
      httpOnly: true,
      sameSite: 'lax',
      hostOnly: true,
    })
  }
  const names = new Set(cookies.map(({ key }) => String(key).replace('.sig', '')))
  expect([...names].toSorted()).toEqual([
    '__Host-usher_browser',
    '__Host-usher_device',
    '__Host-usher_session',
    '__Secure-usher_interaction',
    '__Secure-usher_resume',
  ])
  expect(cookies.find(({ key }) => key === '__Host-usher_session')?.path).toBe('/')
  expect((await browser.open('/account')).status).toBe(200)
})

test('a session cookie without the prefix is ignored', async () => {
  const header = await (await signedInByTls()).cookies()
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
