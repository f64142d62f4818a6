// Second factors: adding, using and removing apps for one-time codes, recovery codes, and what each of them
// refuses.

import { randomBytes } from 'node:crypto'
import { decodeJwt } from 'jose'
import { beforeEach, describe, expect } from 'vitest'
import { createFactors } from '../../src/features/factors/factors.ts'
import { Browser } from '../support/browser.ts'
import { cibaClient, pendingRequests, poll, startRequest } from '../support/ciba.ts'
import { beginDevice, enterUserCode, pollAtOnce, TV } from '../support/device.ts'
import {
  APP,
  addApp,
  atFactor,
  claimsAfter,
  codeOf,
  codesOn,
  enterPassword,
  FACTORS,
  factorsOf,
  nextCode,
  removalOf,
  secretOn,
  TWO_FACTORS,
} from '../support/factors.ts'
import { moveClock, usher, usherTest } from '../support/fixtures.ts'
import { redeem } from '../support/journey.ts'
import {
  ageSessions,
  confirmed,
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  newTab,
  open,
  send,
  sessionsOf,
  signedIn,
  silently,
  words,
} from '../support/people.ts'
import { CLIENTS } from '../support/usher.ts'

const test = usherTest({
  accounts: [],
  clients: {
    ...CLIENTS,
    bank: { ...CLIENTS.first, client_id: 'bank', second_factor: 'required' },
    post: { ...CLIENTS.post, default_acr_values: [TWO_FACTORS] },
    tv: { ...TV, second_factor: 'required' },
    till: cibaClient('till', { second_factor: 'required' }),
    desk: cibaClient('desk'),
  },
  usher: {
    sign_in: { second_factor: 'optional' },
    features: { device_flow: true, ciba: true },
  },
})

const NEW = 'one more battery and staple'
const replaced = { password: NEW, repeat: NEW }
const PASSWORD_ACR = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'
const BANK = { client_id: 'bank', redirect_uri: CLIENTS.first?.redirect_uris[0] ?? '' }
const POST = { client_id: 'post' }
const ESSENTIAL = {
  claims: JSON.stringify({ id_token: { acr: { essential: true, value: TWO_FACTORS } } }),
}

/** Full-width forms, as Japanese keyboards send them. */
const wide = (text: string) =>
  text.replace(/[!-~]/g, char => String.fromCodePoint((char.codePointAt(0) ?? 0) + 0xfee0))

/** A text with its digits in another script. `zero`: the code point of its zero. */
const inScript = (text: string, zero: number) =>
  text.replace(/\d/g, digit => String.fromCodePoint(zero + Number(digit)))

/** Each test has a user of its own. */
let name: string
let id: string
beforeEach(async () => {
  name = `u${randomBytes(6).toString('hex')}`
  id = (await usher.addAccount({ username: name })).id
})

/** A browser at the page that adds an app. */
async function atAddPage(path = `${FACTORS}?add=totp`) {
  const browser = await signedIn(usher, name)
  await browser.open(path)
  return confirmed(browser)
}

/** A browser in which the user has signed in with a code. */
async function signedInByApp() {
  const { browser } = await atFactor(usher, name)
  await browser.submit({ code: await nextCode(usher, id) })
  return browser
}

/** Expects that the password and a code of the user are accepted in a browser that is signed in. */
async function expectSignInAgain(browser: Browser) {
  const tab = newTab(browser)
  await open(usher, { prompt: 'login' }, tab)
  await enterPassword(tab, name)
  await tab.submit({ code: await nextCode(usher, id) })
  expect(tab.heading).toBe(words('consent.title'))
}

/** Makes the password of the user a temporary one. */
function makeTemporary() {
  const change_password_by = Math.floor(Date.now() / 1000) + 3600
  return usher.directory.change(id, account => ({ ...account, change_password_by }))
}

/** The names of the audit events of the user. */
const events = () => usher.auditEvents(id).map(({ event }) => event)

