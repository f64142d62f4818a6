import { decodeJwt } from 'jose'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, browser, grace, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  push,
  redeem,
  signInAndAllow,
} from '../support/journey.ts'
import { jwk, signAssertion } from '../support/keyed.ts'
import { credentials, newTab, signedIn, textOf, words } from '../support/people.ts'
import { ADA, CLIENTS, GRACE } from '../support/usher.ts'

const TIMED = 'https://timed.example.org/callback'

const test = usherTest({
  clients: {
    ...CLIENTS,
    timed: {
      ...CLIENTS.web,
      client_id: 'timed',
      redirect_uris: [TIMED],
      require_auth_time: true,
      jwks: { keys: [jwk] },
    },
    pairwise: {
      ...CLIENTS.web,
      client_id: 'pairwise',
      redirect_uris: ['https://pairwise.example.org/callback'],
      subject_type: 'pairwise',
    },
  },
  usher: { features: { pairwise_subjects: true } },
  accounts: [ADA, GRACE],
})
test.beforeAll(async () => {
  await authorize(usher, { browser, client_id: 'timed', redirect_uri: TIMED })
})

type Params = Record<string, string | undefined>

/** Opens an authorization request as Ada, who has a session and has given consent. */
async function open(params: Params = {}, who = browser) {
  const timed = { client_id: 'timed', redirect_uri: TIMED }
  const request = authorizationRequest(usher, { ...timed, ...params })
  return { request, page: await who.open(request.url) }
}

async function authTime(params: Params = {}): Promise<number> {
  const { request } = await open(params)
  const page = await signInAndAllow(browser, 'ada')
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  const { auth_time } = decodeJwt(body.id_token)
  if (typeof auth_time !== 'number') throw new Error('the ID token has no auth_time')
  return auth_time
}

test('the ID token has amr (RFC 8176), also when it is not requested', async () => {
  const { page, request } = await open()
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(decodeJwt(body.id_token).amr).toEqual(['pwd'])
})

/** Waits for the next second: `auth_time` is in seconds, and would not change within the same one. */
const nextSecond = (after: number) =>
  expect.poll(() => Math.floor(Date.now() / 1000)).toBeGreaterThan(after)

test('prompt=none without a session answers login_required', async () => {
  const { page } = await open({ prompt: 'none' }, new Browser(usher.issuer))
  expect(page.ours).toBe(false)
  expect(page.params.get('error')).toBe('login_required')
  expect(page.params.has('code')).toBe(false)
})

test('prompt=none with max_age=0 answers login_required', async () => {
  const { page } = await open({ prompt: 'none', max_age: '0' })
  expect(page.params.get('error')).toBe('login_required')
})

test.each(['none login', 'none consent', 'none select_account', 'create', 'NONE', 'nonsense'])(
  'prompt=%s is refused',
  async prompt => {
    const { page } = await open({ prompt })
    expect(page.ours).toBe(false)
    expect(page.params.get('error')).toBe('invalid_request')
  },
)

test.each([
  ['prompt=login', { prompt: 'login' }],
  ['max_age=0', { max_age: '0' }],
])('%s requires the password again, and auth_time changes', async (_, params) => {
  const before = await authTime()
  await nextSecond(before)
  expect(await authTime()).toBe(before)
  await open(params)
  expect(browser.heading).toBe('Sign in')
  expect(await authTime(params)).toBeGreaterThan(before)
})

test('no page is shown while the sign-in is younger than max_age', async () => {
  const { page } = await open({ max_age: '3600' })
  expect(page.params.get('code')).toBeTruthy()
})

test.each(['-1', '1.5', 'abc', '99999999999999999999'])('max_age=%s is refused', async max_age => {
  const { page } = await open({ max_age, prompt: 'none' })
  expect(page.params.get('error')).toBe('invalid_request')
})

/** An ID token of Ada for a client. */
async function hintOf(client_id: string, redirect_uri?: string) {
  const { code, request } = await authorize(usher, { client_id, redirect_uri })
  return (await redeem(usher, code, request)).body.id_token
}

