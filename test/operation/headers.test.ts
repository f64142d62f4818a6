import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { test, usher } from '../support/fixtures.ts'
import { authorizationRequest, tokens } from '../support/journey.ts'
import { credentials, open, removalOf, send as sendForm, signedIn } from '../support/people.ts'
import { SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

interface Shown {
  what: string
  headers: Headers
  text: string
}

/** Every page and every kind of error, as a browser gets them. */
async function everyPage(): Promise<Shown[]> {
  const shown: Shown[] = []
  const show = (what: string, { headers, text }: Omit<Shown, 'what'>) =>
    shown.push({ what, headers, text })
  const fetched = async (what: string, path: string | URL, browser = new Browser(usher.issuer)) => {
    const answer = await sendForm(browser, path, { method: 'GET' })
    show(what, { headers: answer.headers, text: await answer.text() })
  }
  const { browser } = await open(usher)
  await browser.submit(credentials('ada', 'wrong'))
  await browser.submit(credentials())
  await browser.submit({ decision: 'allow' })
  await open(usher, { client_id: 'native' }, browser)
  await browser.submit({ decision: 'deny' })
  await browser.open('/account')
  await browser.open('/account/applications')
  await browser.open('/account/sessions')
  await browser.open('/account/password')
  await browser.submit({ current: 'wrong' })
  await browser.open(removalOf())
  await browser.submit()
  await browser.open('/api/oauth/logout?client_id=web')
  await browser.submit()
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  for (const { url, headers, text } of browser.pages) {
    if (url.origin === usher.issuer) show(`page ${url.pathname}`, { headers, text })
  }
  const { url } = authorizationRequest(usher, { redirect_uri: 'https://evil.example/' })
  await fetched('wrong redirect_uri', url)
  await fetched('no client', '/api/oauth/authorize')
  await fetched('too long', `/api/oauth/authorize?x=${'x'.repeat(9000)}`)
  await fetched('not found', '/nothing')
  await fetched('interaction that never was', '/interaction/xxx')
  await fetched('error codes', '/errors')
  await fetched('sign-out of nobody', '/api/oauth/logout')
  const formPost = authorizationRequest(usher, { response_mode: 'form_post', prompt: 'none' })
  await fetched('form_post', formPost.url)
  const refused = await sendForm((await open(usher)).browser, '/account/password', { form: {} })
  show('POST without a session', { headers: refused.headers, text: await refused.text() })
  return shown
}

/** They are visited once for all tests. */
let pages: Shown[]
let access_token: string
test.beforeAll(async () => {
  pages = await everyPage()
  ;({ access_token } = await tokens(usher))
})

function policyOf(headers: Headers): Map<string, string> {
  const policy = headers.get('content-security-policy') ?? ''
  const directives = policy.split(';').filter(Boolean)
  return new Map(
    directives.map(directive => {
      const [name = '', ...sources] = directive.trim().split(' ')
      return [name, sources.join(' ')]
    }),
  )
}

test('every page and every error has the same strict headers', async () => {
  expect(pages.length).toBeGreaterThan(20)
  for (const { what, headers } of pages) {
    expect(headers.get('content-type'), what).toMatch(/^text\/html/)
    const policy = Object.fromEntries(policyOf(headers))
    expect(policy, what).toMatchObject({
      'default-src': "'none'",
      'style-src': "'self'",
      'img-src': "'self'",
      'base-uri': "'none'",
      'frame-ancestors': "'none'",
    })
    if (what === 'form_post') expect(policy).not.toHaveProperty('form-action')
    else expect(policy['form-action'], what).toBe("'self'")
    expect(headers.get('cross-origin-opener-policy'), what).toBe('same-origin')
    expect(headers.get('x-content-type-options'), what).toBe('nosniff')
    expect(headers.get('referrer-policy'), what).toBe('same-origin')
    expect(headers.get('x-frame-options'), what).toBe('DENY')
    expect(headers.get('cache-control'), what).toBe('no-store')
    expect(headers.get('x-request-id'), what).toMatch(/^[0-9a-f]{16}$/)
    expect(headers.has('strict-transport-security'), what).toBe(false)
    for (const telling of ['server', 'x-powered-by']) expect(headers.has(telling), what).toBe(false)
  }
})

test('no page has a script, style or handler of its own that its policy does not name', async () => {
  for (const { what, headers, text } of pages) {
    const allowed = policyOf(headers).get('script-src') ?? ''
    expect(allowed, what).not.toContain('unsafe')
    for (const [tag, script = ''] of text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)) {
      // A script from a file of the provider. The next test checks its origin.
      if (tag.includes(' src="') && !script) continue
      const hash = createHash('sha256').update(script).digest('base64')
      expect(allowed, what).toContain(`'sha256-${hash}'`)
    }
    expect(text, what).not.toMatch(/<style|\sstyle=|\son\w+=/i)
    expect(text, what).not.toMatch(/javascript:/i)
  }
})

