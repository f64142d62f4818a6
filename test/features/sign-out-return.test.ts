// Where a sign-out leads, with the modules of the conformance suite's plan for RP-Initiated Logout, by their names.

import { parse } from 'node-html-parser'
import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { fieldsOf, isSignedIn, onlineTokens, send as sendForm } from '../support/people.ts'
import { mutantsOf } from '../support/redirect-uris.ts'
import { someOf } from '../support/some-of.ts'
import { CLIENTS } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const LOGOUT = '/api/oauth/logout'
const BYE = 'https://app.example.org/bye'
const post_logout_redirect_uri = BYE
const state = 'a state & more/+%20'
/** Addresses that a URL parser would write in another way. */
const ODD = [
  'https://app.example.org/index.php?/bye',
  'https://app.example.org/bye?from=a%2fb+c&next',
  'https://app.example.org:443/goodbye',
]

type Params = Record<string, string>

/** A session that no test ends. */
let session: Awaited<ReturnType<typeof onlineTokens>>
const test = usherTest({
  clients: {
    ...CLIENTS,
    web: { ...CLIENTS.web, post_logout_redirect_uris: [BYE, ...ODD] },
  },
})
test.beforeAll(async () => {
  session = await onlineTokens(usher)
})

const logout = (browser: Browser, params: Params) =>
  browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)

/** Confirms the sign-out as the user. Returns the heading of the next page, or its URL at the client. */
async function agree(browser: Browser): Promise<string> {
  expect(browser.heading).toBe('Sign out')
  await browser.submit({ logout: 'yes' })
  expect(await isSignedIn(browser)).toBe(false)
  return browser.page.ours ? browser.heading : browser.page.url.href
}

/** Expects an error page without a redirect, and that the user stays signed in. */
async function expectRefusal(params: Params) {
  const page = await logout(session.browser, params)
  expect([page.ours, page.status], JSON.stringify(params)).toEqual([true, 400])
  // The details for developers name the address as text.
  expect(page.text).not.toMatch(/http-equiv="refresh"|(href|action|content)="[^"]*evil\.example/)
  expect(await isSignedIn(session.browser)).toBe(true)
}

const WITH_STATE = `${BYE}?${new URLSearchParams({ state })}`
test.for<[module: string, params: (id_token_hint: string) => Params, end: string]>([
  ['', hint => ({ id_token_hint: hint, post_logout_redirect_uri, state }), WITH_STATE],
  ['-no-state', hint => ({ id_token_hint: hint, post_logout_redirect_uri }), BYE],
  ['-no-params', () => ({}), 'Signed out'],
  ['-only-state', () => ({ state }), 'Signed out'],
  ['-no-post-logout-redirect-uri', hint => ({ id_token_hint: hint, state }), 'Signed out'],
  ['-no-id-token-hint', () => ({ post_logout_redirect_uri, state }), 'Signed out'],
  [' with client_id', () => ({ client_id: 'web', post_logout_redirect_uri, state }), WITH_STATE],
])('rp-initiated-logout%s: the user confirms, and gets to %3$s', async ([, params, end]) => {
  const { browser, id_token } = await onlineTokens(usher)
  await logout(browser, params(id_token))
  expect(await agree(browser)).toBe(end)
})

test('rp-initiated-logout-bad-id-token-hint, -modified-id-token-hint: the user sees an error page', async () => {
  const [header, payload = '', signature] = session.id_token.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const sealed = (changed: object) =>
    Buffer.from(JSON.stringify({ ...claims, ...changed })).toString('base64url')
  const unsigned = Buffer.from('{"alg":"none"}').toString('base64url')
  const hints = [
    'bad',
    'a.b.c',
    `${session.id_token}x`,
    `${header}.${payload}.`,
    `${header}.${payload}.${'A'.repeat(342)}`,
    `${header}.${sealed({ sub: 'usr_x' })}.${signature}`,
    `${header}.${sealed({ aud: 'post' })}.${signature}`,
    `${header}.${sealed({ iss: 'https://evil.example' })}.${signature}`,
    `${unsigned}.${payload}.`,
  ]
  for (const id_token_hint of hints) {
    await expectRefusal({ id_token_hint, post_logout_redirect_uri, state })
  }
})

const UNREGISTERED = [
  'https://evil.example/bye',
  'https://app.example.org/callback',
  `${BYE}?foo=bar`,
  'https://app.example.org.evil.example/bye',
  'javascript:alert(1)',
  '//evil.example',
]

