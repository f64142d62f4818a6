// The end of all access of an account: sign-ins and consents in progress end with it.

import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { answer, cibaClient, forgetRequests, poll, startRequest } from '../support/ciba.ts'
import { ada, alan, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  signInAndAllow,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { isSignedIn, open, signedIn } from '../support/people.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, ALAN, CLIENTS, GRACE, PASSWORD, SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const TV = { ...CLIENTS.post, client_id: 'tv', grant_types: [DEVICE_GRANT, 'refresh_token'] }

const test = usherTest({
  accounts: [ADA, ALAN, GRACE],
  clients: { ...CLIENTS, till: cibaClient('till'), tv: { ...TV, redirect_uris: undefined } },
  usher: { features: { ciba: true, device_flow: true } },
})

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
  expect(await usher.records.of('Grant').list('grants of account', alan)).toEqual([])
})

/** Prepares access of Ada. The returned function uses it, and returns whether it was accepted. */
const ACCESS: Record<string, () => Promise<() => Promise<boolean>>> = {
  async 'a refresh token'() {
    const { refresh_token } = await tokens(usher)
    return async () => (await refresh(usher, refresh_token)).status === 200
  },
  async 'an access token at UserInfo'() {
    const { access_token } = await tokens(usher)
    return async () => (await userinfo(usher, access_token)).status === 200
  },
  async 'an access token at introspection'() {
    const { access_token } = await tokens(usher)
    return () => isActive(access_token)
  },
  async 'a refresh token at introspection'() {
    const { refresh_token } = await tokens(usher)
    return () => isActive(refresh_token)
  },
  async 'a code'() {
    const { code, request } = await authorize(usher, { scope: SCOPE })
    return async () => (await redeem(usher, code, request)).status === 200
  },
  async 'a device code'() {
    const as = { client_id: 'tv', client_secret: SECRET }
    const { json } = await send<{ device_code: string; user_code: string }>(
      usher,
      '/api/oauth/device_authorization',
      { body: { ...as, scope: SCOPE } },
    )
    const browser = await signedIn(usher)
    await browser.open('/device')
    await browser.submit({ user_code: json.user_code })
    await browser.submit({ decision: 'allow' })
    const body = { ...as, grant_type: DEVICE_GRANT, device_code: json.device_code }
    return async () => (await send(usher, '/api/oauth/token', { body })).status === 200
  },
  async 'a backchannel authentication request'() {
    await forgetRequests(usher, ada)
    const id = await startRequest(usher)
    await answer(await signedIn(usher), 'allow')
    return async () => 'access_token' in (await poll(usher, id))
  },
  async 'a session'() {
    const browser = await signedIn(usher)
    return () => isSignedIn(browser)
  },
}

async function isActive(token: string): Promise<boolean> {
  const { body } = await post(usher, '/api/oauth/introspect', { token })
  return body.active === true
}

describe.each(Object.entries(ACCESS))('%s', (_, prepare) => {
  test('is refused after the first write of an end of access, even if the store fails then', async () => {
    const use = await prepare()
    const ending = stopping(usher.store)(1, () => usher.directory.endAccess(ada))
    await expect(ending).rejects.toThrow(StoreUnavailable)
    expect(await use()).toBe(false)
  })

  test('is accepted in the same second in which access was ended', async () => {
    await usher.directory.endAccess(ada)
    await usher.directory.endAccess(ada)
    const use = await prepare()
    expect(await use()).toBe(true)
  })
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
