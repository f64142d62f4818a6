// Sessions: their cookies, who gets one, and when it ends.

import { decodeJwt } from 'jose'
import { Cookie } from 'tough-cookie'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, endAccessOf, grace, usher, usherTest } from '../support/fixtures.ts'
import { post, redeem, refresh, signInAndAllow, tokens, userinfo } from '../support/journey.ts'
import {
  ageSessions,
  changeSessions,
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  newTab,
  onlineTokens,
  open,
  send,
  sessionsOf,
  signedIn,
  silently,
  textOf,
  words,
} from '../support/people.ts'
import { isWhole } from '../support/some-of.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({
  accounts: [ADA, GRACE],
  usher: { lifetimes: { session_idle: '2 h', session: '24 h' } },
})
test.beforeEach(() => endAccessOf(ada, grace))

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
  const forged: [what: string, id: string, signature?: string, name?: string][] = [
    ['unsigned', id],
    ['with an empty signature', id, ''],
    ['with an altered signature', id, flip(signature)],
    ['with an altered id', flip(id), signature],
    ['with another’s signature', id, graces.get('usher_session.sig') ?? ''],
    ['under another name', id, signature, '_session'],
  ]
  for (const [what, value, sig, name = 'usher_session'] of forged) {
    const cookies: [string, string][] = [[name, value]]
    if (sig !== undefined) cookies.push([`${name}.sig`, sig])
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

test('a planted anonymous session stays anonymous', async () => {
  const attacker = new Browser(usher.issuer)
  await attacker.open('/api/oauth/logout')
  expect(await attacker.cookies()).toMatch(/usher_session=.*usher_session\.sig=/)
  const { browser: victim } = await open(usher, {}, copyOf(attacker))
  await victim.submit(credentials())
  expect(victim.heading).toBe('Allow access')
  expect(await isSignedIn(victim)).toBe(true)
  expect(await isSignedIn(attacker)).toBe(false)
  expect(await victim.cookies()).not.toBe(await attacker.cookies())
  const silent = await open(usher, { prompt: 'none' }, attacker)
  expect(silent.browser.page.params.get('error')).toBe('login_required')
})

test('a session that is planted while the sign-in page is open stays anonymous, too', async () => {
  const attacker = new Browser(usher.issuer)
  await attacker.open('/api/oauth/logout')
  const { browser: victim } = await open(usher)
  for (const cookie of attacker.jar.toJSON()?.cookies ?? []) {
    await victim.jar.setCookie(Cookie.fromJSON(cookie) ?? '', usher.issuer)
  }
  await victim.submit(credentials())
  expect(await isSignedIn(victim)).toBe(true)
  expect(await isSignedIn(attacker)).toBe(false)
})

test('an invented session id creates no session with that id', async () => {
  const planted = `usher_session=${'A'.repeat(43)}`
  const { browser } = await open(usher)
  await browser.jar.setCookie(`${planted}; Path=/`, usher.issuer)
  await browser.submit(credentials())
  expect(await isSignedIn(browser)).toBe(true)
  expect(await browser.cookies()).not.toContain(planted)
  const attacker = new Browser(usher.issuer)
  await attacker.jar.setCookie(`${planted}; Path=/`, usher.issuer)
  expect(await isSignedIn(attacker)).toBe(false)
})

test('a new sign-in changes the session id, and the old id is invalid', async () => {
  const { browser } = await onlineTokens(usher)
  const before = copyOf(browser)
  await ageSessions(usher, ada, 60)
  await open(usher, { prompt: 'login' }, browser)
  expect(browser.heading).toBe('Sign in')
  expect(textOf(browser.page.text)).toContain(words('sign_in.again'))
  await browser.submit(credentials())
  expect(browser.page.params.get('code')).toBeTruthy()
  expect(await isSignedIn(browser)).toBe(true)
  expect(await isSignedIn(before)).toBe(false)
  expect(await sessionsOf(usher, ada)).toHaveLength(1)
})

test('a user who signs in to another’s browser gets a new session, and the other ends', async () => {
  const first = await onlineTokens(usher)
  const { browser } = first
  const adas = copyOf(browser)
  const { request } = await open(usher, { prompt: 'login' }, browser)
  await browser.submit(credentials('grace'))
  // The library's page that signs Ada out submits itself by a script.
  await browser.submit()
  await signInAndAllow(browser, 'grace')
  const { body } = await redeem(usher, browser.page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token).sub).toBe(grace)
  expect(await isSignedIn(adas)).toBe(false)
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect((await userinfo(usher, first.access_token)).status).toBe(401)
  await browser.open('/account')
  expect(browser.page.text).toContain('Grace Hopper')
  expect(browser.page.text).not.toContain('Ada Lovelace')
})

test('a sign-in page from before another sign-in does not mix up the users', async () => {
  const { browser: graces, request } = await open(usher)
  const adas = newTab(graces)
  await adas.open('/account')
  await adas.submit(credentials('ada'))
  await graces.submit(credentials('grace'))
  await graces.submit()
  await signInAndAllow(graces, 'grace')
  const { body } = await redeem(usher, graces.page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token).sub).toBe(grace)
  expect(await sessionsOf(usher, ada)).toEqual([])
  expect(await sessionsOf(usher, grace)).toHaveLength(1)
})

