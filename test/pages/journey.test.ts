import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { authorize, post, redeem, refresh, tokens, userinfo } from '../support/journey.ts'

test('a user signs in and allows access, and the client gets the identity', async () => {
  const { code, request, page } = await authorize(usher)
  expect(page.params.get('state')).toBe(request.state)
  expect(page.params.get('iss')).toBe(usher.issuer)
  const { status, body } = await redeem(usher, code, request)
  expect(status).toBe(200)
  expect(body).not.toHaveProperty('refresh_token')
  const claims = decodeJwt(body.id_token)
  expect(claims).toMatchObject({
    aud: 'web',
    iss: usher.issuer,
    nonce: request.nonce,
    preferred_username: 'ada',
  })
  expect(claims.sub).toMatch(/^usr_[0-9a-z]{26}$/)
  const info = await userinfo(usher, body.access_token)
  expect(info.body).toEqual({
    sub: claims.sub,
    preferred_username: 'ada',
    name: 'Ada Lovelace',
    email: 'ada@example.org',
    email_verified: true,
  })
})

test('refresh, revoke', async () => {
  const first = await tokens(usher)
  const second = await refresh(usher, first.refresh_token)
  expect(second.status).toBe(200)
  expect(second.body.refresh_token).not.toBe(first.refresh_token)
  const revoked = await post(usher, '/api/oauth/revoke', { token: second.body.refresh_token })
  expect(revoked.status).toBe(200)
  expect((await refresh(usher, second.body.refresh_token)).body.error).toBe('invalid_grant')
  expect((await userinfo(usher, second.body.access_token)).status).toBe(401)
})
