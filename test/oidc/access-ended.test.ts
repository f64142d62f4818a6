// The end of all access of an account: sign-ins and consents in progress end with it.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { answer, cibaClient, forgetRequests, poll, startRequest } from '../support/ciba.ts'
import { beginDevice, enterUserCode, pollAtOnce, TV } from '../support/device.ts'
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
import { credentials, isSignedIn, open, signedIn, submitOnly } from '../support/people.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, ALAN, CLIENTS, GRACE, PASSWORD } from '../support/usher.ts'

const test = usherTest({
  accounts: [ADA, ALAN, GRACE],
  clients: { ...CLIENTS, till: cibaClient('till'), tv: TV },
  usher: { features: { ciba: true, device_flow: true } },
})

const SCOPE = 'openid offline_access'

test('a sign-in in progress fails when the password is changed', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open(authorizationRequest(usher, { scope: SCOPE }).url)
  const next = await submitOnly(browser, credentials())
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
    const { device_code, user_code } = await beginDevice(usher, SCOPE)
    const browser = await signedIn(usher)
    await enterUserCode(browser, user_code)
    await browser.submit({ decision: 'allow' })
    return async () => 'access_token' in (await pollAtOnce(usher, device_code))
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

test.each(Object.entries(ACCESS))(
  '%s of the same second is accepted; it ends with the first write, even if the store fails then',
  async (...row) => {
    const [, prepare] = row
    await usher.directory.endAccess(ada)
    await usher.directory.endAccess(ada)
    const accepted = await prepare()
    expect(await accepted()).toBe(true)
    const use = await prepare()
    const ending = stopping(usher.store)(1, () => usher.directory.endAccess(ada))
    await expect(ending).rejects.toThrow(StoreUnavailable)
    expect(await use()).toBe(false)
  },
)

test('pages that follow a sign-in do not move its time', async () => {
  const browser = new Browser(usher.issuer)
  const { url, ...request } = authorizationRequest(usher, { scope: SCOPE, max_age: '3600' })
  await browser.open(url)
  await browser.submit({ username: 'grace', password: PASSWORD, decision: 'continue' })
  expect(browser.heading).toBe('Allow access')
  const before = Math.floor(Date.now() / 1000)
  await expect.poll(() => Math.floor(Date.now() / 1000)).toBeGreaterThan(before)
  await signInAndAllow(browser, 'grace')
  const code = browser.page.params.get('code') ?? ''
  const { body } = await redeem(usher, code, { url, ...request })
  expect(decodeJwt(body.id_token).auth_time).toBeLessThanOrEqual(before)
})

const ACCOUNT = { client_id: 'usher-account', scope: 'openid' }

test('the client of the account pages requests no consent, even with prompt=consent', async () => {
  const redirect_uri = `${usher.issuer}/account/signed-in`
  const asked = authorizationRequest(usher, { ...ACCOUNT, redirect_uri, prompt: 'consent' })
  const browser = await signedIn(usher)
  await browser.open(asked.url)
  expect([browser.page.status, browser.heading]).toEqual([400, 'This page has expired'])
})

test('the client of the account pages leads to the account, whichever claims are requested', async () => {
  const redirect_uri = `${usher.issuer}/account/signed-in`
  const claims = JSON.stringify({ userinfo: { email: null } })
  const browser = await signedIn(usher)
  await browser.open(authorizationRequest(usher, { ...ACCOUNT, redirect_uri, claims }).url)
  expect([browser.page.status, browser.heading]).toEqual([200, 'Your account'])
})
