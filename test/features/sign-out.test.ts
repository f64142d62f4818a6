import { parse } from 'node-html-parser'
import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  copyOf,
  isSignedIn,
  newTab,
  onlineTokens,
  open,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send, sendAs, type WireOptions } from '../support/wire.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(() => usher.consents.removeAll(ada))

const LOGOUT = '/api/oauth/logout'
const BYE = 'https://app.example.org/bye'

function logout(browser: Browser, params: Record<string, string> = {}) {
  return browser.open(`${LOGOUT}?${new URLSearchParams(params)}`)
}

test('sign-out requires a confirmation, with any hint', async () => {
  const { browser, id_token } = await onlineTokens(usher)
  const graces = await onlineTokens(usher, { username: 'grace' })
  const asked: Record<string, string>[] = [
    {},
    { client_id: 'web' },
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
})

/** Sends a sign-out by POST as a browser does from a page, and leaves the browser at the page of Usher. */
const POSTS: Record<string, (browser: Browser, form: Record<string, string>) => Promise<unknown>> =
  {
    // A browser sends no cookies from another site.
    'another site': (browser, form) => postFrom(browser, form, 'https://app.example.org'),
    'another origin of this site': (browser, form) => postFrom(browser, form, 'http://localhost:1'),
    'a page of the issuer': (browser, form) => postFrom(browser, form, usher.issuer),
  }

async function postFrom(browser: Browser, form: Record<string, string>, origin: string) {
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
    return browser.open(`${LOGOUT}?${new URLSearchParams(form)}`)
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
  return browser.open(`${LOGOUT}?${new URLSearchParams(form)}`)
}

test.for(Object.keys(POSTS))('a POST from %s asks like a GET', async from => {
  const { browser, id_token } = await onlineTokens(usher)
  const state = 'x y&z=é'
  const hint = { id_token_hint: id_token, post_logout_redirect_uri: BYE, state }
  const long = { ...hint, logout_hint: 'x'.repeat(4000) }
  const forms: Record<string, string>[] = [{}, { client_id: 'web' }, hint, long]
  for (const form of forms) {
    await POSTS[from]?.(browser, form)
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

test('the page explains which access ends and which stays', async () => {
  const { browser } = await onlineTokens(usher)
  await logout(browser, { client_id: 'web' })
  const question = textOf(browser.page.text)
  expect(question).toContain(
    words('sign_out.client', { client: 'Web application', brand: 'Usher' }),
  )
  expect(question).toContain(words('sign_out.ends'))
  await browser.submit({ logout: 'yes' })
  expect(browser.heading).toBe('Signed out')
  expect(textOf(browser.page.text)).toContain(words('sign_out.kept'))
})

test('an application with an ID token of the user gets one sentence and one button', async () => {
  const { browser, id_token: id_token_hint } = await onlineTokens(usher)
  const { id_token: ofGrace } = await onlineTokens(usher, { username: 'grace' })
  const sentences = async (params: Record<string, string>) => {
    await logout(browser, params)
    return browser.page.html.querySelectorAll('main p').map(({ text }) => text)
  }
  const sentence = words('sign_out.client', { client: 'Web application', brand: 'Usher' })
  expect(await sentences({ id_token_hint })).toEqual([sentence])
  const all = [sentence, words('sign_out.ends')]
  expect(await sentences({ id_token_hint: ofGrace })).toEqual(all)
  expect(await sentences({ client_id: 'web' })).toEqual(all)
})

test('opening the sign-out page changes nothing, by GET or by POST', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  for (let i = 0; i < 3; i++) await logout(browser, { client_id: 'web' })
  await fetch(new URL(LOGOUT, usher.issuer), {
    method: 'POST',
    body: new URLSearchParams({ client_id: 'web', logout: 'yes' }),
    headers: { cookie: await browser.cookies() },
  })
  expect(await silently(usher, browser)).toBeUndefined()
  expect((await userinfo(usher, access_token)).status).toBe(200)
})

test('a sign-out needs the CSRF token of the page', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  const confirm = async (form: Record<string, string>, cookie: string) =>
    fetch(new URL(`${LOGOUT}/confirm`, usher.issuer), {
      method: 'POST',
      redirect: 'manual',
      body: new URLSearchParams(form),
      headers: { accept: 'text/html', cookie },
    })
  const cookie = await browser.cookies()
  expect((await confirm({ logout: 'yes' }, cookie)).status).toBe(400)
  await logout(browser)
  const { browser: other } = await onlineTokens(usher, { username: 'grace' })
  await logout(other)
  const xsrf = other.page.html.querySelector('input[name=xsrf]')?.getAttribute('value') ?? ''
  expect(xsrf).not.toBe('')
  for (const wrong of ['', 'x', xsrf]) {
    const response = await confirm({ logout: 'yes', xsrf: wrong }, await browser.cookies())
    expect(response.status).toBe(400)
  }
  const got = await browser.open(`${LOGOUT}/confirm?logout=yes&xsrf=${xsrf}`)
  expect(got.status).toBe(405)
  expect(await isSignedIn(browser)).toBe(true)
  expect((await userinfo(usher, access_token)).status).toBe(200)
})

test('after a sign-out the old cookies, every copy and every tab are signed out', async () => {
  const { browser, access_token } = await onlineTokens(usher)
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
  expect((await userinfo(usher, access_token)).status).toBe(401)
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
})

test('tokens end with the session, but offline access does not', async () => {
  const browser = await signedIn(usher)
  const online = await onlineTokens(usher, { browser, client_id: 'post' })
  const offline = await tokens(usher, { browser })
  const unredeemed = await open(usher, { client_id: 'post' }, newTab(browser))
  await logout(browser)
  await browser.submit({ logout: 'yes' })
  expect((await userinfo(usher, online.access_token)).status).toBe(401)
  const code = unredeemed.browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, unredeemed.request)).body.error).toBe('invalid_grant')
  expect((await userinfo(usher, offline.access_token)).status).toBe(200)
  const renewed = await refresh(usher, offline.refresh_token)
  expect(renewed.status).toBe(200)
  expect((await userinfo(usher, renewed.body.access_token)).status).toBe(200)
})

test('sign-out in one browser leaves other browsers of the user signed in', async () => {
  const first = await onlineTokens(usher)
  const second = await onlineTokens(usher)
  await logout(first.browser)
  await first.browser.submit({ logout: 'yes' })
  expect(await isSignedIn(second.browser)).toBe(true)
  expect((await userinfo(usher, second.access_token)).status).toBe(200)
  expect((await userinfo(usher, first.access_token)).status).toBe(401)
})
