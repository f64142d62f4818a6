import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { rsaKey } from '../support/costly-keys.ts'
import { moveClock, startAnother, usher, usherTest } from '../support/fixtures.ts'
import {
  type Behaviour,
  type HostileIssuer,
  startHostileIssuer,
} from '../support/hostile-issuer.ts'
import { authorizationRequest } from '../support/journey.ts'
import { credentials, signedIn, submitConfirmed, withFaultAt } from '../support/people.ts'
import { placesOf, someOf } from '../support/some-of.ts'
import { stopping } from '../support/stopping.ts'
import { withUpstreams } from '../support/upstream.ts'
import { FAILURES, PASSWORD, SECRET, type Usher, type UsherOptions } from '../support/usher.ts'

const FAILED = 'The sign-in did not work'
const UNKNOWN = 'You cannot sign in this way'

let issuer: HostileIssuer
let second: HostileIssuer
const test = usherTest(async () => {
  issuer = await startHostileIssuer()
  second = await startHostileIssuer()
  const options = withUpstreams({
    example: { issuer: issuer.issuer },
    second: { issuer: second.issuer, allow: { email_domains: ['example.com'] } },
  })
  return { ...options, accounts: [] }
})
test.afterAll(() => Promise.all([issuer.close(), second.close()]))
test.beforeEach(() => {
  issuer.state.behaviour = {}
  second.state.behaviour = {}
})

/** Opens the sign-in page and selects an upstream issuer. */
async function signIn(behaviour: Behaviour = {}, name = 'example', browser = newBrowser()) {
  const at = name === 'example' ? issuer : second
  at.state.behaviour = behaviour
  await browser.open(authorizationRequest(usher).url)
  await browser.submit({ decision: name })
  return browser
}
/** A browser of a user with a password, at the issuer that the user adds. */
async function adding(username: string, at = usher) {
  await at.addAccount({ username })
  const browser = await signedIn(at, username, PASSWORD, newBrowser(at))
  await browser.open('/account/security')
  await submitConfirmed(browser, { link: 'example' })
  return browser
}
/** For an issuer that does not answer. */
const HASTY = { failureTimes: { ...FAILURES, upstreamMs: 3_000 } }
/** Starts another Usher, which has not read the discovery document. */
async function startAnew(options: UsherOptions = {}) {
  const upstreams = withUpstreams({ example: { issuer: issuer.issuer } })
  const fresh = await startAnother({ ...upstreams, ...options })
  return { fresh, browser: new Browser(fresh.issuer, fetch, [issuer.issuer]) }
}
const newBrowser = (at = usher) => new Browser(at.issuer, fetch, [issuer.issuer, second.issuer])
const tooOld = ({ issuer: url }: HostileIssuer) =>
  `Your session at ${new URL(url).host} began too long ago`
const isSignedIn = (browser: Browser) => /^(Allow access)$/.test(browser.heading)
const accounts = async () => (await Array.fromAsync(usher.directory.all())).length
const seconds = () => Math.floor(Date.now() / 1000)

test('a valid response signs the user in', async () => {
  expect(isSignedIn(await signIn())).toBe(true)
})