test('a consent page is refused when another has signed in since', async () => {
  const { browser: adas } = await open(usher, {}, await signedIn(usher, 'ada'))
  expect(adas.heading).toBe('Allow access')
  const form = fieldsOf(adas.page, { decision: 'allow', scope: 'profile' })
  const { browser: graces } = await open(usher, { prompt: 'login' }, newTab(adas))
  await graces.submit(credentials('grace'))
  await graces.submit()
  expect(graces.heading).toBe('Allow access')
  const response = await send(adas, adas.page.url, { form })
  expect(response.status).toBe(400)
  expect(textOf(await response.text())).toContain(words('error.interaction_text'))
  for (const id of [ada, grace]) expect(await usher.consents.list(id)).toEqual([])
})

test('a user who cancels a new sign-in stays signed in', async () => {
  const { browser } = await onlineTokens(usher)
  await open(usher, { prompt: 'login' }, browser)
  await browser.submit({ decision: 'cancel' })
  expect(browser.page.params.get('error')).toBe('access_denied')
  await browser.open('/account')
  expect(browser.page.text).toContain('Ada Lovelace')
})

const HOUR = 3600
const now = () => Date.now() / 1000

/** The remaining lifetime of Ada's only session in seconds. */
async function remaining() {
  const [session, ...more] = await sessionsOf(usher, ada)
  expect(more).toEqual([])
  return (session?.exp ?? 0) - now()
}

/** Simulates that the session was not used for this time. */
async function idle(seconds: number) {
  await changeSessions(usher, ada, ({ exp }) => ({ exp: exp - seconds }))
}

test('every use extends the session, but never beyond the maximum time since the sign-in', async () => {
  const browser = await signedIn(usher)
  expect(await remaining()).toBeGreaterThan(2 * HOUR - 60)
  await idle(1.5 * HOUR)
  await open(usher, { client_id: 'first' }, browser)
  expect(await remaining()).toBeGreaterThan(2 * HOUR - 60)

  await ageSessions(usher, ada, 23.5 * HOUR)
  await open(usher, { client_id: 'first' }, browser)
  expect(browser.page.params.get('code')).toBeTruthy()
  expect(await remaining()).toBeLessThan(0.5 * HOUR + 60)
  const cookies = await browser.jar.getCookies(usher.issuer)
  const { expires } = cookies.find(({ key }) => key === 'usher_session') ?? {}
  expect(new Date(String(expires)).getTime() / 1000 - now()).toBeLessThan(0.5 * HOUR + 60)
})

test('an idle session requires a new sign-in, for the account pages and for applications', async () => {
  const browser = await signedIn(usher)
  await idle(2 * HOUR + 60)
  expect(await isSignedIn(browser)).toBe(false)
  expect(await silently(usher, browser, { client_id: 'first' })).toBe('login_required')
})

let users = 0
/** Adds a user with a session, tokens, a code and an open consent page. */
async function userWithAccess() {
  const username = `ada-${++users}`
  const account = await usher.addAccount({ ...ADA, username })
  const had = await tokens(usher, { username })
  const { request } = await open(usher, { scope: 'openid' }, had.browser)
  const code = had.browser.page.params.get('code') ?? ''
  const { browser: asked } = await open(usher, { client_id: 'post' }, newTab(had.browser))
  expect(asked.heading).toBe('Allow access')
  return { ...had, username, account, code, request, asked }
}

async function expectNothingWorks(user: Awaited<ReturnType<typeof userWithAccess>>) {
  const { browser, access_token, refresh_token, code, request, asked, username } = user
  const info = await userinfo(usher, access_token)
  expect(info.status).toBe(401)
  expect(info.headers.get('www-authenticate')).toContain('error="invalid_token"')
  expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
  for (const token of [access_token, refresh_token]) {
    const { status, body } = await post(usher, '/api/oauth/introspect', { token })
    expect({ status, body }).toEqual({ status: 200, body: { active: false } })
  }
  expect(await isSignedIn(copyOf(browser))).toBe(false)
  expect(await silently(usher, browser)).toBe('login_required')
  await asked.submit({ decision: 'allow' })
  expect(asked.page.params.has('code')).toBe(false)
  await open(usher, { prompt: 'login' }, browser)
  await browser.submit(credentials(username))
  expect(browser.page.status).toBe(400)
  expect(textOf(browser.page.text)).toContain(words('sign_in.failed'))
}

test('a disabled account loses all access at once', async () => {
  const user = await userWithAccess()
  await usher.directory.change(user.account.id, account => ({ ...account, enabled: false }))
  await expectNothingWorks(user)
})

test('a removed account loses all access, and none of its records is left', async () => {
  const user = await userWithAccess()
  const { id } = user.account
  await usher.directory.remove(user.account)
  await expectNothingWorks(user)
  expect(await usher.consents.list(id)).toEqual([])
  expect(await usher.directory.find(id)).toBeUndefined()
})

test('a sign-in in progress fails when the account is disabled', async () => {
  const { username, account } = await userWithAccess()
  const { browser } = await open(usher)
  const submitted = browser.submit(credentials(username))
  await usher.directory.change(account.id, found => ({ ...found, enabled: false }))
  await usher.directory.endAccess(account.id)
  await submitted
  expect(browser.page.params.has('code')).toBe(false)
  expect(await isSignedIn(browser)).toBe(false)
})
