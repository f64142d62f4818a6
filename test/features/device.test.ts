// The device flow (RFC 8628): a device shows a code, and the user enters it in a browser and gives consent.

import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { APIS, CALENDAR } from '../support/apis.ts'
import { configurationOf } from '../support/client-library.ts'
import { beginDevice, enterUserCode, pollAtOnce, TV } from '../support/device.ts'
import { ada, moveClock, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { copyOf, credentials, opened, signedIn, signOut, textOf, words } from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const OWN = { ...TV, client_id: 'own', client_name: 'Our own television', consent: 'implicit' }

const DEVICES = { features: { device_flow: true } }
const LIFETIME_SECONDS = 900

let config: openid.Configuration
const test = usherTest({
  clients: { ...APIS.clients, tv: TV, own: OWN },
  resources: APIS.resources,
  usher: DEVICES,
  accounts: [ADA, GRACE],
})
test.beforeAll(async () => {
  config = await configurationOf(usher, 'tv', {}, openid.None())
})
test.beforeEach(() => usher.consents.withdraw(ada, 'tv'))

const begin = (scope = 'openid profile') => openid.initiateDeviceAuthorization(config, { scope })

const poll = (device_code: string, client_id?: string) => pollAtOnce(usher, device_code, client_id)

/** Resets the polling interval, as if the device had waited. */
const forgetPoll = (device_code: string) =>
  usher.records.of('Attempts').remove(`polls of ${device_code}`, 1)

test('a user enters the code, sees the client, its scopes and its network, and allows it', async () => {
  const device = await begin('openid profile offline_access')
  expect(device).toMatchObject({
    verification_uri: `${usher.issuer}/device`,
    interval: 5,
    expires_in: LIFETIME_SECONDS,
  })
  expect(device.user_code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
  const tokens = openid.pollDeviceAuthorizationGrant(config, { ...device, interval: 0.2 })

  const browser = await opened(usher, device.verification_uri)
  expect(browser.heading).toBe(words('sign_in.title'))
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('device.title'))
  // Users type the code in lower case and with spaces.
  await browser.submit({ user_code: device.user_code.toLowerCase().replace('-', ' ') })
  expect(browser.heading).toBe(words('consent.title'))
  const shown = textOf(browser.page.text)
  for (const expected of ['Television', device.user_code, '127.0.0.0/24', words('scope.profile')]) {
    expect(shown).toContain(expected)
  }
  expect(shown).toContain(words('consent.device_warning'))
  await browser.submit({ decision: 'allow' })
  expect(browser.heading).toBe(words('device.done_title'))

  const facts = usher.auditEvents()
  expect(facts).toContainEqual(
    expect.objectContaining({
      event: 'device_connected',
      client_id: 'tv',
      account: ada,
      network: '127.0.0.0/24',
    }),
  )

  const given = await tokens
  expect(given.claims()?.sub).toBe(ada)
  expect(given.scope).toBe('openid profile offline_access')
  const claims = await openid.fetchUserInfo(config, given.access_token, ada)
  expect(claims).toMatchObject({ preferred_username: 'ada' })
  const renewed = await openid.refreshTokenGrant(config, given.refresh_token ?? '')
  expect(renewed.access_token).toEqual(expect.any(String))
  expect((await browser.open('/account/applications')).text).toContain('Television')
  // After the removal of the application, the tokens of the device are invalid.
  await usher.consents.withdraw(ada, 'tv')
  await expect(openid.fetchUserInfo(config, renewed.access_token, ada)).rejects.toThrow()
})

test('a URL with the code fills in the form, and does not submit it', async () => {
  const device = await begin()
  const browser = await opened(usher, device.verification_uri_complete ?? '')
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('device.title'))
  expect(browser.page.text).toContain(`value="${device.user_code}"`)
  const scripts = browser.page.html
    .querySelectorAll('script')
    .map(({ attributes }) => attributes.src)
  expect(scripts.filter(src => !src?.startsWith('/assets/menu'))).toEqual([])
  await browser.submit()
  expect(browser.heading).toBe(words('consent.title'))
})

test('a user denies a device, and it gets access_denied', async () => {
  const device = await begin()
  const browser = await signedIn(usher)
  await enterUserCode(browser, device.user_code)
  await browser.submit({ decision: 'deny' })
  expect(browser.heading).toBe(words('device.denied_title'))
  expect(await poll(device.device_code)).toMatchObject({ error: 'access_denied' })
  await enterUserCode(browser, device.user_code)
  expect(browser.page.text).toContain(words('device.used'))
})

