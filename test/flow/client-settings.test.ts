// Settings of a client file that change its tokens and its authentication.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, post, redeem, refresh } from '../support/journey.ts'
import { ADA, CLIENTS, PASSWORD } from '../support/usher.ts'

const DAY_SECONDS = 24 * 3600

const test = usherTest({
  usher: { lifetimes: { access_token: '20 min' } },
  clients: {
    web: {
      ...CLIENTS.web,
      lifetimes: { access_token: '2 min', id_token: '3 min', refresh_token: '1 d' },
    },
    spa: CLIENTS.spa ?? {},
    first: { ...CLIENTS.first, refresh_tokens: 'always', rotate_refresh_tokens: false },
    post: { ...CLIENTS.post, refresh_tokens: 'always' },
  },
})

/** Seconds that an ID token is valid for. */
function secondsOf(idToken: string): number {
  const { exp = 0, iat = 0 } = decodeJwt(idToken)
  return exp - iat
}

/** Runs the flow with offline access, and returns the whole token response. */
async function tokensOf(client_id = 'web', scope = 'openid offline_access') {
  const { code, request } = await authorize(usher, { browser, client_id, scope })
  const { status, body } = await redeem(usher, code, request)
  expect([status, body]).toEqual([200, body])
  return body
}

test('lifetimes: a client has its own, and others have those of usher.yaml', async () => {
  const own = await tokensOf()
  expect([own.expires_in, secondsOf(own.id_token)]).toEqual([120, 180])
  const { body } = await refresh(usher, own.refresh_token)
  expect([body.expires_in, secondsOf(body.id_token)]).toEqual([120, 180])
  const about = await post(usher, '/api/oauth/introspect', { token: body.refresh_token })
  expect(Number(about.body.exp) - Number(about.body.iat)).toBeLessThanOrEqual(DAY_SECONDS)
  const others = await tokensOf('spa')
  expect([others.expires_in, secondsOf(others.id_token)]).toEqual([1200, 600])
})

test('refresh_tokens: always gives a token without offline_access; it outlives the session', async () => {
  const { refresh_token, scope } = await tokensOf('post', 'openid')
  expect(scope).toBe('openid')
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  const { status, body } = await refresh(usher, refresh_token, 'post')
  expect([status, body.scope]).toEqual([200, 'openid'])
  expect(body.refresh_token).not.toBe(refresh_token)
})

test('the consent page says that refresh_tokens: always lasts', async () => {
  const fresh = new Browser(usher.issuer)
  await fresh.open(authorizationRequest(usher, { client_id: 'post', prompt: 'consent' }).url)
  await fresh.submit({ username: ADA.username, password: PASSWORD, decision: 'continue' })
  expect(fresh.page.text).toContain('Its access continues after you sign out, for up to 90 days.')
})

test('rotate_refresh_tokens: false: a refresh token stays the same, however often it is used', async () => {
  const { refresh_token } = await tokensOf('first', 'openid')
  for (const _ of [1, 2, 3]) {
    const { status, body } = await refresh(usher, refresh_token, 'first')
    expect([status, body.refresh_token]).toEqual([200, refresh_token])
  }
})
