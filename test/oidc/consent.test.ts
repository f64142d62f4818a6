import { expect } from 'vitest'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { open, signedIn, textOf, words } from '../support/people.ts'
import { CLIENTS } from '../support/usher.ts'

const NAME = `<script>alert(1)</script>"'><b>&amp; {brand}`
const NASTY_URI = 'https://nasty.example/callback?a="onmouseover="alert(1)'
const NASTY = {
  client_id: 'nasty',
  client_name: NAME,
  redirect_uris: [NASTY_URI],
  policy_uri: 'https://nasty.example/policy?"onmouseover="alert(1)',
  token_endpoint_auth_method: 'none',
}

const test = usherTest({
  clients: { ...CLIENTS, nasty: NASTY },
  claims: {
    claims: {
      name: { scope: 'profile', from: 'name' },
      email: { scope: 'email', from: 'email' },
      shoe_size: { scope: 'shoes', from: 'attributes.shoe_size' },
      team: { scope: 'work', from: 'attributes.team' },
    },
    scopes: { work: { description: 'See the team you work in <here>' } },
  },
  browser: signedIn,
})
test.beforeEach(() => usher.consents.removeAll(ada))

async function consentText(params: Record<string, string>): Promise<string> {
  await open(usher, params, browser)
  expect(browser.heading).toBe('Allow access')
  return textOf(browser.page.html.querySelector('main')?.outerHTML ?? '')
}

test('the page shows the name of the application, who registered it, and where the user is sent', async () => {
  const text = await consentText({})
  expect(text).toContain(words('consent.asks', { client: 'Web application' }))
  expect(text).toContain(words('consent.verified', { brand: 'Usher' }))
  expect(text).toContain(words('consent.returns', { host: 'app.example.org' }))
  expect(textOf(browser.page.text)).toContain(words('page.signed_in_as', { name: 'ada' }))
})

test('the page shows the loopback address or the scheme of a native application', async () => {
  const native = { client_id: 'native' }
  const redirect_uri = 'http://127.0.0.1:51234/callback'
  expect(await consentText({ ...native, redirect_uri })).toContain(
    words('consent.returns', { host: '127.0.0.1:51234' }),
  )
  const scheme = await consentText({ ...native, redirect_uri: 'com.example.app:/callback' })
  expect(scheme).toContain(words('consent.returns', { host: 'com.example.app' }))
})

test('the page describes every requested scope', async () => {
  const text = await consentText({ scope: 'openid profile email shoes work offline_access' })
  expect(text).toContain(words('scope.openid'))
  expect(text).toContain(words('scope.profile'))
  expect(text).toContain(words('scope.email'))
  expect(text).toContain(words('scope.other', { claims: 'shoe size' }))
  expect(text).toContain('See the team you work in <here>')
  expect(text).toContain(words('scope.offline_access'))
  const boxes = browser.page.html.querySelectorAll('input[type=checkbox]:not([disabled])')
  expect(boxes.map(box => box.attributes.value)).toEqual(
    'profile email shoes work offline_access'.split(' '),
  )
  for (const box of boxes) {
    const label = browser.page.html.querySelector(`label[for="${box.attributes.id}"]`)
    expect(label?.text).toBeTruthy()
  }
})

test('the page does not show a scope that was not requested', async () => {
  const text = await consentText({ scope: 'openid email' })
  expect(text).not.toContain(words('scope.profile'))
  expect(text).not.toContain(words('scope.offline_access'))
})

test('the page shows how long access lasts, with and without offline access', async () => {
  const online = await consentText({})
  expect(online).toContain(words('consent.lifetime'))
  expect(online).toContain(words('consent.manage'))
  const offline = await consentText({ scope: 'openid offline_access' })
  expect(offline).toContain(words('consent.offline_note', { days: '90' }))
  expect(offline).not.toContain(words('consent.lifetime'))
})

test('metadata of an application are shown as text only', async () => {
  const text = await consentText({ client_id: 'nasty', redirect_uri: NASTY_URI })
  expect(text).toContain(NAME)
  const decision = { scopes: ['openid'], declined: [], version: 0 }
  expect(await usher.consents.decide(ada, 'nasty', decision)).toBe(true)
  const consent = browser.page
  await browser.open('/account/applications')
  expect(browser.page.html.querySelector('h2')?.textContent).toBe(NAME)
  await browser.open('/api/oauth/logout?client_id=nasty')
  for (const { html, text } of [consent, ...browser.pages.slice(-2)]) {
    expect(html.querySelector('script:not([src^="/assets/"]), b, [onmouseover]') === null).toBe(
      true,
    )
    expect(text).not.toContain('<script>')
    expect(text).toContain('&lt;script&gt;alert(1)&lt;/script&gt;')
  }
})

test('metadata of an application are text on the sign-in page too', async () => {
  const { browser: fresh } = await open(usher, { client_id: 'nasty', redirect_uri: NASTY_URI })
  expect(fresh.heading).toBe('Sign in')
  expect(fresh.page.html.querySelector('script:not([src^="/assets/"]), b')).toBeNull()
  expect(fresh.page.text).toContain('&lt;script&gt;alert(1)&lt;/script&gt;')
})
