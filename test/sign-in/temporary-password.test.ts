// A temporary password: it only leads to the page on which the user replaces it.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { hashPassword } from '../../src/sign-in/password.ts'
import { Browser } from '../support/browser.ts'
import { cibaClient, PENDING, poll, startRequest } from '../support/ciba.ts'
import { beginDevice, pollDevice, TV } from '../support/device.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { authorize, redeem, refresh, tokens } from '../support/journey.ts'
import {
  canSignIn,
  credentials,
  fieldsOf,
  isSignedIn,
  newTab,
  open,
  send,
  sessionsOf,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, CLIENTS, GRACE, PASSWORD } from '../support/usher.ts'

const TEMPORARY = 'temporary horse, temporary battery'
const NEW = 'another battery, another staple'
const CHOSEN = { password: NEW, repeat: NEW }
const CHOOSE = words('password.choose_title')
const EXPIRED = words('error.interaction')
const DAY = 24 * 3600

const test = usherTest({
  clients: { ...CLIENTS, tv: TV, till: cibaClient('till') },
  usher: { features: { device_flow: true, ciba: true } },
  accounts: [ADA, GRACE],
})
let hash: string
test.beforeAll(async () => {
  hash = await hashPassword(TEMPORARY)
})
test.beforeEach(async () => {
  await setPassword({ change_password_by: Math.floor(Date.now() / 1000) + DAY })
  await usher.consents.removeAll(ada)
})

/** Sets a temporary password as `accounts password ada` does. */
const setPassword = (fields: { password?: string; change_password_by?: number }) =>
  usher.directory.endAccess(ada, account => ({ ...account, password: hash, ...fields }))

/** A browser at the page that requires a new password. */
async function choosing(params: Record<string, string> = {}, browser?: Browser) {
  const opened = await open(usher, params, browser)
  await opened.browser.submit(credentials('ada', TEMPORARY))
  expect(opened.browser.heading).toBe(CHOOSE)
  return opened
}

test('the user chooses a new password, and continues to the application', async () => {
  const before = usher.output.length
  const { browser, request } = await choosing()
  const { html } = browser.page
  const fields = html.querySelectorAll('input:not([type=hidden])').map(input => input.attributes)
  expect(fields.map(({ autocomplete }) => autocomplete)).toEqual([
    'username',
    'new-password',
    'new-password',
  ])
  expect(fields[0]?.value).toBe('ada')
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(words('consent.title'))
  await browser.submit({ decision: 'allow' })
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token)).toMatchObject({ sub: ada, amr: ['pwd'] })
  expect(await canSignIn(usher, 'ada', NEW)).toBe(true)
  expect(await canSignIn(usher, 'ada', TEMPORARY)).toBe(false)
  const facts = usher.output.slice(before).map(line => JSON.parse(line))
  const ofUser = facts.filter(({ log, account }) => log === 'audit' && account === ada)
  expect(ofUser.map(({ event }) => event)).toEqual([
    'sign_in_succeeded',
    'password_changed',
    'consent_given',
    'tokens_issued',
    'sign_in_succeeded',
    'sign_in_failed',
  ])
  for (const secret of [TEMPORARY, NEW]) {
    expect(usher.output.slice(before).join()).not.toContain(secret)
  }
})

test('before the change, no session exists: not for the account pages, and not silently', async () => {
  const { browser, request: first } = await choosing({ client_id: 'first' })
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await isSignedIn(browser)).toBe(false)
  expect(await silently(usher, browser)).toBe('login_required')
  const tab = newTab(browser)
  for (const place of ['/account', '/account/password', '/account/requests', first.url]) {
    await tab.open(place)
    expect(tab.heading).toBe(words('sign_in.title'))
  }
})

