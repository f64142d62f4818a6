// Attacks on the device flow: guessed codes, forms of other sites, and codes of another user.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { beginDevice, enterUserCode, pollDevice, TV } from '../support/device.ts'
import { ada, alan, grace, usher, usherTest } from '../support/fixtures.ts'
import {
  copyOf,
  credentials,
  fieldsOf,
  newTab,
  send as sendForm,
  signedIn,
  signOut,
  words,
} from '../support/people.ts'
import { ADA, ALAN, CLIENTS, GRACE } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const PENDING = { error: 'authorization_pending' }

const test = usherTest({
  clients: { ...CLIENTS, tv: TV },
  usher: { proxy: ['127.0.0.1'], features: { device_flow: true } },
  accounts: [ADA, GRACE, ALAN],
})
// Resets the counters of wrong codes.
test.beforeEach(async () => {
  const counts = [
    ada,
    grace,
    alan,
    ...['127.0.0.0/24', '198.51.0.0/24'].map(net => `network ${net}`),
  ]
  await Promise.all(
    counts.map(name => usher.records.of('Attempts').remove(`device code ${name}`, 1)),
  )
})

const begin = () => beginDevice(usher)
const poll = (device_code: string) => pollDevice(usher, device_code)

test('a code that one user has entered cannot be allowed or denied by another', async () => {
  const { device_code, user_code } = await begin()
  const ada = await signedIn(usher)
  const other = await signedIn(usher, 'grace')
  await enterUserCode(ada, user_code)
  expect((await enterUserCode(other, user_code)).text).toContain(words('device.used'))
  const abort = fieldsOf(await other.open('/device'), { user_code, abort: 'yes' })
  await sendForm(other, '/device', { form: abort })
  expect(await poll(device_code)).toMatchObject(PENDING)
  // The URL of the consent page does not help the other user, either.
  expect((await other.open(ada.page.url)).url.pathname).not.toBe(ada.page.url.pathname)
  await ada.submit({ decision: 'allow' })
  expect(ada.heading).toBe(words('device.done_title'))
  expect(await poll(device_code)).toHaveProperty('access_token')
})

test('only the session that entered a code can allow it, and only once', async () => {
  const { device_code, user_code } = await begin()
  const browser = await signedIn(usher)
  await enterUserCode(browser, user_code)
  const consent = browser.page
  const form = fieldsOf(consent, { decision: 'allow' })
  const elsewhere = await signedIn(usher)
  expect((await sendForm(elsewhere, consent.url, { form })).status).toBe(400)
  // The same session can enter the code again, for example after its tab was closed.
  await enterUserCode(newTab(browser), user_code)
  expect(await poll(device_code)).toMatchObject(PENDING)
  const answer = await sendForm(browser, consent.url, { form })
  const next = /content="0;url=([^"]*)"/.exec(await answer.text())?.[1] ?? ''
  const pages = await Promise.all([1, 2, 3].map(() => newTab(browser).open(next)))
  expect(pages.filter(({ status }) => status === 200)).toHaveLength(1)
  expect(pages.filter(({ status }) => status >= 500)).toEqual([])
  expect(await poll(device_code)).toHaveProperty('access_token')
})

test('a consent page that another user opened allows nothing', async () => {
  const { device_code, user_code } = await begin()
  const browser = await signedIn(usher)
  await enterUserCode(browser, user_code)
  const consent = browser.page
  const before = copyOf(browser)
  await signOut(browser)
  await browser.open('/account')
  await browser.submit(credentials('grace'))
  for (const tab of [browser, before]) {
    const form = fieldsOf(consent, { decision: 'allow' })
    const answer = await sendForm(tab, consent.url, { form })
    const next = /content="0;url=([^"]*)"/.exec(await answer.text())?.[1]
    if (next) await tab.open(next)
  }
  expect(await poll(device_code)).toMatchObject(PENDING)
  expect(await usher.consents.find(grace, 'tv')).toBeUndefined()
})

test('forms of other sites are refused, and no site can frame the page', async () => {
  const { device_code, user_code } = await begin()
  const browser = await signedIn(usher)
  const page = await browser.open('/device')
  expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  expect(page.headers.get('x-frame-options')).toBe('DENY')
  for (const xsrf of [undefined, '', 'guessed']) {
    const form = { user_code, confirm: 'yes', ...(xsrf !== undefined && { xsrf }) }
    const answer = await sendForm(browser, '/device', { form })
    expect(answer.status).toBe(400)
    expect(await answer.text()).toContain(words('device.form'))
  }
  await enterUserCode(browser, user_code)
  const form = fieldsOf(browser.page, { decision: 'allow' })
  const headers = { 'sec-fetch-site': 'cross-site' }
  const crossSite = await sendForm(browser, browser.page.url, { form, headers })
  expect(crossSite.status).toBe(403)
  const { csrf: _, ...without } = form
  expect((await sendForm(browser, browser.page.url, { form: without })).status).toBe(403)
  expect(await poll(device_code)).toMatchObject(PENDING)
})

