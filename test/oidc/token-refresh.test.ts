import { decodeJwt } from 'jose'
import { expect, vi } from 'vitest'
import { browser, test, usher } from '../support/fixtures.ts'
import { post, refresh, tokens, userinfo } from '../support/journey.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

const TOKEN = '/api/oauth/token'
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } }

const narrow = (refresh_token: string, scope: string) =>
  post(usher, TOKEN, { grant_type: 'refresh_token', refresh_token, scope })

const introspect = (place: Usher, token: string) => post(place, '/api/oauth/introspect', { token })

/** Starts an Usher with other lifetimes and the account of Ada. Closes it after `use`. */
async function withLifetimes(
  lifetimes: Record<string, string>,
  use: (usher: Usher) => Promise<void>,
) {
  const other = await startUsher({ usher: { lifetimes } })
  try {
    await other.addAccount(ADA)
    await use(other)
  } finally {
    await other.close()
  }
}

const nextSecond = () => {
  const now = Math.floor(Date.now() / 1000)
  return vi.waitFor(() => expect(Math.floor(Date.now() / 1000)).toBeGreaterThan(now), {
    timeout: 2000,
    interval: 20,
  })
}

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

test('rotation never extends the expiry of the first token', () =>
  withLifetimes({ refresh_token: '20 s', refresh_token_idle: '1 d' }, async brief => {
    const first = await tokens(brief)
    const end = (await introspect(brief, first.refresh_token)).body.exp
    expect(Number(end)).toBeLessThanOrEqual(Date.now() / 1000 + 20)
    await nextSecond()
    const second = await refresh(brief, first.refresh_token)
    expect((await introspect(brief, second.body.refresh_token)).body.exp).toBe(end)
  }))

test('a use extends the idle lifetime only', () =>
  withLifetimes({ refresh_token: '90 d', refresh_token_idle: '20 s' }, async brief => {
    const first = await tokens(brief)
    const end = Number((await introspect(brief, first.refresh_token)).body.exp)
    expect(end).toBeLessThanOrEqual(Date.now() / 1000 + 20)
    await nextSecond()
    const second = await refresh(brief, first.refresh_token)
    const moved = Number((await introspect(brief, second.body.refresh_token)).body.exp)
    expect(moved).toBeGreaterThan(end)
    expect(moved).toBeLessThanOrEqual(Date.now() / 1000 + 20)
  }))

test('an expired token is refused without details', () =>
  withLifetimes({ refresh_token: '90 d', refresh_token_idle: '1 s' }, async brief => {
    const { refresh_token } = await tokens(brief)
    await vi.waitFor(
      async () => {
        const { body } = await introspect(brief, refresh_token)
        expect(body).toEqual({ active: false })
      },
      { timeout: 4000, interval: 100 },
    )
    expect(await refresh(brief, refresh_token)).toMatchObject(INVALID_GRANT)
  }))
