// The overview of an account, and its connected applications: what the pages show, and what a removal ends.

import { expect } from 'vitest'
import { createLanguages } from '../../src/pages/words.ts'
import { Browser } from '../support/browser.ts'
import { ada, endAccessOf, grace, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorize, post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  credentials,
  fieldsOf,
  grantsOf,
  newTab,
  onlineTokens,
  open,
  removalOf,
  send,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, CLIENTS, GRACE } from '../support/usher.ts'

const initiate_login_uri = 'https://desk.example.org/login?from=here'
const desk = { ...CLIENTS.post, client_id: 'desk', client_name: 'desk', initiate_login_uri }
const allow = { groups: ['finance'] }
const club = { ...CLIENTS.spa, client_id: 'club', client_uri: 'https://club.example.org/', allow }
const FINANCE = { ...ADA, attributes: { groups: ['finance'] } }
const test = usherTest({ accounts: [FINANCE, GRACE], clients: { ...CLIENTS, desk, club } })
test.beforeEach(() => endAccessOf(ada, grace))

/** Moves a consent of Ada into the past, by these seconds. */
async function ageConsent(client_id: string, { since = 0, lastUsed = 0 }) {
  await usher.records
    .of<{ since: number; lastUsed: number }>('Consent', { backup: true })
    .change(
      `${ada} ${client_id}`,
      ({ value }) =>
        value && { ...value, since: value.since - since, lastUsed: value.lastUsed - lastUsed },
      { indexes: [['consents of account', ada]] },
    )
}

const APPLICATIONS = '/account/applications'

test('/account shows the profile of the user', async () => {
  const { page } = await signedIn(usher)
  const facts = page.html.querySelectorAll('.profile strong, .profile p').map(({ text }) => text)
  expect(facts.slice(0, 3)).toEqual([
    'Ada Lovelace',
    `${words('account.username')}: ada`,
    `${words('account.email')}: ada@example.org`,
  ])
  const graces = await signedIn(usher, 'grace')
  expect(textOf(graces.page.text)).toContain(`grace@example.org (${words('account.unverified')})`)
})

test('/account has the applications that the user has connected, or may use by `allow`', async () => {
  const tilesOf = async (username?: string) => {
    const { page } = await signedIn(usher, username)
    return page.html.querySelectorAll('.tiles a')
  }
  const addresses = async (username?: string) =>
    (await tilesOf(username)).map(({ attributes }) => attributes.href)
  // `web` and `desk` are for everyone: who has not used them does not see them.
  expect(await addresses()).toEqual([club.client_uri])
  expect(await addresses('grace')).toEqual([])
  await authorize(usher, { client_id: 'desk', redirect_uri: 'https://post.example.org/callback' })
  await authorize(usher)
  const begin = `${initiate_login_uri}&${new URLSearchParams({ iss: usher.issuer })}`
  expect(await addresses()).toEqual([club.client_uri, begin, CLIENTS.web?.client_uri])
  expect((await tilesOf()).map(tile => tile.querySelector('.mark')?.text)).toEqual(['B', 'D', 'W'])
})

test('/account says on how many devices the user is signed in', async () => {
  const browser = await signedIn(usher)
  for (const devices of ['Signed in on 1 device', 'Signed in on 2 devices']) {
    await browser.open('/account')
    const row = browser.page.html.querySelector('main a.row[href="/account/sessions"]')
    expect(row?.text).toContain(devices)
    await signedIn(usher)
  }
})

test('/account has the two latest entries of the activity', async () => {
  const browser = await signedIn(usher)
  await browser.open('/account')
  const rows = browser.page.html.querySelectorAll('main li.row time')
  expect(rows).toHaveLength(2)
  expect(browser.page.text).toContain(words('activity.sign_in_succeeded_password'))
})

test('/account says when the password was changed, and that it alone protects the account', async () => {
  const { page } = await signedIn(usher)
  const { password_changed = 0 } = (await usher.directory.find(ada)) ?? {}
  const date = createLanguages().english().date(password_changed).words
  expect(textOf(page.text)).toContain(words('security.changed', { date }))
  expect(textOf(page.text)).toContain(words('security.password_only'))
  // No feature is on that an account could add.
  expect(page.text).not.toContain(words('factors.passkeys'))
  expect(page.text).not.toContain(words('account.requests'))
})

