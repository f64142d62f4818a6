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

let people = 0
/** A person with a session, tokens, a code and a consent page open. */
async function somebody() {
  const username = `ada-${++people}`
  const account = await usher.addAccount({ ...ADA, username })
  const had = await tokens(usher, { username })
  const { request } = await open(usher, { scope: 'openid' }, had.browser)
  const code = had.browser.page.params.get('code') ?? ''
  const { browser: asked } = await open(usher, { client_id: 'post' }, newTab(had.browser))
  expect(asked.heading).toBe('Allow access')
  return { ...had, username, account, code, request, asked }
}

async function expectNothingWorks(person: Awaited<ReturnType<typeof somebody>>) {
  const { browser, access_token, refresh_token, code, request, asked, username } = person
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

test('a disabled account can do nothing, from the moment it is disabled', async () => {
  const person = await somebody()
  await usher.directory.change(person.account.id, account => ({ ...account, enabled: false }))
  await expectNothingWorks(person)
})

test('a removed account can do nothing, and nothing of it is left', async () => {
  const person = await somebody()
  const { id } = person.account
  await usher.directory.remove(person.account)
  await expectNothingWorks(person)
  expect(await usher.consents.list(id)).toEqual([])
  expect(await usher.directory.find(id)).toBeUndefined()
})

test('a re-enabled account does not get its tokens and sessions back', async () => {
  const person = await somebody()
  const { id } = person.account
  await usher.directory.change(id, account => ({ ...account, enabled: false }))
  await usher.directory.endAccess(id)
  await usher.directory.change(id, account => ({ ...account, enabled: true }))
  expect((await userinfo(usher, person.access_token)).status).toBe(401)
  expect((await refresh(usher, person.refresh_token)).body.error).toBe('invalid_grant')
  expect(await isSignedIn(person.browser)).toBe(false)
})

test('a sign-in that is on its way when the account is disabled does not arrive', async () => {
  const { username, account } = await somebody()
  const { browser } = await open(usher)
  const submitted = browser.submit(credentials(username))
  await usher.directory.change(account.id, found => ({ ...found, enabled: false }))
  await usher.directory.endAccess(account.id)
  await submitted
  expect(browser.page.params.has('code')).toBe(false)
  expect(await isSignedIn(browser)).toBe(false)
})
