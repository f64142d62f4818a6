// Authorization details (RFC 9396): the consent page, and the details in tokens.

import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { refreshFor } from '../support/apis.ts'
import { configurationOf } from '../support/client-library.ts'
import {
  BANK,
  BANKING,
  detailsRequest,
  detailsTokens,
  introspect,
  LEDGER,
  PAYMENT,
  push,
  STATEMENT,
} from '../support/details.ts'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import { redeem, signInAndAllow, userinfo } from '../support/journey.ts'
import { removalOf, signedIn, textOf } from '../support/people.ts'
import { WEB } from '../support/usher.ts'

const OFFLINE = { scope: 'openid offline_access' }

const test = usherTest({ ...BANKING, browser: signedIn })
test.beforeEach(() => usher.consents.withdraw(ada, 'web'))

/** The details on the page as text. */
const shown = () =>
  browser.page.html
    .querySelectorAll('.detail')
    .map(({ innerHTML }) => textOf(innerHTML.replaceAll('<', ' <')).trim())

test('a client library requests a payment; the page shows it, and the tokens carry it', async () => {
  const config = await configurationOf(usher, 'web')
  const { authorization_details_types_supported: types } = config.serverMetadata()
  expect(types).toEqual(['payment', 'statement'])
  const pkceCodeVerifier = openid.randomPKCECodeVerifier()
  const url = await openid.buildAuthorizationUrlWithPAR(config, {
    redirect_uri: WEB,
    ...OFFLINE,
    code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
    authorization_details: JSON.stringify([{ ...PAYMENT, reference: 'Rent', monthly: true }]),
  })
  await browser.open(url)
  expect(shown()).toEqual([
    'Pay 12.50 euros to Grace Hopper Reference Rent Each month Yes The bank',
  ])
  await browser.submit({ decision: 'allow' })
  const tokens = await openid.authorizationCodeGrant(config, browser.page.url, { pkceCodeVerifier })
  const allowed = [{ ...PAYMENT, reference: 'Rent', monthly: true }]
  expect(tokens.authorization_details).toEqual(allowed)
  expect(tokens.claims()?.sub).toBe(ada)
  const about = await introspect(usher, tokens.access_token)
  expect(about).toMatchObject({ active: true, aud: BANK, sub: ada })
  expect(about.authorization_details).toEqual(allowed)
  expect(about).not.toHaveProperty('scope')
  const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
  expect(renewed.authorization_details).toEqual(allowed)
  const own = await introspect(usher, renewed.refresh_token ?? '', 'web')
  expect(own.authorization_details).toEqual(allowed)
})

test('a JWT carries the details of its API, and each API gets its own', async () => {
  const both = [PAYMENT, STATEMENT]
  const ledger = await detailsTokens(usher, browser, both, OFFLINE, LEDGER)
  expect(ledger.authorization_details).toEqual([STATEMENT])
  expect(decodeJwt(ledger.access_token)).toMatchObject({
    aud: LEDGER,
    authorization_details: [STATEMENT],
  })
  const { refresh_token } = ledger
  const bank = (await refreshFor(usher, { refresh_token, resource: BANK })).body
  expect((await introspect(usher, bank.access_token)).authorization_details).toEqual([PAYMENT])
})

test('a token for the details of two APIs is refused', async () => {
  const answer = await detailsTokens(usher, browser, [PAYMENT, STATEMENT])
  expect(answer.error).toBe('invalid_target')
})

