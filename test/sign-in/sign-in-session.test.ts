import { decodeJwt } from 'jose'
import { Cookie } from 'tough-cookie'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, grace, usher, usherTest } from '../support/fixtures.ts'
import { redeem, signInAndAllow, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  newTab,
  onlineTokens,
  open,
  send,
  sessionsOf,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(async () => {
  for (const id of [ada, grace]) {
    await usher.directory.endAccess(id)
    await usher.consents.removeAll(id)
  }
})

test('a planted anonymous session stays anonymous', async () => {
  const attacker = new Browser(usher.issuer)
  await attacker.open('/api/oauth/logout')
  expect(await attacker.cookies()).toMatch(/usher_session=.*usher_session\.sig=/)
  const { browser: victim } = await open(usher, {}, copyOf(attacker))
  await victim.submit(credentials())
  expect(victim.heading).toBe('Allow access')
  expect(await isSignedIn(victim)).toBe(true)
  expect(await isSignedIn(attacker)).toBe(false)
  expect(await victim.cookies()).not.toBe(await attacker.cookies())
  const silent = await open(usher, { prompt: 'none' }, attacker)
  expect(silent.browser.page.params.get('error')).toBe('login_required')
})

test('a session that is planted while the sign-in page is open stays anonymous, too', async () => {
  const attacker = new Browser(usher.issuer)
  await attacker.open('/api/oauth/logout')
  const { browser: victim } = await open(usher)
  for (const cookie of attacker.jar.toJSON()?.cookies ?? []) {
    await victim.jar.setCookie(Cookie.fromJSON(cookie) ?? '', usher.issuer)
  }
  await victim.submit(credentials())
  expect(await isSignedIn(victim)).toBe(true)
  expect(await isSignedIn(attacker)).toBe(false)
})

test('an invented session id creates no session with that id', async () => {
  const planted = `usher_session=${'A'.repeat(43)}`
  const { browser } = await open(usher)
  await browser.jar.setCookie(`${planted}; Path=/`, usher.issuer)
  await browser.submit(credentials())
  expect(await isSignedIn(browser)).toBe(true)
  expect(await browser.cookies()).not.toContain(planted)
  const attacker = new Browser(usher.issuer)
  await attacker.jar.setCookie(`${planted}; Path=/`, usher.issuer)
  expect(await isSignedIn(attacker)).toBe(false)
})

test('a new sign-in changes the session id, and the old id is invalid', async () => {
  const { browser } = await onlineTokens(usher)
  const before = copyOf(browser)
  await ageSessions(usher, ada, 60)
  await open(usher, { prompt: 'login' }, browser)
  expect(browser.heading).toBe('Sign in')
  expect(textOf(browser.page.text)).toContain(words('sign_in.again'))
  await browser.submit(credentials())
  expect(browser.page.params.get('code')).toBeTruthy()
  expect(await isSignedIn(browser)).toBe(true)
  expect(await isSignedIn(before)).toBe(false)
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('a user who signs in to another’s browser gets a new session, and the other ends', async () => {
  const first = await onlineTokens(usher)
  const { browser } = first
  const adas = copyOf(browser)
  const { request } = await open(usher, { prompt: 'login' }, browser)
  await browser.submit(credentials('grace'))
  // The library's page that signs Ada out submits itself by a script.
  await browser.submit()
  await signInAndAllow(browser, 'grace')
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token).sub).toBe(grace)
  expect(await isSignedIn(adas)).toBe(false)
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect((await userinfo(usher, first.access_token)).status).toBe(401)
  await browser.open('/account')
  expect(browser.page.text).toContain('Grace Hopper')
  expect(browser.page.text).not.toContain('Ada Lovelace')
})

test('a sign-in page from before another sign-in does not mix up the users', async () => {
  const { browser: graces, request } = await open(usher)
  const adas = newTab(graces)
  await adas.open('/account')
  await adas.submit(credentials('ada'))
  await graces.submit(credentials('grace'))
  await graces.submit()
  await signInAndAllow(graces, 'grace')
  const { body } = await redeem(usher, graces.page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token).sub).toBe(grace)
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await sessionsOf(usher, grace)).toHaveLength(1)
})

test('a consent page is refused when another has signed in since', async () => {
  const { browser: adas } = await open(usher, {}, await signedIn(usher, 'ada'))
  expect(adas.heading).toBe('Allow access')
  const form = fieldsOf(adas.page, { decision: 'allow', scope: 'profile' })
  const { browser: graces } = await open(usher, { prompt: 'login' }, newTab(adas))
  await graces.submit(credentials('grace'))
  await graces.submit()
  expect(graces.heading).toBe('Allow access')
  const response = await send(adas, adas.page.url, { form })
  expect(response.status).toBe(400)
  expect(textOf(await response.text())).toContain(words('error.interaction_text'))
  for (const id of [ada, grace]) expect(await usher.consents.list(id)).toEqual([])
})

test('the page between two users explains what happens', async () => {
  const { browser } = await open(usher, { prompt: 'login' }, await signedIn(usher, 'ada'))
  await browser.submit(credentials('grace'))
  expect(browser.page.html.querySelector('html')?.getAttribute('lang')).toBe('en')
  expect(browser.heading).not.toBe('')
})

test('a user who cancels a new sign-in stays signed in', async () => {
  const { browser } = await onlineTokens(usher)
  await open(usher, { prompt: 'login' }, browser)
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  await browser.open('/account')
  expect(browser.page.text).toContain('Ada Lovelace')
})
