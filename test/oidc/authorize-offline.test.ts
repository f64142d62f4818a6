import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  redeem,
  refresh,
  signInAndAllow,
} from '../support/journey.ts'
import { CLIENTS } from '../support/usher.ts'

const ONCE = 'https://once.example.org/callback'
const NARROW = 'https://narrow.example.org/callback'

const test = usherTest({
  clients: {
    ...CLIENTS,
    once: {
      ...CLIENTS.web,
      client_id: 'once',
      redirect_uris: [ONCE],
      grant_types: ['authorization_code'],
    },
    narrow: {
      ...CLIENTS.web,
      client_id: 'narrow',
      redirect_uris: [NARROW],
      scope: 'openid profile',
    },
  },
})

const OFFLINE = 'openid profile offline_access'

/** Adds a new account each time, so that no consent exists. */
let users = 0
async function newUser() {
  const username = `person-${++users}`
  await usher.addAccount({ username })
  return { username, browser: new Browser(usher.issuer) }
}

/** Signs in up to the consent page, and returns the scopes that it lists. */
async function reachConsent(
  { browser, username }: { browser: Browser; username: string },
  params: Record<string, string>,
) {
  const request = authorizationRequest(usher, params)
  await browser.open(request.url)
  if (browser.heading === 'Sign in') {
    await browser.submit({
      username,
      password: 'correct horse battery staple',
      decision: 'continue',
    })
  }
  expect(browser.heading).toBe('Allow access')
  const boxes = browser.page.html.querySelectorAll('input[name=scope]')
  return { request, scopes: boxes.map(box => box.getAttribute('value')) }
}

test.each([
  ['without prompt', {}],
  ['with prompt=consent', { prompt: 'consent' }],
  ['with prompt=login', { prompt: 'login' }],
  ['with prompt=login consent', { prompt: 'login consent' }],
])('the consent page requests offline_access, %s', async (_, params) => {
  const user = await newUser()
  const { request, scopes } = await reachConsent(user, { scope: OFFLINE, ...params })
  expect(scopes).toContain('offline_access')
  const page = await signInAndAllow(user.browser, user.username)
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(String(body.scope).split(' ').sort()).toEqual(OFFLINE.split(' ').sort())
  expect((await refresh(usher, body.refresh_token)).status).toBe(200)
})

test('a user who has allowed all other scopes gets the consent page for offline_access', async () => {
  const user = await newUser()
  const first = await authorize(usher, { ...user, scope: 'openid profile' })
  expect((await redeem(usher, first.code, first.request)).body).not.toHaveProperty('refresh_token')
  const { scopes } = await reachConsent(user, { scope: OFFLINE })
  expect(scopes).toContain('offline_access')
})

test('no refresh token is issued when offline_access was not allowed', async () => {
  const user = await newUser()
  const { request } = await reachConsent(user, { scope: OFFLINE })
  const page = await user.browser.submit({ decision: 'allow', scope: ['profile'] })
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(body).not.toHaveProperty('refresh_token')
  expect(String(body.scope).split(' ')).not.toContain('offline_access')
})

test('no refresh token is issued without offline_access in the request, even if it was allowed before', async () => {
  const user = await newUser()
  await authorize(usher, { ...user, scope: OFFLINE })
  const { code, request } = await authorize(usher, { ...user, scope: 'openid profile' })
  expect((await redeem(usher, code, request)).body).not.toHaveProperty('refresh_token')
})

test('prompt=none gives a refresh token once offline_access was allowed, and not before', async () => {
  const user = await newUser()
  await authorize(usher, { ...user, scope: 'openid profile' })
  const silent = () => authorizationRequest(usher, { scope: OFFLINE, prompt: 'none' })
  const before = await user.browser.open(silent().url)
  expect(before.params.get('error')).toBe('consent_required')

  await authorize(usher, { ...user, scope: OFFLINE })
  const request = silent()
  const after = await user.browser.open(request.url)
  const { body } = await redeem(usher, after.params.get('code') ?? '', request)
  expect(body.refresh_token).toBeTruthy()
})

test.each(['spa', 'first', 'post'])(
  'the client "%s" gets a refresh token with offline_access, too',
  async client_id => {
    const user = await newUser()
    const { code, request } = await authorize(usher, { ...user, client_id, scope: OFFLINE })
    const { body } = await redeem(usher, code, request)
    expect((await refresh(usher, body.refresh_token, client_id)).status).toBe(200)
  },
)

test('a client without the grant type refresh_token never gets a refresh token', async () => {
  const user = await newUser()
  const params = { client_id: 'once', redirect_uri: ONCE, scope: OFFLINE }
  const { code, request } = await authorize(usher, { ...user, ...params })
  const { body } = await redeem(usher, code, request)
  expect(body).not.toHaveProperty('refresh_token')
  expect(String(body.scope).split(' ')).not.toContain('offline_access')
})

test('a client whose file does not list offline_access cannot request it', async () => {
  const params = { client_id: 'narrow', redirect_uri: NARROW, scope: OFFLINE }
  for (const prompt of [undefined, 'consent', 'none']) {
    const { url } = authorizationRequest(usher, { ...params, prompt })
    const page = await new Browser(usher.issuer).open(url)
    expect(page.params.get('error')).toBe('invalid_scope')
  }
})

test('an unknown scope is ignored (OIDC Core §3.1.2.1)', async () => {
  const user = await newUser()
  const { code, request } = await authorize(usher, { ...user, scope: 'openid admin Profile' })
  expect((await redeem(usher, code, request)).body.scope).toBe('openid')
})