test('the consent page is shown each time, in the language of the user', async () => {
  await detailsTokens(usher, browser, [PAYMENT])
  await browser.open((await push(usher, [PAYMENT], { ui_locales: 'de' })).url)
  expect(shown()).toEqual(['12.50 euros an Grace Hopper zahlen The bank'])
  await browser.submit({ decision: 'deny' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  await browser.open((await push(usher, [PAYMENT], { prompt: 'none' })).url)
  expect(browser.page.params.get('error')).toMatch(/^(consent|interaction)_required$/)
  // A request without details needs no new consent, and its tokens have no details.
  const plain = await push(usher, '[]')
  const code = (await browser.open(plain.url)).params.get('code') ?? ''
  const { body } = await redeem(usher, code, plain)
  expect(body).not.toHaveProperty('authorization_details')
})

test('the consent page is shown for a client with implicit consent too', async () => {
  const first = await push(usher, [PAYMENT], { client_id: 'first' })
  await browser.open(first.url)
  expect(shown()).toEqual(['Pay 12.50 euros to Grace Hopper The bank'])
})

test('the page shows every value, as text', async () => {
  const creditor = '<script>alert(1)</script>'
  const reference = '<img src=x onerror=alert(1)>{creditor}'
  await browser.open((await push(usher, [{ ...PAYMENT, creditor, reference, limit: 0.1234 }])).url)
  expect(browser.page.text).not.toMatch(/<script>alert|<img/)
  expect(textOf(browser.page.text)).toContain(`to ${creditor}`)
  expect(textOf(browser.page.text)).toContain(reference)
  expect(textOf(browser.page.text)).toContain('0.1234')
})

test('a refresh can request fewer details, none, and later all', async () => {
  const another = { ...PAYMENT, creditor: 'Alan Turing' }
  const { refresh_token } = await detailsTokens(usher, browser, [PAYMENT, another], OFFLINE)
  const few = { refresh_token, authorization_details: JSON.stringify([another]) }
  const narrow = (await refreshFor(usher, few)).body
  expect(narrow.authorization_details).toEqual([another])
  const plain = { refresh_token: narrow.refresh_token, scope: 'openid' }
  const { body } = await refreshFor(usher, plain)
  expect(body).not.toHaveProperty('authorization_details')
  expect((await userinfo(usher, body.access_token)).status).toBe(200)
  const all = (await refreshFor(usher, { refresh_token: body.refresh_token })).body
  expect(all.authorization_details).toEqual([PAYMENT, another])
})

test('Connected applications shows the allowed details, and removal ends the tokens', async () => {
  const { access_token } = await detailsTokens(usher, browser, [{ ...PAYMENT, reference: 'Rent' }])
  await detailsTokens(usher, browser, [STATEMENT])
  await browser.open('/account/applications')
  const text = textOf(browser.page.text)
  expect(text).toContain('Pay 12.50 euros to Grace Hopper (The bank, ')
  expect(text).toContain('Reference: Rent')
  expect(text.indexOf('See the balance and bookings of DE1234')).toBeLessThan(text.indexOf('Pay '))
  await browser.open(removalOf('web'))
  await browser.submit()
  expect(textOf(browser.page.text)).not.toContain('Grace Hopper')
  expect(await introspect(usher, access_token)).toEqual({ active: false })
})

test('a device and a public client can request details', async () => {
  const tv = await configurationOf(usher, 'tv', {}, openid.None())
  const authorization_details = JSON.stringify([PAYMENT])
  const device = await openid.initiateDeviceAuthorization(tv, { authorization_details })
  await browser.open('/device')
  await browser.submit({ user_code: device.user_code })
  expect(shown()).toEqual(['Pay 12.50 euros to Grace Hopper The bank'])
  await browser.submit({ decision: 'allow' })
  const tokens = await openid.pollDeviceAuthorizationGrant(tv, { ...device, interval: 0.1 })
  expect(tokens.authorization_details).toEqual([PAYMENT])

  const request = detailsRequest(usher, [PAYMENT], { client_id: 'spa' })
  await browser.open(request.url)
  const code = (await signInAndAllow(browser, 'ada')).params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.authorization_details).toEqual([PAYMENT])
})

test('the audit log names the types that were allowed, without their values', async () => {
  await detailsTokens(usher, browser, [PAYMENT])
  const logged = usher.output.filter(line => line.includes('consent_given')).at(-1) ?? ''
  expect(JSON.parse(logged).authorization_details).toEqual(['payment'])
  expect(usher.output.join('')).not.toContain('Grace Hopper')
})
