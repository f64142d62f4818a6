import { expect } from 'vitest'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { newTab, open, removalOf, signedIn, silently, textOf, words } from '../support/people.ts'
import { CLIENTS } from '../support/usher.ts'

const DEVELOPED = {
  client_id: 'developed',
  client_name: 'Application under development',
  redirect_uris: ['http://localhost:5173/callback', 'https://developed.example.org/callback'],
  token_endpoint_auth_method: 'none',
}

const test = usherTest({ clients: { ...CLIENTS, developed: DEVELOPED }, browser: signedIn })

const EACH_TIME: [client_id: string, redirect_uri: string][] = [
  ['native', 'http://127.0.0.1:4711/callback'],
  ['native', 'com.example.app:/callback'],
  ['developed', 'http://localhost:5173/callback'],
]
const ONCE: [client_id: string, redirect_uri: string][] = [
  ['web', 'https://app.example.org/callback'],
  ['spa', 'https://spa.example.org/callback'],
  ['developed', 'https://developed.example.org/callback'],
]

test.for(EACH_TIME)(
  '%s at %s needs consent each time, because any program can claim to be it',
  async ([client_id, redirect_uri]) => {
    for (let time = 0; time < 3; time++) {
      await open(usher, { client_id, redirect_uri }, browser)
      expect(browser.heading).toBe('Allow access')
      await browser.submit({ decision: 'allow' })
      expect(browser.page.params.get('code')).toBeTruthy()
      expect(await silently(usher, browser, { client_id, redirect_uri })).toBe(
        'interaction_required',
      )
    }
  },
)

test.for(ONCE)('%s at %s needs consent once', async ([client_id, redirect_uri]) => {
  await usher.consents.removeAll(ada)
  await open(usher, { client_id, redirect_uri }, browser)
  expect(browser.heading).toBe('Allow access')
  await browser.submit({ decision: 'allow' })
  expect(await silently(usher, browser, { client_id, redirect_uri })).toBeUndefined()
})

test('a client with implicit consent has no consent page, but is listed and removable', async () => {
  await open(usher, { client_id: 'first' }, browser)
  expect(browser.page.ours).toBe(false)
  expect(browser.page.params.get('code')).toBeTruthy()
  await browser.open('/account/applications')
  expect(browser.page.text).toContain('Application of our own')
  expect(browser.page.text).toContain(words('scope.email'))
  await browser.open(removalOf('first'))
  expect(textOf(browser.page.text)).toContain(
    words('applications.implicit_again', { brand: 'Usher' }),
  )
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(
    words('applications.removed', { client: 'Application of our own' }),
  )
  expect(await usher.consents.find(ada, 'first')).toBeUndefined()
})

test.for<[string, Record<string, string>]>([
  ['another user is asked to sign in', { prompt: 'login' }],
  ['the sign-in is too old', { prompt: 'none', max_age: '0' }],
  ['another account is asked for', { prompt: 'select_account' }],
])('nothing is recorded for a client with implicit consent while %s', async ([, params]) => {
  await usher.consents.withdraw(ada, 'first')
  await open(usher, { client_id: 'first', ...params }, newTab(browser))
  expect(await usher.consents.find(ada, 'first')).toBeUndefined()
})

test('a client with implicit consent gets new scopes without the consent page, and they are listed', async () => {
  for (const scope of ['openid', 'openid email', 'openid email offline_access']) {
    await open(usher, { client_id: 'first', scope }, browser)
    expect(Object.fromEntries(browser.page.params), scope).toHaveProperty('code')
  }
  const { scopes = [] } = (await usher.consents.find(ada, 'first')) ?? {}
  expect(scopes.toSorted()).toEqual(['email', 'offline_access', 'openid'])
})