test('after five wrong codes a user is throttled in every network; other users of the network are not', async () => {
  const { user_code } = await begin()
  const headers = (ip: string) => ({ 'x-forwarded-for': ip, 'x-forwarded-proto': 'http' })
  const from = async (userBrowser: Browser, ip: string, code: string) => {
    const cookie = async () => userBrowser.jar.getCookieString(usher.issuer)
    const at = { ...headers(ip), accept: 'text/html' }
    const page = await send(usher, '/device', { headers: { ...at, cookie: await cookie() } })
    const xsrf = /name="xsrf" value="(\w+)"/.exec(page.text)?.[1] ?? ''
    const body = { xsrf, confirm: 'yes', user_code: code }
    return send(usher, '/device', { body, headers: { ...at, cookie: await cookie() } })
  }
  const browser = await signedIn(usher)
  const tries = []
  for (let i = 0; i < 5; i++) tries.push(await from(browser, '198.51.0.1', `BBBB-BBB${'BCDFG'[i]}`))
  tries.push(await from(browser, '198.51.5.1', 'BBBB-BBBH'))
  expect(tries.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400, 429])
  expect(tries[5]?.text).toContain(words('device.throttled'))
  const events = usher.auditEvents()
  expect(events.slice(-6).map(({ event }) => event)).toEqual([
    ...Array.from({ length: 5 }, () => 'device_code_failed'),
    'device_code_throttled',
  ])
  expect(events.at(-1)).toMatchObject({ account: ada, ip: '198.51.5.1' })
  expect((await from(browser, '203.0.113.1', user_code)).status).toBe(429)
  const other = await signedIn(usher, 'grace')
  for (const ip of ['198.51.0.200', '198.51.0.200', '198.51.0.201']) {
    expect((await from(other, ip, 'BBBB-BBBB')).status).toBe(400)
  }
  expect((await from(other, '198.51.0.202', user_code)).status).toBe(303)
})

test('after many wrong codes a network is throttled for every user', async () => {
  const { user_code } = await begin()
  const grace = await signedIn(usher, 'grace')
  const many = { count: 99, at: Date.now() }
  const network = 'device code network 127.0.0.0/24'
  await usher.records.of('Attempts').change(network, () => many, { ttl: 60 })
  await enterUserCode(grace, 'BBBB-BBBB')
  expect(grace.page.status).toBe(400)
  expect((await enterUserCode(grace, user_code)).status).toBe(429)
})

test('only five of many concurrent guesses are checked', async () => {
  const alan = await signedIn(usher, 'alan')
  const page = await alan.open('/device')
  const form = { ...fieldsOf(page), user_code: 'ZZZZ-ZZZZ' }
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => sendForm(alan, '/device', { form })),
  )
  const looked = answers.filter(({ status }) => status !== 429)
  expect(looked.length).toBeLessThanOrEqual(5)
})

test('no anonymous request is a 5xx', async () => {
  const anonymous = new Browser(usher.issuer)
  const form = { user_code: 'BBBB-BBBB', xsrf: 'x', confirm: 'yes' }
  expect((await sendForm(anonymous, '/device', { form })).status).toBe(200)
  const uid = 'abcdefghijklmnopqrstu'
  const user = await signedIn(usher, 'alan')
  for (const path of [
    `/device/${uid}`,
    '/device?user_code=%00',
    '/device?user_code=a&user_code=b',
  ]) {
    for (const browser of [anonymous, user]) {
      expect((await browser.open(path)).status).toBeLessThan(500)
    }
  }
  const odd: Record<string, string>[] = [
    { client_id: 'tv', scope: '"' },
    { client_id: 'tv', max_age: '-1' },
    { client_id: 'tv', nonce: 'x'.repeat(600) },
    { client_id: 'tv', request: 'x' },
    { client_id: 'tv', registration: '{}' },
    { client_id: 'nobody' },
    {},
  ]
  for (const body of odd) {
    const { status, json } = await send(usher, '/api/oauth/device_authorization', { body })
    expect([400, 401], JSON.stringify(body)).toContain(status)
    expect(json.error).toEqual(expect.any(String))
  }
})