describe('ID tokens', () => {
  test.each<[string, Behaviour]>([
    ['of another issuer', { claims: { iss: 'https://elsewhere.example.org' } }],
    ['for another audience', { claims: { aud: 'another' } }],
    ['for several audiences without azp', { claims: { aud: ['usher', 'another'] } }],
    ['that have expired', { claims: { exp: seconds() - 120, iat: seconds() - 420 } }],
    ['with another nonce', { claims: { nonce: 'another' } }],
    ['without a nonce', { claims: { nonce: undefined } }],
    ['without a subject', { claims: { sub: undefined } }],
    ['with an empty subject', { claims: { sub: '' } }],
    ['with a subject of 256 characters', { claims: { sub: 'x'.repeat(256) } }],
    ['with a subject that has a space', { claims: { sub: 'ada lovelace' } }],
    ['with a subject that is not ASCII', { claims: { sub: '\u212Aate' } }],
    ['for another authorized party', { claims: { azp: 'another' } }],
    ['for an authorized party that is no text', { claims: { azp: ['usher'] } }],
    ['of the next day', { claims: { iat: seconds() + 86_400, exp: seconds() + 90_000 } }],
    ['signed by another key', { signedBy: 'another key' }],
    ['without a signature', { signedBy: 'no key' }],
  ])('%s are refused', async (_, behaviour) => {
    const browser = await signIn(behaviour)
    expect(browser.page.text).toContain(FAILED)
    expect(browser.heading).toBe('Sign in')
    expect(usher.output.join('')).toMatch(/"event":"sign_in_failed".*"upstream":"example"/)
  })

  test('with any JSON value as a claim cause no 5xx', async () => {
    const object = { toString: 1, valueOf: 1 }
    const names = ['amr', 'acr', 'sid', 'auth_time', 'azp', 'email', 'email_verified', 'name']
    const values = [object, [object], [], null, -1, true, '\ud800']
    const all = [...names, 'preferred_username', 'sub'].flatMap(name =>
      values.map(value => ({ [name]: value })),
    )
    for (const claims of someOf(all, 3)) {
      const browser = await signIn({ claims })
      expect(browser.page.status, JSON.stringify(claims)).toBeLessThan(500)
    }
  })

  test('with a domain that is not allowed, or with an unverified address, are refused', async () => {
    const before = await accounts()
    for (const claims of [
      { sub: 'a', email: 'eve@example.org' },
      { sub: 'b', email: 'eve@example.com', email_verified: false },
      { sub: 'c', email: 'eve@example.com', email_verified: 'true' },
      { sub: 'd', email: 'eve@sub.example.com' },
      { sub: 'e', email: 'eve@evil.org@example.org' },
      { sub: 'f', email: undefined },
    ]) {
      const browser = await signIn({ claims }, 'second')
      expect(browser.page.text).toContain(UNKNOWN)
    }
    expect(await accounts()).toBe(before)
  })
})

