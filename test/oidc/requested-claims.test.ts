// The claims parameter (OIDC Core §5.5): single claims are returned if the user has allowed their scope.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, redeem, refresh, userinfo } from '../support/journey.ts'
import { open, signedIn } from '../support/people.ts'
import { ADA, CLIENTS, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const FIRST = 'https://first.example.org/callback'
const clients = {
  ...CLIENTS,
  narrow: { ...CLIENTS.web, client_id: 'narrow', scope: 'openid profile' },
}

const test = usherTest({
  clients,
  usher: { id_token: { claims: 'minimal' } },
  accounts: [ADA, GRACE],
  browser: signedIn,
})
test.beforeEach(async () => {
  for (const client of ['web', 'narrow']) await usher.consents.withdraw(ada, client)
})

interface Asked {
  userinfo?: object
  id_token?: object
}
const ask = (claims: Asked, params: Record<string, string> = {}) =>
  open(usher, { scope: 'openid', claims: JSON.stringify(claims), ...params }, browser)

const boxes = () =>
  browser.page.html.querySelectorAll('input[name=scope]').map(box => box.getAttribute('value'))

/** Redeems the code of the request. Returns the claims of the ID token and of UserInfo. */
async function claimsOf(request: Awaited<ReturnType<typeof open>>['request']) {
  const { status, body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(status).toBe(200)
  const info = await userinfo(usher, body.access_token)
  return { id_token: decodeJwt(body.id_token), userinfo: info.body, tokens: body }
}

test('OIDC Core §5.5: a requested claim needs the consent to its scope, and is returned alone', async () => {
  const { request } = await ask({
    userinfo: { email: { essential: true } },
    id_token: { name: null },
  })
  expect(browser.heading).toBe('Allow access')
  expect(boxes().toSorted()).toEqual(['email', 'profile'])
  await browser.submit({ decision: 'allow' })
  const { id_token, userinfo, tokens } = await claimsOf(request)
  expect(userinfo).toEqual({ sub: ada, email: 'ada@example.org' })
  expect(id_token).toMatchObject({ sub: ada, name: 'Ada Lovelace' })
  expect(id_token).not.toHaveProperty('email')
  expect(id_token).not.toHaveProperty('preferred_username')
  expect(tokens.scope).toBe('openid')
})

test('a declined claim is not returned, even if essential, and not requested again', async () => {
  const claims = { userinfo: { email: { essential: true }, name: null } }
  const { request } = await ask(claims)
  await browser.submit({ decision: 'allow', scope: ['profile'] })
  expect((await claimsOf(request)).userinfo).toEqual({ sub: ada, name: 'Ada Lovelace' })
  const again = await ask(claims)
  expect((await claimsOf(again.request)).userinfo).toEqual({ sub: ada, name: 'Ada Lovelace' })
})

test('a requested claim does not bypass consent, also with prompt=none', async () => {
  await open(usher, { scope: 'openid' }, browser)
  await browser.submit({ decision: 'allow' })
  await ask({ userinfo: { email: null } }, { prompt: 'none' })
  expect(browser.page.params.get('error')).toBe('consent_required')
  await ask({ userinfo: { email: null } })
  expect(browser.heading).toBe('Allow access')
})

test('a client gets no claim of a scope that its file does not allow, and no consent page', async () => {
  const { request } = await ask(
    { userinfo: { email: null, name: null } },
    { client_id: 'narrow', redirect_uri: 'https://app.example.org/callback' },
  )
  expect(boxes()).toEqual(['profile'])
  await browser.submit({ decision: 'allow' })
  const form = { ...request, client_id: 'narrow' }
  expect((await claimsOf(form)).userinfo).toEqual({ sub: ada, name: 'Ada Lovelace' })
})

test('a client with implicit consent gets claims without the consent page', async () => {
  const first = { client_id: 'first', redirect_uri: FIRST }
  const { request } = await ask({ userinfo: { email: null } }, first)
  expect((await claimsOf(request)).userinfo).toEqual({ sub: ada, email: 'ada@example.org' })
})

test('an unknown claim is ignored, without a consent page', async () => {
  const { request } = await ask({ userinfo: { shoe_size: { essential: true }, __proto__: null } })
  expect(boxes()).toEqual([])
  await browser.submit({ decision: 'allow' })
  expect((await claimsOf(request)).userinfo).toEqual({ sub: ada })
})

test('a refreshed token returns the same claims, and none after the removal', async () => {
  const { request } = await ask({ userinfo: { email: null } }, { scope: 'openid offline_access' })
  await browser.submit({ decision: 'allow' })
  const { tokens } = await claimsOf(request)
  const { body } = await refresh(usher, tokens.refresh_token)
  expect((await userinfo(usher, body.access_token)).body).toEqual({
    sub: ada,
    email: 'ada@example.org',
  })
  await usher.consents.withdraw(ada, 'web')
  expect((await userinfo(usher, body.access_token)).status).toBe(401)
})

test('OIDC Core §5.5.1: sub with a value is that user or an error', async () => {
  await open(usher, { scope: 'openid' }, browser)
  await browser.submit({ decision: 'allow' })
  const only = (value: string) => ask({ id_token: { sub: { value } } }, { prompt: 'none' })
  await only(ada)
  expect(browser.page.params.get('code')).toBeTruthy()
  await only('usr_somebodyelse')
  expect(browser.page.params.get('error')).toBe('login_required')
})

const NESTED = `{"userinfo":{"a":${'{"a":'.repeat(6)}1${'}'.repeat(6)}}}`
test.each([
  ['no JSON', '{'],
  ['a list', '[]'],
  ['a text', '"userinfo"'],
  ['null', 'null'],
  ['neither userinfo nor id_token', '{"other":{}}'],
  ['userinfo that is a list', '{"userinfo":[]}'],
  ['a member that is a text', '{"userinfo":{"email":"yes"}}'],
  ['a member that is a list', '{"id_token":{"email":[]}}'],
  ['values that are no list', '{"id_token":{"acr":{"values":"1"}}}'],
  ['a value that is nested too deeply', NESTED],
  [
    'a value that is too long',
    JSON.stringify({ userinfo: { email: { value: 'x'.repeat(4096) } } }),
  ],
])('a claims parameter is refused with %s', async (_, claims) => {
  const { url } = authorizationRequest(usher, { claims })
  const { status, location, json } = await send(usher, url)
  expect(status).toBeLessThan(500)
  expect(location?.searchParams.get('error') ?? json.error).toBe('invalid_request')
})