type Way = (
  params: Params,
) => Promise<{ url: URL; request: ReturnType<typeof authorizationRequest> }>
const timed = { client_id: 'timed', redirect_uri: TIMED }

/** How an authorization request can name its user. */
const WAYS: Record<string, Way> = {
  async id_token_hint(params) {
    const id_token_hint = await hintOf('timed', TIMED)
    const request = authorizationRequest(usher, { ...timed, ...params, id_token_hint })
    return { url: request.url, request }
  },
  async 'claims.id_token.sub'(params) {
    const claims = JSON.stringify({ id_token: { sub: { value: ada } } })
    const request = authorizationRequest(usher, { ...timed, ...params, claims })
    return { url: request.url, request }
  },
  async 'the pairwise subject of id_token_hint'(params) {
    const redirect_uri = 'https://pairwise.example.org/callback'
    const client = { client_id: 'pairwise', redirect_uri }
    const id_token_hint = await hintOf('pairwise', redirect_uri)
    const request = authorizationRequest(usher, { ...client, ...params, id_token_hint })
    return { url: request.url, request }
  },
  async 'a pushed id_token_hint'(params) {
    const { request } = (await WAYS.id_token_hint?.(params)) ?? expect.fail()
    const { url } = await push(usher, Object.fromEntries(request.url.searchParams))
    return { url, request }
  },
  async 'an id_token_hint in a request object'(params) {
    const { request } = (await WAYS.id_token_hint?.(params)) ?? expect.fail()
    const parameters = Object.fromEntries(request.url.searchParams)
    const claims = { ...parameters, iss: 'timed', sub: undefined }
    const signed = await signAssertion(usher.issuer, { claims })
    const url = new URL('/api/oauth/authorize', usher.issuer)
    url.search = String(new URLSearchParams({ client_id: 'timed', request: signed }))
    return { url, request }
  },
}

/** Signs in; the page that signs out the former user submits itself. */
async function finishAs(username: string, who: Browser) {
  for (let page = 0; page < 3 && who.page.ours; page++) {
    await signInAndAllow(who, username)
    if (who.heading === words('navigate.title')) await who.submit()
  }
  return who.page
}

/** Answers the pages as Grace, twice; the client must not get a code. */
async function insistAsGrace(who: Browser) {
  for (let page = 0; page < 2; page++) {
    if (who.heading === words('select_account.title')) await who.submit({ decision: 'continue' })
    expect(who.heading).toBe(words('sign_in.title'))
    await who.submit(credentials('grace'))
    expect(who.page.ours, String(who.page.url)).toBe(true)
  }
  expect(textOf(who.page.text)).toMatch(/expects another user than the one who is signed in/)
  expect(who.page.html.querySelector('input[name=username]')?.attributes.value).toBe('')
}

test.for<[way: string, params: Params, username?: string]>([
  ['id_token_hint', {}],
  ['id_token_hint', {}, 'grace'],
  ['id_token_hint', { prompt: 'login' }, 'grace'],
  ['id_token_hint', { prompt: 'select_account' }, 'grace'],
  ['id_token_hint', { max_age: '1' }],
  ['claims.id_token.sub', { prompt: 'select_account' }, 'grace'],
  ['the pairwise subject of id_token_hint', {}],
  ['a pushed id_token_hint', {}, 'grace'],
  ['an id_token_hint in a request object', {}],
])('%s, with %j: another user who signs in is asked again (session: %s)', async row => {
  const [way, params, username] = row
  const who = username ? await signedIn(usher, username) : new Browser(usher.issuer)
  const { url, request } = (await WAYS[way]?.(params)) ?? expect.fail()
  await who.open(url)
  await insistAsGrace(who)
  const page = await finishAs('ada', who)
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(body.error_description).toBeUndefined()
  if (request.client_id === 'timed') expect(decodeJwt(body.id_token).sub).toBe(ada)
})