describe('authorization responses', () => {
  test.each<[string, Behaviour]>([
    ['with the iss of another issuer', { response: { iss: 'https://elsewhere.example.org' } }],
    ['without the iss that discovery promises', { response: { iss: undefined } }],
    ['with an error', { response: { error: 'access_denied', code: undefined } }],
    ['without a code', { response: { code: undefined } }],
  ])('%s are refused', async (_, behaviour) => {
    const browser = await signIn(behaviour)
    expect(browser.page.text).toContain(FAILED)
  })

  test('with another state, or a part of it, are refused before the code is redeemed', async () => {
    const browser = await signIn({ response: { state: undefined } })
    const { searchParams } = issuer.state.requests.at(-1) as URL
    const right = searchParams.get('state') ?? ''
    const ofAnother = right.replace(/^[^.]+/, 'x'.repeat(43))
    for (const state of [`${right}x`, ofAnother, '', right.split('.')[0] ?? '']) {
      await browser.open(`/sign-in/example/callback?${new URLSearchParams({ code: 'x', state })}`)
      expect(browser.page.status).toBe(400)
      expect(browser.heading).toBe('This page has expired')
    }
  })

  test('of one issuer are refused at the callback of another (mix-up)', async () => {
    const browser = await signIn({ response: { state: undefined } })
    await browser.open(callbackOf(issuer, 'second', second.issuer))
    expect(browser.page.status).toBe(400)
    await browser.open('/account')
    expect(browser.heading).toBe('Sign in')
  })

  test('are refused in another browser (login CSRF), without a use of the code or the request', async () => {
    const claims = { sub: 'elsewhere', preferred_username: 'elsewhere' }
    const attacker = await signIn({ response: { state: undefined }, claims })
    const before = await accounts()
    const victim = newBrowser()
    await victim.open(authorizationRequest(usher).url)
    for (const other of [victim, newBrowser()]) {
      issuer.state.idToken = 'none'
      await other.open(callbackOf(issuer))
      expect(other.page.status).toBe(400)
      expect(issuer.state.idToken).toBe('none')
      await other.open('/account')
      expect(other.heading).toBe('Sign in')
    }
    expect(await accounts()).toBe(before)
    expect(attacker.page.status).toBe(400)
    await attacker.open(callbackOf(issuer))
    expect(isSignedIn(attacker)).toBe(true)
  })

  test('that add a method of sign-in are refused in another session, without a use of the request', async () => {
    issuer.state.behaviour = { response: { state: undefined }, claims: { sub: 'added' } }
    const browser = await adding('adder')
    issuer.state.idToken = 'none'
    const [signedOut, other] = [newBrowser(), await signIn({ claims: { sub: 'another' } })]
    issuer.state.idToken = 'none'
    const callback = callbackOf(issuer, 'example', issuer.issuer, -2)
    for (const elsewhere of [signedOut, other]) {
      await elsewhere.open(callback)
      expect(elsewhere.page.status).toBe(400)
    }
    expect(issuer.state.idToken).toBe('none')
    await browser.open(callback)
    expect(browser.page.text).toContain('You can now sign in this way.')
  })

  test('have a state that is neither an interaction nor a session', async () => {
    const lastState = () => issuer.state.requests.at(-1)?.searchParams.get('state')
    const browser = newBrowser()
    await browser.open('/account')
    const interaction = browser.page.url.pathname.split('/').at(-1) ?? ''
    expect(interaction.length).toBeGreaterThan(20)
    await browser.submit({ decision: 'example' })
    const states = [lastState()]
    issuer.state.behaviour = { response: { state: undefined } }
    await adding('owner')
    states.push(lastState())
    const { id = '' } = (await usher.directory.findByUsername('owner')) ?? {}
    const [session] = await usher.sessions.list(id)
    for (const state of states) {
      for (const uid of [interaction, session?.uid]) expect(state).not.toContain(uid)
    }
  })

  test('are accepted once, also at the same time', async () => {
    const browser = await signIn({ response: { state: undefined } })
    const url = callbackOf(issuer)
    await browser.open(url)
    expect(isSignedIn(browser)).toBe(true)
    await browser.open(url)
    expect(browser.page.status).toBe(400)
    for (let round = 0; round < 20; round++) {
      const racing = await signIn({ response: { state: undefined } })
      const headers = { cookie: await racing.cookies() }
      const callback = new URL(callbackOf(issuer), usher.issuer)
      const send = () => fetch(callback, { headers, redirect: 'manual' })
      const answers = await Promise.all([send(), send()])
      expect(answers.map(({ status }) => status).toSorted()).toEqual([302, 400])
    }
  })
})

/** Returns the path of the response to the last request of an issuer. */
function callbackOf(
  { state, issuer }: HostileIssuer,
  name = 'example',
  iss = issuer,
  nth = -1,
): string {
  const { searchParams } = state.requests.at(nth) as URL
  const code = `code-${state.requests.length + nth + 1}`
  const query = new URLSearchParams({ code, state: searchParams.get('state') ?? '', iss })
  return `/sign-in/${name}/callback?${query}`
}

test('a failed sign-in at an issuer marks no field; a wrong password marks both', async () => {
  const browser = await signIn({ response: { error: 'access_denied', code: undefined } })
  const marked = () => browser.page.html.querySelectorAll('input[aria-invalid]').map(({ id }) => id)
  expect(browser.page.text).toContain(FAILED)
  expect(marked()).toEqual([])
  await browser.submit({ ...credentials('nobody'), decision: 'continue' })
  expect(marked()).toEqual(['username', 'password'])
})

test('a session id from before the sign-in is invalid after it (session fixation)', async () => {
  const [attacker, victim] = [newBrowser(), newBrowser()]
  await attacker.open(authorizationRequest(usher).url)
  for (const cookie of await attacker.jar.getCookies(usher.issuer)) {
    await victim.jar.setCookie(cookie, usher.issuer)
  }
  const before = await victim.cookies()
  await signIn({}, 'example', victim)
  expect(isSignedIn(victim)).toBe(true)
  const sessionIn = (cookies: string) => /usher_session=([^;]*)/.exec(cookies)?.[1]
  expect(sessionIn(await victim.cookies())).toBeTruthy()
  expect(sessionIn(await victim.cookies())).not.toBe(sessionIn(before))
  await attacker.open('/account')
  expect(attacker.heading).toBe('Sign in')
})

