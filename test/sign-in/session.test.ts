import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  credentials,
  isSignedIn,
  newTab,
  open,
  send,
  sessionsOf,
  signedIn,
  silently,
} from '../support/people.ts'
import { isWhole } from '../support/some-of.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })

const SESSION = ['usher_session', 'usher_session.sig']

/** Names and values of the cookies that a browser sends on every path. */
async function cookiesOf({ jar, issuer }: Browser): Promise<Map<string, string>> {
  const cookies = await jar.getCookies(issuer)
  return new Map(cookies.map(({ key, value }) => [key, value]))
}

function browserWith(cookies: Iterable<[string, string]>): Promise<boolean> {
  const cookie = [...cookies].map(pair => pair.join('=')).join('; ')
  return send(new Browser(usher.issuer), '/account', { method: 'GET', headers: { cookie } }).then(
    ({ status }) => status === 200,
  )
}

test('on loopback http, cookies are HttpOnly and SameSite=Lax', async () => {
  const { browser } = await open(usher)
  await browser.submit(credentials())
  const { cookies } = await browser.jar.serialize()
  expect(cookies.map(({ key }) => key)).toEqual(expect.arrayContaining(SESSION))
  expect(cookies.some(({ key }) => key === 'usher_interaction')).toBe(true)
  for (const { httpOnly, sameSite, secure, domain, hostOnly } of cookies) {
    expect({ httpOnly, sameSite }).toEqual({ httpOnly: true, sameSite: 'lax' })
    expect(Boolean(secure)).toBe(false)
    expect({ domain, hostOnly }).toEqual({ domain: 'localhost', hostOnly: true })
  }
  const session = cookies.filter(({ key }) => SESSION.includes(key ?? ''))
  expect(session.map(({ path }) => path)).toEqual(['/', '/'])
  // These cookies have the `__Host-` prefix under https.
  const ofOrigin = cookies.filter(({ path }) => path === '/').map(({ key }) => key)
  const marks = ['usher_browser', 'usher_browser.sig', 'usher_device']
  expect(ofOrigin.toSorted()).toEqual([...SESSION, ...marks].toSorted())
  const others = cookies.filter(({ path }) => path !== '/')
  for (const { path } of others) expect(path).toMatch(/^\/(interaction|api\/oauth\/authorize)\/./)
})

test('a session id has 43 random characters of 6 bits, and no other information', async () => {
  const idOf = async () => (await cookiesOf(await signedIn(usher, 'ada'))).get('usher_session')
  const ids = await Promise.all(Array.from({ length: 20 }, idOf))
  for (const id of ids) expect(id).toMatch(/^[\w-]{43}$/)
  // No place has a fixed character: 20 random ones have 17 different values on average.
  for (const place of Array(43).keys()) {
    const characters = new Set(ids.map(id => id?.[place]))
    expect(characters.size).toBeGreaterThan(8)
  }
})

test('a session cookie without its signature, or with another one, is ignored', async () => {
  const adas = await cookiesOf(await signedIn(usher, 'ada'))
  const graces = await cookiesOf(await signedIn(usher, 'grace'))
  expect(await browserWith(adas)).toBe(true)
  const id = adas.get('usher_session') ?? ''
  const signature = adas.get('usher_session.sig') ?? ''
  const flip = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
  const forged: Record<string, [string, string][]> = {
    unsigned: [['usher_session', id]],
    'with an empty signature': [
      ['usher_session', id],
      ['usher_session.sig', ''],
    ],
    'with an altered signature': [
      ['usher_session', id],
      ['usher_session.sig', flip(signature)],
    ],
    'with an altered id': [
      ['usher_session', flip(id)],
      ['usher_session.sig', signature],
    ],
    'with another’s signature': [
      ['usher_session', id],
      ['usher_session.sig', graces.get('usher_session.sig') ?? ''],
    ],
    'under another name': [
      ['_session', id],
      ['_session.sig', signature],
    ],
  }
  for (const [what, cookies] of Object.entries(forged)) {
    expect(await browserWith(cookies), what).toBe(false)
  }
  expect(await browserWith(graces)).toBe(true)
})