test('no other request of the browser can replace the new password', async () => {
  const { browser } = await choosing()
  const { url } = browser.page
  // The URL that returns from an interaction.
  const resume = url.pathname.replace('/interaction', '/api/oauth/authorize')
  const tab = newTab(browser)
  await tab.open(resume)
  expect(tab.heading).toBe(words('sign_in.title'))
  const { browser: other } = await choosing()
  for (const decision of ['', 'continue', 'allow', 'password']) {
    await other.submit({ password: '', repeat: '', decision })
    expect(other.page.status).toBe(400)
    expect(other.heading).toBe(CHOOSE)
  }
  const { status } = await send(other, other.page.url, { form: CHOSEN })
  expect(status).toBe(403)
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await canSignIn(usher, 'ada', NEW)).toBe(false)
})

test('a cancelled change returns to the application without a code, and can be repeated', async () => {
  const { browser } = await choosing()
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  expect(await isSignedIn(browser)).toBe(false)
  await choosing({}, browser)
})

test.each([
  ['the temporary one', { password: TEMPORARY, repeat: TEMPORARY }, 'unchanged'],
  ['too short', { password: 'elevenbytes', repeat: 'elevenbytes' }, 'too_short'],
  ['too common', { password: 'password1234', repeat: 'password1234' }, 'too_common'],
  ['not repeated', { repeat: `${NEW} ` }, 'differs'],
])('a new password that is %s is refused', async (_, fields, problem) => {
  const { browser } = await choosing()
  await browser.submit({ ...CHOSEN, ...fields })
  expect(browser.page.status).toBe(400)
  expect(textOf(browser.page.text)).toContain(words(`password.${problem}`))
  expect(await sessionsOf(usher, ada)).toEqual([])
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(words('consent.title'))
})

test('an expired temporary password is refused like a wrong one', async () => {
  await setPassword({ change_password_by: Math.floor(Date.now() / 1000) - 1 })
  const before = usher.output.length
  const { browser } = await open(usher)
  await browser.submit(credentials('ada', TEMPORARY))
  expect(textOf(browser.page.text)).toContain(words('sign_in.failed'))
  expect(usher.output.slice(before).join('\n')).toContain('"reason":"password_expired"')
})

test('a temporary password that expires on the page is not replaced', async () => {
  const { browser } = await choosing()
  await usher.directory.change(ada, account => ({ ...account, change_password_by: 1 }))
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(EXPIRED)
  expect(await sessionsOf(usher, ada)).toEqual([])
})

test('a second person with the temporary password gets no access after the first change', async () => {
  const [first, second] = [await choosing(), await choosing()]
  await first.browser.submit(CHOSEN)
  const stolen = 'a password of somebody else'
  await second.browser.submit({ password: stolen, repeat: stolen })
  expect(second.browser.heading).toBe(EXPIRED)
  expect(await isSignedIn(second.browser)).toBe(false)
  expect(await isSignedIn(first.browser)).toBe(true)
  expect(await canSignIn(usher, 'ada', stolen)).toBe(false)
  expect(await canSignIn(usher, 'ada', NEW)).toBe(true)
})

test('only one of several concurrent changes in different browsers and tabs succeeds', async () => {
  for (let round = 0; round < 3; round++) {
    await setPassword({ change_password_by: Math.floor(Date.now() / 1000) + DAY })
    const { browser } = await choosing()
    const tab = newTab(browser)
    await tab.open(browser.page.url)
    const browsers = [browser, tab, (await choosing()).browser, (await choosing()).browser]
    await Promise.all(
      browsers.map((one, i) => one.submit({ password: `${NEW} ${i}`, repeat: `${NEW} ${i}` })),
    )
    const headings = browsers.map(({ heading }) => heading).toSorted()
    expect(headings).toEqual([words('consent.title'), EXPIRED, EXPIRED, EXPIRED].toSorted())
    expect(await sessionsOf(usher, ada)).toHaveLength(1)
  }
})

test.each([
  ['sets another password', () => setPassword({ change_password_by: undefined })],
  [
    'sets another temporary password',
    () => setPassword({ change_password_by: Math.floor(Date.now() / 1000) + DAY }),
  ],
  [
    'disables the account',
    () => usher.directory.endAccess(ada, account => ({ ...account, enabled: false })),
  ],
])('the page expires when the operator %s', async (_, change) => {
  const { browser } = await choosing()
  await change()
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(EXPIRED)
  await usher.directory.change(ada, account => ({ ...account, enabled: true }))
  expect(await canSignIn(usher, 'ada', NEW)).toBe(false)
})

