// Attacks on CIBA: floods of requests, guessing of accounts, misleading messages, and ended access.

import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { grantsOfAccount } from '../../src/oidc/adapter/grants.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { Browser } from '../support/browser.ts'
import {
  answer,
  cibaClient,
  forgetRequests,
  PENDING,
  pendingRequests,
  poll,
  sendRequest,
  startRequest,
} from '../support/ciba.ts'
import { ada, grace, moveClock, usher, usherTest } from '../support/fixtures.ts'
import { type HostileIssuer, startHostileIssuer } from '../support/hostile-issuer.ts'
import { interleaving } from '../support/interleave.ts'
import { refresh } from '../support/journey.ts'
import {
  ageSessions,
  credentials,
  fieldsOf,
  newTab,
  open,
  send,
  signedIn,
  words,
} from '../support/people.ts'
import { placesOf } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { withUpstreams } from '../support/upstream.ts'
import { ADA, CLIENTS, GRACE, PASSWORD, startUsher, type Usher } from '../support/usher.ts'

/** A browser in which Ada is signed in. */
let browser: Browser
const test = usherTest({
  clients: {
    ...CLIENTS,
    till: cibaClient('till'),
    desk: cibaClient('desk'),
    closed: cibaClient('closed', { allow: { groups: ['staff'] } }),
  },
  usher: { features: { ciba: true }, security: { ciba_requests: 3 } },
  accounts: [ADA, GRACE],
})
test.beforeAll(async () => {
  browser = await signedIn(usher)
})
test.beforeEach(() => forgetRequests(usher, ada))

const REFUSED = { status: 403, json: { error: 'access_denied' } }

test('security.ciba_requests limits the open requests of a client to a user, also for concurrent requests', async () => {
  const hints = Array.from({ length: 12 }, (_, i) => ['ada', 'ADA', ada][i % 3] ?? '')
  const answers = await Promise.all(hints.map(login_hint => sendRequest(usher, { login_hint })))
  // Both spellings of the username are one hint, and the sub is another.
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(6)
  expect(answers.filter(({ status }) => status === 403)).toHaveLength(6)
  expect(await pendingRequests(browser)).toHaveLength(3)
  // Other clients and other users are not affected.
  expect((await sendRequest(usher, {}, 'desk')).status).toBe(200)
  expect((await sendRequest(usher, { login_hint: 'grace' })).status).toBe(200)
})

test('denied and expired requests count towards the limit; allowed requests do not', async () => {
  for (const decision of ['allow', 'deny', 'deny', 'allow', 'deny'] as const) {
    await startRequest(usher, { requested_expiry: '60' })
    await answer(browser, decision)
  }
  expect(await sendRequest(usher)).toMatchObject(REFUSED)
  moveClock(901)
  expect((await sendRequest(usher)).status).toBe(200)
  await forgetRequests(usher, ada)
})

test('all requests of one client have a rate limit, before any account is looked up', async () => {
  const many = { count: 1_000_000, at: Date.now() + 10_000 }
  await usher.records.of('Attempts').change('requests of till', () => many, { ttl: 60 })
  expect(await sendRequest(usher)).toMatchObject(REFUSED)
  expect(await sendRequest(usher, { login_hint: 'nobody' })).toMatchObject(REFUSED)
  expect((await sendRequest(usher, {}, 'desk')).status).toBe(200)
  await usher.records.of('Attempts').remove('requests of till', 1)
})

test('a client is refused after the same number of requests, whether or not the user may use it', async () => {
  const { id } = await usher.addAccount({ username: 'stranger' })
  const attributes = { groups: ['staff'] }
  const { id: member } = await usher.addAccount({ username: 'member', attributes })
  for (const login_hint of ['stranger', id, 'member', member, 'nobody-at-all']) {
    const sent = Array.from({ length: 4 }, () => sendRequest(usher, { login_hint }, 'closed'))
    const statuses = (await Promise.all(sent)).map(({ status }) => status)
    expect([login_hint, ...statuses.toSorted()]).toEqual([login_hint, 200, 200, 200, 403])
  }
})

