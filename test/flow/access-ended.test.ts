// The end of all access of an account: sign-ins and consents in progress end with it.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, alan, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, redeem, signInAndAllow } from '../support/journey.ts'
import { open, signedIn } from '../support/people.ts'
import { ADA, ALAN, GRACE, PASSWORD } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, ALAN, GRACE] })

const SCOPE = 'openid offline_access'

/** Submits the form, and returns the address that its answer leads to without following it. */
async function submitOnly(browser: Browser, fields: Record<string, string>): Promise<URL> {
  const { url, html } = browser.page
  const csrf = html.querySelector('input[name=csrf]')?.getAttribute('value') ?? ''
  const response = await fetch(url, {
    method: 'POST',
    body: new URLSearchParams({ csrf, ...fields }),
    headers: { cookie: await browser.jar.getCookieString(url.href) },
  })
  const next = /content="0;url=([^"]+)"/.exec(await response.text())?.[1] ?? ''
  return new URL(next.replaceAll('&amp;', '&'), url)
}

test('a sign-in in progress fails when the password is changed', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open(authorizationRequest(usher, { scope: SCOPE }).url)
  const next = await submitOnly(browser, {
    username: 'ada',
    password: PASSWORD,
    decision: 'continue',
  })
  await usher.directory.endAccess(ada)
  await browser.open(next)
  expect(browser.heading).toBe('Sign in')
  await browser.open('/account')
  expect(browser.heading).toBe('Sign in')
})

test('a consent that was given before the end of access gives no tokens', async () => {
  const browser = await signedIn(usher, 'alan')
  const { request } = await open(usher, { scope: SCOPE }, browser)
  const next = await submitOnly(browser, { scope: 'offline_access', decision: 'allow' })
  await usher.directory.endAccess(alan)
  await browser.open(next)
  const code = browser.page.params.get('code')
  if (code) expect((await redeem(usher, code, request)).status).toBe(400)
  else expect(browser.heading).toBe('This page has expired')
  expect(await usher.records.list('grants of account', alan)).toEqual([])
})

test('the owner can sign in in the same second in which access was ended', async () => {
  await usher.directory.endAccess(ada)
  const browser = await signedIn(usher)
  await browser.open('/account')
  expect(browser.heading).toBe('Your account')
})

test('pages that follow a sign-in do not move its time', async () => {
  const browser = new Browser(usher.issuer)
  const { url, ...request } = authorizationRequest(usher, { scope: SCOPE, max_age: '3600' })
  await browser.open(url)
  await browser.submit({ username: 'grace', password: PASSWORD, decision: 'continue' })
  expect(browser.heading).toBe('Allow access')
  const before = Math.floor(Date.now() / 1000)
  await expect.poll(() => Math.floor(Date.now() / 1000), { timeout: 3000 }).toBeGreaterThan(before)
  await signInAndAllow(browser, 'grace')
  const code = browser.page.params.get('code') ?? ''
  const { body } = await redeem(usher, code, { url, ...request })
  expect(decodeJwt(body.id_token).auth_time).toBeLessThanOrEqual(before)
})

test('the client of the account pages requests no consent, even with prompt=consent', async () => {
  const browser = await signedIn(usher)
  await browser.open(
    authorizationRequest(usher, {
      client_id: 'usher-account',
      redirect_uri: `${usher.issuer}/account/signed-in`,
      scope: 'openid',
      prompt: 'consent',
    }).url,
  )
  expect(browser.page.status).toBe(400)
  expect(browser.heading).toBe('This page has expired')
})

test('the client of the account pages leads to the account, whichever claims are requested', async () => {
  const browser = await signedIn(usher)
  await browser.open(
    authorizationRequest(usher, {
      client_id: 'usher-account',
      redirect_uri: `${usher.issuer}/account/signed-in`,
      scope: 'openid',
      claims: JSON.stringify({ userinfo: { email: null } }),
    }).url,
  )
  expect(browser.page.status).toBe(200)
  expect(browser.heading).toBe('Your account')
})