test('a user who cancels the sign-in of an account page does not get the sign-in page at once', async () => {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.ours).toBe(true)
  expect(browser.page.status).toBeLessThan(500)
  expect(browser.heading).not.toBe('Sign in')
})

test('the list shows each application with its scopes, the date of consent, and its last use', async () => {
  const { browser } = await onlineTokens(usher, { scope: 'openid email offline_access' })
  await onlineTokens(usher, { browser, client_id: 'post' })
  const day = 24 * 3600
  await ageConsent('web', { since: 40 * day, lastUsed: day })
  const { html } = await browser.open(APPLICATIONS)
  const cards = html.querySelectorAll('details.fold')
  expect(cards.map(card => card.querySelector('h2')?.text.trim())).toEqual([
    'Post application',
    'Web application',
  ])
  const web = cards[1]
  expect(web?.querySelectorAll('p + ul.signs li').map(({ text }) => text.trim())).toEqual([
    words('scope.openid'),
    words('scope.email'),
    words('scope.offline_access'),
  ])
  const times = web?.querySelectorAll('time').map(time => time.attributes.datetime?.slice(0, 10))
  const ago = (days: number) => new Date(Date.now() - days * day * 1000).toISOString().slice(0, 10)
  expect(times).toEqual([ago(1), ago(40)])
  expect(web?.text).toContain(words('applications.verified', { brand: 'Usher' }))
})

test('the list shows in how many browsers an application is active', async () => {
  const first = await onlineTokens(usher)
  await onlineTokens(usher)
  const browser = await signedIn(usher)
  const inUse = async () => {
    const { html } = await browser.open(APPLICATIONS)
    return html.querySelectorAll('.fold dd').at(-1)?.text
  }
  expect(await inUse()).toBe('in 2 browsers')
  await first.browser.open('/api/oauth/logout')
  await first.browser.submit({ logout: 'yes' })
  expect(await inUse()).toBe('in 1 browser')
  await browser.open('/account/sessions/end?session=others')
  await browser.submit()
  expect(await inUse()).toBe(words('applications.not_in_use'))
})

test('fifty applications are listed, the most recently used first', async () => {
  const clients = Array.from({ length: 50 }, (_, i) => `client-${i}`)
  for (const [i, client_id] of clients.entries()) {
    await usher.consents.decide(ada, client_id, { scopes: ['openid'], declined: [], version: 0 })
    await ageConsent(client_id, { lastUsed: ((i * 7) % 50) * 60 })
  }
  const { html } = await (await signedIn(usher)).open(APPLICATIONS)
  const listed = html.querySelectorAll('h2').map(({ text }) => text)
  const order = (client_id: string) => (clients.indexOf(client_id) * 7) % 50
  expect(listed).toEqual(clients.toSorted((a, b) => order(a) - order(b)))
})

test('using an application updates its last use in the list', async () => {
  const { browser, request } = await onlineTokens(usher)
  await ageConsent('web', { lastUsed: 3600 })
  await browser.open(request.url)
  expect(browser.page.params.get('code')).toBeTruthy()
  const { lastUsed = 0 } = (await usher.consents.find(ada, 'web')) ?? {}
  expect(Date.now() / 1000 - lastUsed).toBeLessThan(60)
})

test('a removal requires a recent sign-in', async () => {
  const { browser, access_token } = await onlineTokens(usher)
  await browser.open(removalOf())
  await ageSessions(usher, ada, 16 * 60)
  await browser.submit()
  expect(browser.heading).toBe('Sign in')
  expect(textOf(browser.page.text)).toContain(words('sign_in.again'))
  expect(await usher.consents.find(ada, 'web')).toBeDefined()
  await browser.submit(credentials())
  expect(browser.page.url.href).toBe(usher.issuer + removalOf())
  expect((await userinfo(usher, access_token)).status).toBe(200)
  await browser.submit()
  expect(textOf(browser.page.text)).toContain(
    words('applications.removed', { client: 'Web application' }),
  )
  expect(await usher.consents.find(ada, 'web')).toBeUndefined()
})