test('applications that send requests at the same time in one session all get their codes', async () => {
  const browser = await signedIn(usher)
  const clients = ['web', 'post', 'spa', 'first']
  for (const client_id of clients) {
    await open(usher, { client_id }, browser)
    if (browser.page.ours) await browser.submit({ decision: 'allow' })
  }
  const [session] = (await sessionsOf(usher, ada)).slice(-1)
  expect(session).toBeDefined()
  const rounds = isWhole ? 30 : 3
  for (let round = 0; round < rounds; round++) {
    const fresh = await signedIn(usher)
    const tabs = await Promise.all(
      clients.map(client_id => open(usher, { client_id }, newTab(fresh))),
    )
    for (const { browser, request } of tabs) {
      const { params } = browser.page
      expect(params.get('code'), `round ${round}: ${request.client_id}`).toBeTruthy()
    }
    const sessions = await sessionsOf(usher, ada)
    const complete = sessions.filter(({ authorizations = {} }) =>
      clients.every(client_id => client_id in authorizations),
    )
    // One from above, and one for each round.
    expect(complete, `round ${round}`).toHaveLength(round + 2)
    expect(await isSignedIn(fresh)).toBe(true)
  }
})

test('foreign cookies neither sign in nor cause an error', async () => {
  const browser = await signedIn(usher)
  const own = await browser.cookies()
  const [, id = ''] = /usher_session=([^;]+)/.exec(own) ?? []
  const interactions = Array.from(
    { length: 50 },
    (_, i) => `usher_interaction=${'x'.repeat(20)}${i}`,
  )
  const junk: Record<string, string> = {
    'of 3 kB': `junk=${'x'.repeat(3000)}`,
    'of 3 kB under the name': `usher_session=${'x'.repeat(3000)}; usher_session.sig=${'y'.repeat(27)}`,
    'of 50 interactions': interactions.join('; '),
    'of the secure name': `__Host-usher_session=${id}; __Host-usher_session.sig=x`,
    'that are no cookies': 'a;;;=b; =; "; usher_session; \u00ff=\u00fe; __proto__=1',
    'with bad escapes': 'usher_session=%E0%A4%A; usher_session.sig=%',
  }
  for (const [what, cookie] of Object.entries(junk)) {
    for (const path of [
      '/account',
      `/api/oauth/logout`,
      '/interaction/x',
      '/api/oauth/authorize',
    ]) {
      const alone = await send(new Browser(usher.issuer), path, {
        method: 'GET',
        headers: { cookie },
      })
      expect(alone.status, `${what} at ${path}`).not.toBe(431)
      expect(alone.status, `${what} at ${path}`).toBeLessThan(500)
      expect(await alone.text()).not.toContain('Ada Lovelace')
    }
    const beside = { cookie: `${own}; ${cookie}` }
    const account = await send(browser, '/account', { method: 'GET', headers: beside })
    expect(account.status, what).toBe(200)
  }
})

test('ending the access of an account ends every session and every token', async () => {
  const [first, second] = await Promise.all([tokens(usher), tokens(usher, { client_id: 'post' })])
  await usher.directory.endAccess(ada)
  for (const { browser, access_token, refresh_token, request } of [first, second]) {
    expect(await isSignedIn(browser)).toBe(false)
    expect(await silently(usher, browser)).toBe('login_required')
    expect((await userinfo(usher, access_token)).status).toBe(401)
    const refreshed = await refresh(usher, refresh_token, request.client_id)
    expect(refreshed.body.error).toBe('invalid_grant')
  }
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await isSignedIn(await signedIn(usher))).toBe(true)
})

test('a code from before the end of access is invalid after it', async () => {
  const browser = await signedIn(usher)
  const { request } = await open(usher, { client_id: 'first' }, browser)
  const code = browser.page.params.get('code') ?? ''
  expect(code).not.toBe('')
  await usher.directory.endAccess(ada)
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
})