test('no parameter of a callback can redirect the browser elsewhere (open redirect)', async () => {
  const names = ['redirect_uri', 'post_logout_redirect_uri', 'next', 'returnTo', 'return_to', 'url']
  const evil = names.map(name => [name, 'https://evil.example/'])
  const right = await signIn({ response: Object.fromEntries(evil) })
  expect(isSignedIn(right)).toBe(true)
  expect(right.page.url.origin).toBe(usher.issuer)
  for (const response of [
    { error: 'https://evil.example/', code: undefined },
    { error: 'access_denied', error_uri: 'https://evil.example/', code: undefined },
    { iss: 'https://evil.example/' },
    { state: 'https://evil.example/' },
  ]) {
    const browser = await signIn({ response: { ...Object.fromEntries(evil), ...response } })
    expect(browser.page.url.origin).toBe(usher.issuer)
    expect(browser.page.text).not.toContain('evil.example')
  }
})

test.each<[string, object]>([
  ['an error with a message that is JSON', { error: 'invalid_grant', message: { toString: 1 } }],
  ['an error that is JSON', { error: { toString: 1 } }],
  ['members that are JSON', { access_token: { toString: 1 }, token_type: [], id_token: {} }],
  ['a list', []],
])('a token response with %s is no 5xx', async (_, body) => {
  for (const status of [200, 400]) {
    const json = Buffer.from(JSON.stringify(body))
    const browser = await signIn({ bodies: { '/token': { encoding: '', body: json, status } } })
    expect(browser.page.status).toBeLessThan(500)
    expect(browser.page.text).toContain(FAILED)
  }
})

test('max_age needs a recent auth_time of the issuer', async () => {
  const browser = newBrowser()
  const ask = async (auth_time: number | undefined) => {
    issuer.state.behaviour = { claims: { auth_time } }
    await browser.open(authorizationRequest(usher, { prompt: 'login' }).url)
    await browser.submit({ decision: 'example' })
    const { searchParams } = issuer.state.requests.at(-1) as URL
    expect(searchParams.get('max_age')).toBe('0')
    expect(searchParams.get('prompt')).toBe('login')
    return browser.page.text
  }
  expect(await ask(undefined)).toContain(FAILED)
  moveClock(0)
  expect(await ask(seconds() - 31)).toContain(tooOld(issuer))
  // Clocks may differ by 30 s.
  await ask(seconds() - 30)
  expect(isSignedIn(browser)).toBe(true)
})

describe('a sign-in at the issuer longer ago than lifetimes.session', () => {
  const DAYS_30 = 30 * 24 * 3600
  const HINT = 'ada@example.org'
  const sent = () =>
    issuer.state.requests.map(({ searchParams }) =>
      ['max_age', 'prompt', 'login_hint'].map(name => searchParams.get(name)),
    )
  test.beforeEach(() => {
    issuer.state.requests.length = 0
  })

  test('is repeated there with prompt=login; then the page says how to end it', async () => {
    const auth_time = seconds() - DAYS_30 - 100
    issuer.state.behaviour = { claims: { auth_time } }
    const browser = newBrowser()
    await browser.open(authorizationRequest(usher, { login_hint: HINT }).url)
    await browser.submit({ decision: 'example' })
    const again = [
      [null, null, HINT],
      [String(DAYS_30), 'login', HINT],
    ]
    expect(sent()).toEqual(again)
    expect(browser.page.text).toContain(tooOld(issuer))
    expect(usher.output.join('')).toContain(`auth_time is ${auth_time}`)
    issuer.state.behaviour = { claims: { auth_time: seconds() - DAYS_30 + 3600 } }
    await browser.submit({ decision: 'example' })
    expect(isSignedIn(browser)).toBe(true)
    expect(sent()).toEqual([...again, [null, null, HINT]])
  })

  test('is repeated for max_age of a client too', async () => {
    issuer.state.behaviour = { claims: { auth_time: seconds() - 3600 } }
    const browser = newBrowser()
    await browser.open(authorizationRequest(usher, { max_age: '600' }).url)
    await browser.submit({ decision: 'example' })
    expect(sent()).toEqual([
      ['600', null, null],
      ['600', 'login', null],
    ])
    expect(browser.page.text).toContain(tooOld(issuer))
  })
})