test('a client does not learn which username belongs to a sub', async () => {
  for (let i = 0; i < 3; i++) await startRequest(usher, { login_hint: ada })
  expect(await sendRequest(usher, { login_hint: ada })).toMatchObject(REFUSED)
  for (const login_hint of ['ada', 'grace', 'nobody-else']) {
    expect((await sendRequest(usher, { login_hint })).status).toBe(200)
  }
  // The user is not asked more often than the limit.
  expect(await pendingRequests(browser)).toHaveLength(3)
})

test('requested_expiry must be a positive integer, in digits', async () => {
  for (const requested_expiry of ['1e9', '0', '-5', '60.5', '0x3c', ' 60', 'Infinity']) {
    const { status, json } = await sendRequest(usher, { requested_expiry })
    expect([requested_expiry, status, json.error]).toEqual([
      requested_expiry,
      400,
      'invalid_request',
    ])
  }
})

test('a client does not learn whether an account exists or is disabled', async () => {
  const keys = (json: object) => Object.keys(json).toSorted()
  const { id } = await usher.addAccount({ username: 'gone' })
  await usher.directory.change(id, account => ({ ...account, enabled: false }))
  const known = await sendRequest(usher)
  for (const login_hint of ['nobody', `usr_${'x'.repeat(26)}`, 'gone']) {
    const unknown = await sendRequest(usher, { login_hint })
    expect(unknown.status).toBe(200)
    expect(keys(unknown.json)).toEqual(keys(known.json))
    expect(unknown.json).toMatchObject({ expires_in: 900, interval: 5 })
    expect(String(unknown.json.auth_req_id)).toHaveLength(String(known.json.auth_req_id).length)
    const polled = await poll(usher, String(unknown.json.auth_req_id))
    expect(polled).toMatchObject(PENDING)
    for (let i = 0; i < 2; i++) await startRequest(usher, { login_hint })
    expect(
      await sendRequest(usher, { login_hint: login_hint.replace('nob', 'NOB') }),
    ).toMatchObject(REFUSED)
  }
  expect(usher.output.join('\n')).toContain('no user has this login_hint')
  // A login_hint that cannot be a username is an error of the client.
  for (const login_hint of ['two words', 'x'.repeat(300), 'a\u2066da']) {
    const { status, json } = await sendRequest(usher, { login_hint })
    expect([status, json.error]).toEqual([400, 'unknown_user_id'])
  }
})

test('a binding_message that can mislead is refused, and one in another language is shown', async () => {
  const misleading = [
    'Pay\n1 €',
    'Pay \u202e€ 0001',
    '\u2067Pay',
    'Pay\u200b1',
    'Pay\u20281',
    'Pay\u3164\u28001',
    `Pay 1${' '.repeat(60)}0`,
    `P${'\u0301'.repeat(9)}ay`,
    ' Pay',
    'x'.repeat(101),
  ]
  for (const binding_message of misleading) {
    const { status, json } = await sendRequest(usher, { binding_message })
    expect([binding_message, status, json.error]).toEqual([
      binding_message,
      400,
      'invalid_binding_message',
    ])
  }
  await startRequest(usher, { binding_message: 'カフェ № 4, 12:31 “ok”' })
  expect((await browser.open('/account/requests')).text).toContain('カフェ № 4')
})

test('when two tabs answer at the same time, the first answer decides, and both show the result', async () => {
  const id = await startRequest(usher)
  const [address = ''] = await pendingRequests(browser)
  const tabs = [newTab(browser), newTab(browser)]
  await Promise.all(tabs.map(tab => tab.open(address)))
  await Promise.all(tabs.map((tab, i) => tab.submit({ decision: ['allow', 'deny'][i] ?? '' })))
  const [allowed, denied] = tabs.map(({ page }) => page.text)
  const { error } = await poll(usher, id)
  expect(allowed?.includes('You allowed the request')).toBe(error === undefined)
  expect(denied?.includes('You denied the request')).toBe(error === 'access_denied')
  const late = await tabs[0]?.open(address)
  expect(late?.text).toContain(words('requests.gone'))
})

