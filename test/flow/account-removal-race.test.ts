import { afterAll, beforeAll, expect, test } from 'vitest'
import { redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  copyOf,
  grantsOf,
  open,
  removalOf,
  signedIn,
  slowDown,
  textOf,
  words,
} from '../support/people.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

let usher: Usher
let ada: string
beforeAll(async () => {
  usher = await startUsher()
  ada = (await usher.addAccount(ADA)).id
})
afterAll(() => usher.close())

const FAMILIES = 5
const REFRESHES = 10

/** Refreshes as a busy application does; everything it was ever given. */
async function keepRefreshing(refresh_token: string) {
  const given = { access: [] as string[], refresh: [refresh_token] }
  for (let i = 0; i < REFRESHES; i++) {
    const { status, body } = await refresh(usher, given.refresh.at(-1) ?? '')
    if (status !== 200) {
      expect(body.error).toBe('invalid_grant')
      break
    }
    given.access.push(body.access_token)
    given.refresh.push(body.refresh_token)
  }
  return given
}

test('AC5: of fifty refreshes that race a removal, nothing they were given works after it', async () => {
  const browser = await signedIn(usher)
  let refreshed = 0
  let stopped = 0
  for (let round = 0; round < 20; round++) {
    const first = await tokens(usher, { browser })
    const families = [first.refresh_token]
    while (families.length < FAMILIES) {
      const { request } = await open(
        usher,
        { scope: 'openid profile email offline_access' },
        browser,
      )
      const code = browser.page.params.get('code') ?? ''
      families.push((await redeem(usher, code, request)).body.refresh_token)
    }
    await browser.open(removalOf())
    const racing = families.map(keepRefreshing)
    // The removal meets the refreshes somewhere else in each round.
    for (let i = 0; i < round % 8; i++) await userinfo(usher, 'unknown')
    await browser.submit()
    const given = await Promise.all(racing)
    expect(textOf(browser.page.text)).toContain(
      words('applications.removed', { client: 'Web application' }),
    )

    const access = given.flatMap(({ access }) => access)
    const answers = [first.access_token, ...access].map(token => userinfo(usher, token))
    for (const { status } of await Promise.all(answers)) expect(status).toBe(401)
    for (const { refresh: all } of given) {
      expect((await refresh(usher, all.at(-1) ?? '')).body.error).toBe('invalid_grant')
    }
    expect(await grantsOf(usher, ada, 'web'), `round ${round}`).toEqual([])
    refreshed += access.length
    stopped += given.filter(({ access }) => access.length < REFRESHES).length
  }
  // It was a race: some came before the removal, some after.
  expect(refreshed).toBeGreaterThan(0)
  expect(stopped).toBeGreaterThan(0)
})

test('AC5: a request that races a removal brings the application nothing', async () => {
  slowDown(usher)
  const browser = await signedIn(usher)
  let raced = 0
  for (let round = 0; round < 20; round++) {
    const version = await usher.consents.version(ada, 'web')
    const decision = { scopes: ['openid', 'profile', 'email'], declined: [], version }
    expect(await usher.consents.decide(ada, 'web', decision)).toBe(true)
    const asking = Array.from({ length: 6 }, () => open(usher, {}, copyOf(browser)))
    for (let i = 0; i < round % 5; i++) await userinfo(usher, 'unknown')
    await usher.consents.withdraw(ada, 'web')
    for (const { browser: tab, request } of await Promise.all(asking)) {
      const code = tab.page.params.get('code')
      if (!code) continue
      raced++
      expect((await redeem(usher, code, request)).body.error, `round ${round}`).toBe(
        'invalid_grant',
      )
    }
    expect(await grantsOf(usher, ada, 'web'), `round ${round}`).toEqual([])
  }
  expect(raced).toBeGreaterThan(0)
})
