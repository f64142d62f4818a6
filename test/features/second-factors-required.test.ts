// Second factors that an operator requires: of all users, of users with an attribute, after a period of grace,
// and after a sign-in at an upstream issuer.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createFactors, type Passkey } from '../../src/features/factors/factors.ts'
import { Browser } from '../support/browser.ts'
import {
  APP,
  addApp,
  claimsAfter,
  codeOf,
  codesOn,
  FACTORS,
  factorsOf,
  nextCode,
  PASSKEY,
  removalOf,
  secretOn,
  TWO_FACTORS,
} from '../support/factors.ts'
import { startAnother } from '../support/fixtures.ts'
import { type HostileIssuer, startHostileIssuer } from '../support/hostile-issuer.ts'
import {
  credentials,
  isSignedIn,
  newTab,
  open,
  sessionsOf,
  signedIn,
  silently,
  words,
} from '../support/people.ts'
import { withUpstreams } from '../support/upstream.ts'
import { ADA, GRACE, startUsher, type Usher } from '../support/usher.ts'

let usher: Usher
let ada: string

async function start(sign_in: object) {
  usher = await startAnother({ usher: { sign_in } })
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

  test('a factor that another sign-in added, or that was removed meanwhile, does not complete one', async () => {
    const other = await signIn()
    const browser = await signIn()
    await browser.submit({ code: codeOf(secretOn(browser)) })
    await other.submit()
    expect(await isSignedIn(other)).toBe(false)
    expect(other.heading).toBe(words('factors.step_title'))
    const [factor] = (await factorsOf(usher, ada)).factors
    await createFactors(usher.records).remove(ada, factor?.id ?? '')
    await browser.submit()
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('the last factor cannot be removed, alone or beside one that is not used', async () => {
    const browser = await signIn()
    await browser.submit({ code: codeOf(secretOn(browser)) })
    await browser.submit()
    const [factor] = (await factorsOf(usher, ada)).factors
    const former = { type: 'passkey', id: 'former', host: 'former.example.org' } as Passkey
    for (const count of [1, 2]) {
      if (count === 2) await createFactors(usher.records).add(ada, former)
      await browser.open(FACTORS)
      expect(browser.page.text).toContain(words('factors.last'))
      expect((await browser.open(removalOf(factor?.id))).url.search).toBe('')
      // The page was opened while there was another one.
      await createFactors(usher.records).add(ada, { ...APP, id: 'other', secret: 'B' })
      await browser.open(removalOf(factor?.id))
      await createFactors(usher.records).remove(ada, 'other')
      await browser.submit()
      expect((await factorsOf(usher, ada)).factors).toHaveLength(count)
    }
  })

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

test('in a period of grace the user can add a factor later, until it has passed', async () => {
  await start({ second_factor: 'required', second_factor_grace: '7 d' })
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

test('only users with a value of the attribute need a factor', async () => {
  await start({ second_factor: 'optional', second_factor_required_for: { groups: ['admins'] } })
  expect((await signIn('ada')).heading).toBe(words('factors.needed_title'))
  expect((await signIn('grace')).heading).toBe(words('consent.title'))
})

test('while it is off, there is no page, no acr, and no question, also for an account that has a factor', async () => {
  await start({ second_factor: 'optional' })
  await addApp(usher, 'ada')
  const factors = await factorsOf(usher, ada)
  await start({})
  await usher.records.of('Factors', { backup: true }).save(ada, factors)
  const browser = await signedIn(usher)
  expect((await browser.open('/account/factors')).status).toBe(404)
  const response = await fetch(`${usher.issuer}/.well-known/openid-configuration`)
  expect(await response.text()).not.toContain(TWO_FACTORS)
})

describe('after a sign-in at an upstream issuer', () => {
  const STRONG = 'https://issuer.example/strong'
  let issuers: Record<string, HostileIssuer>
  beforeAll(async () => {
    const names = ['example', 'exempt', 'strong']
    const started = names.map(async name => [name, await startHostileIssuer()])
    issuers = Object.fromEntries(await Promise.all(started))
    const { usher: settings, files } = withUpstreams({
      example: { issuer: issuers.example?.issuer },
      exempt: { issuer: issuers.exempt?.issuer, second_factor: 'exempt' },
      strong: { issuer: issuers.strong?.issuer, acr: { [STRONG]: TWO_FACTORS } },
    })
    const methods = ['password', 'passkey', ...names]
    const sign_in = { second_factor: 'required', methods }
    usher = await startUsher({ files, usher: { ...settings, sign_in } })
  })
  afterAll(async () => {
    await usher.close()
    for (const issuer of Object.values(issuers)) await issuer.close()
  })

  /** Signs in at an issuer, which sends these claims. */
  async function signInAt(name: string, sub: string, amr: unknown = ['pwd'], params = {}) {
    const { state, issuer } = issuers[name] as HostileIssuer
    state.behaviour = { claims: { sub, preferred_username: sub, amr, acr: STRONG } }
    const opened = await open(usher, params, new Browser(usher.issuer, fetch, [issuer]))
    await opened.browser.submit({ decision: name })
    return opened
  }
  const accountAt = async (name: string, subject: string) => {
    const link = { issuer: issuers[name]?.issuer ?? '', subject }
    return (await usher.directory.findByLink(link))?.id ?? ''
  }

  test('the second factor follows', async () => {
    const first = await signInAt('example', 'ada')
    expect(first.browser.heading).toBe(words('factors.needed_title'))
    expect(await isSignedIn(first.browser)).toBe(false)
    await first.browser.submit({ code: codeOf(secretOn(first.browser)) })
    const id = await accountAt('example', 'ada')
    const opened = await signInAt('example', 'ada')
    const { browser } = opened
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(await sessionsOf(usher, id)).toEqual([])
    expect(await silently(usher, browser)).toBe('login_required')
    const tab = newTab(browser)
    await tab.open('/account')
    expect(tab.heading).toBe(words('sign_in.title'))
    await browser.submit({ code: await nextCode(usher, id) })
    const amr = ['example', 'pwd', 'otp', 'mfa']
    expect(await claimsAfter(usher, opened)).toMatchObject({ sub: id, amr })
    expect(await isSignedIn(browser)).toBe(true)
  })

  test.for([
    ['that is exempt', 'exempt', {}],
    ['whose acr is that of two factors', 'strong', { acr_values: TWO_FACTORS }],
  ] as const)('an issuer %s needs none', async ([, name, params]) => {
    const { browser } = await signInAt(name, `of-${name}`, ['pwd'], params)
    expect(browser.heading).toBe(words('consent.title'))
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('amr has the methods of the issuer, without recovery codes and upstreams of this provider', async () => {
    const amr = ['recovery_code', 'otp', 'exempt', 'strong', 'mfa', 1, { toString: 1 }]
    const claims = await claimsAfter(usher, await signInAt('strong', 'listed', amr))
    expect(claims.amr).toEqual(['strong', 'otp', 'mfa'])
  })

  // What the issuer says gives no rights over the factors of an account here.
  test.for<[string, unknown]>([
    ['nothing', undefined],
    ['a recovery code among others', ['pwd', 'mfa', 'recovery_code']],
    ['a passkey', ['hwk', 'user', 'mfa']],
    ['a recovery code as text', 'recovery_code'],
  ])('%s there does not change the passkey here', async ([name, amr]) => {
    const sub = `of-${name.replaceAll(' ', '-')}`
    await signInAt('strong', sub, amr)
    const id = await accountAt('strong', sub)
    await createFactors(usher.records).add(id, { ...PASSKEY, id: sub, key: 'AA' })
    const { browser } = await signInAt('strong', sub, amr)
    await browser.open(`${FACTORS}?add=totp`)
    expect(browser.heading).toBe(words('factors.step_title'))
  })
})
