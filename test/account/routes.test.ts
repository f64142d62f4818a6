// A table of all routes of the account pages. Each refuses users who are not signed in and forms from
// other sites, and a GET changes nothing.

import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { PLACES } from '../../src/pages/page-data.ts'
import { Browser } from '../support/browser.ts'
import { cibaClient, forgetRequests, pendingRequests, startRequest } from '../support/ciba.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import {
  endOf,
  fieldsOf,
  onlineTokens,
  removalOf,
  send,
  sessionsOf,
  signedIn,
} from '../support/people.ts'
import { CLIENTS, PASSWORD } from '../support/usher.ts'

let password: string | undefined
/** The browser in which Ada makes the change, and another one in which an application has access. */
let browser: Browser
let elsewhere: Browser
const test = usherTest({
  clients: { ...CLIENTS, till: cibaClient('till') },
  usher: { features: { ciba: true } },
})
test.beforeAll(async () => {
  password = (await usher.directory.find(ada))?.password
})
test.beforeEach(async () => {
  await usher.directory.endAccess(ada, account => ({ ...account, password }))
  await usher.consents.removeAll(ada)
  await forgetRequests(usher, ada)
  elsewhere = (await onlineTokens(usher)).browser
  browser = await signedIn(usher)
})

interface Change {
  /** The address of the page, including the record that it changes. */
  address(): Promise<string | URL>
  fields?: Record<string, string>
}

const NEW = 'another battery, another staple'
const PAGES = [
  '/account',
  '/account/applications',
  '/account/sessions',
  '/account/requests',
  '/account/activity',
  '/account/signed-in',
]
const CHANGES: Record<string, Change> = {
  '/account/applications/remove': { address: async () => removalOf() },
  '/account/sessions/end': { address: () => endOf(browser) },
  '/account/requests/answer': {
    async address() {
      const [known] = await pendingRequests(browser)
      if (!known) await startRequest(usher)
      return known ?? (await pendingRequests(browser)).at(0) ?? ''
    },
    fields: { decision: 'allow' },
  },
  '/account/password': {
    address: async () => '/account/password',
    fields: { current: PASSWORD, password: NEW, repeat: NEW },
  },
}

/** Everything that any of these routes could change. */
async function state() {
  const [account, sessions, grants, consents] = await Promise.all([
    usher.directory.find(ada),
    sessionsOf(usher, ada),
    usher.records.of<{ jti: string }>('Grant').list('grants of account', ada),
    usher.consents.list(ada),
  ])
  return {
    account,
    sessions: sessions.map(({ uid }) => uid).toSorted(),
    grants: grants.map(({ jti }) => jti).toSorted(),
    consents: consents.map(({ client_id }) => client_id),
  }
}

