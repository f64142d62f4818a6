// Each authorization has its own grant: which tokens end with it, and which do not.

import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { ada, test, usher } from '../support/fixtures.ts'
import { authorize, refresh, tokens, userinfo } from '../support/journey.ts'
import { ageSessions, isSignedIn, onlineTokens, sessionsOf, signedIn } from '../support/people.ts'

test.beforeEach(() => usher.directory.endAccess(ada))

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

const byTime = (a: { loginTs: number }, b: { loginTs: number }) => a.loginTs - b.loginTs

test('an account has at most 100 sessions; the oldest ends with its tokens', async () => {
  const oldest = await onlineTokens(usher)
  await ageSessions(usher, ada, 60)
  const sessions = usher.records.of<{ uid: string; loginTs: number }>('Session')
  await signedIn(usher)
  const latest = (await sessions.list('sessions of account', ada)).toSorted(byTime).at(-1)
  if (!latest) throw new Error('there is no session')
  const indexes: [string, string][] = [['sessions of account', ada]]
  for (let i = 1; i < 99; i++) {
    const uid = randomUUID()
    await sessions.save(uid, { ...latest, uid }, { ttl: 3600, indexes })
  }
  expect(await sessionsOf(usher, ada)).toHaveLength(100)
  expect(await isSignedIn(oldest.browser)).toBe(true)
  const last = await signedIn(usher)
  expect(await sessionsOf(usher, ada)).toHaveLength(100)
  expect(await isSignedIn(oldest.browser)).toBe(false)
  expect((await userinfo(usher, oldest.access_token)).status).toBe(401)
  expect(await isSignedIn(last)).toBe(true)
  const page = await last.open('/account/sessions')
  expect(page.text.length).toBeLessThan(200_000)
})