test('a user who is not the one of the hint can cancel', async () => {
  const who = await signedIn(usher, 'grace')
  await who.open((await WAYS.id_token_hint?.({}))?.url ?? '')
  const { params } = await who.submit({ decision: 'cancel' })
  expect(Object.fromEntries(params)).toMatchObject({ error: 'access_denied' })
})

test('an id_token_hint is compared again when the user changes in another tab', async () => {
  const who = new Browser(usher.issuer)
  await who.open((await WAYS.id_token_hint?.({ prompt: 'consent' }))?.url ?? '')
  await who.submit(credentials('ada'))
  expect(who.heading).toBe(words('consent.title'))
  const tab = newTab(who)
  await tab.open(authorizationRequest(usher, { prompt: 'login' }).url)
  await finishAs('grace', tab)
  expect(tab.page.params.has('code')).toBe(true)
  const page = await who.submit({ decision: 'allow' })
  expect(page.ours, String(page.url)).toBe(true)
})

test.for(Object.keys(WAYS))('%s: with prompt=none the answer is login_required', async way => {
  const who = await signedIn(usher, 'grace')
  const page = await who.open((await WAYS[way]?.({ prompt: 'none' }))?.url ?? '')
  expect(page.params.get('error')).toBe('login_required')
})

// Other rules that a resumed request could skip: each is checked after a page that does not sign in.
test.each<[string, Params]>([
  ['max_age', { max_age: '1' }],
  ['prompt=login', { prompt: 'select_account login' }],
])('%s is enforced after the account was chosen', async (_, params) => {
  const who = await signedIn(usher, 'ada')
  await nextSecond(Math.floor(Date.now() / 1000) + 1)
  await open({ prompt: 'select_account', ...params }, who)
  await who.submit({ decision: 'continue' })
  expect(who.heading).toBe(words('sign_in.title'))
})

describe('prompt=select_account shows the signed-in user, who continues or lets another user sign in', () => {
  let who: Browser
  test.beforeEach(async () => {
    who = await signedIn(usher)
  })

  const choose = (prompt = 'select_account') => open({ prompt }, who)
  async function subjectOf({ request }: Awaited<ReturnType<typeof choose>>) {
    const { body } = await redeem(usher, who.page.params.get('code') ?? '', request)
    return decodeJwt(body.id_token).sub
  }

  test('the signed-in user is named, and continues without a password', async () => {
    const asked = await choose()
    expect(who.heading).toBe(words('select_account.title'))
    expect(who.page.text).toContain('Ada Lovelace')
    await who.submit({ decision: 'continue' })
    expect(await subjectOf(asked)).toBe(ada)
  })

  test('another user can sign in, and gets the session', async () => {
    const asked = await choose()
    await who.submit({ decision: 'another' })
    expect(who.heading).toBe('Sign in')
    expect(who.page.html.querySelector('input[name=username]')?.getAttribute('value')).toBe('')
    await who.submit(credentials('grace'))
    for (let page = 0; page < 4 && who.page.ours; page++) {
      await who.submit(who.heading === 'Allow access' ? { decision: 'allow' } : {})
    }
    expect(await subjectOf(asked)).toBe(grace)
  })

  test('after a sign-in the account chooser is not shown', async () => {
    who = new Browser(usher.issuer)
    const asked = await choose()
    expect(who.heading).toBe('Sign in')
    await signInAndAllow(who, 'ada')
    expect(await subjectOf(asked)).toBe(ada)
  })

  test('with prompt=login the password is requested as well', async () => {
    const asked = await choose('select_account login')
    await who.submit({ decision: 'continue' })
    expect(who.heading).toBe('Sign in')
    await signInAndAllow(who, 'ada')
    expect(await subjectOf(asked)).toBe(ada)
  })

  test('cancelling returns without a code, and the user stays signed in', async () => {
    await choose()
    await who.submit({ decision: 'cancel' })
    expect(who.page.params.get('error')).toBe('access_denied')
    await open({ prompt: 'none' }, who)
    expect(who.page.params.get('code')).toBeTruthy()
  })
})