test('a code that has expired cannot be allowed on the page that is still open', async () => {
  const another = await startAnother({ clients: { tv: TV }, usher: DEVICES })
  await another.addAccount(ADA)
  const { user_code } = await beginDevice(another)
  moveClock(LIFETIME_SECONDS - 60)
  const browser = await signedIn(another)
  await enterUserCode(browser, user_code)
  expect(browser.heading).toBe(words('consent.title'))
  // Clocks may differ by 15 s.
  moveClock(60 + 16)
  await browser.open(browser.page.url)
  // A signed-in user gets the account page in place of an interaction that is over.
  expect([browser.page.status, browser.page.url.pathname]).toEqual([200, '/account'])
})

test('a device that polls too fast gets slow_down, on every node', async () => {
  const { device_code } = await begin()
  expect(await poll(device_code)).toMatchObject({ error: 'authorization_pending' })
  expect(await poll(device_code)).toMatchObject({ error: 'slow_down' })
  await forgetPoll(device_code)
  const answers = await Promise.all(Array.from({ length: 8 }, () => poll(device_code)))
  const pending = answers.filter(({ error }) => error === 'authorization_pending')
  expect(pending).toHaveLength(1)
  expect(answers.filter(({ error }) => error === 'slow_down')).toHaveLength(7)
})

test('a client cannot redeem the device code of another', async () => {
  const { device_code } = await begin()
  expect(await poll(device_code, 'own')).toMatchObject({ error: 'invalid_grant' })
  expect(await poll('unknown')).toMatchObject({ error: 'invalid_grant' })
  const refused = await send(usher, '/api/oauth/device_authorization', {
    body: { client_id: 'spa', scope: 'openid' },
  })
  expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
})

test('the consent page is shown each time, also after consent and for a client with implicit consent', async () => {
  const browser = await signedIn(usher)
  const own = await configurationOf(usher, 'own', {}, openid.None())
  for (const at of [config, config, own]) {
    const device = await openid.initiateDeviceAuthorization(at, { scope: 'openid' })
    await enterUserCode(browser, device.user_code)
    expect(browser.heading).toBe(words('consent.title'))
    const { client_id } = at.clientMetadata()
    if (client_id === 'own') {
      expect(await usher.consents.find(ada, 'own')).toBeUndefined()
    }
    expect(await poll(device.device_code, client_id)).toMatchObject({
      error: 'authorization_pending',
    })
    await browser.submit({ decision: 'allow' })
    expect(browser.heading).toBe(words('device.done_title'))
  }
})

test('the user of id_token_hint connects the device, and no other user', async () => {
  const first = await begin('openid')
  const browser = await signedIn(usher)
  await enterUserCode(browser, first.user_code)
  await browser.submit({ decision: 'allow' })
  const { id_token } = await poll(first.device_code)
  const hint = { scope: 'openid', id_token_hint: String(id_token) }
  const { device_code, user_code } = await openid.initiateDeviceAuthorization(config, hint)
  const other = await signedIn(usher, 'grace')
  await enterUserCode(other, user_code)
  for (let page = 0; page < 2; page++) {
    expect(other.heading).toBe(words('sign_in.title'))
    await other.submit(credentials('grace'))
  }
  expect(other.heading).toBe(words('sign_in.title'))
  expect(await poll(device_code)).toMatchObject({ error: 'authorization_pending' })
})

/** Connects a device. `asked`: the text of the consent page. */
async function connect(
  params: { scope: string; resource?: string },
  options: openid.DeviceAuthorizationGrantPollOptions = {},
) {
  const device = await openid.initiateDeviceAuthorization(config, params)
  const browser = await signedIn(usher)
  await enterUserCode(browser, device.user_code)
  const asked = textOf(browser.page.text)
  await browser.submit({ decision: 'allow' })
  const { scope: _, ...more } = params
  const soon = { ...device, interval: 0.1 }
  const tokens = await openid.pollDeviceAuthorizationGrant(config, soon, more, options)
  return { browser, asked, tokens }
}

test('a device gets a token for an API, and the consent page shows its scopes', async () => {
  const scope = 'openid offline_access calendar:read'
  const { asked, tokens } = await connect({ scope, resource: CALENDAR })
  expect(asked).toContain('Calendar')
  expect(decodeJwt(tokens.access_token)).toMatchObject({
    aud: 'calendar',
    scope: 'calendar:read',
    client_id: 'tv',
    sub: ada,
  })
  const own = { scope: 'openid' }
  const plain = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '', own)
  expect(plain.access_token).toEqual(expect.any(String))
})

test('without offline_access the access of a device ends when the user signs out', async () => {
  const { browser, tokens } = await connect({ scope: 'openid' })
  expect(tokens.refresh_token).toBeUndefined()
  const before = copyOf(browser)
  await signOut(browser)
  await expect(openid.fetchUserInfo(config, tokens.access_token, ada)).rejects.toThrow()
  await before.open('/device')
  expect(before.heading).toBe(words('sign_in.title'))
  await before.submit(credentials())
  expect(before.heading).toBe(words('device.title'))
})
