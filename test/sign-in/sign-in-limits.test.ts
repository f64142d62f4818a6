// Limits for password guesses: the counters for accounts, networks and remembered browsers.

import { expect } from 'vitest'
import { networkOf } from '../../src/operation/client-info.ts'
import { Browser } from '../support/browser.ts'
import { auditEventsOf, usher, usherTest } from '../support/fixtures.ts'
import { credentials, fieldsOf, open, send, signedIn, textOf, words } from '../support/people.ts'
import { fillQueue } from '../support/sign-in-queue.ts'
import { ADA, PASSWORD } from '../support/usher.ts'

const WRONG = 'not the password of anyone here'
const FREE = 5

let ada: string
const test = usherTest({
  usher: { proxy: ['127.0.0.1'], security: { network_attempts: 20 } },
})

let accounts = 0
let username = ''
test.beforeEach(async () => {
  username = `ada-${++accounts}`
  ada = (await usher.addAccount({ ...ADA, username })).id
})

let networks = 0
/** The proxy header with an address of a different network at each call. */
const somewhere = () => {
  networks++
  return { 'x-forwarded-for': `198.${18 + (networks >> 8)}.${networks & 255}.7` }
}

/** Opens the sign-in page in a new browser. The function it returns submits the form. */
async function openSignIn(headers = somewhere()) {
  const { browser } = await open(usher)
  const { url } = browser.page
  return async (name = username, password = WRONG) => {
    const form = fieldsOf(browser.page, credentials(name, password))
    const response = await send(browser, url, { form, headers })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
}

async function exhaust(attempt: Awaited<ReturnType<typeof openSignIn>>, name = username) {
  const answers = await Promise.all(Array.from({ length: FREE }, () => attempt(name)))
  expect(answers.map(({ status }) => status)).toEqual(Array(FREE).fill(400))
  const account = await usher.directory.findByUsername(name)
  await prolong(account ? `account ${account.id}` : `name ${name}`)
}

/** Extends the wait of a used-up counter by a minute, because the test itself may take seconds. */
async function prolong(count: string) {
  type Count = { count: number; at: number }
  const later = ({ value }: { value?: Count }) =>
    value && value.count > FREE - 0.5 ? { ...value, at: Date.now() + 60_000 } : undefined
  expect((await usher.records.of<Count>('Attempts').change(count, later)).after).toBeDefined()
}

const markOf = async ({ jar }: Browser) =>
  (await jar.getCookies(usher.issuer)).find(({ key }) => key === 'usher_device')

/** The page without its reference, which is the id of the request and differs each time. */
const withoutReference = ({ headers, text }: { headers: Headers; text: string }) =>
  text.replace(`<code>${headers.get('x-request-id')}</code>`, '')

test('a throttled sign-in gets the response of a wrong password, also with the right one', async () => {
  const attempt = await openSignIn()
  const wrong = await attempt()
  for (let i = 1; i < FREE; i++) await attempt()
  await prolong(`account ${ada}`)
  const [event] = await auditEventsOf(async () => {
    const throttled = await attempt(username, PASSWORD)
    expect(throttled.status).toBe(wrong.status)
    expect(withoutReference(throttled)).toBe(withoutReference(wrong))
    const own = ['date', 'x-request-id']
    const comparable = ({ headers }: typeof wrong) =>
      [...headers].filter(([name]) => !own.includes(name))
    expect(comparable(throttled)).toEqual(comparable(wrong))
  })
  expect(event).toMatchObject({ event: 'sign_in_throttled', account: ada, reason: 'throttled' })
  expect(textOf(wrong.text)).toContain(words('sign_in.failed'))
})

test('all spellings of a username share one count, also for an unknown name', async () => {
  const spellings = [username, username.toUpperCase(), 'ＡＤＡ'.concat(username.slice(3)), username]
  const attempt = await openSignIn()
  await Promise.all([...spellings, username].map(name => attempt(name)))
  const nobody = `nobody-${accounts}`
  const ofNobody = [nobody, nobody.toUpperCase(), nobody, nobody, nobody]
  await Promise.all(ofNobody.map(name => attempt(name)))
  await prolong(`account ${ada}`)
  await prolong(`name ${nobody}`)
  const facts = await auditEventsOf(async () => {
    await attempt(username.toUpperCase(), PASSWORD)
    await attempt(nobody)
  })
  expect(facts.map(({ event }) => event)).toEqual(['sign_in_throttled', 'sign_in_throttled'])
})

test('guesses do not make the owner wait in a remembered browser', async () => {
  const browser = await signedIn(usher, username)
  const attempt = await openSignIn()
  await exhaust(attempt)
  const owner = new Browser(usher.issuer)
  await owner.jar.setCookie(String(await markOf(browser)), usher.issuer)
  await owner.open('/account')
  await owner.submit(credentials(username))
  expect(owner.heading).toBe('Your account')
  // The attacker's browser stays throttled.
  const [fact] = await auditEventsOf(() => attempt(username, PASSWORD))
  expect(fact).toMatchObject({ event: 'sign_in_throttled' })
})

test('a remembered browser has its own count, and waits when it is used up', async () => {
  const browser = await signedIn(usher, username)
  await open(usher, { prompt: 'login' }, browser)
  for (let i = 0; i < FREE; i++) await browser.submit(credentials(username, WRONG))
  await prolong(`device ${(await markOf(browser))?.value}`)
  await browser.submit(credentials(username))
  expect(browser.heading).toBe('Sign in')
  expect((await signedIn(usher, username)).heading).toBe('Your account')
})

test('a remembered browser is valid for its account, unaltered, until access is ended', async () => {
  const mark = await markOf(await signedIn(usher, username))
  expect(mark).toMatchObject({ httpOnly: true, sameSite: 'lax', path: '/' })
  const value = mark?.value ?? ''
  const { browser } = await open(usher)
  const { url } = browser.page
  const own = await browser.jar.getCookieString(url.href)
  const isThrottled = async (marks: string, name: string) => {
    const form = fieldsOf(browser.page, credentials(name, WRONG))
    const headers = { cookie: `${own}; usher_device=${marks}`, ...somewhere() }
    const [fact] = await auditEventsOf(() => send(browser, url, { form, headers }))
    return fact?.event === 'sign_in_throttled'
  }
  await exhaust(await openSignIn())
  await usher.addAccount({ ...ADA, username: `grace-${accounts}` })
  await exhaust(await openSignIn(), `grace-${accounts}`)
  expect(await isThrottled(value, username)).toBe(false)
  expect(await isThrottled(`x~${value}`, username)).toBe(false)
  // No more marks are read than a browser can have: each costs time, for accounts that exist.
  expect(await isThrottled(`x~y~z~${value}`, username)).toBe(false)
  expect(await isThrottled(`w~x~y~z~${value}`, username)).toBe(true)
  expect(await isThrottled(value, `grace-${accounts}`)).toBe(true)
  expect(
    await isThrottled(
      value.replace(/^./, c => (c === 'x' ? 'y' : 'x')),
      username,
    ),
  ).toBe(true)
  await usher.directory.endAccess(ada)
  expect(await isThrottled(value, username)).toBe(true)
})

test('a throttled network waits for all usernames; other networks and remembered browsers do not', async () => {
  const headers = somewhere()
  const known = await signedIn(usher, username)
  const attempt = await openSignIn(headers)
  const names = Array.from({ length: 20 }, (_, i) => `nobody-${accounts}-${i}`)
  await Promise.all(names.map(name => attempt(name)))
  await prolong(`network ${networkOf(headers['x-forwarded-for'])}`)
  const right = () => attempt(username, PASSWORD)
  expect(await auditEventsOf(right)).toMatchObject([{ event: 'sign_in_throttled', account: ada }])
  await open(usher, { prompt: 'login' }, known)
  const form = fieldsOf(known.page, credentials(username))
  expect((await send(known, known.page.url, { form, headers })).status).toBe(200)
  // These attempts did not count for the account.
  const elsewhere = await openSignIn()
  await exhaust(elsewhere)
})

test('successful sign-ins are not counted, for the account or the network', async () => {
  const headers = somewhere()
  for (let i = 0; i < 25; i++) {
    const attempt = await openSignIn(headers)
    expect((await attempt(username, PASSWORD)).status).toBe(200)
  }
})

test('a failure logs reason, account, address and interaction, and never the typed username', async () => {
  await usher
    .addAccount({ ...ADA, username: `disabled-${accounts}` })
    .then(({ id }) => usher.directory.change(id, account => ({ ...account, enabled: false })))
  await usher.directory.add({ ...ADA, username: `empty-${accounts}` })
  const attempt = await openSignIn({ 'x-forwarded-for': '203.0.113.9' })
  const typed = 'a password in the wrong field'
  const facts = await auditEventsOf(async () => {
    for (const name of [username, `disabled-${accounts}`, `empty-${accounts}`, typed])
      await attempt(name)
  })
  const reasons = ['wrong_password', 'disabled', 'no_password', 'unknown']
  expect(facts.map(({ reason }) => reason)).toEqual(reasons)
  for (const fact of facts) {
    expect(fact).toMatchObject({ event: 'sign_in_failed', client_id: 'web', ip: '203.0.113.9' })
    expect(fact.interaction).toMatch(/^[\w-]{22}$/)
  }
  expect(facts[0]).toMatchObject({ account: ada })
  expect(facts[3]).toMatchObject({ name_hash: expect.stringMatching(/^[\w-]{22}$/) })
  expect(usher.output.join()).not.toContain(typed)
})

// The next two tests are the last ones: their floods use up the log lines of their second.
test('only the free attempts of 200 concurrent guesses from many networks are checked', async () => {
  const attempts = await Promise.all(Array.from({ length: 200 }, () => openSignIn()))
  // The metric is exact, but not every guess has a log line.
  const checked = async () =>
    Number(/{event="sign_in_failed"} (\d+)/.exec(await usher.metrics.text())?.[1])
  const before = await checked()
  const started = performance.now()
  const answers = await Promise.all(attempts.map(attempt => attempt()))
  // Guesses that find the queue full are not checked, either.
  expect(answers.filter(({ status }) => ![400, 503].includes(status))).toEqual([])
  // On a very busy machine the first wait may end before the last response.
  const waited = Math.floor((performance.now() - started) / 5000)
  expect((await checked()) - before).toBeGreaterThan(0)
  expect((await checked()) - before).toBeLessThanOrEqual(FREE + waited)
})

test('sign-ins beyond the queue get 503 with Retry-After, and are not counted', async () => {
  const release = fillQueue('203.0.113.5')
  const attempt = await openSignIn({ 'x-forwarded-for': '203.0.113.6' })
  const { status, headers, text } = await attempt(username, PASSWORD)
  expect(status).toBe(503)
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  expect(textOf(text)).toContain(words('error.unavailable_text'))
  await release()
  expect((await attempt(username, PASSWORD)).status).toBe(200)
})

test('a full queue of one network makes room for another one', async () => {
  const release = fillQueue('203.0.113.5')
  const attempt = await openSignIn()
  const signingIn = attempt(username, PASSWORD)
  await release()
  expect((await signingIn).status).toBe(200)
})
