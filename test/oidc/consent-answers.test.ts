import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, browser, grace, usher, usherTest } from '../support/fixtures.ts'
import { redeem } from '../support/journey.ts'
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
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE], browser: signedIn })
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

/** The consent page is shown again with the reason. The earlier consent is not valid. */
async function expectWithdrawn() {
  expect(browser.heading).toBe('Allow access')
  expect(textOf(browser.page.text)).toContain(words('consent.withdrawn'))
  expect(await usher.consents.find(ada, 'web')).toBeUndefined()
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
  await browser.submit({ decision: 'deny' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  expect(await usher.consents.find(ada, 'web')).toBeUndefined()
}

test('a removal while the page is open invalidates the consent that was given in another tab', async () => {
  await open(usher, {}, browser)
  const tab = newTab(browser)
  await open(usher, {}, tab)
  await tab.submit({ decision: 'allow' })
  await removeElsewhere()
  await browser.submit({ decision: 'allow' })
  await expectWithdrawn()
})

test('a removal while the page is open invalidates an earlier consent', async () => {
  await open(usher, { scope: 'openid profile' }, browser)
  await browser.submit({ decision: 'allow' })
  await open(usher, {}, browser)
  expect(browser.heading).toBe('Allow access')
  await removeElsewhere()
  await browser.submit({ decision: 'allow' })
  await expectWithdrawn()
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

test('a user who gets the consent page after a removal can allow it', async () => {
  const { request } = await open(usher, {}, browser)
  const tab = newTab(browser)
  await open(usher, {}, tab)
  await tab.submit({ decision: 'allow' })
  await removeElsewhere()
  await browser.submit({ decision: 'allow' })
  await browser.submit({ decision: 'allow' })
  const { status } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(status).toBe(200)
})

test('after a removal the user can allow the application again', async () => {
  await open(usher, {}, browser)
  await browser.submit({ decision: 'allow' })
  await removeElsewhere()
  const { request } = await open(usher, {}, browser)
  expect(browser.heading).toBe('Allow access')
  await browser.submit({ decision: 'allow' })
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).status).toBe(200)
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
  const graces = new Browser(usher.issuer)
  await graces.open('/account')
  await graces.submit(credentials('grace'))
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
