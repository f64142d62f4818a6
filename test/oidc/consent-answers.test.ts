// The answers of users to the consent page: what each allows, and what it leaves behind.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { ada, browser, grace, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, redeem, refresh, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  credentials,
  fieldsOf,
  grantsOf,
  newTab,
  open,
  removalOf,
  send,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, CLIENTS, GRACE, WEB } from '../support/usher.ts'

const ONCE = { ...CLIENTS.web, client_id: 'once', grant_types: ['authorization_code'] }
const NARROW = { ...CLIENTS.web, client_id: 'narrow', scope: 'openid profile' }

const test = usherTest({
  accounts: [ADA, GRACE],
  clients: { ...CLIENTS, once: ONCE, narrow: NARROW },
  browser: signedIn,
})
test.beforeEach(async () => {
  await usher.consents.removeAll(ada)
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
})

const SCOPES = ['profile', 'email']

async function removeElsewhere() {
  const tab = newTab(browser)
  await tab.open(removalOf())
  await tab.submit()
  expect(textOf(tab.page.text)).toContain(
    words('applications.removed', { client: 'Web application' }),
  )
}

/** The consent page is shown again with the reason. The earlier consent is not valid; the user can allow it anew. */
async function expectWithdrawn(request: Awaited<ReturnType<typeof open>>['request']) {
  expect(browser.heading).toBe('Allow access')
  expect(textOf(browser.page.text)).toContain(words('consent.withdrawn'))
  expect(await usher.consents.find(ada, 'web')).toBeUndefined()
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
  await browser.submit({ decision: 'allow' })
  expect(await tokensOf(request)).toHaveProperty('access_token')
}

test('a removal while the page is open invalidates the consent that was given in another tab', async () => {
  const { request } = await open(usher, {}, browser)
  const tab = newTab(browser)
  await open(usher, {}, tab)
  await tab.submit({ decision: 'allow' })
  await removeElsewhere()
  await browser.submit({ decision: 'allow' })
  await expectWithdrawn(request)
})

test('a consent from before a removal stays invalid, however often the form is submitted', async () => {
  await open(usher, {}, browser)
  const form = fieldsOf(browser.page, { decision: 'allow', scope: 'profile' })
  const { url } = browser.page
  const { consents } = usher
  const { version } = await consents.read(ada, 'web')
  expect(await consents.decide(ada, 'web', { scopes: SCOPES, declined: [], version })).toBe(true)
  await consents.withdraw(ada, 'web')
  for (let again = 0; again < 3; again++) await send(browser, url, { form })
  expect(await consents.find(ada, 'web')).toBeUndefined()
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
})

test('a refusal is returned to the application and leaves nothing behind', async () => {
  const { request } = await open(usher, {}, browser)
  await browser.submit({ decision: 'deny' })
  expect(Object.fromEntries(browser.page.params)).toMatchObject({
    error: 'access_denied',
    state: request.state,
    iss: usher.issuer,
  })
  expect(browser.page.params.has('code')).toBe(false)
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
  expect(await usher.consents.list(ada)).toEqual([])
  await open(usher, {}, browser)
  expect(browser.heading).toBe('Allow access')
})

