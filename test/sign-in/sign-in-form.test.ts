import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, grace, usher, usherTest } from '../support/fixtures.ts'
import {
  credentials,
  fieldsOf,
  newTab,
  open,
  send,
  sessionsOf,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(() =>
  Promise.all([usher.directory.endAccess(ada), usher.directory.endAccess(grace)]),
)

async function expectSignedOut() {
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await sessionsOf(usher, grace)).toEqual([])
}

/** Expects that the page still works as before. */
async function expectUnchanged(browser: Browser) {
  await expectSignedOut()
  await browser.submit(credentials())
  expect(browser.heading).toBe('Allow access')
}

test('another browser than the one of the interaction cannot be signed in', async () => {
  const { browser: attacker } = await open(usher)
  const form = fieldsOf(attacker.page, credentials('grace'))
  const { browser: victim } = await open(usher)
  const stranger = new Browser(usher.issuer)
  for (const [browser, key] of [
    [victim, 'another_browser_text'],
    [stranger, 'cookie_text'],
  ] as const) {
    const response = await send(browser, attacker.page.url, { form })
    expect(response.status).toBe(400)
    expect(textOf(await response.text())).toContain(words(`error.${key}`))
  }
  await expectSignedOut()
})

test('the cookies of one interaction are refused for another', async () => {
  const { browser: attacker } = await open(usher)
  const { browser: victim } = await open(usher)
  const own = await victim.jar.getCookieString(victim.page.url.href)
  expect(own).toContain('usher_browser=')
  const form = fieldsOf(attacker.page, credentials('grace'))
  const posted = await send(victim, attacker.page.url, { form, headers: { cookie: own } })
  expect(posted.status).toBe(400)
  const shown = await send(victim, attacker.page.url, { method: 'GET', headers: { cookie: own } })
  expect(shown.status).toBe(400)
  await expectUnchanged(victim)
})

test('a browser cookie that was modified, or is not signed, is ignored', async () => {
  const { browser } = await open(usher)
  const form = fieldsOf(browser.page, credentials())
  const cookies = await browser.jar.getCookieString(browser.page.url.href)
  const unsigned = cookies
    .split('; ')
    .filter(cookie => !cookie.includes('.sig='))
    .join('; ')
  const altered = cookies.replace(/(usher_browser\.sig=)./, '$1~')
  for (const cookie of [unsigned, altered, '']) {
    const response = await send(browser, browser.page.url, { form, headers: { cookie } })
    expect(response.status).toBe(400)
  }
  await expectUnchanged(browser)
})

test('a form without its CSRF token, or with another, is refused and changes nothing', async () => {
  const { browser } = await open(usher)
  const { browser: other } = await open(usher)
  const { csrf = '' } = fieldsOf(other.page)
  expect(csrf).not.toBe('')
  const wrong = ['', 'x', csrf, csrf.slice(0, -1), `${csrf}x`, `${fieldsOf(browser.page).csrf} `]
  for (const token of wrong) {
    const form = { ...credentials(), csrf: token }
    const response = await send(browser, browser.page.url, { form })
    expect(response.status, token).toBe(403)
    expect(textOf(await response.text())).toContain(words('error.form_text'))
  }
  const without = await send(browser, browser.page.url, { form: credentials() })
  expect(without.status).toBe(403)
  await expectUnchanged(browser)
})

test('a form from another site is refused, even with the right token', async () => {
  const { browser } = await open(usher)
  const form = fieldsOf(browser.page, credentials())
  const elsewhere: Record<string, string>[] = [
    { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' },
    { 'Sec-Fetch-Site': 'same-site', Origin: 'https://app.example.org' },
    { 'Sec-Fetch-Site': 'cross-site', Origin: usher.issuer },
    { Origin: 'https://evil.example' },
    { Origin: 'null' },
    { Origin: `${usher.issuer}.evil.example` },
    { Origin: usher.issuer.replace('http:', 'https:') },
  ]
  for (const headers of elsewhere) {
    const response = await send(browser, browser.page.url, { form, headers })
    expect(response.status, JSON.stringify(headers)).toBe(403)
  }
  await expectUnchanged(browser)
})

test('a body that is not a form is refused', async () => {
  const { browser } = await open(usher)
  const body = JSON.stringify(fieldsOf(browser.page, credentials()))
  for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x']) {
    const response = await fetch(browser.page.url, {
      method: 'POST',
      body,
      headers: {
        'content-type': type,
        cookie: await browser.jar.getCookieString(browser.page.url.href),
      },
    })
    expect(response.status, type).toBe(415)
  }
  await expectUnchanged(browser)
})

test('unknown fields of the form are ignored', async () => {
  const { browser } = await open(usher)
  await browser.submit({
    ...credentials(),
    accountId: grace,
    client_id: 'first',
    redirect_uri: 'https://evil.example/',
    login: JSON.stringify({ accountId: grace }),
    prompt: 'consent',
  })
  expect(browser.heading).toBe('Allow access')
  expect(browser.page.text).toContain('Web application')
  expect(await sessionsOf(usher, grace)).toEqual([])
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('the log says why an interaction cannot be answered, also where the user is led on', async () => {
  const user = await signedIn(usher)
  const { browser } = await open(usher, { prompt: 'consent' }, newTab(user))
  const { pathname } = browser.page.url
  const reasonAt = async (path: string, asked = browser) => {
    await send(asked, path, { method: 'GET' })
    return JSON.parse(usher.output.at(-1) ?? '{}').detail
  }
  expect(await reasonAt(pathname)).toBeUndefined()
  expect(await reasonAt(`/interaction/${'x'.repeat(21)}`)).toContain('finished or expired')
  expect(await reasonAt(pathname, new Browser(usher.issuer))).toContain('another cookie')
  expect(await reasonAt(pathname, await signedIn(usher))).toContain('another cookie')
  await Promise.all((await sessionsOf(usher, ada)).map(({ uid }) => usher.sessions.end(uid)))
  expect(await reasonAt(pathname)).toContain('its session has ended')
})
