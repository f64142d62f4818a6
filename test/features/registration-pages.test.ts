// The pages show that the metadata of a client that registered itself are unchecked.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, signInAndAllow } from '../support/journey.ts'
import { credentials, opened, textOf, words } from '../support/people.ts'
import {
  CALLBACK,
  invite,
  METADATA,
  manage,
  ON,
  register,
  registerNew,
} from '../support/registration.ts'

const NAME = 'Usher <b>Security</b>'
const LINKS = {
  client_uri: 'https://www.bank.example/',
  policy_uri: 'https://stranger.example.net/privacy',
}

let client_id: string
const test = usherTest(ON)
test.beforeAll(async () => {
  const client = await registerNew(usher, { ...METADATA, ...LINKS, client_name: NAME })
  client_id = client.client_id
})

const request = (params: Record<string, string> = {}) =>
  authorizationRequest(usher, { client_id, redirect_uri: CALLBACK, ...params }).url
const brand = () => ({ brand: usher.settings.branding.name })

test('the sign-in and consent pages show that the application is unchecked, and where users are sent', async () => {
  const browser = new Browser(usher.issuer)
  const unchecked = words('consent.unchecked', brand())
  const expectUnchecked = () => {
    const text = textOf(browser.page.text)
    expect(text).toContain(unchecked)
    expect(text).toContain(words('consent.returns', { host: 'stranger.example.net' }))
    expect(text).toContain(NAME)
    expect(text).not.toContain(words('consent.verified', brand()))
    expect(browser.page.text).not.toContain('<b>')
  }
  await browser.open(request())
  expectUnchecked()
  // The page after a wrong password shows it, too.
  await browser.submit({ ...credentials(), password: 'wrong' })
  expectUnchecked()
  await browser.submit(credentials())
  expect(browser.heading).toBe('Allow access')
  expectUnchecked()
  const link = browser.page.html.querySelector(`a[href="${LINKS.policy_uri}"]`)
  expect(link?.getAttribute('rel')).toBe('noopener noreferrer')
  // An application of the config folder is checked.
  await browser.open(authorizationRequest(usher).url)
  const text = textOf(browser.page.text)
  expect(text).toContain(words('consent.verified', brand()))
  expect(text).not.toContain(unchecked)
})

test('an application cannot register with the name of another one, or one of the pages', async () => {
  const token = await invite(usher, 99)
  const names = ['web application', 'W e b application', 'Ｗｅｂ application.', 'Wéb application']
  for (const client_name of [...names, 'USHER', 'Your account', 'Ihr Konto']) {
    const { status, json } = await register(usher, token, { ...METADATA, client_name })
    expect([client_name, status, json.error]).toEqual([client_name, 400, 'invalid_client_metadata'])
    expect(json.error_description).toContain('client_name is the name of')
  }
})

test('the account pages show that it is unchecked; the name of the application is text on every page', async () => {
  const { browser } = await authorize(usher, { client_id, redirect_uri: CALLBACK })
  await browser.open('/account/applications')
  const text = textOf(browser.page.text)
  expect(text).toContain(words('applications.unchecked', brand()))
  expect(text).toContain('stranger.example.net')
  expect(text).not.toContain('www.bank.example')
  for (const page of [
    '/account/applications',
    '/account/sessions',
    `/account/applications/remove?client_id=${client_id}`,
    `/api/oauth/logout?client_id=${client_id}`,
  ]) {
    await browser.open(page)
    expect([page, browser.page.status]).toEqual([page, 200])
    expect([page, textOf(browser.page.text)]).toEqual([page, expect.stringContaining(NAME)])
    expect(browser.page.text).not.toContain('<b>')
  }
})

test('no error page links to an unchecked application', async () => {
  const page = await new Browser(usher.issuer).open(`/interaction/none?client_id=${client_id}`)
  expect([page.status, page.text]).toEqual([400, expect.not.stringContaining('stranger')])
  const own = await new Browser(usher.issuer).open('/interaction/none?client_id=web')
  expect(own.text).toContain('https://app.example.org/')
})

test('the account chooser shows the name of the application; prompt=none needs a session', async () => {
  const params = { client_id, redirect_uri: CALLBACK, scope: 'openid' }
  const { browser } = await authorize(usher, params)
  await browser.open(request({ prompt: 'select_account' }))
  expect(textOf(browser.page.text)).toContain(NAME)
  const silent = await new Browser(usher.issuer).open(request({ prompt: 'none' }))
  expect(silent.params.get('error')).toBe('login_required')
})

test('after a change of name or host, the consent page is shown', async () => {
  const client = await registerNew(usher)
  const { client_id } = client
  const browser = new Browser(usher.issuer)
  const open = (redirect_uri: string, prompt: object = {}) =>
    browser.open(authorizationRequest(usher, { client_id, redirect_uri, ...prompt }).url)
  await open(CALLBACK)
  expect((await signInAndAllow(browser, 'ada')).params.get('code')).toBeTruthy()
  // A change that users do not see needs no new consent.
  const update = { ...METADATA, client_id, policy_uri: LINKS.policy_uri }
  expect((await manage(usher, client, update)).status).toBe(200)
  expect((await open(CALLBACK)).params.get('code')).toBeTruthy()

  const elsewhere = 'https://evil.example.net/callback'
  for (const change of [{ client_name: 'Another name' }, { redirect_uris: [elsewhere] }]) {
    expect((await manage(usher, client, { ...update, ...change })).status).toBe(200)
    const callback = change.redirect_uris?.[0] ?? CALLBACK
    expect((await open(callback, { prompt: 'none' })).params.get('error')).toBe('consent_required')
    await open(callback)
    expect(browser.heading).toBe(words('consent.title'))
    expect((await signInAndAllow(browser, 'ada')).params.get('code')).toBeTruthy()
    expect((await open(callback, { prompt: 'none' })).params.get('code')).toBeTruthy()
  }
})

test('a consent is valid for the name on the page, and not for a newer name', async () => {
  const client = await registerNew(usher)
  const { client_id } = client
  const browser = await opened(usher, request({ client_id }))
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('consent.title'))
  await manage(usher, client, { ...METADATA, client_id, client_name: 'Another name' })
  await browser.submit({ decision: 'allow', scope: ['openid', 'profile'] })
  expect(browser.heading).toBe(words('consent.title'))
  const text = textOf(browser.page.text)
  expect(text).toContain('Another name')
  expect(text).toContain('or the application has changed')
  expect(text).not.toContain('You removed')
})
