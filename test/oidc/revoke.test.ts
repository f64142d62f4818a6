import { expect, onTestFinished } from 'vitest'
import { GOOD_SECRET } from '../support/config-folder.ts'
import { browser, startAnother, test, usher } from '../support/fixtures.ts'
import { authorize, post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { startPair } from '../support/redis-together.ts'
import { ADA, SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const REVOKE = '/api/oauth/revoke'
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } }

const revoke = (token: string, more: Record<string, string> = {}) =>
  post(usher, REVOKE, { token, ...more })
const works = async (access_token: string) => (await userinfo(usher, access_token)).status === 200

test.each(['unknown', 'x'.repeat(10_000), '__proto__', '\u{1f600}', ' ', '../../etc'])(
  'the revocation of "%.20s", which was never issued, succeeds',
  async token => {
    expect(await revoke(token)).toMatchObject({ status: 200, body: {} })
  },
)

test('a second revocation succeeds', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser })
  for (const token of [access_token, access_token, refresh_token, refresh_token]) {
    const answer = await revoke(token)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({})
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
  }
})

test.each(['access_token', 'refresh_token', 'nonsense', ''])(
  'a token is revoked with any token_type_hint (%s)',
  async token_type_hint => {
    const { access_token, refresh_token } = await tokens(usher, { browser })
    expect((await revoke(access_token, { token_type_hint })).status).toBe(200)
    expect(await works(access_token)).toBe(false)
    expect((await revoke(refresh_token, { token_type_hint })).status).toBe(200)
    expect(await refresh(usher, refresh_token)).toMatchObject(INVALID_GRANT)
  },
)

test('a request without a token, or without client authentication, is refused', async () => {
  expect(await post(usher, REVOKE, {})).toMatchObject({
    status: 400,
    body: { error: 'invalid_request' },
  })
  const { access_token: token } = await tokens(usher, { browser })
  const open = await send(usher, REVOKE, { body: { token } })
  expect(open.status).toBe(400)
  const wrong = await send(usher, REVOKE, { body: { token }, headers: basic('web', `${SECRET}x`) })
  expect(wrong).toMatchObject({ status: 401, json: { error: 'invalid_client' } })
  expect((await send(usher, `${REVOKE}?token=${token}`)).status).toBeGreaterThanOrEqual(400)
  expect(await works(token)).toBe(true)
})

test('the token of another client is refused, and stays valid', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser })
  for (const token of [access_token, refresh_token]) {
    const answer = await revoke(token, { client_id: 'first' })
    expect(answer.status).toBe(400)
  }
  expect(await works(access_token)).toBe(true)
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('a public client does not learn whether the token of another exists', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser })
  const unknown = await revoke('unknown', { client_id: 'spa' })
  for (const token of [access_token, refresh_token]) {
    const answer = await revoke(token, { client_id: 'spa' })
    expect([answer.status, answer.body]).toEqual([unknown.status, unknown.body])
  }
  expect(await works(access_token)).toBe(true)
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('revoking a refresh token ends its grant, and nothing of another sign-in', async () => {
  const first = await tokens(usher, { browser })
  const second = await refresh(usher, first.refresh_token)
  const other = await authorize(usher, { browser })
  expect(await works(first.access_token)).toBe(true)

  expect((await revoke(second.body.refresh_token)).status).toBe(200)
  expect(await works(first.access_token)).toBe(false)
  expect(await works(second.body.access_token)).toBe(false)
  expect(await refresh(usher, second.body.refresh_token)).toMatchObject(INVALID_GRANT)
  expect((await redeem(usher, other.code, other.request)).status).toBe(200)
})

test('a public client can revoke its refresh token', async () => {
  const { access_token, refresh_token } = await tokens(usher, { browser, client_id: 'spa' })
  expect((await revoke(refresh_token, { client_id: 'spa' })).status).toBe(200)
  expect(await works(access_token)).toBe(false)
  expect(await refresh(usher, refresh_token, 'spa')).toMatchObject(INVALID_GRANT)
})

test('revoking an access token revokes only that token', async () => {
  const first = await tokens(usher, { browser })
  const second = await refresh(usher, first.refresh_token)
  expect((await revoke(second.body.access_token)).status).toBe(200)
  expect(await works(second.body.access_token)).toBe(false)
  expect(await works(first.access_token)).toBe(true)
  const third = await refresh(usher, second.body.refresh_token)
  expect(third.status).toBe(200)
  expect(await works(third.body.access_token)).toBe(true)
})

test('revoking a used refresh token revokes its successor', async () => {
  const first = await tokens(usher, { browser })
  const second = await refresh(usher, first.refresh_token)
  expect((await revoke(first.refresh_token)).status).toBe(200)
  expect(await refresh(usher, second.body.refresh_token)).toMatchObject(INVALID_GRANT)
  expect(await works(second.body.access_token)).toBe(false)
})

test('codes and ID tokens cannot be revoked, and stay valid', async () => {
  const { code, request } = await authorize(usher, { browser })
  expect((await revoke(code)).status).toBe(200)
  const { status, body } = await redeem(usher, code, request)
  expect(status).toBe(200)
  const refused = await revoke(body.id_token)
  expect(refused).toMatchObject({ status: 400, body: { error: 'unsupported_token_type' } })
})

test('a repeated revocation succeeds only when a replica has the removal', async () => {
  const { primary, link, stop } = await startPair()
  onTestFinished(stop)
  const env = { USHER_SECRET: GOOD_SECRET }
  const replicated = await startAnother({ store: primary.url, env, replyTimeoutMs: 2_000 })
  await replicated.addAccount(ADA)
  const { access_token } = await tokens(replicated)
  const revoked = async () => {
    const { status } = await post(replicated, REVOKE, { token: access_token })
    return status
  }
  link.turn('stall')
  expect([await revoked(), await revoked()]).toEqual([503, 503])
  link.turn('pass')
  await expect.poll(revoked).toBe(200)
})
