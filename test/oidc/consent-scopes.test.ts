import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { redeem, refresh, userinfo } from '../support/journey.ts'
import { open, signedIn } from '../support/people.ts'

const test = usherTest({ browser: signedIn })
test.beforeEach(() => usher.consents.withdraw(ada, 'web'))

const ALL = 'openid profile email offline_access'

/** Allows only these of the requested scopes. */
async function allow(scope: string[], params: Record<string, string> = {}) {
  const { request } = await open(usher, params, browser)
  expect(browser.heading).toBe('Allow access')
  await browser.submit({ decision: 'allow', scope })
  return tokensOf(request)
}

async function tokensOf(request: Awaited<ReturnType<typeof open>>['request']) {
  const { status, body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(status).toBe(200)
  return body
}

test('a deselected scope is in no token and returns no claim', async () => {
  const body = await allow(['profile'], { scope: ALL })
  expect(String(body.scope).split(' ').sort()).toEqual(['openid', 'profile'])
  expect(body).not.toHaveProperty('refresh_token')
  for (const claims of [
    decodeJwt(body.id_token),
    (await userinfo(usher, body.access_token)).body,
  ]) {
    expect(claims).toMatchObject({ sub: ada, name: 'Ada Lovelace' })
    expect(claims).not.toHaveProperty('email')
    expect(claims).not.toHaveProperty('email_verified')
  }
})

test('a refresh does not bring back a declined scope', async () => {
  const body = await allow(['offline_access'], { scope: ALL })
  const renewed = await refresh(usher, body.refresh_token)
  expect(renewed.status).toBe(200)
  expect(String(renewed.body.scope).split(' ').sort()).toEqual(['offline_access', 'openid'])
  const { body: info } = await userinfo(usher, renewed.body.access_token)
  expect(info).toEqual({ sub: ada })
})

test('a declined scope is not requested at the next sign-in', async () => {
  await allow(['profile'])
  const { request } = await open(usher, {}, browser)
  expect(browser.page.ours).toBe(false)
  expect((await tokensOf(request)).scope).toBe('openid profile')
})

test('with all scopes deselected, the client gets the sign-in only', async () => {
  const body = await allow([])
  expect(body.scope).toBe('openid')
  expect((await userinfo(usher, body.access_token)).body).toEqual({ sub: ada })
})

test('an allowed scope can be declined on a later consent page', async () => {
  const before = await allow(['profile', 'email'])
  const after = await allow(['profile'], { prompt: 'consent' })
  expect(after.scope).toBe('openid profile')
  expect((await usher.consents.find(ada, 'web'))?.scopes).toEqual(['openid', 'profile'])
  // Tokens that were issued with the scope before are revoked, too.
  expect((await userinfo(usher, before.access_token)).status).toBe(401)
  expect((await userinfo(usher, after.access_token)).body).not.toHaveProperty('email')
})

test('a later consent page does not tick a declined scope', async () => {
  await allow(['profile'])
  await open(usher, { scope: ALL }, browser)
  expect(browser.heading).toBe('Allow access')
  const isTicked = (scope: string) =>
    'checked' in (browser.page.html.querySelector(`#scope-${scope}`)?.attributes ?? {})
  expect(isTicked('profile')).toBe(true)
  expect(isTicked('email')).toBe(false)
})

test('a scope that was not requested cannot be allowed', async () => {
  const body = await allow(['email', 'profile', 'offline_access', 'admin'], {
    scope: 'openid email',
  })
  expect(body.scope).toBe('openid email')
  expect(body).not.toHaveProperty('refresh_token')
  const consent = await usher.consents.find(ada, 'web')
  expect(consent).toMatchObject({ scopes: ['openid', 'email'], declined: [] })
})

test('a new scope is granted only after consent', async () => {
  await allow(['email'], { scope: 'openid email' })
  await open(usher, { scope: 'openid email profile', prompt: 'none' }, browser)
  expect(browser.page.params.get('error')).toBe('consent_required')
  const body = await allow(['email', 'profile'], { scope: 'openid email profile' })
  expect(String(body.scope).split(' ').sort()).toEqual(['email', 'openid', 'profile'])
})

test('new offline access shows the consent page without prompt=consent', async () => {
  await allow(['profile', 'email'])
  const body = await allow(['profile', 'email', 'offline_access'], { scope: ALL })
  expect(body.refresh_token).toBeTruthy()
  const { request } = await open(usher, { scope: ALL }, browser)
  expect((await tokensOf(request)).refresh_token).toBeTruthy()
})

test('a consent holds in every browser, and for fewer scopes', async () => {
  await allow(['profile', 'email'])
  const other = await signedIn(usher)
  const { request } = await open(usher, { scope: 'openid email' }, other)
  const code = other.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.scope).toBe('openid email')
})

test('prompt=consent shows the consent page although all scopes were allowed', async () => {
  await allow(['profile', 'email'])
  await allow(['profile', 'email'], { prompt: 'consent' })
})

test('a consent for one application does not hold for another', async () => {
  await allow(['profile', 'email'])
  await open(usher, { client_id: 'post' }, browser)
  expect(browser.heading).toBe('Allow access')
  expect(browser.page.text).toContain('Post application')
})

const SPA = 'spa'
const spa = { client_id: SPA, redirect_uri: 'https://spa.example.org/callback' }
/** As a reload of the client file with these required scopes. */
async function require(...required_scopes: string[]) {
  Object.assign((await usher.provider.Client.find(SPA)) ?? {}, { required_scopes })
  const file = usher.settings.clients.find(({ client_id }) => client_id === SPA)
  Object.assign(file ?? {}, { required_scopes })
}

test('a user cannot deselect a required scope, and is asked again for one that was declined before', async () => {
  await usher.consents.withdraw(ada, SPA)
  const before = await allow([], { scope: ALL, ...spa })
  expect(before.scope).toBe('openid')
  await require('email', 'offline_access')
  const { request } = await open(usher, { scope: ALL, ...spa }, browser)
  expect(browser.heading).toBe('Allow access')
  const boxes = browser.page.html.querySelectorAll('input[name=scope]')
  expect(boxes.map(box => box.getAttribute('value'))).toEqual(['profile'])
  await browser.submit({ decision: 'allow', scope: [] })
  const body = await tokensOf(request)
  expect(String(body.scope).split(' ').sort()).toEqual(['email', 'offline_access', 'openid'])
  expect((await userinfo(usher, body.access_token)).body).toHaveProperty('email')
  await require()
})