test('a form without the CSRF token of its page is refused', async () => {
  const id = await startRequest(usher)
  const [address = ''] = await pendingRequests(browser)
  const { csrf: _, ...form } = fieldsOf(await browser.open(address), { decision: 'allow' })
  expect((await send(browser, address, { form })).status).toBe(403)
  expect(await poll(usher, id)).toMatchObject(PENDING)
})

test('open requests end when all access of the account ends', async () => {
  const id = await startRequest(usher)
  const allowed = await startRequest(usher)
  await answer(browser, 'allow')
  await usher.directory.endAccess(ada)
  expect(await poll(usher, allowed)).toMatchObject({ error: 'invalid_grant' })
  browser = await signedIn(usher)
  expect(await pendingRequests(browser)).toEqual([])
  expect(await poll(usher, id)).toMatchObject(PENDING)
})

test('a client that was removed after its request gets access_denied', async () => {
  await startRequest(usher)
  await answer(browser, 'allow')
  const id = await startRequest(usher)
  await usher.consents.withdraw(ada, 'till')
  await answer(browser, 'allow')
  expect(browser.page.text).toContain('after it had asked')
  expect(await poll(usher, id)).toMatchObject({ error: 'access_denied' })
  expect(await usher.consents.find(ada, 'till')).toBeUndefined()
})

test('while the store is unavailable the answer is 503, and nothing is lost', async () => {
  const id = await startRequest(usher)
  const [address = ''] = await pendingRequests(browser)
  const form = fieldsOf(await browser.open(address), { decision: 'allow' })
  await stopping(usher.store)(0, async () => {
    expect((await sendRequest(usher, {}, 'desk')).status).toBe(503)
    expect((await send(browser, address, { form })).status).toBe(503)
  })
  expect(await poll(usher, id)).toMatchObject(PENDING)
  expect((await send(browser, address, { form })).status).toBe(200)
  expect(await poll(usher, id)).toHaveProperty('access_token')
})

test('without a refresh token the access ends with the session in which the user allowed it', async () => {
  const offline = { scope: 'openid offline_access' }
  const requests = [await startRequest(usher), await startRequest(usher, offline, 'desk')]
  const early = await startRequest(usher, offline, 'desk')
  for (let i = 0; i < 3; i++) await answer(browser, 'allow')
  const { refresh_token } = await poll(usher, early, 'desk')
  for (const { uid } of await usher.sessions.list(ada)) await usher.sessions.end(uid)
  expect(await poll(usher, requests[0] ?? '')).toMatchObject({ error: 'invalid_grant' })
  expect(await poll(usher, requests[1] ?? '', 'desk')).toMatchObject({ error: 'invalid_grant' })
  expect((await refresh(usher, String(refresh_token), 'desk')).status).toBe(200)
})

test('an answer during the end of its session leaves no access behind, and no grant that is of no use', async () => {
  const interleave = interleaving(usher)
  const { endAll } = createSessions(usher.records)
  let met = true
  const { first, step } = placesOf(3)
  for (let k = first; met; k += step) {
    await forgetRequests(usher, grace)
    const own = await signedIn(usher, 'grace')
    const id = await startRequest(usher, { login_hint: 'grace' })
    const [address = ''] = await pendingRequests(own)
    const form = fieldsOf(await own.open(address), { decision: 'allow' })
    const answered = () => send(own, address, { form })
    met = (await interleave(k, answered, () => endAll(grace))).met
    expect(await poll(usher, id)).not.toHaveProperty('access_token')
    expect(await usher.records.of('Grant').list(...grantsOfAccount(grace))).toEqual([])
  }
})

