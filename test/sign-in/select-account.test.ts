// prompt=select_account: the page shows the signed-in user, who continues or lets another user sign in.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, grace, usher, usherTest } from '../support/fixtures.ts'
import { authorize, redeem, signInAndAllow } from '../support/journey.ts'
import { credentials, open } from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const CHOOSE = 'Choose an account'

let browser: Browser
const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(async () => {
  browser = new Browser(usher.issuer)
  await authorize(usher, { browser })
})

const choose = (prompt = 'select_account') => open(usher, { prompt }, browser)
async function subjectOf({ request }: Awaited<ReturnType<typeof open>>) {
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  return decodeJwt(body.id_token).sub
}

test('the signed-in user is named, and continues without a password', async () => {
  const asked = await choose()
  expect(browser.heading).toBe(CHOOSE)
  expect(browser.page.text).toContain('Ada Lovelace')
  await browser.submit({ decision: 'continue' })
  expect(await subjectOf(asked)).toBe(ada)
})

test('another user can sign in, and gets the session', async () => {
  const asked = await choose()
  await browser.submit({ decision: 'another' })
  expect(browser.heading).toBe('Sign in')
  expect(browser.page.html.querySelector('input[name=username]')?.getAttribute('value')).toBe('')
  await browser.submit(credentials('grace'))
  for (let page = 0; page < 4 && browser.page.ours; page++) {
    await browser.submit(browser.heading === 'Allow access' ? { decision: 'allow' } : {})
  }
  expect(await subjectOf(asked)).toBe(grace)
})

test('after a sign-in the account chooser is not shown', async () => {
  browser = new Browser(usher.issuer)
  const asked = await choose()
  expect(browser.heading).toBe('Sign in')
  await signInAndAllow(browser, 'ada')
  expect(await subjectOf(asked)).toBe(ada)
})

test('with prompt=login the password is requested as well', async () => {
  const asked = await choose('select_account login')
  await browser.submit({ decision: 'continue' })
  expect(browser.heading).toBe('Sign in')
  await signInAndAllow(browser, 'ada')
  expect(await subjectOf(asked)).toBe(ada)
})

test('cancelling returns without a code, and the user stays signed in', async () => {
  await choose()
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  await open(usher, { prompt: 'none' }, browser)
  expect(browser.page.params.get('code')).toBeTruthy()
})