test('earlier sessions and refresh tokens stay invalid, and the consent stays', async () => {
  await setPassword({ password: await hashPassword(PASSWORD), change_password_by: undefined })
  const former = await tokens(usher)
  await setPassword({ change_password_by: Math.floor(Date.now() / 1000) + DAY })
  expect(await silently(usher, former.browser)).toBe('login_required')
  const { browser } = await choosing({}, newTab(former.browser))
  expect(browser.page.params.get('code')).toBeNull()
  await browser.submit(CHOSEN)
  expect(browser.page.params.get('code')).toBeTruthy()
  const { body } = await refresh(usher, former.refresh_token)
  expect(body.error).toBe('invalid_grant')
})

test('the account page is shown after the change', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/account/sessions')
  await browser.submit(credentials('ada', TEMPORARY))
  expect(browser.heading).toBe(CHOOSE)
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(words('sessions.area'))
})

test('another user who is signed in in this browser stays signed in until the change', async () => {
  const browser = await signedIn(usher, 'grace')
  await choosing({ prompt: 'login' }, browser)
  expect(browser.page.html.querySelector('input#username')?.getAttribute('value')).toBe('ada')
  expect(await silently(usher, browser)).toBe('consent_required')
  await browser.submit(CHOSEN)
  await browser.submit()
  expect(browser.heading).toBe(words('consent.title'))
  await newTab(browser).open('/account')
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('a device gets no token before the change', async () => {
  const { device_code, user_code } = await beginDevice(usher)
  const browser = new Browser(usher.issuer)
  await browser.open('/device')
  await browser.submit(credentials('ada', TEMPORARY))
  expect(browser.heading).toBe(CHOOSE)
  expect(await pollDevice(usher, device_code)).toMatchObject(PENDING)
  await browser.submit(CHOSEN)
  await browser.submit({ user_code })
  await browser.submit({ decision: 'allow' })
  expect(await pollDevice(usher, device_code)).toHaveProperty('access_token')
})

test('a CIBA request can be answered after the change only', async () => {
  const id = await startRequest(usher)
  const browser = new Browser(usher.issuer)
  await browser.open('/account/requests')
  await browser.submit(credentials('ada', TEMPORARY))
  expect(browser.heading).toBe(CHOOSE)
  expect(await poll(usher, id)).toMatchObject(PENDING)
  await browser.submit(CHOSEN)
  expect(browser.heading).toBe(words('requests.title'))
})

test('a user who is signed in by another method replaces a temporary password on the account page', async () => {
  await setPassword({ change_password_by: undefined })
  const browser = await signedIn(usher, 'ada', TEMPORARY)
  const change_password_by = Math.floor(Date.now() / 1000) + DAY
  await usher.directory.change(ada, account => ({ ...account, change_password_by }))
  await browser.open('/account/password')
  await browser.submit({ current: TEMPORARY, ...CHOSEN })
  expect((await usher.directory.find(ada))?.change_password_by).toBeUndefined()
  expect(await canSignIn(usher, 'ada', NEW)).toBe(true)
  await authorize(usher, { username: 'grace' })
})

// The last test: the changes of this account are then limited.
test('only forms that cost a hash are counted, and too many get 429 before the hash', async () => {
  const { browser } = await choosing()
  const { page } = browser
  const submit = async (fields: Record<string, string>) =>
    (await send(browser, page.url, { form: fieldsOf(page, { ...CHOSEN, ...fields }) })).status
  const cheap = { password: 'password1234', repeat: 'password1234' }
  for (const _ of Array(70).keys()) expect(await submit(cheap)).toBe(400)
  const unchanged = { password: TEMPORARY, repeat: TEMPORARY }
  const statuses = await Promise.all(Array.from({ length: 70 }, () => submit(unchanged)))
  expect(statuses.filter(status => status === 400).length).toBeLessThanOrEqual(60)
  expect(new Set(statuses)).toEqual(new Set([400, 429]))
  expect(await submit({})).toBe(429)
})