test('an answer that is neither allow nor deny means deny', async () => {
  await open(usher, {}, browser)
  await browser.submit({ decision: 'Allow' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  expect(await usher.consents.list(ada)).toEqual([])
})

test('an allow from a page that was already answered with deny allows nothing', async () => {
  await open(usher, {}, browser)
  const form = fieldsOf(browser.page, { decision: 'deny' })
  expect((await send(browser, browser.page.url, { form })).status).toBe(200)
  const yes = { ...form, decision: 'allow' }
  expect((await send(browser, browser.page.url, { form: yes })).status).toBe(400)
  expect(await usher.consents.list(ada)).toEqual([])
})

test('submitting the same consent twice succeeds; a different second answer is refused', async () => {
  const { request } = await open(usher, {}, browser)
  const form = fieldsOf(browser.page, { decision: 'allow', scope: 'profile' })
  const twice = await Promise.all([1, 2].map(() => send(browser, browser.page.url, { form })))
  expect(twice.map(({ status }) => status)).toEqual([200, 200])
  const more = { ...form, scope: 'email' }
  const refused = await send(browser, browser.page.url, { form: more, headers: { accept: '*/*' } })
  expect(refused.status).toBe(400)
  expect(await refused.json()).toMatchObject({ error: 'interaction_gone' })
  await browser.submit({ decision: 'allow', scope: 'profile' })
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.scope).toBe('openid profile')
})

test('the form needs its CSRF token and the cookies of its browser', async () => {
  await open(usher, {}, browser)
  const { url } = browser.page
  const form = fieldsOf(browser.page, { decision: 'allow', scope: 'profile' })
  const evil = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }
  expect((await send(browser, url, { form, headers: evil })).status).toBe(403)
  expect((await send(browser, url, { form: { ...form, csrf: 'x' } })).status).toBe(403)
  expect((await send(browser, `${url}?decision=allow`, { method: 'GET' })).status).toBe(200)
  const graces = await signedIn(usher, 'grace')
  expect((await send(graces, url, { form })).status).toBe(400)
  expect(await usher.consents.list(ada)).toEqual([])
})

test('the consent of one user does not hold for another user who signs in afterwards', async () => {
  const less = { scope: 'openid', max_age: '100' }
  const hers = await signedIn(usher, 'grace')
  await open(usher, less, hers)
  await hers.submit({ decision: 'allow' })
  const mine = await signedIn(usher)
  await open(usher, { max_age: '100' }, mine)
  await ageSessions(usher, ada, 200)
  await mine.submit({ decision: 'allow' })
  expect(mine.heading).toBe('Sign in')
  await mine.submit(credentials('grace'))
  // Signs Ada out, as the script of that page does.
  await mine.submit()
  expect(mine.heading).toBe('Allow access')
  expect(textOf(mine.page.text)).not.toContain(words('consent.withdrawn'))
  expect((await usher.consents.find(grace, 'web'))?.scopes).toEqual(['openid'])
})

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

test('new offline access shows the consent page without prompt=consent, and earlier tokens stay valid', async () => {
  const before = await allow(['profile', 'email'])
  const body = await allow(['profile', 'email', 'offline_access'], { scope: ALL })
  expect(body.refresh_token).toBeTruthy()
  expect((await userinfo(usher, before.access_token)).status).toBe(200)
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

const OFFLINE = 'openid profile offline_access'

test.each<Record<string, string>>([{}, { prompt: 'consent' }, { prompt: 'login' }])(
  'the consent page requests offline_access, with %j',
  async params => {
    const { request } = await open(usher, { scope: OFFLINE, ...params }, browser)
    if (browser.heading === 'Sign in') await browser.submit(credentials())
    expect(browser.page.html.querySelector('#scope-offline_access')).not.toBeNull()
    await browser.submit({ decision: 'allow' })
    const body = await tokensOf(request)
    expect(String(body.scope).split(' ').toSorted()).toEqual(OFFLINE.split(' ').toSorted())
    expect((await refresh(usher, body.refresh_token)).status).toBe(200)
  },
)

test('no refresh token is issued without offline_access in the request, even if it was allowed before', async () => {
  await authorize(usher, { browser, scope: OFFLINE })
  const { request } = await authorize(usher, { browser, scope: 'openid profile' })
  expect(await tokensOf(request)).not.toHaveProperty('refresh_token')
})

test('a client without the grant type refresh_token never gets a refresh token', async () => {
  const params = { client_id: 'once', redirect_uri: WEB, scope: OFFLINE }
  const { request } = await authorize(usher, { browser, ...params })
  const body = await tokensOf(request)
  expect(body).not.toHaveProperty('refresh_token')
  expect(body.scope).toBe('openid profile')
})

test('a client whose file does not list offline_access cannot request it', async () => {
  for (const prompt of [undefined, 'consent', 'none']) {
    const params = { client_id: 'narrow', redirect_uri: WEB, scope: OFFLINE, prompt }
    const page = await browser.open(authorizationRequest(usher, params).url)
    expect(page.params.get('error')).toBe('invalid_scope')
  }
})
