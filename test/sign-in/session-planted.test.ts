// Cookies that a sibling domain has planted. It can set every cookie without the `__Host-` prefix, with
// valid values from its own sign-in.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { moveClock, usher, usherTest } from '../support/fixtures.ts'
import {
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  open,
  send,
  signedIn,
  submitOnly,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })

/** The cookies that have the `__Host-` prefix under https. */
const OF_HOST = /^usher_(session|browser|device)(\.sig)?$/

/** Signs Grace in, up to the URL that her browser would follow next. */
async function signInOfGrace() {
  const { browser } = await open(usher, { client_id: 'first' })
  const { url } = browser.page
  const next = await submitOnly(browser, credentials('grace'))
  expect(next).toContain('/api/oauth/authorize/')
  return { browser, page: url, next: new URL(next, usher.issuer) }
}

/** Copies the cookies that a sibling domain can set from one browser to another. */
async function plant({ jar: from }: Browser, { jar: to, issuer }: Browser) {
  const { cookies } = await from.serialize()
  const planted = cookies.filter(({ key }) => !OF_HOST.test(String(key)))
  for (const { key, value, path } of planted)
    await to.setCookie(`${key}=${value}; Path=${path}`, issuer)
  return planted.length
}

test.each([
  ['a new browser', 'cookie', async () => new Browser(usher.issuer)],
  [
    'a browser with a sign-in in progress',
    'another_browser',
    async () => (await open(usher)).browser,
  ],
  ['a signed-in browser', '', () => signedIn(usher)],
])('a planted sign-in of another user is not accepted: %s', async (_, title, start) => {
  const grace = await signInOfGrace()
  const victim = await start()
  const before = await isSignedIn(victim)
  expect(await plant(grace.browser, victim)).toBeGreaterThan(3)

  await victim.open(grace.page)
  if (before) expect(victim.page.url.pathname).not.toMatch(/^\/interaction/)
  else {
    expect(victim.page.status).toBe(400)
    expect(victim.heading).toBe(words(`error.${title}`))
  }
  await victim.open(grace.next)
  expect(victim.page.status).toBe(400)
  expect(victim.heading).toBe('This page has expired')
  expect(await isSignedIn(victim)).toBe(before)
  expect((await victim.open('/account')).text).not.toContain('Grace Hopper')

  // Grace can still use her own sign-in.
  await grace.browser.open(grace.next)
  expect(grace.browser.page.params.get('code')).toBeTruthy()
})

test.each([
  [9, 'cookie'],
  [10, 'another_browser'],
])('a page that is opened %i s after it began, without its cookie: %s', async (seconds, title) => {
  moveClock(0)
  const { browser } = await open(usher, { client_id: 'first' })
  moveClock(seconds)
  const other = new Browser(usher.issuer)
  await other.open(browser.page.url)
  expect(other.heading).toBe(words(`error.${title}`))
})

test('a planted sign-in page does not accept a password, either', async () => {
  const { browser: attacker } = await open(usher, { client_id: 'first' })
  const victim = new Browser(usher.issuer)
  await open(usher, {}, victim)
  await plant(attacker, victim)
  const form = fieldsOf(attacker.page, credentials())
  const answer = await send(victim, attacker.page.url, { form })
  expect(answer.status).toBe(400)
  expect(await isSignedIn(victim)).toBe(false)
})

test('the cookie of a remembered browser gives no access, does not change, and needs its signature', async () => {
  const { browser } = await open(usher)
  const markOf = async () => {
    const cookies = await browser.jar.getCookies(usher.issuer)
    return cookies.find(({ key }) => key === 'usher_browser')?.value
  }
  const mark = await markOf()
  expect(mark).toMatch(/^[\w-]{32}$/)
  const first = browser.page.url
  await open(usher, { client_id: 'post' }, browser)
  expect(await markOf()).toBe(mark)
  expect((await browser.open(first)).status).toBe(200)
  for (const forged of ['usher_browser.sig=x', 'usher_browser.sig=x; Max-Age=0']) {
    const forger = copyOf(browser)
    await forger.jar.setCookie(`${forged}; Path=/`, usher.issuer)
    expect((await forger.open(first)).status).toBe(400)
  }
})

/** Each returns a browser at a page that it cannot answer, and the key of the text. */
const UNANSWERABLE: Record<string, () => Promise<[title: string, Browser]>> = {
  async 'cookies are blocked'() {
    const { browser } = await open(usher)
    await browser.jar.removeAllCookies()
    return ['cookie', browser]
  },
  async 'another browser without cookies opens it later'() {
    const { browser } = await open(usher)
    const uid = browser.page.url.pathname.split('/').at(-1) ?? ''
    await usher.records.of<{ iat: number }>('Interaction').change(uid, ({ value }) => {
      return value && { ...value, iat: value.iat - 60 }
    })
    await browser.jar.removeAllCookies()
    return ['another_browser', browser]
  },
  async 'another browser with cookies opens it'() {
    const other = (await open(usher)).browser
    other.pages.push((await open(usher)).browser.page)
    return ['another_browser', other]
  },
  async 'it was finished'() {
    const { browser } = await open(usher)
    const { page } = browser
    await browser.submit({ decision: 'cancel' })
    browser.pages.push(page)
    return ['interaction', browser]
  },
}
test.each(Object.entries(UNANSWERABLE))('the error page says why, when %s', async (_, visit) => {
  const [title, browser] = await visit()
  const { url } = browser.page
  const form = fieldsOf(browser.page, credentials())
  await browser.open(url)
  expect([browser.page.status, browser.heading]).toEqual([400, words(`error.${title}`)])
  expect(browser.page.text).toContain(words(`error.${title}_text`))
  const [first] = browser.page.html.querySelectorAll('main .button')
  expect(first?.getAttribute('href')).toBe('https://app.example.org/')
  const answer = await send(browser, url, { form })
  expect([answer.status, await answer.text()]).toEqual([
    400,
    expect.stringContaining(words(`error.${title}`)),
  ])
})
