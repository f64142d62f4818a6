import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { ada, test, usher } from '../support/fixtures.ts'
import { redeem, userinfo } from '../support/journey.ts'
import {
  copyOf,
  isSignedIn,
  open,
  sessionsOf,
  signedIn,
  silently,
  slowDown,
} from '../support/people.ts'

test.beforeAll(async () => {
  slowDown(usher)
})

const CLIENTS = ['web', 'post', 'spa', 'first']

/** Sends an authorization request with the old cookies, and redeems the code at once. */
async function authorizeAndRedeem(browser: Browser, client_id: string) {
  const { request, browser: tab } = await open(usher, { client_id }, copyOf(browser))
  const code = tab.page.params.get('code')
  const answer = code ? await redeem(usher, code, request) : undefined
  return { tab, code, request, access_token: answer?.body.access_token }
}

test('a request that is slower than the sign-out restores no access', async () => {
  let raced = 0
  for (let round = 0; round < 10; round++) {
    const browser = await signedIn(usher)
    for (const client_id of CLIENTS) {
      await open(usher, { client_id }, browser)
      if (browser.page.ours) await browser.submit({ decision: 'allow' })
    }
    await browser.open('/api/oauth/logout')
    const [all] = await Promise.all([
      Promise.all([...CLIENTS, ...CLIENTS].map(id => authorizeAndRedeem(copyOf(browser), id))),
      browser.submit({ logout: 'yes' }),
    ])
    expect(browser.heading).toBe('Signed out')
    expect(await sessionsOf(usher, ada), `round ${round}`).toEqual([])
    raced += all.filter(({ code }) => code).length
    for (const { tab, code, request, access_token } of all) {
      expect(await isSignedIn(tab)).toBe(false)
      expect(await silently(usher, tab)).toBe('login_required')
      if (access_token) expect((await userinfo(usher, access_token)).status).toBe(401)
      else if (code) expect((await redeem(usher, code, request)).body.error).toBe('invalid_grant')
    }
  }
  // Some requests must be fast enough to get a code, else the test shows nothing.
  expect(raced).toBeGreaterThan(0)
})
