import { expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  copyOf,
  credentials,
  isSignedIn,
  newTab,
  open,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { ADA } from '../support/usher.ts'

let users = 0
/** Adds a user with a session, tokens, a code and an open consent page. */
async function userWithAccess() {
  const username = `ada-${++users}`
  const account = await usher.addAccount({ ...ADA, username })
  const had = await tokens(usher, { username })
  const { request } = await open(usher, { scope: 'openid' }, had.browser)
  const code = had.browser.page.params.get('code') ?? ''
  const { browser: asked } = await open(usher, { client_id: 'post' }, newTab(had.browser))
  expect(asked.heading).toBe('Allow access')
  return { ...had, username, account, code, request, asked }
}

async function expectNothingWorks(user: Awaited<ReturnType<typeof userWithAccess>>) {
  const { browser, access_token, refresh_token, code, request, asked, username } = user
  const info = await userinfo(usher, access_token)
  expect(info.status).toBe(401)
  expect(info.headers.get('www-authenticate')).toContain('error="invalid_token"')
  expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
  for (const token of [access_token, refresh_token]) {
    const { status, body } = await post(usher, '/api/oauth/introspect', { token })
    expect({ status, body }).toEqual({ status: 200, body: { active: false } })
  }
  expect(await isSignedIn(copyOf(browser))).toBe(false)
  expect(await silently(usher, browser)).toBe('login_required')
  await asked.submit({ decision: 'allow' })
  expect(asked.page.params.has('code')).toBe(false)
  await open(usher, { prompt: 'login' }, browser)
  await browser.submit(credentials(username))
  expect(browser.page.status).toBe(400)
  expect(textOf(browser.page.text)).toContain(words('sign_in.failed'))
}

test('a disabled account loses all access at once', async () => {
  const user = await userWithAccess()
  await usher.directory.change(user.account.id, account => ({ ...account, enabled: false }))
  await expectNothingWorks(user)
})

test('a removed account loses all access, and none of its records is left', async () => {
  const user = await userWithAccess()
  const { id } = user.account
  await usher.directory.remove(user.account)
  await expectNothingWorks(user)
  expect(await usher.consents.list(id)).toEqual([])
  expect(await usher.directory.find(id)).toBeUndefined()
})

test('a re-enabled account does not get its tokens and sessions back', async () => {
  const user = await userWithAccess()
  const { id } = user.account
  await usher.directory.change(id, account => ({ ...account, enabled: false }))
  await usher.directory.endAccess(id)
  await usher.directory.change(id, account => ({ ...account, enabled: true }))
  expect((await userinfo(usher, user.access_token)).status).toBe(401)
  expect((await refresh(usher, user.refresh_token)).body.error).toBe('invalid_grant')
  expect(await isSignedIn(user.browser)).toBe(false)
})

test('a sign-in in progress fails when the account is disabled', async () => {
  const { username, account } = await userWithAccess()
  const { browser } = await open(usher)
  const submitted = browser.submit(credentials(username))
  await usher.directory.change(account.id, found => ({ ...found, enabled: false }))
  await usher.directory.endAccess(account.id)
  await submitted
  expect(browser.page.params.has('code')).toBe(false)
  expect(await isSignedIn(browser)).toBe(false)
})
