// The eleven modules of the conformance suite's plan for RP-Initiated Logout, by their names. The plan
// omits hints that have expired or belong to another user or client. These tests are at the end.

import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { isSignedIn, onlineTokens } from '../support/people.ts'
import { mutantsOf } from '../support/redirect-uris.ts'
import { someOf } from '../support/some-of.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

let session: Awaited<ReturnType<typeof onlineTokens>>
const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(async () => {
  await usher.consents.removeAll(ada)
  session = await onlineTokens(usher)
})

const LOGOUT = '/api/oauth/logout'
const BYE = 'https://app.example.org/bye'
const post_logout_redirect_uri = BYE
const state = 'af0ifjsldkj'

function logout(params: Record<string, string>, browser: Browser = session.browser) {
  return browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)
}

/** Confirms the sign-out as the user. Returns the heading of the next page, or its URL at the client. */
async function agree(browser = session.browser): Promise<string> {
  expect(browser.heading).toBe('Sign out')
  await browser.submit({ logout: 'yes' })
  expect(await isSignedIn(browser)).toBe(false)
  return browser.page.ours ? browser.heading : browser.page.url.href
}

/** Expects an error page without a redirect, and that the user stays signed in. */
async function expectRefusal(params: Record<string, string>) {
  const page = await logout(params)
  expect([page.ours, page.status]).toEqual([true, 400])
  expect(page.text).not.toMatch(/http-equiv="refresh"|(href|action)="[^"]*evil\.example/)
  expect(await isSignedIn(session.browser)).toBe(true)
}

test('discovery-endpoint-verification: discovery names the endpoint, below the issuer', async () => {
  const { json } = await send(usher, '/.well-known/openid-configuration')
  expect(json.end_session_endpoint).toBe(`${usher.issuer}${LOGOUT}`)
})

test('rp-initiated-logout: the user confirms, is signed out, and returns with state', async () => {
  await logout({ id_token_hint: session.id_token, post_logout_redirect_uri, state })
  expect(await agree()).toBe(`${BYE}?state=${state}`)
})

test('rp-initiated-logout-no-state: the redirect has no state', async () => {
  await logout({ id_token_hint: session.id_token, post_logout_redirect_uri })
  expect(await agree()).toBe(BYE)
})

test('rp-initiated-logout-no-params: the user confirms, and the page says Signed out', async () => {
  await logout({})
  expect(await agree()).toBe('Signed out')
})

test('rp-initiated-logout-only-state: the user confirms, and the page says Signed out', async () => {
  await logout({ state })
  expect(await agree()).toBe('Signed out')
})

test('rp-initiated-logout-no-post-logout-redirect-uri: the user confirms, and the page says Signed out', async () => {
  await logout({ id_token_hint: session.id_token, state })
  expect(await agree()).toBe('Signed out')
})

test('rp-initiated-logout-no-id-token-hint: the user confirms, and is not redirected', async () => {
  await logout({ post_logout_redirect_uri, state })
  expect(await agree()).toBe('Signed out')
})

test('rp-initiated-logout-bad-id-token-hint: the user sees an error page', async () => {
  for (const id_token_hint of ['bad', 'a.b.c', `${session.id_token}x`])
    await expectRefusal({ id_token_hint, post_logout_redirect_uri, state })
})

test('rp-initiated-logout-modified-id-token-hint: the user sees an error page', async () => {
  const [header, payload = '', signature] = session.id_token.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const seal = (changed: object) =>
    [header, Buffer.from(JSON.stringify(changed)).toString('base64url'), signature].join('.')
  for (const changed of [{ sub: 'usr_x' }, { aud: 'post' }, { iss: 'https://evil.example' }])
    await expectRefusal({
      id_token_hint: seal({ ...claims, ...changed }),
      post_logout_redirect_uri,
    })
  const unsigned = Buffer.from('{"alg":"none"}').toString('base64url')
  await expectRefusal({ id_token_hint: `${unsigned}.${payload}.`, post_logout_redirect_uri })
})

test('rp-initiated-logout-bad-post-logout-redirect-uri: the user sees an error page', async () => {
  const hint = { id_token_hint: session.id_token, state }
  await expectRefusal({ ...hint, post_logout_redirect_uri: 'https://evil.example/bye' })
})

test('rp-initiated-logout-query-added-to-post-logout-redirect-uri: the user sees an error page', async () => {
  const hint = { id_token_hint: session.id_token, state }
  await expectRefusal({ ...hint, post_logout_redirect_uri: `${BYE}?foo=bar` })
})

test('an expired hint is accepted, because a session lasts longer than an ID token', async () => {
  const client = await usher.provider.Client.find('web')
  const token = new usher.provider.IdToken({ sub: ada }, { client, ctx: undefined })
  Object.assign(token, { scope: 'openid' })
  const id_token_hint = await token.issue({ use: 'idtoken', expiresAt: 1_700_000_000 })
  await logout({ id_token_hint, post_logout_redirect_uri, state })
  expect(await agree()).toBe(`${BYE}?state=${state}`)
})

test('the hint of another user requires a confirmation', async () => {
  const { id_token } = await onlineTokens(usher, { username: 'grace' })
  await logout({ id_token_hint: id_token, post_logout_redirect_uri })
  expect(session.browser.heading).toBe('Sign out')
  expect(await isSignedIn(session.browser)).toBe(true)
})

test('a hint and a client_id of different clients lead to an error page', async () => {
  await expectRefusal({ id_token_hint: session.id_token, client_id: 'post' })
  await expectRefusal({ client_id: 'nobody', post_logout_redirect_uri })
})

test('without a session the same rules of redirect apply', async () => {
  const { browser, id_token } = session
  await logout({})
  await agree()
  const page = await logout({ id_token_hint: id_token, post_logout_redirect_uri: `${BYE}x` })
  expect([page.ours, page.status]).toEqual([true, 400])
  await logout({ id_token_hint: id_token, post_logout_redirect_uri, state })
  if (browser.page.ours) await browser.submit()
  expect(browser.page.url.href).toBe(`${BYE}?state=${state}`)
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

test('no request from another site ends a session', async () => {
  const { browser, id_token, access_token } = session
  const cookie = await browser.cookies()
  const elsewhere = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  const headers = { cookie, accept: 'text/html', ...elsewhere }
  const hints: Record<string, string>[] = [
    {},
    { id_token_hint: id_token },
    { client_id: 'web', logout: 'yes' },
  ]
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
  const headersOf = { authorization: `Bearer ${access_token}` }
  expect((await send(usher, '/api/oauth/userinfo', { headers: headersOf })).status).toBe(200)
})
