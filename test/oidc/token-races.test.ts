import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, test, usher } from '../support/fixtures.ts'
import {
  type Answer,
  authorizationRequest,
  authorize,
  redeem,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import { ADA, PASSWORD, startUsher } from '../support/usher.ts'
import { sendAs } from '../support/wire.ts'

const ROUNDS = 4
const AT_ONCE = 30

test.beforeAll(async () => {
  await tokens(usher, { browser })
})

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
  const strict = await startUsher({ usher: { lifetimes: { refresh_token_grace: '0 s' } } })
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
  await strict.close()
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
    const other = new Browser(usher.issuer)
    const resume = await signInUpTo(other)
    const answers = await atOnce(() => sendAs(other, usher, resume), 16)
    expect(answers.filter(({ location }) => location?.searchParams.has('code'))).toHaveLength(1)
    const losers = answers.filter(({ location }) => !location?.searchParams.has('code'))
    for (const { status, location } of losers) {
      expect(status).toBe(400)
      expect(location).toBeUndefined()
    }
  }
})

/** Signs in, and returns the URL that the next page leads to. */
async function signInUpTo(other: Browser): Promise<string> {
  const page = await other.open(authorizationRequest(usher).url)
  const csrf = page.html.querySelector('input[name=csrf]')?.getAttribute('value') ?? ''
  const answer = await sendAs(other, usher, page.url, {
    body: { csrf, username: 'ada', password: PASSWORD, decision: 'continue' },
    headers: { origin: usher.issuer, 'sec-fetch-site': 'same-origin' },
  })
  const next = /content="0;url=([^"]*)"/.exec(answer.text)?.[1]
  if (!next) throw new Error(`signing in led nowhere: ${answer.status} ${answer.text}`)
  return next
}
