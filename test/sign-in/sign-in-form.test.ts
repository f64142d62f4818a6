// The forms of a sign-in: forged ones, forms of other browsers, and forms that are sent twice or too late.

import { expect } from 'vitest'
import { Browser, type Page } from '../support/browser.ts'
import { ada, endAccessOf, grace, usher, usherTest } from '../support/fixtures.ts'
import { redeem } from '../support/journey.ts'
import {
  afterSignIn,
  credentials,
  fieldsOf,
  newTab,
  open,
  send,
  sessionsOf,
  signedIn,
  submitOnly,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(() => endAccessOf(ada, grace))

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

const uidOf = (page: Page) => page.url.pathname.split('/').at(-1) ?? ''

/** Expects an error page with an explanation and a link to continue. */
async function expectWayForward(response: Response) {
  const text = await response.text()
  expect(response.status).toBe(400)
  expect(response.headers.get('content-type')).toMatch(/^text\/html/)
  expect(textOf(text)).toContain(words('error.interaction_text'))
  expect(text).toMatch(/<a [^>]*href="[^"]+\/account">/)
}

test('two tabs of one browser both sign in, one after the other', async () => {
  const { browser: first, request } = await open(usher)
  const second = await open(usher, { client_id: 'post' }, newTab(first))
  await first.submit(credentials())
  await first.submit({ decision: 'allow' })
  await second.browser.submit(credentials())
  await second.browser.submit({ decision: 'allow' })
  for (const [browser, asked] of [
    [first, request],
    [second.browser, second.request],
  ] as const) {
    const code = browser.page.params.get('code') ?? ''
    expect(browser.page.params.get('state')).toBe(asked.state)
    expect((await redeem(usher, code, asked)).status).toBe(200)
  }
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('the Back button after a sign-in leads to the application', async () => {
  const { browser } = await open(usher)
  const signIn = browser.page
  await browser.submit(credentials())
  const consent = browser.page
  await browser.submit({ decision: 'allow' })
  expect(browser.page.params.get('code')).toBeTruthy()
  for (const page of [signIn, consent]) {
    const answer = await send(browser, page.url, { method: 'GET' })
    expect(answer.status).toBe(303)
    expect(answer.headers.get('location')).toBe('https://app.example.org/')
    const form = fieldsOf(page, page === signIn ? credentials() : { decision: 'allow' })
    await expectWayForward(await send(browser, page.url, { form }))
  }
})

test('a finished sign-in page names its client only if the config folder has it', async () => {
  const browser = await signedIn(usher)
  for (const client_id of ['nobody', '__proto__', 'https://evil.example/']) {
    const path = `/interaction/${'x'.repeat(21)}?${new URLSearchParams({ client_id })}`
    const answer = await send(browser, path, { method: 'GET' })
    expect(answer.headers.get('location')).toBe('/account')
  }
})

test('a finished sign-in page has expired for a browser without a session', async () => {
  const { browser } = await open(usher)
  const page = browser.page
  await browser.submit(credentials())
  await usher.directory.endAccess(ada)
  await expectWayForward(await send(new Browser(usher.issuer), page.url, { method: 'GET' }))
})

test('the URL that continues an authorization works once, and then shows a page that explains it', async () => {
  const { browser } = await open(usher)
  await browser.submit(credentials())
  const address = await submitOnly(browser, { decision: 'allow', scope: 'profile' })
  expect((await send(browser, address, { method: 'GET' })).status).toBe(303)
  await expectWayForward(await send(browser, address, { method: 'GET' }))
})

test('an interaction that expires after its last answer leads back to the application', async () => {
  const { browser } = await open(usher)
  const address = await submitOnly(browser, credentials())
  await usher.records.of('Interaction').remove(uidOf(browser.page))
  const expired = await send(browser, address, { method: 'GET' })
  expect(expired.status).toBe(400)
  expect(await expired.text()).toContain('href="https://app.example.org/"')
})

test('an interaction expires', async () => {
  const { browser } = await open(usher)
  await usher.records
    .of<{ exp: number }>('Interaction')
    .change(uidOf(browser.page), ({ value }) =>
      value ? { ...value, exp: Math.floor(Date.now() / 1000) - 60 } : undefined,
    )
  await expectWayForward(await send(browser, browser.page.url, { method: 'GET' }))
  const form = fieldsOf(browser.page, credentials())
  await expectWayForward(await send(browser, browser.page.url, { form }))
  expect(await sessionsOf(usher, ada)).toEqual([])
})

test('a sign-in form that is submitted twice creates one session', async () => {
  const { browser } = await open(usher)
  const form = fieldsOf(browser.page, credentials())
  const twice = await Promise.all([1, 2].map(() => send(browser, browser.page.url, { form })))
  expect(twice.map(({ status }) => status)).toEqual([200, 200])
  const [one, two] = await Promise.all(twice.map(answer => answer.text()))
  expect(one).toBe(two)
  await browser.submit(credentials())
  expect(browser.heading).toBe('Allow access')
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('the first answer to a sign-in page decides; another is refused', async () => {
  const { browser } = await open(usher)
  const form = fieldsOf(browser.page, credentials())
  expect((await send(browser, browser.page.url, { form })).status).toBe(200)
  const cancelled = { ...form, decision: 'cancel' }
  await expectWayForward(await send(browser, browser.page.url, { form: cancelled }))
  await browser.submit(credentials())
  expect(browser.heading).toBe('Allow access')
})

test.for([
  ['the sign-in page', 1],
  ['the sign-in page', 14],
  ['the consent page', 5],
] as const)(
  'a form of %s that is sent %i s too late leads back to the application',
  async ([page, late]) => {
    const { browser } = await open(usher)
    if (page === 'the consent page') await browser.submit(credentials())
    const exp = Math.floor(Date.now() / 1000) - late
    const expire = ({ value }: { value?: object }) => value && { ...value, exp }
    await usher.records.of('Interaction').change(uidOf(browser.page), expire, { ttl: 60 })
    const before = await sessionsOf(usher, ada)
    await browser.submit(page === 'the consent page' ? { decision: 'allow' } : credentials())
    expect(browser.page.status).toBe(400)
    expect(browser.heading).toBe(words('error.interaction'))
    const back = browser.page.html.querySelector('main a.button')?.getAttribute('href')
    expect(back).toBe('https://app.example.org/')
    // Nothing was done that the user does not see.
    expect(await sessionsOf(usher, ada)).toEqual(before)
  },
)

let users = 0
async function userWith(password: string): Promise<string> {
  const username = `ada-${++users}`
  await usher.addAccount({ ...ADA, username }, password)
  return username
}

async function outcome(username: string, password: string): Promise<string> {
  return (await afterSignIn(usher, username, password)).heading
}

const LONG = 'a'.repeat(100)

test.for([
  ['of what means something in HTML and forms', `<a href="?x=1&y=+%20">'"\\;`],
  ['of control characters', 'tab\tand\u0007bell and \u0000nul'],
])('a password %s signs in', async ([, password = '']) => {
  const username = await userWith(password)
  expect(await outcome(username, password)).toBe('Your account')
})

test('no byte of a password is cut off', async () => {
  const username = await userWith(`${LONG}x`)
  const spaced = await userWith('  two spaces, two spaces  ')
  const withNul = await userWith('before the nul\u0000after it')
  const outcomes = await Promise.all([
    outcome(username, LONG),
    outcome(username, `${LONG}y`),
    outcome(username, `${LONG}xx`),
    outcome(spaced, 'two spaces, two spaces'),
    outcome(withNul, 'before the nul'),
  ])
  expect(outcomes).toEqual(Array(5).fill('Sign in'))
})

test('a hash with weaker parameters is replaced when its owner signs in', async () => {
  const username = await userWith('a password of its time')
  const account = await usher.directory.findByUsername(username)
  const { hash } = await import('@node-rs/argon2')
  const weak = await hash('a password of its time', { memoryCost: 8192, timeCost: 1 })
  await usher.directory.change(account?.id ?? '', found => ({ ...found, password: weak }))
  expect(await outcome(username, 'not the password')).toBe('Sign in')
  expect((await usher.directory.findByUsername(username))?.password).toBe(weak)
  expect(await outcome(username, 'a password of its time')).toBe('Your account')
  const rehashed = (await usher.directory.findByUsername(username))?.password
  const [, memory, time] = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=1\$/.exec(rehashed ?? '') ?? []
  expect(Number(memory)).toBeGreaterThanOrEqual(19_456)
  expect(Number(time)).toBeGreaterThanOrEqual(2)
  expect(await outcome(username, 'a password of its time')).toBe('Your account')
})