describe('a client that demands a sign-in at an issuer', () => {
  const STRONG = 'urn:example:strong'
  const ESSENTIAL = { id_token: { acr: { essential: true, values: [STRONG] } } }
  let issuer: HostileIssuer
  let strict: Usher
  let account: string
  test.beforeAll(async () => {
    issuer = await startHostileIssuer()
    const { usher: settings, files } = withUpstreams({
      link: { issuer: issuer.issuer, accounts: 'link', acr: { strong: STRONG } },
    })
    strict = await startUsher({
      clients: {
        till: cibaClient('till', { require_sign_in: 'link' }),
        desk: cibaClient('desk'),
        safe: cibaClient('safe', { require_sign_in: 'password' }),
      },
      usher: { ...settings, features: { ciba: true, claims_parameter: true } },
      files,
    })
    const { id } = await strict.addAccount(ADA)
    const links = [{ issuer: issuer.issuer, subject: 'ada-there' }]
    await strict.directory.change(id, before => ({ ...before, links }))
    account = id
  })
  test.afterAll(async () => {
    await strict.close()
    await issuer.close()
  })

  const byPassword = async () => {
    const own = new Browser(strict.issuer, fetch, [issuer.issuer])
    await signedIn(strict, 'ada', PASSWORD, own)
    // The request follows the sign-in by a second.
    await ageSessions(strict, account, 10)
    return own
  }

  test.each<[string, string, Record<string, string>, string]>([
    ['require_sign_in', 'till', {}, 'anything'],
    ['acr_values', 'desk', { acr_values: `other ${STRONG}` }, 'strong'],
    ['an essential acr', 'desk', { claims: JSON.stringify(ESSENTIAL) }, 'strong'],
  ])('by %s gets tokens after that sign-in only', async (_, client, params, acr) => {
    issuer.state.behaviour = { claims: { acr } }
    const own = await byPassword()
    const id = await startRequest(strict, params, client)
    const [address = ''] = await pendingRequests(own)
    await own.open(address)
    if (own.heading !== words('consent.title')) await own.submit({ decision: 'link' })
    expect(own.heading).toBe(words('consent.title'))
    await own.submit({ decision: 'allow' })
    const { id_token } = await poll(strict, id, client)
    expect(decodeJwt(String(id_token)).amr).toEqual(['link'])
    await forgetRequests(strict, account)
  })

  test('by require_sign_in: password gets no tokens of a session at the issuer', async () => {
    issuer.state.behaviour = {}
    const own = new Browser(strict.issuer, fetch, [issuer.issuer])
    await own.open('/account')
    await own.submit({ decision: 'link' })
    const id = await startRequest(strict, {}, 'safe')
    const [address = ''] = await pendingRequests(own)
    await own.open(address)
    expect(own.heading).toBe(words('sign_in.title'))
    expect(own.page.text).not.toContain('value="link"')
    await own.submit(credentials())
    await own.submit({ decision: 'allow' })
    expect(await poll(strict, id, 'safe')).toHaveProperty('access_token')
    await forgetRequests(strict, account)
  })

  test('by voluntary acr_values gets tokens after another sign-in, by an essential acr none', async () => {
    issuer.state.behaviour = {}
    for (const [params, isAllowed] of [
      [{ acr_values: STRONG }, true],
      [{ claims: JSON.stringify(ESSENTIAL) }, false],
    ] as const) {
      const own = await byPassword()
      const id = await startRequest(strict, params, 'desk')
      await own.open((await pendingRequests(own)).at(-1) ?? '')
      expect(own.heading).toBe(words('sign_in.title'))
      await own.submit(credentials())
      expect(own.heading === words('consent.title')).toBe(isAllowed)
      if (isAllowed) await own.submit({ decision: 'allow' })
      const tokens = await poll(strict, id, 'desk')
      expect(tokens.access_token !== undefined).toBe(isAllowed)
      await forgetRequests(strict, account)
    }
  })

  test('can send no require_sign_in itself', async () => {
    const { browser } = await open(usher, { require_sign_in: 'link' })
    expect(browser.page.text).toContain('type="password"')
  })
})
