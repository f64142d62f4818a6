import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, test, usher } from '../support/fixtures.ts'
import { signInAndAllow, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn, onlineTokens, open, silently } from '../support/people.ts'

test.beforeEach(() => usher.consents.removeAll(ada))

test('Stay signed in works, when an application requested the sign-out', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open('/api/oauth/logout?client_id=web')
  await browser.submit()
  expect(browser.heading).toBe('Still signed in')
  expect(await isSignedIn(browser)).toBe(true)
})

test('Stay signed in works, when the user opened the page', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open('/account')
  const link = browser.page.html.querySelector('a[href*=logout]')
  await browser.open(link?.getAttribute('href') ?? '')
  expect(browser.heading).toBe('Sign out')
  await browser.submit()
  expect(await isSignedIn(browser)).toBe(true)
  expect(browser.heading).toBe('Still signed in')
})

test('a user who stays signed in loses no token at any application', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  const other = await tokens(usher, { browser, client_id: 'post' })
  await browser.open('/api/oauth/logout?client_id=web')
  await browser.submit()
  expect((await userinfo(usher, access_token)).status).toBe(200)
  expect((await userinfo(usher, other.access_token)).status).toBe(200)
  expect(await silently(usher, browser)).toBeUndefined()
  expect(await silently(usher, browser, { client_id: 'post' })).toBeUndefined()
})

test('a sign-out after staying ends the tokens from before', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  await browser.open('/api/oauth/logout?client_id=web')
  await browser.submit()
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  expect((await userinfo(usher, access_token)).status).toBe(401)
})

test('a sign-out without a session shows Signed out', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/api/oauth/logout')
  // The library's page submits itself by a script.
  if (browser.heading !== 'Signed out') await browser.submit()
  expect(browser.heading).toBe('Signed out')
})

test('the page for a sign-out without a session has the common layout, and works without scripts', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/api/oauth/logout')
  expect(browser.page.html.querySelector('html')?.getAttribute('lang')).toBe('en')
  expect(browser.heading).not.toBe('')
})

test('an old sign-out page does not end the next session', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open('/api/oauth/logout')
  const left = browser.pages.length - 1
  await browser.submit({ logout: 'yes' })
  await open(usher, {}, browser)
  await signInAndAllow(browser, 'ada')
  expect(await isSignedIn(browser)).toBe(true)
  const page = browser.pages[left]
  const xsrf = page?.html.querySelector('input[name=xsrf]')?.getAttribute('value') ?? ''
  const response = await fetch(new URL('/api/oauth/logout/confirm', usher.issuer), {
    method: 'POST',
    body: new URLSearchParams({ xsrf, logout: 'yes' }),
    headers: { cookie: await browser.cookies() },
  })
  expect(response.status).toBe(400)
  expect(await isSignedIn(browser)).toBe(true)
})
