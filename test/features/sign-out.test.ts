// Sign-out: its question, what it ends, and what a user keeps who stays signed in.

import { parse } from 'node-html-parser'
import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { redeem, refresh, signInAndAllow, tokens, userinfo } from '../support/journey.ts'
import {
  copyOf,
  isSignedIn,
  newTab,
  onlineTokens,
  open,
  opened,
  send as sendForm,
  signedIn,
  signOut,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send, sendAs, type WireOptions } from '../support/wire.ts'

const test = usherTest({ accounts: [ADA, GRACE] })

const LOGOUT = '/api/oauth/logout'
const CONFIRM = `${LOGOUT}/confirm`
const BYE = 'https://app.example.org/bye'

type Params = Record<string, string>

const logout = (browser: Browser, params: Params = {}) =>
  browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)

const statusOf = async (token: string) => (await userinfo(usher, token)).status

test('sign-out requires a confirmation, with any hint, and opening its page changes nothing', async () => {
  const { browser, id_token, access_token } = await onlineTokens(usher)
  const graces = await onlineTokens(usher, { username: 'grace' })
  const asked: Params[] = [
    {},
    { client_id: 'web', post_logout_redirect_uri: BYE },
    { id_token_hint: id_token },
    { id_token_hint: id_token, post_logout_redirect_uri: BYE },
    { id_token_hint: graces.id_token, post_logout_redirect_uri: BYE },
    { logout_hint: 'ada' },
    { logout: 'yes' },
  ]
  for (const params of asked) {
    await logout(browser, params)
    expect(browser.heading, JSON.stringify(params)).toBe('Sign out')
    expect(await isSignedIn(browser)).toBe(true)
  }
  await sendForm(browser, LOGOUT, { form: { client_id: 'web', logout: 'yes' } })
  expect(await silently(usher, browser)).toBeUndefined()
  expect(await statusOf(access_token)).toBe(200)
})

/** Sends a sign-out by POST as a browser does from a page, and leaves the browser at the page of Usher. */
async function postFrom(browser: Browser, form: Params, origin: string) {
  // A browser sends no cookies from another site.
  const isSameSite = new URL(origin).hostname === new URL(usher.issuer).hostname
  const cookie = isSameSite ? { cookie: await browser.cookies() } : undefined
  const related = isSameSite ? 'same-site' : 'cross-site'
  const site = origin === usher.issuer ? 'same-origin' : related
  const headers = { accept: 'text/html', origin, 'sec-fetch-site': site, ...cookie }
  const answer = await send(usher, LOGOUT, { body: form, headers })
  expect(answer.headers.getSetCookie().join()).not.toContain('session=;')
  if (answer.location) return browser.open(answer.location)
  if (isSameSite && answer.text.includes(words('sign_out.title'))) {
    await sendAs(browser, usher, LOGOUT, { body: form, headers })
    return logout(browser, form)
  }
  // A long request: the page of the issuer sends it again.
  const fields = parse(answer.text).querySelectorAll('input[type=hidden]')
  const body = fields.map(({ attributes }): [string, string] => [
    attributes.name ?? '',
    attributes.value ?? '',
  ])
  expect(Object.fromEntries(body)).toEqual(form)
  const again = { 'sec-fetch-site': 'same-origin', origin: usher.issuer, accept: 'text/html' }
  const page = await sendAs(browser, usher, LOGOUT, { body, headers: again })
  expect(page.text).toContain(words('sign_out.title'))
  return logout(browser, form)
}

test.for<[string, () => string]>([
  ['another site', () => 'https://app.example.org'],
  ['another origin of this site', () => 'http://localhost:1'],
  ['a page of the issuer', () => usher.issuer],
])('a POST from %s asks like a GET', async ([, origin]) => {
  const { browser, id_token } = await onlineTokens(usher)
  const state = 'x y&z=é'
  const hint = { id_token_hint: id_token, post_logout_redirect_uri: BYE, state }
  const long = { ...hint, logout_hint: 'x'.repeat(4000) }
  for (const form of [{}, hint, long]) {
    await postFrom(browser, form, origin())
    expect(browser.heading, JSON.stringify(form)).toBe('Sign out')
    expect(await isSignedIn(browser)).toBe(true)
  }
  await browser.submit({ logout: 'yes' })
  expect(browser.page.url.href.startsWith(BYE)).toBe(true)
  expect(browser.page.params.get('state')).toBe(state)
  expect(await isSignedIn(browser)).toBe(false)
})

test('a POST of a program gets the page itself, and bodies of other types are refused', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  const asked = (options: WireOptions) =>
    sendAs(browser, usher, LOGOUT, { method: 'POST', ...options })
  for (const body of [{ id_token_hint: id_token }, undefined]) {
    const { status, text } = await asked({ body })
    expect([status, parse(text).querySelector('h1')?.text]).toEqual([200, 'Sign out'])
  }
  const json = { body: '{}', headers: { 'content-type': 'application/json' } }
  expect((await asked(json)).status).toBe(415)
  const wrong = await asked({ body: { post_logout_redirect_uri: `${BYE}x`, client_id: 'web' } })
  expect(wrong.status).toBe(400)
  expect((await asked({ body: { state: 'x'.repeat(100_000) } })).status).toBe(413)
})

