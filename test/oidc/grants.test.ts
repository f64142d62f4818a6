// Each authorization has its own grant: which tokens end with it, and which do not.

import { expect } from 'vitest'
import { ada, test, usher } from '../support/fixtures.ts'
import { authorize, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { ageSessions, isSignedIn, onlineTokens, sessionsOf, signedIn } from '../support/people.ts'

test.beforeEach(() => usher.directory.endAccess(ada))

test('the reuse of a code revokes its own tokens, and not those of an earlier sign-in', async () => {
  const earlier = await tokens(usher)
  const { code, request } = await authorize(usher, { browser: earlier.browser })
  const { body } = await redeem(usher, code, request)
  expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
  expect((await userinfo(usher, body.access_token)).status).toBe(401)
  expect((await userinfo(usher, earlier.access_token)).status).toBe(200)
  expect((await refresh(usher, earlier.refresh_token)).status).toBe(200)
  const events = usher.output.map(line => JSON.parse(line))
  expect(events).toContainEqual(
    expect.objectContaining({ event: 'code_reuse', client_id: 'web', account: ada }),
  )
})

test('a sign-out ends an access token even if another session has a refresh token', async () => {
  const offline = await tokens(usher)
  const online = await onlineTokens(usher)
  await online.browser.open('/api/oauth/logout')
  await online.browser.submit({ logout: 'yes' })
  expect((await userinfo(usher, online.access_token)).status).toBe(401)
  expect((await userinfo(usher, offline.access_token)).status).toBe(200)
  expect((await refresh(usher, offline.refresh_token)).status).toBe(200)
})

test('a grant without a refresh token has the lifetime of its tokens', async () => {
  await onlineTokens(usher)
  const { interaction, access_token, refresh_token } = usher.settings.lifetimes
  const grants = () => usher.records.of<{ exp: number }>('Grant').list('grants of account', ada)
  const now = Date.now() / 1000
  for (const { exp } of await grants()) {
    expect(exp - now).toBeLessThanOrEqual(interaction + access_token + 61)
  }
  await tokens(usher)
  const longest = Math.max(...(await grants()).map(({ exp }) => exp))
  expect(longest - now).toBeGreaterThan(refresh_token)
})

test('a grant for a refresh token expires as early, while its code is not redeemed', async () => {
  await authorize(usher, { scope: 'openid offline_access' })
  const [grant] = await usher.records.of<{ exp: number }>('Grant').list('grants of account', ada)
  const { interaction, access_token } = usher.settings.lifetimes
  expect(Number(grant?.exp) - Date.now() / 1000).toBeLessThanOrEqual(
    interaction + access_token + 61,
  )
})

test('an account has at most 100 sessions; the oldest ends with its tokens', async () => {
  const oldest = await onlineTokens(usher)
  await ageSessions(usher, ada, 60)
  for (let i = 0; i < 99; i++) await signedIn(usher)
  expect(await isSignedIn(oldest.browser)).toBe(true)
  const last = await signedIn(usher)
  expect(await sessionsOf(usher, ada)).toHaveLength(100)
  expect(await isSignedIn(oldest.browser)).toBe(false)
  expect((await userinfo(usher, oldest.access_token)).status).toBe(401)
  expect(await isSignedIn(last)).toBe(true)
  const page = await last.open('/account/sessions')
  expect(page.text.length).toBeLessThan(200_000)
})
