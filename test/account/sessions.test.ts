// The list of sessions: its content, and what ends when a user ends a session from another browser.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, endAccessOf, test, usher } from '../support/fixtures.ts'
import { redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  changeSessions,
  copyOf,
  credentials,
  endOf,
  endsOn,
  isSignedIn,
  onlineTokens,
  open,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'

test.beforeEach(() => endAccessOf(ada))

const SESSIONS = '/account/sessions'
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0'

/** Signs Ada in with a browser that sends this User-Agent. */
async function signedInWith(agent: string) {
  const browser = new Browser(usher.issuer, (url, init) =>
    fetch(url, { ...init, headers: { ...init?.headers, 'user-agent': agent } }),
  )
  await browser.open('/account')
  await browser.submit(credentials())
  return browser
}

const cardsOn = ({ page }: Browser) =>
  page.html.querySelectorAll('main > ul.rows > li').map(({ outerHTML }) => textOf(outerHTML).trim())

test('each browser is listed with its name, its times and its applications', async () => {
  const other = await signedInWith(FIREFOX)
  await open(usher, {}, other)
  await other.submit({ decision: 'allow' })
  const browser = await signedIn(usher)
  await browser.open(SESSIONS)
  const [here, elsewhere, ...more] = cardsOn(browser)
  expect(more).toEqual([])
  expect(browser.page.html.querySelector('h2')?.text).toBe(words('sessions.here'))
  expect(here).toContain(words('sessions.unknown'))
  expect(here).toContain(words('sessions.no_applications'))
  expect(elsewhere).toContain('Firefox on Linux')
  expect(elsewhere).toMatch(new RegExp(`${words('sessions.since')}: (this|1) minute`))
  expect(elsewhere).toContain('Web application')
  for (const card of [here, elsewhere]) {
    expect(card).toContain(words('sessions.network', { network: '127.0.0.x' }))
  }
  expect(browser.page.text).not.toContain('127.0.0.1')
  await other.open(SESSIONS)
  expect(cardsOn(other)[0]).toContain('Firefox on Linux')
})

test('using a session updates its time, and the browser keeps its name', async () => {
  const other = await signedInWith(FIREFOX)
  await ageSessions(usher, ada, 40 * 24 * 3600)
  await changeSessions(usher, ada, session => ({ lastUsed: session.lastUsed - 30 * 24 * 3600 }))
  const [before] = await usher.sessions.list(ada)
  await open(usher, { client_id: 'first' }, copyOf(other))
  const [after] = await usher.sessions.list(ada)
  expect((after?.lastUsed ?? 0) - (before?.lastUsed ?? 0)).toBeGreaterThan(29 * 24 * 3600)
  expect(after).toMatchObject({ since: before?.since, clientInfo: { browser: 'Firefox' } })
  expect(after?.clients).toEqual(['first'])
})

test('a session that is ended from another browser ends at once, with its tokens', async () => {
  const other = await onlineTokens(usher)
  const offline = await tokens(usher, { client_id: 'post' })
  const { browser: tab, request } = await open(usher, {}, copyOf(other.browser))
  const browser = await signedIn(usher)
  await browser.open(SESSIONS)
  expect(endsOn(browser.page)).toHaveLength(2)
  await browser.open('/account/sessions/end?session=others')
  expect(textOf(browser.page.text)).toContain('2 other browsers')
  expect(textOf(browser.page.text)).toContain(words('sessions.kept'))
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(words('sessions.ended_others'))
  expect(textOf(browser.page.text)).toContain(words('sessions.only_here'))

  for (const ended of [other.browser, offline.browser]) {
    expect(await isSignedIn(ended)).toBe(false)
    expect(await silently(usher, ended)).toBe('login_required')
  }
  expect((await userinfo(usher, other.access_token)).status).toBe(401)
  const code = tab.page.params.get('code') ?? ''
  expect(code).not.toBe('')
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
  expect((await refresh(usher, offline.refresh_token, 'post')).status).toBe(200)
  expect(await isSignedIn(browser)).toBe(true)
})

test('one browser is signed out, the others stay; ending it twice succeeds', async () => {
  const third = await signedIn(usher)
  const second = await signedInWith(FIREFOX)
  await ageSessions(usher, ada, 10)
  const browser = await signedIn(usher)
  await browser.open(await endOf(browser))
  const { heading } = browser
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(words('sessions.ended'))
  const [secondIn, thirdIn] = [await isSignedIn(second), await isSignedIn(third)]
  expect([secondIn, thirdIn].filter(Boolean)).toHaveLength(1)
  expect(heading).toBe(
    words('sessions.question', {
      browser: secondIn ? words('sessions.unknown') : 'Firefox on Linux',
    }),
  )
  browser.pages.pop()
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(words('sessions.ended'))
  expect([await isSignedIn(second), await isSignedIn(third)]).toEqual([secondIn, thirdIn])
})

test('equal browsers are a group, which one button signs out; this browser and others stay', async () => {
  const firefox = await signedInWith(FIREFOX)
  const equal = [await signedIn(usher), await signedIn(usher)]
  const browser = await signedIn(usher)
  await browser.open(SESSIONS)
  expect(cardsOn(browser)).toHaveLength(3)
  expect(browser.page.text).toContain(words('sessions.count', { count: '2' }))
  const [group] = browser.page.html.querySelectorAll('a[id^=group-]')
  await browser.open(group?.getAttribute('href') ?? '')
  expect(browser.heading).toBe(words('sessions.question', { browser: words('sessions.unknown') }))
  expect(textOf(browser.page.text)).toContain('2 other browsers')
  await browser.submit()
  expect(await Promise.all(equal.map(isSignedIn))).toEqual([false, false])
  expect(await Promise.all([browser, firefox].map(isSignedIn))).toEqual([true, true])
})

test('this browser is signed out by the page for it', async () => {
  const browser = await signedIn(usher)
  const [here] = await usher.sessions.list(ada)
  await browser.open(`/account/sessions/end?session=${here?.handle}`)
  expect(browser.heading).toBe('Sign out')
  expect(await isSignedIn(browser)).toBe(true)
})

test('after a long time the user has to sign in again, and returns to the same page', async () => {
  const other = await signedIn(usher)
  const browser = await signedIn(usher)
  await ageSessions(usher, ada, 16 * 60)
  const url = await endOf(browser)
  await browser.open(url)
  expect(browser.heading).toBe('Sign in')
  await browser.submit(credentials())
  expect(browser.page.url.href).toBe(url.href)
  await ageSessions(usher, ada, 16 * 60)
  await browser.submit()
  expect(browser.heading).toBe('Sign in')
  await browser.submit(credentials())
  expect(browser.page.url.href).toBe(url.href)
  expect(await isSignedIn(other)).toBe(true)
  await browser.submit()
  expect(await isSignedIn(other)).toBe(false)
})

test('an expired session is not listed, and its cookie is not signed in', async () => {
  const other = await signedIn(usher)
  await changeSessions(usher, ada, ({ exp }) => ({ exp: exp - 13 * 3600 }))
  const browser = await signedIn(usher)
  expect(await isSignedIn(other)).toBe(false)
  await browser.open(SESSIONS)
  expect(cardsOn(browser)).toHaveLength(1)
})