test('a temporary password is replaced after the second factor, not before', async () => {
  await addApp(usher, name)
  await makeTemporary()
  const before = (await usher.directory.find(id))?.password
  const { browser } = await atFactor(usher, name)
  await newTab(browser).open(browser.page.url)
  await browser.submit(replaced)
  expect(browser.heading).toBe(words('factors.step_title'))
  expect((await usher.directory.find(id))?.password).toBe(before)
  await browser.submit({ code: await nextCode(usher, id) })
  expect(browser.heading).toBe(words('password.choose_title'))
  expect(await isSignedIn(browser)).toBe(false)
  await browser.submit(replaced)
  expect(browser.heading).toBe(words('consent.title'))
  expect((await usher.directory.find(id))?.password).not.toBe(before)
})

describe('an app for one-time codes', () => {
  test('is added with a code, and needed at the next sign-in', async () => {
    const { browser, codes } = await addApp(usher, name)
    expect(codes).toHaveLength(10)
    expect(browser.page.text).toContain(words('factors.added_totp'))
    await browser.submit({ name: 'my phone' })
    expect(browser.page.url.pathname).toBe(FACTORS)
    expect(browser.page.text).toContain(words('factors.added'))
    expect(browser.page.text).toContain('my phone')
    expect(browser.page.text).toContain(words('factors.left.other', { count: '10' }))
    const opened = await atFactor(usher, name, { acr_values: TWO_FACTORS })
    expect(await sessionsOf(usher, id)).toHaveLength(1)
    expect(await isSignedIn(opened.browser)).toBe(false)
    await opened.browser.submit({ code: await nextCode(usher, id) })
    expect(await claimsAfter(usher, opened)).toMatchObject({
      sub: id,
      amr: ['pwd', 'otp', 'mfa'],
      acr: TWO_FACTORS,
    })
    expect(events()).toEqual([
      'sign_in_succeeded',
      'sign_in_succeeded',
      'second_factor_added',
      'sign_in_succeeded',
      'consent_given',
      'tokens_issued',
    ])
  })

  test('can be renamed; the page says whether the name has changed', async () => {
    await addApp(usher, name)
    const browser = await signedInByApp()
    await browser.open(FACTORS)
    const rename = browser.page.html.querySelector('a[href*="rename="]')?.getAttribute('href') ?? ''
    for (const [typed, outcome] of [
      ['work phone', 'renamed'],
      ['work phone', 'unchanged'],
      ['', 'unchanged'],
      [`${'x'.repeat(60)} longer`, 'renamed'],
    ]) {
      await browser.open(rename)
      await browser.submit({ name: typed ?? '' })
      expect(browser.page.text).toContain(words(`factors.${outcome}`))
    }
    const { factors } = await factorsOf(usher, id)
    expect(factors.map(factor => factor.name)).toEqual(['x'.repeat(60)])
    expect((await browser.open(`${FACTORS}?rename=another`)).url.search).toBe('')
  })

  test('opens with a link on the same phone, and its codes can be saved as a file', async () => {
    const browser = await atAddPage('/account/factors?add=totp')
    const secret = secretOn(browser)
    const link = browser.page.html.querySelector('.key a')?.getAttribute('href') ?? ''
    expect(new URL(link).protocol).toBe('otpauth:')
    expect(new URL(link).searchParams.get('secret')).toBe(secret)
    await browser.submit({ code: codeOf(secret) })
    const file = browser.page.html.querySelector('a[download]')?.getAttribute('href') ?? ''
    const [, text = ''] = file.split(',')
    expect(decodeURIComponent(text).split('\n')).toEqual([
      `Usher, ${name}`,
      ...codesOn(browser),
      '',
    ])
  })

  test('the overview says that there is none, and leads to the page that adds it', async () => {
    const browser = await signedIn(usher, name)
    const add = `a[href="${FACTORS}?add=totp"]`
    expect(browser.page.text).toContain(words('security.no_factor'))
    expect(browser.page.html.querySelector(add)?.text).toContain(words('security.none'))
    await addApp(usher, name)
    await browser.open('/account')
    expect(browser.page.text).toContain(words('security.enough'))
    expect(browser.page.html.querySelector(add)).toBeNull()
    await usher.records
      .of<{ recovery: string[] }>('Factors', { backup: true })
      .change(id, ({ value }) => value && { ...value, recovery: [] })
    await browser.open('/account')
    expect(browser.page.text).toContain(words('security.no_codes'))
  })

  test('is not added with a wrong code or another nonce; the page shows the same key, and a clock that differs', async () => {
    const browser = await atAddPage()
    const secret = secretOn(browser)
    // The step of a code does not end in between.
    moveClock(0)
    for (const code of ['', '12345', codeOf(secret, 21), 'abcdef']) {
      await browser.submit({ code })
      expect(browser.page.status).toBe(400)
      expect(browser.page.text).not.toContain(words('factors.clock'))
      expect(secretOn(browser)).toBe(secret)
    }
    for (const steps of [-2, 20]) {
      await browser.submit({ code: codeOf(secret, steps) })
      expect(browser.page.status).toBe(400)
      expect(browser.page.text).toContain(words('factors.clock'))
    }
    for (const nonce of ['x', 'x'.repeat(50_000), '../../other/path']) {
      await browser.submit({ code: codeOf(secretOn(browser)), nonce })
      expect(browser.page.status).toBe(400)
      const field = browser.page.html.querySelector('input[name=nonce]')
      expect(field?.getAttribute('value')).toMatch(/^[\w-]{16}$/)
    }
    expect((await factorsOf(usher, id)).factors).toEqual([])
    await browser.submit({ code: codeOf(secretOn(browser)) })
    expect((await factorsOf(usher, id)).factors).toHaveLength(1)
  })

  test('takes a code with separators, and in the digits of other scripts', async () => {
    await addApp(usher, name)
    const spellings = [
      (code: string) => code.replace(/(...)/, '$1-'),
      (code: string) => ` ${code.replace(/(..)/g, '$1·')}`,
      (code: string) => wide(code.replace(/(...)/, '$1 ')),
      // Arabic, Adlam and bold digits.
      (code: string) => inScript(code, 0x660),
      (code: string) => inScript(code, 0x1e950),
      (code: string) => inScript(code, 0x1d7ce),
    ]
    for (const write of spellings) {
      const { browser } = await atFactor(usher, name)
      const code = write(await nextCode(usher, id))
      await browser.submit({ code })
      expect(await isSignedIn(browser), code).toBe(true)
    }
  })

  test('that was added while the answer was lost: the form is sent again, and shows the codes', async () => {
    const { browser } = await open(usher, BANK)
    await browser.submit(credentials(name))
    const form = { code: codeOf(secretOn(browser)) }
    const lost = await send(browser, browser.page.url, { form: fieldsOf(browser.page, form) })
    expect(lost.status).toBe(200)
    await browser.submit(form)
    const codes = codesOn(browser)
    expect(codes).toHaveLength(10)
    await newTab(browser).open(browser.page.url)
    await browser.submit()
    expect(browser.page.params.has('code')).toBe(true)
    const again = await atFactor(usher, name)
    await again.browser.submit({ code: '', recovery: codes[0] ?? '' })
    expect(await isSignedIn(again.browser)).toBe(true)
  })

  test('its key is never shown again', async () => {
    const { secret } = await addApp(usher, name)
    const [{ id: nonce = '' } = {}] = (await factorsOf(usher, id)).factors
    const browser = await signedInByApp()
    await browser.open(`${FACTORS}?add=totp`)
    await browser.submit({ nonce, code: '000000' })
    expect(secretOn(browser)).toMatch(/\w/)
    expect(secretOn(browser)).not.toBe(secret)
  })

  test('the code that added it, an older one, and one that was used are refused', async () => {
    const { secret } = await addApp(usher, name)
    const { browser } = await atFactor(usher, name)
    for (const code of [codeOf(secret, -1), codeOf(secret)]) {
      await browser.submit({ code })
      expect(browser.page.text).toContain(words('factors.wrong'))
    }
    const code = codeOf(secret, 1)
    await browser.submit({ code })
    expect(await isSignedIn(browser)).toBe(true)
    const again = await atFactor(usher, name)
    await again.browser.submit({ code })
    expect(await isSignedIn(again.browser)).toBe(false)
  })

  test('is removed by its user, and then not needed', async () => {
    await addApp(usher, name)
    const browser = await signedInByApp()
    const [factor] = (await factorsOf(usher, id)).factors
    await browser.open(removalOf(factor?.id))
    expect(browser.heading).toBe(words('factors.remove_title', { name: words('factors.totp') }))
    for (const effect of ['factors.remove_totp', 'factors.remaining_none', 'security.no_factor'])
      expect(browser.page.text).toContain(words(effect))
    expect(await factorsOf(usher, id)).toMatchObject({ factors: [{ id: factor?.id }] })
    await browser.submit()
    expect(browser.page.text).toContain(words('factors.removed'))
    expect(await factorsOf(usher, id)).toMatchObject({ factors: [], recovery: [] })
    expect(events()).toContain('second_factor_removed')
    await signedIn(usher, name)
  })

  test('of two: the question names what is left, and that it is enough', async () => {
    await addApp(usher, name)
    const browser = await signedInByApp()
    const kept = { ...APP, id: 'kept', name: 'my tablet', created: 2 }
    await createFactors(usher.records).add(id, kept)
    const [factor] = (await factorsOf(usher, id)).factors
    await browser.open(FACTORS)
    const link = browser.page.html.querySelector('a[href*="remove="]')?.getAttribute('href')
    expect(link).toBe(removalOf(factor?.id))
    await browser.open(link ?? '')
    for (const effect of [
      words('factors.remaining', { names: 'my tablet' }),
      words('factors.left.other', { count: '10' }),
      words('security.enough'),
    ])
      expect(browser.page.text).toContain(effect)
    await browser.submit()
    expect((await factorsOf(usher, id)).factors.map(({ name }) => name)).toEqual(['my tablet'])
    // The page of a factor that was removed, sent again or opened again.
    expect((await browser.open(removalOf(factor?.id))).url.search).toBe('')
  })

  test('cancel at the second factor returns to the application without a session', async () => {
    await addApp(usher, name)
    const { browser } = await atFactor(usher, name)
    await browser.submit({ decision: 'cancel' })
    expect(browser.page.params.get('error')).toBe('access_denied')
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('a recovery code', () => {
  test('works once, in any spelling, and the page shows how many are left; no log has one', async () => {
    const { codes, secret } = await addApp(usher, name)
    const recovery = ` ${wide((codes[3] ?? '').toUpperCase().replaceAll('-', ' '))}`
    const opened = await atFactor(usher, name, { acr_values: TWO_FACTORS })
    await opened.browser.submit({ code: '', recovery })
    const claims = await claimsAfter(usher, opened)
    expect(claims).toMatchObject({ amr: ['pwd', 'recovery_code', 'mfa'], acr: TWO_FACTORS })
    await opened.browser.open(FACTORS)
    expect(opened.browser.page.text).toContain(words('factors.left.other', { count: '9' }))
    const everything = [...usher.output, opened.browser.page.text].join('\n')
    for (const text of [secret, ...codes]) expect(everything).not.toContain(text)
    const again = await atFactor(usher, name)
    await again.browser.submit({ code: '', recovery })
    expect(again.browser.page.text).toContain(words('factors.wrong'))
  })

  test('of another account is refused', async () => {
    const { codes } = await addApp(usher, name)
    const other = await usher.addAccount({ username: `${name}.other` })
    await addApp(usher, other.username)
    const { browser } = await atFactor(usher, other.username)
    await browser.submit({ code: '', recovery: codes[0] ?? '' })
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('new codes replace the old ones', async () => {
    const { codes } = await addApp(usher, name)
    const browser = await signedInByApp()
    await browser.open(FACTORS)
    await browser.submit({ codes: 'new' })
    const fresh = codesOn(browser)
    expect(fresh).toHaveLength(10)
    expect(events()).toContain('recovery_codes_created')
    const opened = await atFactor(usher, name)
    await opened.browser.submit({ code: '', recovery: codes[0] ?? '' })
    expect(await isSignedIn(opened.browser)).toBe(false)
    await opened.browser.submit({ code: '', recovery: fresh[0] ?? '' })
    expect(await isSignedIn(opened.browser)).toBe(true)
  })
})

describe('the budget of attempts', () => {
  test('is that of the password: wrong codes end it, and the password does not renew it', async () => {
    await addApp(usher, name)
    const { browser } = await atFactor(usher, name)
    for (let i = 0; i < 5; i++) await browser.submit({ code: '000000' })
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.page.text).toContain(words('factors.wrong'))
    expect(events().filter(event => event === 'second_factor_throttled')).toHaveLength(1)
    const other = (await open(usher)).browser
    await other.submit(credentials(name))
    expect(other.page.text).toContain(words('sign_in.failed'))
  })

  test('a right password between wrong codes gives no new attempts', async () => {
    await addApp(usher, name)
    for (let i = 0; i < 5; i++) {
      const { browser } = await atFactor(usher, name)
      await browser.submit({ code: '000000' })
    }
    const { browser } = await open(usher)
    await browser.submit(credentials(name))
    expect(browser.page.text).toContain(words('sign_in.failed'))
  })

  test.for([
    ['was signed in before', async () => signedInByApp()],
    ['added the app', async (added: Browser) => added],
  ] as const)('a browser that %s has a budget of its own', async ([, choose]) => {
    const browser = await choose((await addApp(usher, name)).browser)
    const stranger = (await atFactor(usher, name)).browser
    for (let i = 0; i < 6; i++) await stranger.submit({ code: '000000' })
    await expectSignInAgain(browser)
  })
})

describe('a change of a factor', () => {
  test.for([
    ['adding another app', `${FACTORS}?add=totp`],
    ['removal', removalOf('any')],
  ] as const)('%s needs a session with two factors', async ([, path]) => {
    const { browser } = await addApp(usher, name)
    const before = await factorsOf(usher, id)
    await browser.open(path)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(await factorsOf(usher, id)).toEqual(before)
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.page.url.pathname).toBe(FACTORS)
    await browser.open(path)
    expect(browser.heading).not.toBe(words('factors.step_title'))
  })

  test('is refused from a form of another page', async () => {
    const browser = await atAddPage()
    const form = fieldsOf(browser.page, { code: codeOf(secretOn(browser)), csrf: 'wrong' })
    expect((await send(browser, `${FACTORS}?add=totp`, { form })).status).toBe(403)
    expect((await factorsOf(usher, id)).factors).toEqual([])
  })
})

describe('step-up', () => {
  /** A browser with a session from before the app was added. */
  const withPassword = async () => (await addApp(usher, name)).browser

  test.for([
    ['acr_values', { acr_values: TWO_FACTORS }, { acr: TWO_FACTORS }],
    ['the file of the client', BANK, {}],
    ['default_acr_values', POST, {}],
  ] as const)('by %s: the user is asked for the second factor only', async ([, params, acr]) => {
    const browser = await withPassword()
    expect(await silently(usher, browser, { ...params })).toBe('interaction_required')
    const opened = await open(usher, params, newTab(browser))
    expect(opened.browser.heading).toBe(words('factors.step_title'))
    expect(opened.browser.page.html.querySelector('input[type=password]')).toBeNull()
    await opened.browser.submit({ code: '000000' })
    expect(opened.browser.page.text).toContain(words('factors.wrong'))
    await opened.browser.submit({ code: await nextCode(usher, id) })
    expect(await claimsAfter(usher, opened)).toMatchObject({ amr: ['pwd', 'otp', 'mfa'], ...acr })
    // The next request needs no factor.
    expect((await open(usher, params, newTab(browser))).browser.page.ours).toBe(false)
  })

  test('ends the cookie from before: a copy of it is not raised', async () => {
    const browser = await withPassword()
    const before = copyOf(browser)
    expect(await isSignedIn(before)).toBe(true)
    const opened = await open(usher, { acr_values: TWO_FACTORS }, browser)
    await opened.browser.submit({ code: await nextCode(usher, id) })
    expect((await claimsAfter(usher, opened)).acr).toBe(TWO_FACTORS)
    expect(await isSignedIn(opened.browser)).toBe(true)
    expect(await isSignedIn(before)).toBe(false)
  })

  test('does not renew the time of the sign-in', async () => {
    const browser = await withPassword()
    await ageSessions(usher, id, 600)
    const [before] = await sessionsOf(usher, id)
    const opened = await open(usher, { acr_values: TWO_FACTORS, max_age: '3000' }, browser)
    await opened.browser.submit({ code: await nextCode(usher, id) })
    expect((await claimsAfter(usher, opened)).auth_time).toBe(before?.loginTs)
  })

  test('max_age and prompt=login ask for the password first', async () => {
    const browser = await withPassword()
    await ageSessions(usher, id, 600)
    for (const params of [{ max_age: '60' }, { prompt: 'login' }]) {
      const opened = await open(usher, { acr_values: TWO_FACTORS, ...params }, newTab(browser))
      expect(opened.browser.heading).toBe(words('sign_in.title'))
      await enterPassword(opened.browser, name)
      await opened.browser.submit({ code: await nextCode(usher, id) })
      expect((await claimsAfter(usher, opened)).acr).toBe(TWO_FACTORS)
    }
  })

  test('an essential acr of one factor is in the ID token, and the session keeps two', async () => {
    await addApp(usher, name)
    const browser = await signedInByApp()
    const acr = { essential: true, values: ['urn:other', PASSWORD_ACR] }
    const less = { client_id: 'first', claims: JSON.stringify({ id_token: { acr } }) }
    for (const params of [less, less]) {
      const opened = await open(usher, { ...params, prompt: 'none' }, newTab(browser))
      expect((await claimsAfter(usher, opened)).acr).toBe(PASSWORD_ACR)
    }
    const sessions = await usher.records
      .of<{ acr?: string }>('Session')
      .list('sessions of account', id)
    expect(sessions.map(({ acr }) => acr).toSorted()).toEqual([TWO_FACTORS, PASSWORD_ACR])
    expect(await silently(usher, browser, BANK)).toBeUndefined()
    const resumed = await open(usher, { ...less, client_id: 'spa' }, newTab(browser))
    expect((await claimsAfter(usher, resumed)).acr).toBe(PASSWORD_ACR)
    expect(await silently(usher, browser, { client_id: 'first', ...ESSENTIAL })).toBeUndefined()
  })

  test('by an essential acr, a user without a factor adds one', async () => {
    const opened = await open(usher, ESSENTIAL)
    const { browser } = opened
    await browser.submit(credentials(name))
    expect(browser.heading).toBe(words('factors.needed_title'))
    expect(browser.page.text).not.toContain('value="later"')
    await browser.submit({ code: codeOf(secretOn(browser)) })
    expect(codesOn(browser)).toHaveLength(10)
    await browser.submit()
    const amr = ['pwd', 'otp', 'mfa']
    expect(await claimsAfter(usher, opened)).toMatchObject({ amr, acr: TWO_FACTORS })
  })

  test('adds a factor only after a recent sign-in', async () => {
    const browser = await signedIn(usher, name)
    await ageSessions(usher, id, 16 * 60)
    await open(usher, BANK, browser)
    expect(browser.heading).toBe(words('sign_in.title'))
    await browser.submit(credentials(name))
    expect(browser.heading).toBe(words('factors.needed_title'))
  })

  test('a client cannot send the parameter of the account pages', async () => {
    const browser = await withPassword()
    const opened = await open(usher, { second_factor: 'required' }, browser)
    expect(opened.browser.heading).toBe(words('consent.title'))
  })
})

test('a new factor of a running sign-in is asked for in later ones only', async () => {
  const before = await open(usher)
  await addApp(usher, name)
  await enterPassword(before.browser, name)
  expect(await new Browser(usher.issuer).open('/account')).toMatchObject({ status: 200 })
})

test('going back to the request does not skip the step', async () => {
  await addApp(usher, name)
  await usher.directory.endAccess(id)
  const { browser, request } = await atFactor(usher, name)
  const { url } = browser.page
  await browser.submit({ code: 'open barley' })
  expect(browser.page.text).toContain(words('factors.wrong'))
  expect(await sessionsOf(usher, id)).toEqual([])
  expect(await silently(usher, browser)).toBe('login_required')
  for (const place of [`/api/oauth/authorize/${url.pathname.split('/').at(-1)}`, request.url]) {
    const tab = newTab(browser)
    await tab.open(place)
    expect(tab.page.params.has('code')).toBe(false)
    expect(await isSignedIn(tab)).toBe(false)
  }
})

test('the sign-in ends when the access of the account ends during the step', async () => {
  await addApp(usher, name)
  const { browser } = await atFactor(usher, name)
  await usher.directory.endAccess(id)
  await browser.submit({ code: await nextCode(usher, id) })
  expect(browser.heading).toBe(words('error.interaction'))
  expect(await isSignedIn(browser)).toBe(false)
})

test('the step follows again when another user has to sign in', async () => {
  await addApp(usher, name)
  const first = await atFactor(usher, name)
  await first.browser.submit({ code: await nextCode(usher, id) })
  await first.browser.submit({ decision: 'allow' })
  const { body } = await redeem(usher, first.browser.page.params.get('code') ?? '', first.request)
  const opened = await open(usher, { id_token_hint: body.id_token })
  const { browser } = opened
  const other = await usher.addAccount({ username: `${name}.other` })
  await browser.submit(credentials(other.username))
  expect(browser.heading).toBe(words('sign_in.title'))
  await enterPassword(browser, name)
  await browser.submit({ code: await nextCode(usher, id) })
  // The page that signs the other user out submits itself.
  expect(browser.page.html.querySelector('input[name=xsrf]')).not.toBeNull()
  await browser.submit()
  expect(await claimsAfter(usher, opened)).toMatchObject({ sub: id, amr: ['pwd', 'otp', 'mfa'] })
})

describe('what is older than a factor', () => {
  /** Browsers in which somebody who knows the password has signed in. */
  const strangers = (count: number) =>
    Promise.all(Array.from({ length: count }, () => signedIn(usher, name)))
  const failures = () => events().filter(event => event === 'second_factor_failed').length

  test('browsers that were remembered before share the attempts at its codes', async () => {
    const known = await strangers(4)
    await addApp(usher, name)
    for (const each of known) {
      const tab = newTab(each)
      await open(usher, { prompt: 'login' }, tab)
      await tab.submit(credentials(name))
      if (tab.heading !== words('factors.step_title')) continue
      for (let i = 0; i < 5; i++) await tab.submit({ code: '000000' })
    }
    expect(failures()).toBe(5)
  })

  test('codes from many remembered browsers together have a limit', async () => {
    await addApp(usher, name)
    const known: Browser[] = []
    for (let i = 0; i < 5; i++) known.push(await signedInByApp())
    for (const each of known) {
      await open(usher, { prompt: 'login' }, each)
      await enterPassword(each, name)
      for (let i = 0; i < 5; i++) await each.submit({ code: '000000' })
    }
    expect(failures()).toBe(20)
  })

  test('codes that are refused at once cost the other browsers nothing', async () => {
    await addApp(usher, name)
    const own = await signedInByApp()
    const { browser } = await atFactor(usher, name)
    const form = fieldsOf(browser.page, { code: '000000' })
    const sent = Array.from({ length: 64 }, () => send(browser, browser.page.url, { form }))
    await Promise.all(sent)
    expect(failures()).toBe(5)
    await expectSignInAgain(own)
  })

  test('sessions: the page of a new factor offers to end the others', async () => {
    const [other] = await strangers(1)
    const { browser } = await addApp(usher, name)
    const end = browser.page.html.querySelector('main a[href*="session=others"]')
    expect(browser.page.text).toContain(words('account.elsewhere.one', { count: '1' }))
    await browser.open(end?.getAttribute('href') ?? '')
    await browser.submit()
    expect(other && (await isSignedIn(other))).toBe(false)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('sessions: a factor that a sign-in adds ends the others if the user wants it', async () => {
    const [other] = await strangers(1)
    const opened = await open(usher, BANK)
    const { browser } = opened
    await browser.submit(credentials(name))
    await browser.submit({ code: codeOf(secretOn(browser)) })
    expect(browser.page.text).toContain(words('account.elsewhere.one', { count: '1' }))
    await browser.submit({ others: 'end' })
    expect(browser.page.params.has('code')).toBe(true)
    expect(other && (await isSignedIn(other))).toBe(false)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('a sign-in that waits for a new password needs the factor that was added meanwhile', async () => {
    const owner = await atAddPage()
    await makeTemporary()
    const { browser } = await open(usher)
    await browser.submit(credentials(name))
    expect(browser.heading).toBe(words('password.choose_title'))
    await owner.submit({ code: codeOf(secretOn(owner)) })
    await browser.submit(replaced)
    expect(browser.heading).toBe(words('factors.step_title'))
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('where a device or another application asks', () => {
  test('a device gets tokens after the second factor', async () => {
    const { browser } = await addApp(usher, name)
    const { device_code, user_code } = await beginDevice(usher, 'openid')
    await enterUserCode(browser, user_code)
    expect(browser.heading).toBe(words('factors.step_title'))
    await browser.submit({ code: '000000' })
    expect(browser.page.text).toContain(words('factors.wrong'))
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.heading).toBe(words('consent.title'))
    await browser.submit({ decision: 'allow' })
    expect(browser.heading).toBe(words('device.done_title'))
    const { id_token } = await pollAtOnce(usher, device_code)
    expect(decodeJwt(String(id_token)).amr).toEqual(['pwd', 'otp', 'mfa'])
  })

  test.for([
    ['the file of the client', 'till', {}],
    ['acr_values', 'desk', { acr_values: TWO_FACTORS }],
  ] as const)('a CIBA request is answered after it, by %s', async ([, client, params]) => {
    const { browser } = await addApp(usher, name)
    await ageSessions(usher, id, 10)
    const request = await startRequest(usher, { ...params, login_hint: name }, client)
    await browser.open((await pendingRequests(browser)).at(-1) ?? '')
    expect(browser.heading).toBe(words('factors.step_title'))
    await browser.submit({ code: await nextCode(usher, id) })
    expect(browser.heading).toBe(words('consent.title'))
    await browser.submit({ decision: 'allow' })
    const { id_token } = await poll(usher, request, client)
    expect(decodeJwt(String(id_token)).amr).toEqual(['pwd', 'otp', 'mfa'])
  })

  test('a user without a factor adds one before the answer to a CIBA request', async () => {
    const browser = await signedIn(usher, name)
    const request = await startRequest(usher, { login_hint: name }, 'till')
    await browser.open((await pendingRequests(browser)).at(-1) ?? '')
    // A session alone may be a browser that somebody left open.
    await confirmed(browser)
    expect(browser.heading).toBe(words('factors.needed_title'))
    await browser.submit({ code: codeOf(secretOn(browser)) })
    await browser.submit()
    expect(browser.heading).toBe(words('consent.title'))
    await browser.submit({ decision: 'allow' })
    expect(await poll(usher, request, 'till')).toHaveProperty('access_token')
  })
})