test('the tables contain every route of the account pages', () => {
  const app = ['app.ts', 'routes.ts', 'features/ciba/feature.ts']
    .map(path => readFileSync(`${import.meta.dirname}/../../src/${path}`, 'utf8'))
    .join('')
  const routes = [
    ...app.matchAll(/\.(get|post|put|patch|delete|all)\((?:PLACES\.(\w+)|'([^']*)')/g),
  ]
    .map(([, method = '', place, path]): [string, string] => [
      method,
      path ?? PLACES[place as keyof typeof PLACES],
    ])
    .filter(([, path]) => path === '/account' || path.startsWith('/account/'))
  const expected = [
    ...[...PAGES, ...Object.keys(CHANGES)].map(path => ['get', path]),
    ...Object.keys(CHANGES).map(path => ['post', path]),
  ]
  expect(routes.toSorted()).toEqual(expected.toSorted())
})

test.each(Object.entries(CHANGES))(
  '%s makes its change when its form is submitted',
  async (...row) => {
    const [, { address, fields }] = row
    const url = await address()
    const before = await state()
    await browser.open(url)
    expect(await state()).toEqual(before)
    const { status } = await send(browser, url, { form: fieldsOf(browser.page, fields) })
    expect(status).toBe(200)
    expect(await state()).not.toEqual(before)
  },
)

test.each(Object.entries(CHANGES))(
  '%s refuses a form without the CSRF token of its page',
  async (...row) => {
    const [path, { address, fields }] = row
    const url = await address()
    const other =
      path === '/account/password' ? '/account/sessions/end?session=others' : '/account/password'
    const tokenAt = async (tab: Browser, place: string | URL) =>
      fieldsOf(await tab.open(place)).csrf ?? ''
    const old = await tokenAt(browser, url)
    await browser.open('/api/oauth/logout')
    await browser.submit({ logout: 'yes' })
    browser = await signedIn(usher)
    const wrong: Record<string, string> = {
      none: '',
      'one made up': 'x',
      'that of another page': await tokenAt(browser, other),
      'that of a session that has ended': old,
    }
    const place = path === '/account/sessions/end' ? await endOf(browser) : url
    const before = await state()
    for (const [what, csrf] of Object.entries(wrong)) {
      const answer = await send(browser, place, { form: { ...fields, csrf } })
      expect(answer.status, what).toBe(403)
    }
    const csrf = await tokenAt(browser, place)
    const twice = await send(browser, `${place}`, {
      headers: { 'content-type': 'text/plain' },
      form: { ...fields, csrf },
    })
    expect(twice.status).toBe(415)
    expect(await state()).toEqual(before)
  },
)

test.each(Object.entries(CHANGES))(
  '%s refuses a form that another site submits',
  async (...row) => {
    const [, { address, fields }] = row
    const url = await address()
    await browser.open(url)
    const form = fieldsOf(browser.page, fields)
    const another = await signedIn(usher)
    const before = await state()
    for (const [name, value] of [
      ['Sec-Fetch-Site', 'cross-site'],
      ['Sec-Fetch-Site', 'same-site'],
      ['Sec-Fetch-Site', 'none'],
      ['Origin', 'https://evil.example'],
      ['Origin', 'null'],
    ] as const) {
      const answer = await send(browser, url, { form, headers: { [name]: value } })
      expect(answer.status, `${name}: ${value}`).toBe(403)
    }
    expect((await send(another, url, { form })).status).toBe(403)
    expect(await state()).toEqual(before)
  },
)

test.each(Object.entries(CHANGES))('a GET of %s changes nothing', async (...row) => {
  const [, { address, fields }] = row
  const url = new URL(await address(), usher.issuer)
  await browser.open(url)
  const before = await state()
  for (const [name, value] of Object.entries(fieldsOf(browser.page, fields))) {
    url.searchParams.append(name, value)
  }
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'PATCH', 'DELETE']) {
    const { status } = await send(browser, url, { method })
    expect(status, method).toBe(method === 'GET' || method === 'HEAD' ? 200 : 405)
  }
  expect(await state()).toEqual(before)
})

test('every page and every form requires a sign-in', async () => {
  const nobody = new Browser(usher.issuer)
  for (const path of [...PAGES.slice(0, 5), ...Object.keys(CHANGES)]) {
    const answer = await send(nobody, path, { method: 'GET' })
    expect(answer.status, path).toBe(302)
    expect(answer.headers.get('location'), path).toMatch(/^\/api\/oauth\/authorize\?/)
  }
  const before = await state()
  for (const { address, fields } of Object.values(CHANGES)) {
    const url = await address()
    await browser.open(url)
    const answer = await send(nobody, url, { form: fieldsOf(browser.page, fields) })
    expect(await answer.text()).toContain('content="0;url=/api/oauth/authorize?')
  }
  expect(await state()).toEqual(before)
})

test('the pages cannot be cached, framed or read by another origin', async () => {
  const headers = { Origin: 'https://app.example.org' }
  const addresses = Object.values(CHANGES).map(({ address }) => address())
  for (const path of [...PAGES.slice(0, 5), ...(await Promise.all(addresses))]) {
    const answer = await send(browser, path, { method: 'GET', headers })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
    expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    const names = [...answer.headers.keys()]
    expect(names.filter(name => name.startsWith('access-control-'))).toEqual([])
    expect(answer.headers.get('cross-origin-resource-policy')).toBe('same-origin')
  }
  expect(elsewhere.page.url.origin).toBe('https://app.example.org')
})
