// Authorization codes: what is needed to redeem one, what its reuse ends, and who wins a race.

import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { ada, browser, moveClock, startAnother, test, usher } from '../support/fixtures.ts'
import {
  type Answer,
  authorizationRequest,
  authorize,
  post,
  redeem,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { credentials, open, submitOnly } from '../support/people.ts'
import { ADA, WEB } from '../support/usher.ts'
import { sendAs } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } }

test.beforeAll(async () => {
  await tokens(usher, { browser })
})

test('a code has its tag and 256 random bits, and no other information', async () => {
  const codes = new Set<string>()
  for (let i = 0; i < 20; i++) codes.add((await authorize(usher, { browser })).code)
  expect(codes.size).toBe(20)
  for (const code of codes) expect(code).toMatch(/^[\w-]{65}$/)
})

test('a code expires after 60 seconds', async () => {
  const { code, request } = await authorize(usher, { browser })
  moveClock(61)
  expect(await redeem(usher, code, request)).toMatchObject(INVALID_GRANT)
})

test('a code that was refused for another client can still be redeemed by its own', async () => {
  const { code, request } = await authorize(usher, { browser })
  expect(await redeem(usher, code, { ...request, client_id: 'first' })).toMatchObject(INVALID_GRANT)
  expect((await redeem(usher, code, request)).status).toBe(200)
})

test('the reuse of a code revokes its own tokens, and not those of an earlier sign-in', async () => {
  const earlier = await tokens(usher, { browser })
  const { code, request } = await authorize(usher, { browser, scope: 'openid offline_access' })
  const { body } = await redeem(usher, code, request)
  expect((await userinfo(usher, body.access_token)).status).toBe(200)
  expect(await redeem(usher, code, request)).toMatchObject(INVALID_GRANT)
  expect((await userinfo(usher, body.access_token)).status).toBe(401)
  expect(await refresh(usher, body.refresh_token)).toMatchObject(INVALID_GRANT)
  expect((await userinfo(usher, earlier.access_token)).status).toBe(200)
  expect((await refresh(usher, earlier.refresh_token)).status).toBe(200)
  expect(usher.auditEvents()).toContainEqual(
    expect.objectContaining({ event: 'code_reuse', client_id: 'web', account: ada }),
  )
})

test('a used code with a wrong verifier, redirect URI or client revokes nothing', async () => {
  const { code, request } = await authorize(usher, { browser })
  const { body } = await redeem(usher, code, request)
  const others = [
    { code_verifier: 'A'.repeat(43) },
    { redirect_uri: 'https://elsewhere.example.org/callback' },
    { client_id: 'first' },
  ]
  for (const other of others) {
    expect(await redeem(usher, code, { ...request, ...other })).toMatchObject(INVALID_GRANT)
  }
  expect((await userinfo(usher, body.access_token)).status).toBe(200)
})

describe('another kind of token is not accepted', () => {
  test('in place of a code', async () => {
    const { access_token, refresh_token, id_token } = await tokens(usher, { browser })
    const { url, code_verifier } = authorizationRequest(usher, { prompt: 'login' })
    const page = await browser.open(url)
    const interaction = page.url.pathname.split('/').at(-1) ?? ''
    const session = /usher_session=([^;]+)/.exec(await browser.cookies())?.[1] ?? ''
    const used = [access_token, refresh_token, id_token, interaction, session, '__proto__', ' ']
    const form = { grant_type: 'authorization_code', redirect_uri: WEB, code_verifier }
    for (const code of used) {
      const { status, body } = await post(usher, TOKEN, { ...form, code })
      expect([status, body.error]).toEqual([400, 'invalid_grant'])
    }
    expect((await userinfo(usher, access_token)).status).toBe(200)
    expect((await refresh(usher, refresh_token)).status).toBe(200)
  })

  test('in place of a refresh token', async () => {
    const { code } = await authorize(usher, { browser, scope: 'openid offline_access' })
    const { access_token, id_token } = await tokens(usher, { browser })
    for (const token of [code, access_token, id_token, 'constructor']) {
      expect(await refresh(usher, token)).toMatchObject(INVALID_GRANT)
    }
  })

  test('in place of an access token', async () => {
    const { code } = await authorize(usher, { browser })
    const { refresh_token, id_token } = await tokens(usher, { browser })
    for (const token of [code, refresh_token, id_token]) {
      expect((await userinfo(usher, token)).status).toBe(401)
    }
  })
})

const ROUNDS = 4
const AT_ONCE = 30

const atOnce = <T>(act: () => Promise<T>, count = AT_ONCE) =>
  Promise.all(Array.from({ length: count }, act))

/** Each response as one word. An unexpected response is shown in full. */
const results = (answers: Answer[]) =>
  answers.map(({ status, body }) => (status === 200 ? 'ok' : `${status} ${body.error}`)).sort()

const oneWinner = [...Array(AT_ONCE - 1).fill('400 invalid_grant'), 'ok']

test('only one of many concurrent redemptions of one code gets tokens', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const scope = round % 2 ? 'openid profile' : 'openid offline_access'
    const { code, request } = await authorize(usher, { browser, scope })
    const answers = await atOnce(() => redeem(usher, code, request))
    expect(results(answers)).toEqual(oneWinner)
    const { body } = answers.find(({ status }) => status === 200) ?? {}
    expect((await userinfo(usher, body?.access_token ?? '')).status).toBe(401)
  }
})

test('without a grace period, only one of many concurrent uses of one refresh token succeeds', async () => {
  const strict = await startAnother({ usher: { lifetimes: { refresh_token_grace: '0 s' } } })
  await strict.addAccount(ADA)
  const other = new Browser(strict.issuer)
  for (let round = 0; round < ROUNDS; round++) {
    const first = await tokens(strict, { browser: other })
    const answers = await atOnce(() => refresh(strict, first.refresh_token))
    expect(results(answers)).toEqual(oneWinner)
    const { body } = answers.find(({ status }) => status === 200) ?? {}
    expect((await refresh(strict, body?.refresh_token ?? '')).status).toBe(400)
  }
  const reuses = strict.output.filter(line => line.includes('"event":"refresh_reuse"'))
  expect(reuses).toHaveLength(ROUNDS)
})

test('in the grace period, concurrent uses of one refresh token get the same successor, which is valid', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const first = await tokens(usher, { browser })
    const answers = await atOnce(() => refresh(usher, first.refresh_token))
    expect(results(answers)).toEqual(Array(AT_ONCE).fill('ok'))
    const next = new Set(answers.map(({ body }) => body.refresh_token))
    expect(next.size).toBe(1)
    for (const { body } of answers.slice(0, 3)) {
      expect((await userinfo(usher, body.access_token)).status).toBe(200)
    }
    expect((await refresh(usher, [...next][0] ?? '')).status).toBe(200)
  }
})

test('only one of many concurrent requests that resume one sign-in gets a code', async () => {
  for (let round = 0; round < 5; round++) {
    const { browser: other } = await open(usher)
    const resume = await submitOnly(other, credentials())
    const answers = await atOnce(() => sendAs(other, usher, resume), 16)
    expect(answers.filter(({ location }) => location?.searchParams.has('code'))).toHaveLength(1)
    const losers = answers.filter(({ location }) => !location?.searchParams.has('code'))
    for (const { status, location } of losers) {
      expect(status).toBe(400)
      expect(location).toBeUndefined()
    }
  }
})