test('the page explains which access ends and which stays; with an ID token of the user it has one sentence', async () => {
  const { browser, id_token: id_token_hint } = await onlineTokens(usher)
  const { id_token: ofGrace } = await onlineTokens(usher, { username: 'grace' })
  const sentences = async (params: Params) => {
    await logout(browser, params)
    return browser.page.html.querySelectorAll('main p').map(({ text }) => text)
  }
  const sentence = words('sign_out.client', { client: 'Web application', brand: 'Usher' })
  expect(await sentences({ id_token_hint })).toEqual([sentence])
  const all = [sentence, words('sign_out.ends')]
  expect(await sentences({ id_token_hint: ofGrace })).toEqual(all)
  expect(await sentences({ client_id: 'web' })).toEqual(all)
  await browser.submit({ logout: 'yes' })
  expect(browser.heading).toBe('Signed out')
  expect(textOf(browser.page.text)).toContain(words('sign_out.kept'))
})

const xsrfOf = ({ html }: { html: Browser['page']['html'] }) =>
  html.querySelector('input[name=xsrf]')?.getAttribute('value') ?? ''

test('a sign-out needs the CSRF token of the page', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  expect((await sendForm(browser, CONFIRM, { form: { logout: 'yes' } })).status).toBe(400)
  await logout(browser)
  const { browser: other } = await onlineTokens(usher, { username: 'grace' })
  const foreign = xsrfOf(await logout(other))
  expect(foreign).not.toBe('')
  for (const xsrf of ['', 'x', foreign]) {
    const form = { logout: 'yes', xsrf }
    expect((await sendForm(browser, CONFIRM, { form })).status).toBe(400)
  }
  const got = await browser.open(`${CONFIRM}?logout=yes&xsrf=${foreign}`)
  expect(got.status).toBe(405)
  expect(await isSignedIn(browser)).toBe(true)
  expect(await statusOf(access_token)).toBe(200)
})

test('after a sign-out the old cookies, every copy and every tab are signed out', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  const elsewhere = await onlineTokens(usher)
  await usher.consents.withdraw(ada, 'post')
  const copies = [copyOf(browser)]
  const tab = newTab(browser)
  const { request } = await open(usher, { client_id: 'post' }, tab)
  copies.push(copyOf(browser))
  await tab.submit({ decision: 'allow' })
  const code = tab.page.params.get('code') ?? ''
  expect(code).not.toBe('')
  copies.push(copyOf(browser))
  await logout(browser)
  copies.push(copyOf(browser))
  await browser.submit({ logout: 'yes' })
  for (const copy of [browser, tab, ...copies]) {
    expect(await isSignedIn(copy)).toBe(false)
    expect(await silently(usher, copy)).toBe('login_required')
  }
  expect(await statusOf(access_token)).toBe(401)
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
  // Another browser of the user stays signed in.
  expect(await isSignedIn(elsewhere.browser)).toBe(true)
  expect(await statusOf(elsewhere.access_token)).toBe(200)
})

test('tokens end with the session, but offline access does not', async () => {
  const browser = await signedIn(usher)
  const online = await onlineTokens(usher, { browser, client_id: 'post' })
  const offline = await tokens(usher, { browser })
  const unredeemed = await open(usher, { client_id: 'post' }, newTab(browser))
  await signOut(browser)
  expect(await statusOf(online.access_token)).toBe(401)
  const code = unredeemed.browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, unredeemed.request)).body.error).toBe('invalid_grant')
  expect(await statusOf(offline.access_token)).toBe(200)
  const renewed = await refresh(usher, offline.refresh_token)
  expect(renewed.status).toBe(200)
  expect(await statusOf(renewed.body.access_token)).toBe(200)
})

test('a user who stays signed in loses nothing, and a later sign-out ends the tokens from before', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  const other = await onlineTokens(usher, { browser, client_id: 'post' })
  const { html } = await browser.open('/account')
  const link = html.querySelector('a[href*=logout]')?.getAttribute('href') ?? ''
  for (const path of [`${LOGOUT}?client_id=web`, link]) {
    await browser.open(path)
    expect(browser.heading).toBe('Sign out')
    await browser.submit()
    expect(browser.heading).toBe('Still signed in')
  }
  for (const token of [access_token, other.access_token]) expect(await statusOf(token)).toBe(200)
  expect(await silently(usher, browser)).toBeUndefined()
  expect(await silently(usher, browser, { client_id: 'post' })).toBeUndefined()
  await signOut(browser)
  expect(await statusOf(access_token)).toBe(401)
})

test('a sign-out without a session shows Signed out, in the common layout, and works without scripts', async () => {
  const browser = await opened(usher, LOGOUT)
  expect(browser.page.html.querySelector('html')?.getAttribute('lang')).toBe('en')
  expect(browser.heading).not.toBe('')
  // The library's page submits itself by a script.
  if (browser.heading !== 'Signed out') await browser.submit()
  expect(browser.heading).toBe('Signed out')
})

test('an old sign-out page does not end the next session', async () => {
  const { browser } = await onlineTokens(usher)
  const form = { xsrf: xsrfOf(await logout(browser)), logout: 'yes' }
  await browser.submit({ logout: 'yes' })
  await open(usher, {}, browser)
  await signInAndAllow(browser, 'ada')
  expect(await isSignedIn(browser)).toBe(true)
  expect((await sendForm(browser, CONFIRM, { form })).status).toBe(400)
  expect(await isSignedIn(browser)).toBe(true)
})
