import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { browser, moveClock, test, usher } from '../support/fixtures.ts'
import { post, refresh, tokens, userinfo } from '../support/journey.ts'
import { ADA } from '../support/usher.ts'

const TOKEN = '/api/oauth/token'
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } }

const narrow = (refresh_token: string, scope: string) =>
  post(usher, TOKEN, { grant_type: 'refresh_token', refresh_token, scope })

const DAY = 24 * 3600
const introspect = (token: string) => post(usher, '/api/oauth/introspect', { token })

test('a refresh token is refused for another client', async () => {
  const { refresh_token } = await tokens(usher, { browser })
  expect(await refresh(usher, refresh_token, 'first')).toMatchObject(INVALID_GRANT)
  expect(await refresh(usher, refresh_token, 'spa')).toMatchObject(INVALID_GRANT)
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('scopes can be narrowed for one access token, and are complete at the next refresh', async () => {
  const { refresh_token } = await tokens(usher, { browser })
  const less = await narrow(refresh_token, 'openid')
  expect(less.body.scope).toBe('openid')
  const info = await userinfo(usher, less.body.access_token)
  expect(Object.keys(info.body)).toEqual(['sub'])
  const whole = await refresh(usher, less.body.refresh_token)
  expect(String(whole.body.scope).split(' ').sort()).toEqual(
    ['email', 'offline_access', 'openid', 'profile'].sort(),
  )
  expect((await userinfo(usher, whole.body.access_token)).body.email).toBe(ADA.email)
})

test('scopes cannot be widened, and an attempt does not use up the token', async () => {
  const { refresh_token } = await tokens(usher, { browser, scope: 'openid offline_access' })
  for (const scope of ['openid profile', 'openid admin', 'email']) {
    const { status, body } = await narrow(refresh_token, scope)
    expect([status, body.error]).toEqual([400, 'invalid_scope'])
  }
  expect((await refresh(usher, refresh_token)).body.scope).toBe('openid offline_access')
})

test('a refresh fails while the account is disabled, and works after it is enabled', async () => {
  const grace = await usher.addAccount({ username: 'grace' })
  const { refresh_token } = await tokens(usher, { username: 'grace' })
  const setEnabled = (enabled: boolean) =>
    usher.directory.change(grace.id, account => ({ ...account, enabled }))
  await setEnabled(false)
  expect(await refresh(usher, refresh_token)).toMatchObject(INVALID_GRANT)
  await setEnabled(true)
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test.each(['web', 'post', 'spa', 'native'])(
  'every use rotates the refresh token, for "%s"',
  async client_id => {
    const first = await tokens(usher, { browser, client_id })
    const seen = new Set([first.refresh_token])
    let token = first.refresh_token
    for (let use = 0; use < 3; use++) {
      const { status, body } = await refresh(usher, token, client_id)
      expect(status).toBe(200)
      token = body.refresh_token
      seen.add(token)
    }
    expect(seen.size).toBe(4)
  },
)

test.each(['web', 'spa'])('a second use revokes the whole family, for "%s"', async client_id => {
  const first = await tokens(usher, { browser, client_id })
  const second = await refresh(usher, first.refresh_token, client_id)
  const third = await refresh(usher, second.body.refresh_token, client_id)
  expect(third.status).toBe(200)
  expect(await refresh(usher, first.refresh_token, client_id)).toMatchObject(INVALID_GRANT)
  expect(await refresh(usher, third.body.refresh_token, client_id)).toMatchObject(INVALID_GRANT)
  for (const { access_token } of [first, second.body, third.body]) {
    expect((await userinfo(usher, access_token)).status).toBe(401)
  }
})

test('a refreshed ID token has no nonce (OIDC Core §12.2), and the same other claims', async () => {
  const first = await tokens(usher, { max_age: '3600' })
  const before = decodeJwt(first.id_token)
  expect(before.auth_time).toBeDefined()
  expect(before.nonce).toBe(first.request.nonce)
  const { body } = await refresh(usher, first.refresh_token)
  const { nonce, iat, exp, ...after } = decodeJwt(body.id_token)
  expect(nonce).toBeUndefined()
  expect(before).toMatchObject(after)
})

test('after the reuse of a token, no consent page is shown', async () => {
  const first = await tokens(usher, { browser })
  await refresh(usher, first.refresh_token)
  await refresh(usher, first.refresh_token)
  const again = await tokens(usher, { browser, prompt: 'none' })
  expect((await refresh(usher, again.refresh_token)).status).toBe(200)
})

test('rotation prolongs the idle lifetime, up to the lifetime of the first token', async () => {
  const begun = Date.now() / 1000
  let token = (await tokens(usher, { browser })).refresh_token
  const expectEnd = async (day: number) => {
    const { body } = await introspect(token)
    expect(Math.abs(Number(body.exp) - begun - day * DAY)).toBeLessThan(60)
  }
  await expectEnd(14)
  for (let day = 13; day < 90; day += 13) {
    moveClock(13 * DAY)
    token = (await refresh(usher, token)).body.refresh_token
    await expectEnd(Math.min(day + 14, 90))
  }
  moveClock(13 * DAY)
  await expectExpired(token)
})

test('a token that was not used for two weeks is refused without details', async () => {
  const { refresh_token } = await tokens(usher)
  moveClock(14 * DAY + 1)
  await expectExpired(refresh_token)
})

async function expectExpired(token: string) {
  expect((await introspect(token)).body).toEqual({ active: false })
  expect(await refresh(usher, token)).toMatchObject(INVALID_GRANT)
}
