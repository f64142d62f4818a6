import { decodeJwt } from 'jose'
import { describe, expect, vi } from 'vitest'
import { browser, test, usher } from '../support/fixtures.ts'
import { authorize, post, refresh, tokens } from '../support/journey.ts'
import { ADA, ALAN, GRACE, SECRET, startUsher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const INTROSPECT = '/api/oauth/introspect'
const INACTIVE = { active: false }

const introspect = (token: string, more: Record<string, string> = {}) =>
  post(usher, INTROSPECT, { token, ...more })

test('only a client that authenticates gets a response', async () => {
  const { access_token: token } = await tokens(usher, { browser })
  const attempts = [
    send(usher, INTROSPECT, { body: { token } }),
    send(usher, INTROSPECT, { body: { token, client_id: 'web' } }),
    send(usher, INTROSPECT, { body: { token }, headers: basic('web', `${SECRET}x`) }),
    send(usher, INTROSPECT, { body: { token }, headers: { authorization: `Bearer ${token}` } }),
  ]
  for (const { status, json } of await Promise.all(attempts)) {
    expect([400, 401]).toContain(status)
    expect(json.error).toMatch(/^invalid_(client|request)$/)
    expect(json).not.toHaveProperty('active')
  }
})

test('a public client is refused, also for tokens of its own', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser, client_id: 'spa' })
  for (const token of [access_token, refresh_token]) {
    const { status, body } = await introspect(token, { client_id: 'spa' })
    expect([401, 403]).toContain(status)
    expect(body).not.toHaveProperty('active')
  }
})

test('GET is refused', async () => {
  const { access_token } = await tokens(usher, { browser })
  const headers = basic('web', SECRET)
  const answer = await send(usher, `${INTROSPECT}?token=${access_token}`, { headers })
  expect([404, 405]).toContain(answer.status)
})

test('a client can introspect its own tokens', async () => {
  const { access_token, refresh_token, id_token } = await tokens(usher, { browser })
  const about = { active: true, client_id: 'web', iss: usher.issuer, sub: decodeJwt(id_token).sub }
  const access = await introspect(access_token)
  expect(access.headers.get('cache-control')).toBe('no-store')
  expect(access.body).toMatchObject({ ...about, token_type: 'Bearer' })
  expect(Number(access.body.exp) - Number(access.body.iat)).toBe(600)
  const refreshing = await introspect(refresh_token)
  expect(refreshing.body).toMatchObject(about)
  expect(refreshing.body).not.toHaveProperty('token_type')
  for (const { body } of [access, refreshing]) {
    expect(String(body.scope).split(' ')).toContain('offline_access')
    expect(JSON.stringify(body)).not.toContain(access_token)
    expect(JSON.stringify(body)).not.toContain(refresh_token)
  }
})

test('a client cannot introspect tokens of another client', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser })
  for (const client_id of ['first', 'post']) {
    for (const token of [access_token, refresh_token]) {
      for (const token_type_hint of ['', 'access_token', 'refresh_token']) {
        const { status, body } = await introspect(token, { client_id, token_type_hint })
        expect([status, body]).toEqual([200, INACTIVE])
      }
    }
  }
})

describe('the response is inactive for a token', () => {
  const expectInactive = async (token: string) => {
    const { status, body } = await introspect(token)
    expect([status, body]).toEqual([200, INACTIVE])
  }

  test.each(['unknown', ' ', '__proto__', 'x'.repeat(10_000)])(
    'that was never issued ("%.20s")',
    expectInactive,
  )

  test('that is a code', async () => {
    await expectInactive((await authorize(usher, { browser })).code)
  })

  test('that was used', async () => {
    const { refresh_token } = await tokens(usher, { browser })
    await refresh(usher, refresh_token)
    await expectInactive(refresh_token)
  })

  test('that was revoked, or whose grant was revoked', async () => {
    const { access_token, refresh_token } = await tokens(usher, { browser })
    await post(usher, '/api/oauth/revoke', { token: refresh_token })
    await expectInactive(access_token)
    await expectInactive(refresh_token)
  })

  test('of an account that is disabled', async () => {
    const { id } = await usher.addAccount(GRACE)
    const { access_token, refresh_token } = await tokens(usher, { username: 'grace' })
    await usher.directory.change(id, account => ({ ...account, enabled: false }))
    await expectInactive(access_token)
    await expectInactive(refresh_token)
  })

  test('of an account that was removed', async () => {
    const account = await usher.addAccount(ALAN)
    const { access_token } = await tokens(usher, { username: 'alan' })
    await usher.directory.remove(account)
    await expectInactive(access_token)
  })

  test('of an application that was removed', async () => {
    const { access_token, refresh_token, id_token } = await tokens(usher, { browser })
    await usher.consents.withdraw(decodeJwt(id_token).sub ?? '', 'web')
    await expectInactive(access_token)
    await expectInactive(refresh_token)
  })

  test('that has expired', async () => {
    const brief = await startUsher({ usher: { lifetimes: { access_token: '1 s' } } })
    await brief.addAccount(ADA)
    const { access_token: token } = await tokens(brief)
    await vi.waitFor(
      async () => expect((await post(brief, INTROSPECT, { token })).body).toEqual(INACTIVE),
      { timeout: 4000, interval: 100 },
    )
    await brief.close()
  })
})