describe('the log has why an issuer is unavailable', () => {
  const DISCOVERY = '/.well-known/openid-configuration'
  const detail = (at: Usher) => at.output.map(line => JSON.parse(line)).filter(line => line.detail)

  test('when a user adds it', async () => {
    const { fresh } = await startAnew()
    issuer.state.behaviour = { faults: { [DISCOVERY]: 'reset' } }
    const browser = await adding('local', fresh)
    expect(browser.page.url.search).toBe('?outcome=method_failed')
    expect(detail(fresh)[0]?.detail).toMatch(/^example: other side closed/)
    issuer.state.behaviour = {}
    await browser.open('/account/security')
    await stopping(fresh.store)(0, () => submitConfirmed(browser, { link: 'example' }))
    expect(browser.page.status).toBe(503)
  })

  test('when a user signs out, or its discovery document cannot be read again', async () => {
    issuer.state.behaviour = { withoutLogout: true }
    const { fresh, browser } = await startAnew()
    await browser.open('/account')
    await browser.submit({ decision: 'example' })
    await browser.open('/api/oauth/logout')
    expect(browser.heading).toBe('Sign out')
    expect(detail(fresh)[0]?.detail).toMatch(/^example: .*end_session_endpoint/)
    moveClock(3601)
    issuer.state.behaviour = { faults: { [DISCOVERY]: 502 } }
    await browser.open('/api/oauth/logout')
    expect(fresh.output.join('')).toMatch(/"upstream":"example".*no discovery document/)
  })
})

test('an issuer that does not answer leaves the sign-in page with the button to try again', async () => {
  const { fresh, browser } = await startAnew(HASTY)
  issuer.state.behaviour = { silent: 'token' }
  await browser.open(authorizationRequest(fresh).url)
  await browser.submit({ decision: 'example' })
  expect(browser.page.text).toContain(FAILED)
  issuer.state.behaviour = {}
  await browser.submit({ decision: 'example' })
  expect(isSignedIn(browser)).toBe(true)
})

