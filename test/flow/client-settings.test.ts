// Settings of a client file that change its tokens and its authentication.

import { decodeJwt } from 'jose'
import { expect } from 'vitest'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorize, post, redeem, refresh } from '../support/journey.ts'
import { CLIENTS } from '../support/usher.ts'

const DAY_SECONDS = 24 * 3600

const test = usherTest({
  usher: { lifetimes: { access_token: '20 min' } },
  clients: {
    web: {
      ...CLIENTS.web,
      lifetimes: { access_token: '2 min', id_token: '3 min', refresh_token: '1 d' },
    },
    spa: CLIENTS.spa ?? {},
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
