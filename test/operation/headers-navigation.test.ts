import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, test, usher } from '../support/fixtures.ts'
import { redeem } from '../support/journey.ts'
import { credentials, onlineTokens, open } from '../support/people.ts'

test.beforeEach(() => usher.consents.removeAll(ada))

/** The emulator throws if `form-action` forbids a navigation. It must have seen the directive. */
function expectStrictForms(browser: Browser) {
  const forms = browser.pages.filter(({ ours, html }) => ours && html.querySelector('form'))
  expect(forms.length).toBeGreaterThan(0)
  for (const { headers } of forms) {
    expect(headers.get('content-security-policy')).toMatch(/(^|;)form-action 'self'(;|$)/)
  }
}

const WAYS: [what: string, params: Record<string, string>][] = [
  ['an https application', {}],
  [
    'a native one on loopback',
    { client_id: 'native', redirect_uri: 'http://127.0.0.1:49152/callback' },
  ],
  [
    'a native one with a scheme of its own',
    { client_id: 'native', redirect_uri: 'com.example.app:/callback' },
  ],
]

test.for(WAYS)('a form leads users to %s', async ([, params]) => {
  const { browser, request } = await open(usher, params)
  await browser.submit(credentials())
  await browser.submit({ decision: 'allow' })
  expect(browser.page.url.href.startsWith(request.redirect_uri)).toBe(true)
  expectStrictForms(browser)
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).status).toBe(200)
})

test.for(WAYS)('a refusal in a form leads users to %s', async ([, params]) => {
  const { browser, request } = await open(usher, params)
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.url.href.startsWith(request.redirect_uri)).toBe(true)
  expect(browser.page.params.get('error')).toBe('access_denied')
  expectStrictForms(browser)
})

test('no form is answered with a redirect, which form-action would block', async () => {
  const { browser } = await open(usher)
  await browser.submit(credentials())
  await browser.submit({ decision: 'allow' })
  const navigating = browser.pages.filter(({ html }) =>
    html.querySelector('meta[http-equiv=refresh]'),
  )
  expect(navigating).toHaveLength(2)
  for (const { status, html } of navigating) {
    expect(status).toBe(200)
    const link = html.querySelector('main a')?.getAttribute('href')
    const refresh = html.querySelector('meta[http-equiv=refresh]')?.getAttribute('content')
    expect(`0;url=${link}`).toBe(refresh)
  }
})

/** The form_post page of the library with the response for the client. */
async function formPost(params: Record<string, string>, decision: string) {
  const { browser, request } = await open(usher, { response_mode: 'form_post', ...params })
  if (decision === 'cancel') await browser.submit({ decision })
  else {
    await browser.submit(credentials())
    await browser.submit({ decision })
  }
  return { browser, request, page: browser.page }
}

test.for(['allow', 'deny', 'cancel'])('form_post sends the response after %s', async decision => {
  const { browser, request, page } = await formPost({}, decision)
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toContain('form-action')
  const script = page.html.querySelector('script')
  const src = script?.getAttribute('src')
  if (src) expect((await fetch(new URL(src, usher.issuer))).status).toBe(200)
  const inline = createHash('sha256').update(script?.textContent ?? '')
  const source = src ? "'self'" : `'sha256-${inline.digest('base64')}'`
  expect(policy).toMatch(new RegExp(`script-src [^;]*${source.replace(/[+]/g, '\\+')}`))
  const fields = page.html.querySelectorAll('form input').map(({ attributes }) => attributes)
  const answer = Object.fromEntries(fields.map(({ name, value }) => [name, value]))
  expect(answer).toMatchObject({ state: request.state, iss: usher.issuer })
  expect(page.html.querySelector('form')?.getAttribute('action')).toBe(request.redirect_uri)
  if (decision === 'allow') {
    expect((await redeem(usher, answer.code ?? '', request)).status).toBe(200)
  } else expect(answer.error).toBe('access_denied')
  await browser.submit()
  expect(browser.page.ours).toBe(false)
})

test('the parameters of form_post are escaped', async () => {
  const state = `"><script>alert(1)</script><b a='`
  const { page } = await formPost({ state }, 'cancel')
  expect(page.html.querySelectorAll('script')).toHaveLength(1)
  expect(page.html.querySelector('b')).toBeNull()
  expect(page.html.querySelector('input[name=state]')?.getAttribute('value')).toBe(state)
})

test('the form of a sign-out leads to the application', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  const query = new URLSearchParams({
    id_token_hint: id_token,
    post_logout_redirect_uri: 'https://app.example.org/bye',
  })
  await browser.open(`/api/oauth/logout?${query}`)
  await browser.submit({ logout: 'yes' })
  expect(browser.page.url.href).toBe('https://app.example.org/bye')
  expectStrictForms(browser)
})

test('a form of the account pages leads through a new sign-in', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/account/applications')
  await browser.submit(credentials())
  expect(browser.heading).toBe('Connected applications')
  expectStrictForms(browser)
})
