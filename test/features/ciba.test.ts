// CIBA: a client sends an authentication request, and the user answers it on the account page.

import * as openid from 'openid-client'
import { expect } from 'vitest'
import { APIS, FILES } from '../support/apis.ts'
import type { Browser } from '../support/browser.ts'
import {
  answer,
  CIBA_GRANT,
  cibaClient,
  ENDPOINT,
  forgetRequests,
  PENDING,
  pendingRequests,
  poll,
  pollAtOnce,
  sendRequest,
  startRequest,
} from '../support/ciba.ts'
import { configurationOf } from '../support/client-library.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { ASSERTION, jwk, KEYED, privateKey, signAssertion } from '../support/keyed.ts'
import { ageSessions, credentials, opened, signedIn, textOf, words } from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const FAPI = { ...KEYED, profile: 'fapi2', grant_types: [CIBA_GRANT], redirect_uris: undefined }
const SIGNER = { ...FAPI, profile: undefined, client_id: 'signer' }
const OWN = cibaClient('own', { consent: 'implicit' })

let config: openid.Configuration
/** A browser in which Ada is signed in. */
let browser: Browser
const test = usherTest({
  clients: { ...APIS.clients, till: cibaClient('till'), own: OWN, keyed: FAPI, signer: SIGNER },
  resources: APIS.resources,
  usher: { features: { ciba: true } },
  accounts: [ADA, GRACE],
})
test.beforeAll(async () => {
  config = await configurationOf(usher, 'till')
  browser = await signedIn(usher)
})
test.beforeEach(async () => {
  await forgetRequests(usher, ada)
  await usher.consents.removeAll(ada)
})

test('a user sees which client requests what, allows it, and the client gets its tokens', async () => {
  const request = await openid.initiateBackchannelAuthentication(config, {
    scope: 'openid profile email offline_access',
    login_hint: 'Ada',
    binding_message: 'Till 4 <b>',
    max_age: '600',
    acr_values: String(config.serverMetadata().acr_values_supported?.[0]),
  })
  expect(request).toMatchObject({ expires_in: 900, interval: 5 })
  const account = await browser.open('/account')
  expect(account.text).toContain(words('account.waiting.one'))
  const list = await browser.open('/account/requests')
  expect(textOf(list.text)).toContain('Till 4 <b>')
  await browser.open((await pendingRequests(browser)).at(0) ?? '')
  expect(browser.heading).toBe(words('consent.title'))
  const shown = textOf(browser.page.text)
  for (const expected of ['Application till', 'Till 4 <b>', words('scope.profile')]) {
    expect(shown).toContain(expected)
  }
  for (const key of ['scope.offline_access', 'requests.warning', 'consent.manage']) {
    expect(shown).toContain(words(key))
  }
  await browser.submit({ decision: 'allow', scope: ['profile', 'offline_access'] })
  expect(textOf(browser.page.text)).toContain('You allowed the request. Application till continues')

  const given = await openid.pollBackchannelAuthenticationGrant(config, {
    ...request,
    interval: 0.1,
  })
  expect(given.scope).toBe('openid profile offline_access')
  expect(given.claims()).toMatchObject({ sub: ada, amr: ['pwd'], name: 'Ada Lovelace' })
  expect(given.claims()).toMatchObject({ acr: expect.any(String), auth_time: expect.any(Number) })
  const claims = await openid.fetchUserInfo(config, given.access_token, ada)
  expect(claims).not.toHaveProperty('email')
  const renewed = await openid.refreshTokenGrant(config, given.refresh_token ?? '')
  expect(await pendingRequests(browser)).toEqual([])
  expect(
    (await browser.open('/account')).html.querySelector('main a[href="/account/requests"]'),
  ).toBeNull()
  expect((await browser.open('/account/applications')).text).toContain('Application till')
  await usher.consents.withdraw(ada, 'till')
  await expect(openid.fetchUserInfo(config, renewed.access_token, ada)).rejects.toThrow()

  const facts = usher.auditEvents()
  for (const event of ['access_requested', 'consent_given']) {
    const fact = { event, client_id: 'till', account: ada }
    expect(facts).toContainEqual(expect.objectContaining(fact))
  }
})

test('a user denies a request, and the client gets access_denied', async () => {
  const id = await startRequest(usher, { login_hint: ada })
  await answer(browser, 'deny')
  expect(browser.page.text).toContain('You denied the request')
  expect(await poll(usher, id)).toMatchObject({ error: 'access_denied' })
  expect(await usher.consents.find(ada, 'till')).toBeUndefined()
})

