import { expect } from 'vitest'
import { Browser, type Page } from '../support/browser.ts'
import { ada, test, usher } from '../support/fixtures.ts'
import { redeem } from '../support/journey.ts'
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

test.beforeEach(async () => {
  await usher.directory.endAccess(ada)
  await usher.consents.removeAll(ada)
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
  const form = fieldsOf(browser.page, { decision: 'allow', scope: 'profile' })
  const answer = await send(browser, browser.page.url, { form })
  const [, address = ''] = /content="0;url=([^"]+)"/.exec(await answer.text()) ?? []
  expect((await send(browser, address, { method: 'GET' })).status).toBe(303)
  await expectWayForward(await send(browser, address, { method: 'GET' }))
})

test('an interaction that expires after its last answer leads back to the application', async () => {
  const { browser } = await open(usher)
  const form = fieldsOf(browser.page, credentials())
  const answer = await send(browser, browser.page.url, { form })
  const [, address = ''] = /content="0;url=([^"]+)"/.exec(await answer.text()) ?? []
  await usher.records.of('Interaction').remove(uidOf(browser.page))
  const expired = await send(browser, address.replaceAll('&amp;', '&'), { method: 'GET' })
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

test('an unknown interaction id is answered like an expired interaction', async () => {
  const browser = new Browser(usher.issuer)
  for (const uid of ['x'.repeat(21), 'x', '%00', '%f0%28', '..%2faccount', '__proto__']) {
    for (const method of ['GET', 'POST']) {
      const form = method === 'POST' ? credentials() : undefined
      const response = await send(browser, `/interaction/${uid}`, { method, form })
      expect(response.status, `${method} ${uid}`).toBeGreaterThanOrEqual(400)
      expect(response.status, `${method} ${uid}`).toBeLessThan(500)
    }
  }
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
