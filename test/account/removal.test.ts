import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, test, usher } from '../support/fixtures.ts'
import { post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  fieldsOf,
  grantsOf,
  newTab,
  onlineTokens,
  open,
  removalOf,
  send,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, CLIENTS, startUsher } from '../support/usher.ts'

test.beforeEach(() => usher.consents.removeAll(ada))

const APPLICATIONS = '/account/applications'

async function remove(browser: Browser, client_id = 'web') {
  await browser.open(removalOf(client_id))
  await browser.submit()
}

test('removing an application immediately ends all of its access, in every browser and grant', async () => {
  const first = await tokens(usher)
  const second = await tokens(usher)
  const third = await onlineTokens(usher, { browser: second.browser, scope: 'openid' })
  const unredeemed = await open(usher, {}, newTab(first.browser))
  const asked = await open(usher, { prompt: 'login' }, newTab(first.browser))
  expect((await grantsOf(usher, ada, 'web')).length).toBeGreaterThan(1)

  await remove(first.browser)
  const text = textOf(first.browser.page.text)
  expect(text).toContain(words('applications.removed', { client: 'Web application' }))
  expect(text).toContain(words('applications.empty'))

  for (const { access_token, refresh_token } of [first, second, third]) {
    expect((await userinfo(usher, access_token)).status).toBe(401)
    for (const token of [access_token, refresh_token].filter(Boolean)) {
      const { body } = await post(usher, '/api/oauth/introspect', { token })
      expect(body).toEqual({ active: false })
    }
  }
  for (const { refresh_token } of [first, second]) {
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
  }
  const code = unredeemed.browser.page.params.get('code') ?? ''
  expect(code).not.toBe('')
  expect((await redeem(usher, code, unredeemed.request)).body.error).toBe('invalid_grant')
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
  expect(asked.browser.page.params.has('code')).toBe(false)
})

test('after a removal the consent page is shown in every browser', async () => {
  const first = await tokens(usher)
  const second = await tokens(usher)
  await remove(first.browser)
  for (const { browser } of [first, second]) {
    expect(await silently(usher, browser)).toBe('consent_required')
    await open(usher, {}, browser)
    expect(browser.heading).toBe('Allow access')
  }
})

test('other applications and other users keep their tokens', async () => {
  const web = await tokens(usher)
  const other = await tokens(usher, { browser: web.browser, client_id: 'post' })
  await usher.addAccount({ username: 'grace' })
  const graces = await tokens(usher, { username: 'grace' })
  await remove(web.browser)
  expect((await userinfo(usher, web.access_token)).status).toBe(401)
  for (const { access_token, refresh_token, request } of [other, graces]) {
    expect((await userinfo(usher, access_token)).status).toBe(200)
    expect((await refresh(usher, refresh_token, request.client_id)).status).toBe(200)
  }
  expect(web.browser.page.text).toContain('Post application')
})

test('a second removal succeeds', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open(removalOf())
  const form = fieldsOf(browser.page)
  const answers = await Promise.all([1, 2, 3].map(() => send(browser, removalOf(), { form })))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect(await usher.consents.list(ada)).toEqual([])
})

test('a consent after a removal contains only the scopes allowed then', async () => {
  const { browser, refresh_token } = await tokens(usher)
  await remove(browser)
  const { request } = await open(usher, {}, browser)
  await browser.submit({ decision: 'allow', scope: 'profile' })
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.scope).toBe('openid profile')
  expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
})

test('an application that is no longer registered is listed and can be removed', async () => {
  const { post: _, ...clients } = CLIENTS
  const smaller = await startUsher({ clients })
  const { id } = await smaller.addAccount(ADA)
  const decision = { scopes: ['openid', 'email'], declined: [], version: 0 }
  await smaller.consents.decide(id, 'post', decision)
  const { browser } = await onlineTokens(smaller, { client_id: 'first' })
  await browser.open(APPLICATIONS)
  expect(textOf(browser.page.text)).toContain(words('applications.unregistered'))
  await remove(browser, 'post')
  expect(textOf(browser.page.text)).toContain(words('applications.removed', { client: 'post' }))
  expect((await smaller.consents.list(id)).map(({ client_id }) => client_id)).toEqual(['first'])
  await smaller.close()
})