test('no page loads anything from another origin', async () => {
  for (const { what, text } of pages) {
    const loaded = [...text.matchAll(/<(?:link|script|img|iframe|object|embed)[^>]*>/g)]
    for (const [tag] of loaded) {
      const [, address] = /(?:href|src|data)="([^"]*)"/.exec(tag) ?? []
      if (address) expect(new URL(address, usher.issuer).origin, what).toBe(usher.issuer)
    }
  }
})

test('the stylesheet exists, and its name has a hash of its content', async () => {
  const browser = await signedIn(usher)
  const href = browser.page.html.querySelector('link[rel=stylesheet]')?.getAttribute('href') ?? ''
  expect(href).toMatch(/^\/assets\/style-[0-9a-f]{12}\.css$/)
  const answer = await sendForm(browser, href, { method: 'GET' })
  expect(answer.headers.get('content-type')).toMatch(/^text\/css/)
  expect(answer.headers.get('cache-control')).toContain('immutable')
  expect(await answer.text()).not.toMatch(/@import|url\(/)
})

const JSON_ENDPOINTS: [method: string, path: string][] = [
  ['POST', '/api/oauth/token'],
  ['GET', '/api/oauth/userinfo'],
  ['POST', '/api/oauth/introspect'],
  ['POST', '/api/oauth/revoke'],
  ['POST', '/api/oauth/par'],
  ['GET', '/livez'],
  ['GET', '/readyz'],
  ['GET', '/nothing'],
]

test.for(JSON_ENDPOINTS)('%s %s is not sniffed and not cached', async ([method, path]) => {
  const wrong = `Basic ${Buffer.from('web:wrong').toString('base64')}`
  const right = `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}`
  for (const authorization of ['', wrong, right, `Bearer ${access_token}`]) {
    const body =
      method === 'POST' ? { token: access_token, grant_type: 'refresh_token' } : undefined
    const headers = { accept: 'application/json', ...(authorization && { authorization }) }
    const answer = await send(usher, path, { method, body, headers })
    expect(answer.headers.get('content-type'), authorization).toMatch(/^application\/json/)
    expect(answer.headers.get('x-content-type-options'), authorization).toBe('nosniff')
    expect(answer.headers.get('cache-control'), authorization).toBe('no-store')
    expect(answer.headers.has('x-powered-by')).toBe(false)
  }
})

test('unknown methods are refused, and not repeated in the response', async () => {
  const paths = ['/api/oauth/token', '/api/oauth/authorize', '/account', '/interaction/x', '/livez']
  for (const method of ['TRACE', 'PUT', 'DELETE', 'PATCH', 'PURGE', 'PROPFIND']) {
    for (const path of paths) {
      const headers = { 'x-canary': 'canary-in-a-header', cookie: 'a=canary' }
      const { status, text } = await send(usher, path, { method, headers })
      expect([404, 405, 501], `${method} ${path}`).toContain(status)
      expect(text).not.toContain('canary')
    }
  }
})