test('the pages can be read after an older sign-in', async () => {
  const { browser } = await onlineTokens(usher)
  await ageSessions(usher, ada, 3600)
  await browser.open(APPLICATIONS)
  expect(browser.heading).toBe('Connected applications')
})

async function remove(browser: Browser, client_id = 'web') {
  await browser.open(removalOf(client_id))
  await browser.submit()
}

test('removing an application immediately ends all of its access, in every browser and grant', async () => {
  const first = await tokens(usher)
  const second = await tokens(usher)
  const third = await onlineTokens(usher, { browser: second.browser, scope: 'openid' })
  const unredeemed = await open(usher, {}, newTab(first.browser))
  const asked = await open(usher, { prompt: 'login' }, newTab(first.browser))
  expect((await grantsOf(usher, ada, 'web')).length).toBeGreaterThan(1)

  await remove(first.browser)
  const text = textOf(first.browser.page.text)
  expect(text).toContain(words('applications.removed', { client: 'Web application' }))
  expect(text).toContain(words('applications.empty'))

  for (const { access_token, refresh_token } of [first, second, third]) {
    expect((await userinfo(usher, access_token)).status).toBe(401)
    for (const token of [access_token, refresh_token].filter(Boolean)) {
      const { body } = await post(usher, '/api/oauth/introspect', { token })
      expect(body).toEqual({ active: false })
    }
  }
  for (const { refresh_token } of [first, second]) {
    expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
  }
  const code = unredeemed.browser.page.params.get('code') ?? ''
  expect(code).not.toBe('')
  expect((await redeem(usher, code, unredeemed.request)).body.error).toBe('invalid_grant')
  expect(await grantsOf(usher, ada, 'web')).toEqual([])
  expect(asked.browser.page.params.has('code')).toBe(false)
})

test('other applications and other users keep their tokens', async () => {
  const web = await tokens(usher)
  const other = await tokens(usher, { browser: web.browser, client_id: 'post' })
  const graces = await tokens(usher, { username: 'grace' })
  await remove(web.browser)
  expect((await userinfo(usher, web.access_token)).status).toBe(401)
  for (const { access_token, refresh_token, request } of [other, graces]) {
    expect((await userinfo(usher, access_token)).status).toBe(200)
    expect((await refresh(usher, refresh_token, request.client_id)).status).toBe(200)
  }
  expect(web.browser.page.text).toContain('Post application')
})

test('a second removal succeeds', async () => {
  const { browser } = await onlineTokens(usher)
  await browser.open(removalOf())
  const form = fieldsOf(browser.page)
  const answers = await Promise.all([1, 2, 3].map(() => send(browser, removalOf(), { form })))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect(await usher.consents.list(ada)).toEqual([])
})

test('a consent after a removal contains only the scopes allowed then', async () => {
  const { browser, refresh_token } = await tokens(usher)
  await remove(browser)
  const { request } = await open(usher, {}, browser)
  await browser.submit({ decision: 'allow', scope: 'profile' })
  const code = browser.page.params.get('code') ?? ''
  expect((await redeem(usher, code, request)).body.scope).toBe('openid profile')
  expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
})

test('an application that is no longer registered is listed and can be removed', async () => {
  const { post: _, ...clients } = CLIENTS
  const smaller = await startAnother({ clients })
  const { id } = await smaller.addAccount(ADA)
  const decision = { scopes: ['openid', 'email'], declined: [], version: 0 }
  await smaller.consents.decide(id, 'post', decision)
  const { browser } = await onlineTokens(smaller, { client_id: 'first' })
  await browser.open(APPLICATIONS)
  expect(textOf(browser.page.text)).toContain(words('applications.unregistered'))
  await remove(browser, 'post')
  expect(textOf(browser.page.text)).toContain(words('applications.removed', { client: 'post' }))
  expect((await smaller.consents.list(id)).map(({ client_id }) => client_id)).toEqual(['first'])
})