test('id_token_hint names the user of that ID token', async () => {
  const id = await startRequest(usher)
  await answer(browser, 'allow')
  const { id_token } = await poll(usher, id)
  const params = { scope: 'openid', id_token_hint: String(id_token) }
  const request = await openid.initiateBackchannelAuthentication(config, params)
  await answer(browser, 'allow')
  expect(await poll(usher, request.auth_req_id)).toHaveProperty('access_token')
  const other = await configurationOf(usher, 'own')
  await expect(openid.initiateBackchannelAuthentication(other, params)).rejects.toThrow()
})

test('the claims parameter cannot name another user than the hint', async () => {
  const claims = JSON.stringify({ id_token: { sub: { value: ada } } })
  const { status, json } = await sendRequest(usher, { login_hint: 'grace', claims })
  expect([status, json.error]).toEqual([400, 'invalid_request'])
})

test('a request for an API shows its scopes, and the token is for it', async () => {
  const params = { scope: 'openid files:read files:write', login_hint: 'ada', resource: FILES }
  const request = await openid.initiateBackchannelAuthentication(config, params)
  await browser.open((await pendingRequests(browser)).at(0) ?? '')
  expect(textOf(browser.page.text)).toContain('Read your files')
  await browser.submit({ decision: 'allow', scope: `${FILES} files:read` })
  const soon = { ...request, interval: 0.1 }
  const resource = { resource: FILES }
  const given = await openid.pollBackchannelAuthenticationGrant(config, soon, resource)
  expect(given.scope).toBe('files:read')
  await expect(openid.fetchUserInfo(config, given.access_token, ada)).rejects.toThrow()
})

test('the consent page is shown each time, also after consent and for a client with implicit consent', async () => {
  for (const client_id of ['till', 'till', 'own']) {
    const id = await startRequest(usher, {}, client_id)
    expect(await poll(usher, id, client_id)).toMatchObject(PENDING)
    if (client_id === 'own') expect(await usher.consents.find(ada, 'own')).toBeUndefined()
    await answer(browser, 'allow')
    expect(await poll(usher, id, client_id)).toHaveProperty('access_token')
  }
})

test('polls before the interval get slow_down, even when the tokens are ready', async () => {
  const id = await startRequest(usher)
  expect(await pollAtOnce(usher, id)).toMatchObject(PENDING)
  await answer(browser, 'allow')
  expect(await pollAtOnce(usher, id)).toMatchObject({ error: 'slow_down' })
  await usher.records.of('Attempts').remove(`polls of ${id}`, 1)
  const answers = await Promise.all(Array.from({ length: 8 }, () => pollAtOnce(usher, id)))
  expect(answers.filter(({ access_token }) => access_token)).toHaveLength(1)
  const errors = new Set(answers.map(({ error }) => error))
  // Requests that come after the successful one may get either error.
  expect(['slow_down', 'invalid_grant', undefined]).toEqual(expect.arrayContaining([...errors]))
})

test('tokens can be bound to a key; a repeat with the missing nonce is not slowed down', async () => {
  const authentication = openid.PrivateKeyJwt({ key: privateKey, kid: jwk.kid })
  const metadata = { id_token_signed_response_alg: 'ES256' }
  const keyed = await configurationOf(usher, 'keyed', metadata, authentication)
  const DPoP = openid.getDPoPHandle(keyed, await openid.randomDPoPKeyPair('ES256'))
  const asking = { scope: 'openid', login_hint: 'ada' }
  const request = await openid.initiateBackchannelAuthentication(keyed, asking)
  await answer(browser, 'allow')
  const soon = { ...request, interval: 0.1 }
  const given = await openid.pollBackchannelAuthenticationGrant(keyed, soon, {}, { DPoP })
  expect(given.token_type).toBe('dpop')
  const lines = usher.output.map(line => JSON.parse(line))
  const failures = lines.filter(({ client_id, error }) => client_id === 'keyed' && error)
  expect(failures.map(({ error }) => error)).toEqual(['use_dpop_nonce'])
})

test('a request is redeemed once, by its client; a second use revokes its tokens', async () => {
  const id = await startRequest(usher)
  const invalid = { error: 'invalid_grant' }
  expect(await poll(usher, id, 'own')).toMatchObject(invalid)
  expect(await poll(usher, 'unknown')).toMatchObject(invalid)
  await answer(browser, 'allow')
  const { access_token } = await poll(usher, id)
  expect(await poll(usher, id)).toMatchObject(invalid)
  await expect(openid.fetchUserInfo(config, String(access_token), ada)).rejects.toThrow()
})

