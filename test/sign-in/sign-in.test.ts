import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { grace, usher, usherTest } from '../support/fixtures.ts'
import { credentials, fieldsOf, isSignedIn, open, send, textOf, words } from '../support/people.ts'
import { ADA, ALAN, GRACE, PASSWORD } from '../support/usher.ts'

const usher_yaml = { security: { account_attempts: 20 } }
const accounts = [ADA, GRACE]
const test = usherTest({ usher: usher_yaml, accounts, failureTimes: {} })
test.beforeAll(async () => {
  await usher.directory.add(ALAN)
  await usher.directory.change(grace, account => ({ ...account, enabled: false }))
})

const WRONG = 'not the password of anyone here'
const ATTEMPTS: [what: string, username: string, password: string][] = [
  ['a wrong password', 'ada', WRONG],
  ['an unknown name', 'nobody', WRONG],
  ['a disabled account', 'grace', WRONG],
  ['a disabled account with its password', 'grace', PASSWORD],
  ['an account without password', 'alan', WRONG],
  ['an empty password', 'ada', ''],
  ['a password longer than any', 'ada', 'x'.repeat(1025)],
  ['an empty name', '', WRONG],
]

async function attempt(browser: Browser, username: string, password: string) {
  const form = fieldsOf(browser.page, credentials(username, password))
  const response = await send(browser, browser.page.url, { form })
  const text = await response.text()
  const headers = Object.fromEntries(response.headers)
  for (const own of ['date', 'x-request-id', 'content-length']) delete headers[own]
  const page = text
    .replace(`value="${username}"`, 'value="NAME"')
    .replace('autofocus', '')
    .replace(/<code>\w{16}<\/code>/, '')
  return { status: response.status, headers, page: page.replace(/\s+/g, ' ') }
}

test('every failed sign-in is answered with the same status, headers and bytes', async () => {
  const { browser } = await open(usher)
  const expected = await attempt(browser, 'ada', WRONG)
  expect(expected.status).toBe(400)
  expect(textOf(expected.page)).toContain(words('sign_in.failed'))
  const attempts = ATTEMPTS.map(async ([what, username, password]) => {
    const answer = await attempt(browser, username, password)
    if (username) expect(answer, what).toEqual(expected)
    else expect(answer.status, what).toBe(expected.status)
  })
  await Promise.all(attempts)
  expect(await isSignedIn(browser)).toBe(false)
})

test('the username stays in the field, the password does not', async () => {
  const { browser } = await open(usher)
  await browser.submit(credentials('ada', WRONG))
  expect(browser.page.html.querySelector('#username')?.getAttribute('value')).toBe('ada')
  expect(browser.page.text).not.toContain(WRONG)
  await browser.submit({ password: PASSWORD, decision: 'continue' })
  expect(browser.heading).toBe('Allow access')
})

test('login_hint fills in the name, as text', async () => {
  const hint = '"><script>alert(1)</script>'
  const { browser } = await open(usher, { login_hint: 'ada' })
  expect(browser.page.html.querySelector('#username')?.getAttribute('value')).toBe('ada')
  const hinted = await open(usher, { login_hint: hint })
  expect(hinted.browser.page.html.querySelector('script:not([src^="/assets/"])')).toBeNull()
  expect(hinted.browser.page.html.querySelector('#username')?.getAttribute('value')).toBe(hint)
})

test('a user who cancels returns to the application with access_denied and the state', async () => {
  const { browser, request } = await open(usher)
  await browser.submit({ decision: 'cancel' })
  expect(`${browser.page.url.origin}${browser.page.url.pathname}`).toBe(request.redirect_uri)
  expect(Object.fromEntries(browser.page.params)).toMatchObject({
    error: 'access_denied',
    state: request.state,
    iss: usher.issuer,
  })
  expect(await isSignedIn(browser)).toBe(false)
})

test('a sign-in that an account page required leads to that page', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  expect(textOf(browser.page.text)).toContain(words('sign_in.to_continue_account'))
  await browser.submit(credentials())
  expect(browser.heading).toBe('Your account')
})

test('every failed sign-in takes at least a second, with and without a check of the password', async () => {
  const { id } = await usher.addAccount({ ...ADA, username: 'throttled' })
  await usher.records.of('Attempts').change(`account ${id}`, () => ({ count: 50, at: Date.now() }))
  const { browser } = await open(usher)
  const failures = [...ATTEMPTS, ['a throttled account', 'throttled', PASSWORD] as const]
  const attempts = failures.map(async ([what, username, password]) => {
    const started = performance.now()
    await attempt(browser, username, password)
    expect(performance.now() - started, what).toBeGreaterThan(990)
  })
  await Promise.all(attempts)
})
