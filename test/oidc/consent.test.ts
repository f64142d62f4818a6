// The consent page: what it shows, in which language, and which clients need it.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { places, read } from '../support/config-folder.ts'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import {
  credentials,
  newTab,
  open,
  removalOf,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { CLIENTS, WEB } from '../support/usher.ts'

const NAME = `<script>alert(1)</script>"'><b>&amp; {brand}`
const NASTY_URI = 'https://nasty.example/callback?a="onmouseover="alert(1)'
const NASTY = {
  client_id: 'nasty',
  client_name: NAME,
  redirect_uris: [NASTY_URI],
  policy_uri: 'https://nasty.example/policy?"onmouseover="alert(1)',
  token_endpoint_auth_method: 'none',
}

const DEVELOPED = {
  client_id: 'developed',
  client_name: 'Application under development',
  redirect_uris: ['http://localhost:5173/callback', 'https://developed.example.org/callback'],
  token_endpoint_auth_method: 'none',
}

const PLANNER = {
  ...CLIENTS.web,
  client_id: 'planner',
  client_name: 'Holiday planner',
  'client_name#de': 'Urlaubsplaner',
  'client_name#pt-BR': 'Planejador de férias',
  policy_uri: 'https://app.example.org/privacy',
  'policy_uri#de': 'https://app.example.org/datenschutz',
}

const test = usherTest({
  clients: { ...CLIENTS, nasty: NASTY, developed: DEVELOPED, planner: PLANNER },
  claims: {
    claims: {
      name: { scope: 'profile', from: 'name' },
      email: { scope: 'email', from: 'email' },
      shoe_size: { scope: 'shoes', from: 'attributes.shoe_size' },
      team: { scope: 'work', from: 'attributes.team' },
      department: { scope: 'hr', from: 'attributes.department' },
    },
    scopes: {
      work: { description: 'See the team you work in <here>' },
      hr: { description: { en: 'See your department', de: 'Ihre Abteilung sehen' } },
    },
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

/** The sign-in page and the consent page of the client in this language. */
async function consentIn(ui_locales: string) {
  const stranger = new Browser(usher.issuer)
  const asked = { client_id: 'planner', redirect_uri: WEB, ui_locales, scope: 'openid hr work' }
  await stranger.open(authorizationRequest(usher, asked).url)
  const signIn = stranger.page.html.querySelector('.lead strong')?.text
  await stranger.submit(credentials())
  const { html } = stranger.page
  const signs = html.querySelectorAll('fieldset .signs label, fieldset .signs span')
  return {
    signIn,
    name: html.querySelector('.lead strong')?.text,
    scopes: signs.slice(1).map(({ text }) => text),
    policy: html.querySelector('.links a')?.getAttribute('href'),
  }
}

// RFC 7591 §2.2
test.each([
  ['de-AT', 'Urlaubsplaner', 'Ihre Abteilung sehen', 'datenschutz'],
  ['en', 'Holiday planner', 'See your department', 'privacy'],
  ['ja', 'Holiday planner', 'See your department', 'privacy'],
])('in %s the name of the application is %j', async (language, name, scope, policy) => {
  expect(await consentIn(language)).toEqual({
    signIn: name,
    name,
    scopes: [scope, 'See the team you work in <here>'],
    policy: `https://app.example.org/${policy}`,
  })
})

test.each([
  ['client_name#deutsch', 'Urlaub', 'clients/web.yaml:1:2 client_name#deutsch'],
  ['client_id#de', 'web', 'clients/web.yaml:1:2 client_id#de'],
  ['policy_uri#de', 'nowhere', 'clients/web.yaml:1:2 policy_uri#de'],
])('%s with the value %j is a finding', async (key, value, place) => {
  const client = { [key]: value, ...CLIENTS.web }
  expect(places(await read({ 'clients/web.yaml': client }))).toEqual([place])
})

const EACH_TIME: [client_id: string, redirect_uri: string][] = [
  ['native', 'http://127.0.0.1:4711/callback'],
  ['native', 'com.example.app:/callback'],
  ['developed', 'http://localhost:5173/callback'],
]
const ONCE: [client_id: string, redirect_uri: string][] = [
  ['web', 'https://app.example.org/callback'],
  ['spa', 'https://spa.example.org/callback'],
  ['developed', 'https://developed.example.org/callback'],
]

test.for(EACH_TIME)(
  '%s at %s needs consent each time, because any program can claim to be it',
  async ([client_id, redirect_uri]) => {
    for (let time = 0; time < 2; time++) {
      await open(usher, { client_id, redirect_uri }, browser)
      expect(browser.heading).toBe('Allow access')
      await browser.submit({ decision: 'allow' })
      expect(browser.page.params.get('code')).toBeTruthy()
      expect(await silently(usher, browser, { client_id, redirect_uri })).toBe(
        'interaction_required',
      )
    }
  },
)

test.for(ONCE)('%s at %s needs consent once', async ([client_id, redirect_uri]) => {
  await open(usher, { client_id, redirect_uri }, browser)
  expect(browser.heading).toBe('Allow access')
  await browser.submit({ decision: 'allow' })
  expect(await silently(usher, browser, { client_id, redirect_uri })).toBeUndefined()
})

test('a client with implicit consent has no consent page, but is listed and removable', async () => {
  await open(usher, { client_id: 'first' }, browser)
  expect(browser.page.ours).toBe(false)
  expect(browser.page.params.get('code')).toBeTruthy()
  await browser.open('/account/applications')
  expect(browser.page.text).toContain('Application of our own')
  expect(browser.page.text).toContain(words('scope.email'))
  await browser.open(removalOf('first'))
  expect(textOf(browser.page.text)).toContain(
    words('applications.implicit_again', { brand: 'Usher' }),
  )
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(
    words('applications.removed', { client: 'Application of our own' }),
  )
  expect(await usher.consents.find(ada, 'first')).toBeUndefined()
})

test.for<[string, Record<string, string>]>([
  ['another user is asked to sign in', { prompt: 'login' }],
  ['the sign-in is too old', { prompt: 'none', max_age: '0' }],
  ['another account is asked for', { prompt: 'select_account' }],
])('nothing is recorded for a client with implicit consent while %s', async ([, params]) => {
  await usher.consents.withdraw(ada, 'first')
  await open(usher, { client_id: 'first', ...params }, newTab(browser))
  expect(await usher.consents.find(ada, 'first')).toBeUndefined()
})

test('a client with implicit consent gets new scopes without the consent page, and they are listed', async () => {
  for (const scope of ['openid', 'openid email', 'openid email offline_access']) {
    await open(usher, { client_id: 'first', scope }, browser)
    expect(Object.fromEntries(browser.page.params), scope).toHaveProperty('code')
  }
  const { scopes = [] } = (await usher.consents.find(ada, 'first')) ?? {}
  expect(scopes.toSorted()).toEqual(['email', 'offline_access', 'openid'])
})