test('the user must have signed in within the last 15 minutes, or within max_age', async () => {
  await startRequest(usher, { max_age: '60' })
  await ageSessions(usher, ada, 120)
  await browser.open((await pendingRequests(browser)).at(0) ?? '')
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('consent.title'))
  await browser.submit({ decision: 'deny' })
  await startRequest(usher)
  await ageSessions(usher, ada, 1000)
  await browser.open((await pendingRequests(browser)).at(0) ?? '')
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit(credentials())
})

test('the URL of a request leads to the sign-in page, and then to the request', async () => {
  await startRequest(usher)
  const [address = ''] = await pendingRequests(browser)
  const another = await opened(usher, address)
  await another.submit(credentials())
  expect(another.heading).toBe(words('consent.title'))
  // Another user cannot see the request.
  const grace = await signedIn(usher, 'grace')
  expect((await grace.open(address)).text).toContain(words('requests.gone'))
})

test('a hint as a token and a user code are not supported', async () => {
  const refused = { status: 400, json: { error: 'invalid_request' } }
  const token = { login_hint: '', login_hint_token: 'x' }
  for (const params of [token, { user_code: '1234' }]) {
    expect(await sendRequest(usher, params)).toMatchObject(refused)
  }
})

/** Sends a signed request for Ada. `claims` overrides claims; undefined omits one. */
async function askSigned(claims: Record<string, unknown>, audience = usher.issuer) {
  const assertion = { iss: 'signer', sub: 'signer', aud: audience }
  const now = Math.floor(Date.now() / 1000)
  const asked = { scope: 'openid', login_hint: 'ada', client_id: 'signer' }
  const request = await signAssertion(usher.issuer, {
    claims: { iss: 'signer', sub: undefined, nbf: now, ...asked, ...claims },
  })
  const client_assertion = await signAssertion(usher.issuer, { claims: assertion })
  const body = { client_assertion_type: ASSERTION, client_assertion, request }
  return send(usher, ENDPOINT, { body })
}

test('a signed request has iat, nbf and jti, and its nbf is at most 60 minutes old', async () => {
  const now = Math.floor(Date.now() / 1000)
  expect((await askSigned({ nbf: now - 3500 })).status).toBe(200)
  // The audience of a client assertion may be the endpoint.
  expect((await askSigned({}, usher.issuer + ENDPOINT)).status).toBe(200)
  const wrong = [{ iat: undefined }, { nbf: undefined }, { jti: undefined }, { nbf: now - 4200 }]
  for (const claims of wrong) {
    const { status, json } = await askSigned(claims)
    expect([status, json.error]).toEqual([400, 'invalid_request'])
    expect(json.error_description).toContain(Object.keys(claims)[0])
  }
})

test('UserInfo returns the x-fapi-interaction-id of the client, or one of its own', async () => {
  const interactionId = async (sent: string) => {
    const headers = { 'x-fapi-interaction-id': sent }
    return (await send(usher, '/api/oauth/userinfo', { headers })).headers.get(
      'x-fapi-interaction-id',
    )
  }
  const uuid = 'f955C71f-bbc8-4158-aaf2-e8bcfb7a371e'
  expect(await interactionId(uuid)).toBe(uuid)
  for (const sent of ['', 'not-a-uuid', `${uuid}0`]) {
    expect(await interactionId(sent)).toMatch(/^[\da-f-]{36}$/)
  }
})

test('an error has no members beside those of its specification', async () => {
  const { status, json, headers } = await askSigned({ login_hint: 'a b' })
  expect([status, json.error]).toEqual([400, 'unknown_user_id'])
  expect(Object.keys(json).sort()).toEqual(['error', 'error_description'])
  expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{16}$/)
})

test('the menu and the overview have requests only while one waits', async () => {
  const menu = () => browser.page.html.querySelectorAll('nav a').map(link => link.text)
  await browser.open('/account')
  const without = menu()
  expect(without.join()).not.toContain(words('account.requests'))
  await startRequest(usher)
  await browser.open('/account/security')
  expect(menu().length).toBe(without.length + 1)
  expect(menu().at(-1)).toMatch(/Requests\s+1$/)
  await browser.open('/account')
  expect(textOf(browser.page.text)).toContain(words('account.waiting.one'))
  await answer(browser, 'deny')
  await browser.open('/account')
  expect(menu()).toEqual(without)
})
