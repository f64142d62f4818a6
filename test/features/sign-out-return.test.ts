import { parse } from 'node-html-parser'
import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { fieldsOf, isSignedIn, onlineTokens, send, signedIn } from '../support/people.ts'
import { ADA, CLIENTS, GRACE } from '../support/usher.ts'

const LOGOUT = '/api/oauth/logout'
const BYE = 'https://app.example.org/bye'
/** Addresses that a URL parser would write in another way. */
const ODD = [
  'https://app.example.org/index.php?/bye',
  'https://app.example.org/bye?from=a%2fb+c&next',
  'https://app.example.org:443/goodbye',
]

const test = usherTest({
  accounts: [ADA, GRACE],
  clients: {
    ...CLIENTS,
    web: {
      ...CLIENTS.web,
      post_logout_redirect_uris: [BYE, ...ODD],
    },
  },
})
test.beforeEach(() => usher.consents.removeAll(ada))

function logout(browser: Browser, params: Record<string, string> = {}) {
  return browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)
}

/** Two ways in which the request names its client. */
function clientHints(id_token: string): Record<string, string>[] {
  return [{ id_token_hint: id_token }, { client_id: 'web' }]
}

const UNREGISTERED = [
  'https://evil.example/bye',
  'https://app.example.org/callback',
  `${BYE}/`,
  `${BYE}?x=1`,
  `${BYE}#x`,
  'https://app.example.org/by%65',
  'https://app.example.org//bye',
  'https://app.example.org:443/bye',
  'HTTPS://app.example.org/bye',
  'https://app.example.org@evil.example/bye',
  'https://app.example.org.evil.example/bye',
  'http://app.example.org/bye',
  'javascript:alert(1)',
  '//evil.example',
  '',
]

test('after sign-out the user returns to the application, with its state', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  for (const proof of clientHints(id_token)) {
    const state = 'a state & more/+%20'
    await logout(browser, { ...proof, post_logout_redirect_uri: BYE, state })
    await browser.submit({ logout: 'yes' })
    expect(browser.page.ours).toBe(false)
    expect(`${browser.page.url.origin}${browser.page.url.pathname}`).toBe(BYE)
    expect(Object.fromEntries(browser.page.params)).toEqual({ state })
    await onlineTokens(usher, { browser })
  }
})

test.each(ODD)('the bytes of %s stay, with and without a state', async uri => {
  for (const state of [undefined, 'a state']) {
    const { browser } = await onlineTokens(usher)
    const query = { client_id: 'web', post_logout_redirect_uri: uri, ...(state && { state }) }
    const page = await logout(browser, query)
    const form = fieldsOf(page, { logout: 'yes' })
    const answer = await send(browser, '/api/oauth/logout/confirm', { form })
    const link = parse(await answer.text())
      .querySelector('a')
      ?.getAttribute('href')
    const added = `${uri.includes('?') ? '&' : '?'}state=a+state`
    expect(link).toBe(uri + (state ? added : ''))
  }
})

test('an unregistered post_logout_redirect_uri is refused without a redirect', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  for (const uri of UNREGISTERED) {
    for (const proof of clientHints(id_token)) {
      const page = await logout(browser, { ...proof, post_logout_redirect_uri: uri })
      // The library treats an empty parameter like a missing one.
      if (uri === '') expect(browser.heading).toBe('Sign out')
      else expect(page.status, uri).toBe(400)
      expect(
        page.html.querySelectorAll('a').map(({ attributes }) => attributes.href),
      ).not.toContain(uri)
      // The details for developers name it as text.
      expect(page.text).not.toMatch(/(href|action|content)="[^"]*evil\.example/)
    }
  }
  expect(await isSignedIn(browser)).toBe(true)
})

test('without a client there is no redirect', async () => {
  const browser = await signedIn(usher)
  await logout(browser, { post_logout_redirect_uri: BYE, state: 'x' })
  expect(browser.heading).toBe('Sign out')
  await browser.submit({ logout: 'yes' })
  expect(browser.page.ours).toBe(true)
  expect(browser.heading).toBe('Signed out')
})

test('a forged or modified hint is refused', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  const [header, payload] = id_token.split('.')
  for (const hint of [
    `${header}.${payload}.${'A'.repeat(342)}`,
    `${header}.${payload}.`,
    'x',
    'a.b.c',
  ]) {
    const page = await logout(browser, { id_token_hint: hint, post_logout_redirect_uri: BYE })
    expect(page.status, hint).toBe(400)
  }
  expect(await isSignedIn(browser)).toBe(true)
})