test('a key of an issuer whose signatures take long is not used, and the log names it', async () => {
  const { fresh, browser } = await startAnew()
  const body = Buffer.from(JSON.stringify({ keys: [{ ...rsaKey(2048, 2048), kid: 'one' }] }))
  issuer.state.behaviour = { bodies: { '/jwks': { encoding: '', body } } }
  await browser.open(authorizationRequest(fresh).url)
  await browser.submit({ decision: 'example' })
  expect(browser.page.text).toContain(FAILED)
  expect(fresh.output.join('')).toMatch(/"problem":"e has 32 bits at most.*"kid":"one"/)
})

// A decoder would return JSON of 8 MiB.
const LONG = `{"keys":[]${' '.repeat(8 * 1024 * 1024)}}`
test.each<[path: string, encoding: string, body: Uint8Array]>([
  ['/token', 'br, br', brotliCompressSync(brotliCompressSync(LONG))],
  ['/jwks', 'X-GZIP', gzipSync('{"keys":[]}')],
  ['/.well-known/openid-configuration', 'zstd', zstdCompressSync('{"keys":[]}')],
  ['/.well-known/openid-configuration', 'deflate', deflateSync('{"keys":[]}')],
])('%s with the content-encoding %s is not decoded', async (path, encoding, body) => {
  issuer.state.behaviour = { bodies: { [path]: { encoding, body } } }
  issuer.state.encodings = []
  const { fresh, browser } = await startAnew()
  await browser.open(authorizationRequest(fresh).url)
  await browser.submit({ decision: 'example' })
  expect(browser.heading).toBe('Sign in')
  expect(fresh.output.join('')).toContain(`the content-encoding ${encoding} was not requested`)
  expect(new Set(issuer.state.encodings)).toEqual(new Set(['identity']))
})

describe('logout tokens', () => {
  const EVENTS = { 'http://schemas.openid.net/event/backchannel-logout': {} }
  const send = async (claims: object, header: object = {}, to = usher) => {
    const logout_token = await issuer.sign(
      {
        iss: issuer.issuer,
        aud: 'usher',
        iat: seconds(),
        exp: seconds() + 120,
        jti: crypto.randomUUID(),
        sub: 'logout',
        events: EVENTS,
        ...claims,
      },
      { typ: 'logout+jwt', ...header },
    )
    const url = `${to.issuer}/sign-in/example/backchannel-logout`
    const body = new URLSearchParams({ logout_token })
    return { status: (await fetch(url, { method: 'POST', body })).status, body }
  }
  const signedIn = (sid = 'here') =>
    signIn({ claims: { sub: 'logout', preferred_username: 'out', sid } })
  const isOut = async (browser: Browser) => {
    await browser.open('/account')
    return browser.heading === 'Sign in'
  }

  test.each([
    ['sub', {}],
    ['sid', { sub: undefined, sid: 'here' }],
  ])('end the sessions of the user, by %s', async (_, claims) => {
    const browser = await signedIn()
    expect(await isOut(browser)).toBe(false)
    expect((await send(claims)).status).toBe(200)
    expect(await isOut(browser)).toBe(true)
  })

  test('are refused when they are invalid, and end nothing', async () => {
    const browser = await signedIn()
    const events = (event: unknown) => ({ events: { [Object.keys(EVENTS)[0] ?? '']: event } })
    const wrong: object[] = [
      { iss: second.issuer },
      { aud: 'another' },
      { iat: seconds() - 600, exp: seconds() + 60 },
      { events: {} },
      { events: undefined },
      events(null),
      events([]),
      events('x'),
      { events: Object.assign([], EVENTS) },
      { events: [EVENTS] },
      { nonce: 'an ID token has one' },
      { sub: undefined },
      { jti: undefined },
      { exp: undefined },
      { exp: seconds() - 1 },
    ]
    for (const value of [{ toString: 1 }, ['here'], 1, null]) {
      wrong.push({ sid: value }, { sub: value, sid: 'unknown' }, { jti: value })
    }
    for (const claims of wrong) {
      expect((await send(claims)).status, JSON.stringify(claims)).toBe(400)
    }
    for (const header of [{ typ: 'at+jwt' }, { typ: 'dpop+jwt' }, { crit: ['b64'], b64: true }]) {
      expect((await send({}, header)).status).toBe(400)
    }
    expect(await isOut(browser)).toBe(false)
  })

  test('end the session of their sid, and no other of the user', async () => {
    const [here, elsewhere] = [await signedIn('here'), await signedIn('elsewhere')]
    expect((await send({ sid: 'here' })).status).toBe(200)
    expect([await isOut(here), await isOut(elsewhere)]).toEqual([true, false])
    // The session of this sid has ended before.
    expect((await send({ sid: 'here' })).status).toBe(200)
    expect(await isOut(elsewhere)).toBe(false)
    expect((await send({ sid: 'unknown' })).status).toBe(200)
    expect(await isOut(elsewhere)).toBe(true)
  })

  test('that arrive late end no session that began after them', async () => {
    const before = await signedIn('before')
    const iat = seconds()
    await expect.poll(seconds).toBeGreaterThan(iat)
    const after = await signedIn('after')
    expect((await send({ iat })).status).toBe(200)
    expect([await isOut(before), await isOut(after)]).toEqual([true, false])
    const again = await signedIn('again')
    expect((await send({ iat, sid: 'unknown' })).status).toBe(200)
    expect([await isOut(after), await isOut(again)]).toEqual([false, false])
  })

  test('end each session that began in the session of their sid', async () => {
    const shared = [await signedIn('shared'), await signedIn('shared')]
    const other = await signedIn('not shared')
    expect((await send({ sub: undefined, sid: 'shared' })).status).toBe(200)
    for (const browser of shared) expect(await isOut(browser)).toBe(true)
    expect(await isOut(other)).toBe(false)
  })

  test('cannot be ID tokens of the issuer', async () => {
    const browser = await signedIn()
    const body = new URLSearchParams({ logout_token: issuer.state.idToken })
    const url = `${usher.issuer}/sign-in/example/backchannel-logout`
    expect((await fetch(url, { method: 'POST', body })).status).toBe(400)
    const changed = { typ: 'JWT', events: EVENTS, jti: 'x', nonce: 'of an ID token' }
    expect((await send(changed)).status).toBe(400)
    expect(await isOut(browser)).toBe(false)
  })

  test.each([
    ['sub', {}],
    ['sid', { sub: undefined }],
  ])(
    'by %s are answered 503 when the store fails at any operation, and end the session when repeated',
    async (_, sent) => {
      let isDone = false
      const { first, step } = placesOf(3)
      for (let k = first; !isDone; k += step) {
        const sid = `of fault ${k}`
        const claims = { ...sent, ...('sub' in sent && { sid }) }
        const browser = await signedIn(sid)
        const jti = `fault ${JSON.stringify(claims)} ${k}`
        const token = () => send({ ...claims, jti })
        const { result, isFailed } = await withFaultAt(usher, k, token)
        isDone = !isFailed
        expect(result.status, `operation ${k}`).toBe(isFailed ? 503 : 200)
        if (isFailed) expect((await send({ ...claims, jti })).status).toBe(200)
        expect(await isOut(browser), `operation ${k}`).toBe(true)
        expect((await send({ ...claims, jti })).status).toBe(400)
      }
    },
  )

  test.each<[string, NonNullable<Behaviour['faults']>]>([
    ['its discovery document is not sent', { '/.well-known/openid-configuration': 'silent' }],
    ['its JWKS is a 503', { '/jwks': 503 }],
    ['its JWKS breaks off', { '/jwks': 'reset' }],
  ])('of an issuer are answered 503 while %s, and 200 afterwards', async (_, faults) => {
    const { fresh } = await startAnew(HASTY)
    issuer.state.behaviour = { faults }
    const jti = crypto.randomUUID()
    expect((await send({ jti }, {}, fresh)).status).toBe(503)
    issuer.state.behaviour = {}
    // A request for the keys may still be waiting.
    await expect.poll(async () => (await send({ jti }, {}, fresh)).status).toBe(200)
  })

  test('are accepted once', async () => {
    const { status, body } = await send({ jti: 'once' })
    expect(status).toBe(200)
    const url = `${usher.issuer}/sign-in/example/backchannel-logout`
    expect((await fetch(url, { method: 'POST', body })).status).toBe(400)
    const again = await Promise.all(Array.from({ length: 6 }, () => send({ jti: 'at once' })))
    expect(again.map(({ status }) => status).toSorted()).toEqual([200, 400, 400, 400, 400, 400])
  })
})

test('neither the store nor the log has a token, code or secret of the issuer', async () => {
  await signIn({ response: { state: undefined } })
  const pending = await dump()
  await signIn({ claims: { sub: 'dump' } })
  const written = usher.output.join('') + pending + (await dump())
  expect(written.length).toBeGreaterThan(10_000)
  const { searchParams } = issuer.state.requests.at(-1) as URL
  const nonce = searchParams.get('nonce') ?? 'none'
  for (const secret of [SECRET, 'code-', nonce]) expect(written).not.toContain(secret)
  // Matches the header and the payload of a JWT. Three letters alone also occur in random ids.
  expect(written).not.toMatch(/eyJ[\w-]+\.eyJ/)
})

async function dump(): Promise<string> {
  const entries: string[] = []
  for await (const { key, value } of usher.store.scan()) {
    entries.push(key, Buffer.from(value ?? []).toString('latin1'))
  }
  return entries.join('')
}
