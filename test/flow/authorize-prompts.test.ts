import { decodeJwt } from 'jose'
import { expect, vi } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, redeem, signInAndAllow } from '../support/journey.ts'
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
    },
  },
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
  vi.waitFor(() => expect(Math.floor(Date.now() / 1000)).toBeGreaterThan(after), {
    timeout: 3000,
    interval: 20,
  })

test('prompt=none without a session answers login_required', async () => {
  const { page } = await open({ prompt: 'none' }, new Browser(usher.issuer))
  expect(page.ours).toBe(false)
  expect(page.params.get('error')).toBe('login_required')
  expect(page.params.has('code')).toBe(false)
})

test('prompt=none without consent answers consent_required', async () => {
  const other = CLIENTS.post as { redirect_uris: string[] }
  const redirect_uri = other.redirect_uris[0]
  const { page } = await open({ prompt: 'none', client_id: 'post', redirect_uri })
  expect(page.params.get('error')).toBe('consent_required')
})

test('prompt=none returns a code when no page is needed', async () => {
  const { page } = await open({ prompt: 'none' })
  expect(page.params.get('code')).toBeTruthy()
})

test('prompt=none never returns a code to a native application', async () => {
  const native = { client_id: 'native', redirect_uri: 'http://127.0.0.1:4711/callback' }
  await authorize(usher, { browser, ...native })
  const { page } = await open({ prompt: 'none', ...native })
  expect(page.params.get('error')).toBe('interaction_required')
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

test('prompt=consent shows the consent page although everything was allowed before', async () => {
  await open({ prompt: 'consent' })
  expect(browser.heading).toBe('Allow access')
  const page = await browser.submit({ decision: 'allow' })
  expect(page.params.get('code')).toBeTruthy()
})

test('a user who cancels a second sign-in stays signed in', async () => {
  await open({ prompt: 'login' })
  const cancelled = await browser.submit({ decision: 'cancel' })
  expect(cancelled.params.get('error')).toBe('access_denied')
  const { page } = await open({ prompt: 'none' })
  expect(page.params.get('code')).toBeTruthy()
})

test('an id_token_hint of another user does not continue this session', async () => {
  const grace = await authorize(usher, {
    username: 'grace',
    client_id: 'timed',
    redirect_uri: TIMED,
  })
  const { body } = await redeem(usher, grace.code, grace.request)
  const { page } = await open({ prompt: 'none', id_token_hint: body.id_token })
  expect(page.params.get('error')).toBe('login_required')
})