test('rp-initiated-logout-bad-post-logout-redirect-uri, -query-added: it is refused without a redirect', async () => {
  const hints: Params[] = [{ id_token_hint: session.id_token }, { client_id: 'web' }]
  for (const uri of UNREGISTERED) {
    for (const hint of hints) {
      await expectRefusal({ ...hint, post_logout_redirect_uri: uri, state })
    }
  }
})

test('no other spelling of a registered post_logout_redirect_uri is accepted', async () => {
  const cookie = await session.browser.cookies()
  const accept = 'text/html'
  const mutants = mutantsOf(BYE)
  expect(mutants.length).toBeGreaterThan(400)
  const accepted: string[] = []
  for (const uri of someOf(mutants)) {
    const query = new URLSearchParams({ client_id: 'web', post_logout_redirect_uri: uri })
    const answer = await send(usher, `${LOGOUT}?${query}`, { headers: { accept, cookie } })
    if (answer.status !== 400 || answer.location) accepted.push(uri)
  }
  expect(accepted).toEqual([])
})

test.each(ODD)('the bytes of %s stay, with and without a state', async uri => {
  for (const added of [undefined, 'a state']) {
    const { browser } = await onlineTokens(usher)
    const query = {
      client_id: 'web',
      post_logout_redirect_uri: uri,
      ...(added && { state: added }),
    }
    const form = fieldsOf(await logout(browser, query), { logout: 'yes' })
    const answer = await sendForm(browser, `${LOGOUT}/confirm`, { form })
    const link = parse(await answer.text()).querySelector('a')
    const end = added ? `${uri.includes('?') ? '&' : '?'}state=a+state` : ''
    expect(link?.getAttribute('href')).toBe(uri + end)
  }
})

test('an expired hint is accepted, because a session lasts longer than an ID token', async () => {
  const { browser } = await onlineTokens(usher)
  const client = await usher.provider.Client.find('web')
  const token = new usher.provider.IdToken({ sub: ada }, { client, ctx: undefined })
  Object.assign(token, { scope: 'openid' })
  const id_token_hint = await token.issue({ use: 'idtoken', expiresAt: 1_700_000_000 })
  await logout(browser, { id_token_hint, post_logout_redirect_uri })
  expect(await agree(browser)).toBe(BYE)
})

test('a hint and a client_id of different clients lead to an error page', async () => {
  await expectRefusal({ id_token_hint: session.id_token, client_id: 'post' })
  await expectRefusal({ client_id: 'nobody', post_logout_redirect_uri })
})

test('without a session the same rules of redirect apply', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  await logout(browser, {})
  await agree(browser)
  const hint = { id_token_hint: id_token }
  const page = await logout(browser, { ...hint, post_logout_redirect_uri: `${BYE}x` })
  expect([page.ours, page.status]).toEqual([true, 400])
  await logout(browser, { ...hint, post_logout_redirect_uri, state })
  if (browser.page.ours) await browser.submit()
  expect(browser.page.url.href).toBe(WITH_STATE)
})

test('no request from another site ends a session', async () => {
  const { browser, id_token, access_token } = session
  const cookie = await browser.cookies()
  const elsewhere = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  const headers = { cookie, accept: 'text/html', ...elsewhere }
  const hints: Params[] = [{}, { id_token_hint: id_token }, { client_id: 'web', logout: 'yes' }]
  for (const hint of hints) {
    const query = new URLSearchParams({ ...hint, post_logout_redirect_uri })
    for (const mode of ['navigate', 'no-cors', 'cors']) {
      const asked = { headers: { ...headers, 'sec-fetch-mode': mode } }
      await send(usher, `${LOGOUT}?${query}`, asked)
      await send(usher, `${LOGOUT}/confirm?${query}&logout=yes`, asked)
      await send(usher, `${LOGOUT}/confirm`, { ...asked, method: 'POST', body: { logout: 'yes' } })
      await send(usher, LOGOUT, { ...asked, method: 'POST', body: { ...hint, logout: 'yes' } })
    }
  }
  expect(await isSignedIn(browser)).toBe(true)
  const bearer = { authorization: `Bearer ${access_token}` }
  expect((await send(usher, '/api/oauth/userinfo', { headers: bearer })).status).toBe(200)
})
