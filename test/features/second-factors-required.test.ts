// Second factors that an operator requires: of all users, of users with an attribute, after a period of grace,
// and after a sign-in at an upstream issuer.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createFactors, type Passkey } from '../../src/features/factors/factors.ts'
import type { Browser } from '../support/browser.ts'
import {
  APP,
  addApp,
  codeOf,
  codesOn,
  FACTORS,
  factorsOf,
  removalOf,
  secretOn,
  TWO_FACTORS,
} from '../support/factors.ts'
import { credentials, isSignedIn, open, signedIn, words } from '../support/people.ts'
import { startUpstream } from '../support/upstream.ts'
import { ADA, GRACE, startUsher, type Usher } from '../support/usher.ts'

let usher: Usher
let ada: string
afterEach(() => usher.close())

async function start(sign_in: object) {
  usher = await startUsher({ usher: { sign_in } })
  ada = (await usher.addAccount({ ...ADA, attributes: { groups: ['staff', 'admins'] } })).id
  await usher.addAccount({ ...GRACE, attributes: { groups: 'staff' } })
}

async function signIn(username = 'ada'): Promise<Browser> {
  const { browser } = await open(usher)
  await browser.submit(credentials(username))
  return browser
}

describe('required', () => {
  beforeEach(() => start({ second_factor: 'required' }))

  test('a user without a second factor adds one after the password, before the session', async () => {
    const browser = await signIn()
    expect(browser.heading).toBe(words('factors.needed_title'))
    expect(await isSignedIn(browser)).toBe(false)
    await browser.submit({ decision: 'later', code: '' })
    expect(browser.heading).toBe(words('factors.needed_title'))
    await browser.submit({ code: codeOf(secretOn(browser)) })
    const codes = codesOn(browser)
    expect(codes).toHaveLength(10)
    expect(await isSignedIn(browser)).toBe(false)
    // The page again, with the same codes: the first answer may have been lost.
    await browser.open(browser.page.url)
    expect(browser.heading).toBe(words('factors.codes_title'))
    expect(codesOn(browser)).toEqual(codes)
    await browser.submit()
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('a factor that another sign-in added does not complete this one', async () => {
    const other = await signIn()
    const browser = await signIn()
    await browser.submit({ code: codeOf(secretOn(browser)) })
    await other.submit()
    expect(await isSignedIn(other)).toBe(false)
    expect(other.heading).toBe(words('factors.step_title'))
  })

  test('a factor that was removed during the sign-in does not complete it', async () => {
    const browser = await signIn()
    await browser.submit({ code: codeOf(secretOn(browser)) })
    const [factor] = (await factorsOf(usher, ada)).factors
    await createFactors(usher.records).remove(ada, factor?.id ?? '')
    await browser.submit()
    expect(await isSignedIn(browser)).toBe(false)
  })

  test.each([0, 1])(
    'the last factor cannot be removed, beside %s that are not used',
    async more => {
      const browser = await signIn()
      await browser.submit({ code: codeOf(secretOn(browser)) })
      await browser.submit()
      const former = { type: 'passkey', id: 'former', host: 'former.example.org' } as Passkey
      if (more) await createFactors(usher.records).add(ada, former)
      await browser.open(FACTORS)
      expect(browser.page.text).toContain(words('factors.last'))
      const [factor] = (await factorsOf(usher, ada)).factors
      expect((await browser.open(removalOf(factor?.id))).url.search).toBe('')
      // The page was opened while there was another one.
      await createFactors(usher.records).add(ada, { ...APP, id: 'other', secret: 'B' })
      await browser.open(removalOf(factor?.id))
      await createFactors(usher.records).remove(ada, 'other')
      await browser.submit()
      expect((await factorsOf(usher, ada)).factors).toHaveLength(1 + more)
    },
  )

  test('the factor that a sign-in adds gets the name that its user types', async () => {
    const browser = await signIn()
    await browser.submit({ code: codeOf(secretOn(browser)) })
    const field = browser.page.html.querySelector('input[name=name]')
    expect(field?.getAttribute('value')).toBe(words('factors.totp'))
    await browser.submit({ name: 'my phone' })
    expect(await isSignedIn(browser)).toBe(true)
    const { factors } = await factorsOf(usher, ada)
    expect(factors.map(({ name }) => name)).toEqual(['my phone'])
  })
})

describe('required with a period of grace', () => {
  beforeEach(() => start({ second_factor: 'required', second_factor_grace: '7 d' }))

  test('the user can add a factor later, until the period has passed', async () => {
    const browser = await signIn()
    expect(browser.heading).toBe(words('factors.needed_title'))
    await browser.submit({ decision: 'later', code: '' })
    expect(await isSignedIn(browser)).toBe(true)
    const { due } = await factorsOf(usher, ada)
    // The first sign-in began the period: a later one does not prolong it.
    await (await signIn()).submit({ decision: 'later', code: '' })
    expect((await factorsOf(usher, ada)).due).toBe(due)
    await usher.records
      .of('Factors', { backup: true })
      .change(ada, ({ value }) => value && { ...value, due: 1 })
    const late = await signIn()
    expect(late.page.html.querySelector('button[value=later]')).toBeNull()
    await late.submit({ decision: 'later', code: '' })
    expect(await isSignedIn(late)).toBe(false)
  })
})

describe('required for an attribute', () => {
  beforeEach(() =>
    start({ second_factor: 'optional', second_factor_required_for: { groups: ['admins'] } }),
  )

  test('only users with one of its values need a factor', async () => {
    expect((await signIn('ada')).heading).toBe(words('factors.needed_title'))
    expect((await signIn('grace')).heading).toBe(words('consent.title'))
  })
})

describe('off', () => {
  beforeEach(() => start({}))

  test('there is no page, no acr, and no question, also for an account that has a factor', async () => {
    await usher.close()
    await start({ second_factor: 'optional' })
    await addApp(usher, 'ada')
    const factors = await factorsOf(usher, ada)
    await usher.close()
    await start({})
    await usher.records.of('Factors', { backup: true }).save(ada, factors)
    const browser = await signedIn(usher)
    expect((await browser.open('/account/factors')).status).toBe(404)
    const response = await fetch(`${usher.issuer}/.well-known/openid-configuration`)
    expect(await response.text()).not.toContain(TWO_FACTORS)
  })
})

describe('after a sign-in at an upstream issuer', () => {
  const sign_in = { second_factor: 'required' }

  async function signInThere(file: object, params = {}) {
    const pair = await startUpstream({ accounts: 'create', ...file }, { usher: { sign_in } })
    usher = pair.usher
    await pair.upstream.addAccount(ADA)
    const { browser } = await open(usher, params, pair.browser())
    await pair.signIn(browser)
    await pair.upstream.close()
    return browser
  }

  test('the second factor follows', async () => {
    const browser = await signInThere({})
    expect(browser.heading).toBe(words('factors.needed_title'))
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('an exempt issuer needs none', async () => {
    const browser = await signInThere({ second_factor: 'exempt' })
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('an issuer whose acr is that of two factors needs none', async () => {
    const acr = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'
    const browser = await signInThere({ acr: { [acr]: TWO_FACTORS } }, { acr_values: TWO_FACTORS })
    expect(await isSignedIn(browser)).toBe(true)
  })
})
