// An operation that ends access always succeeds, however many requests of the same user are in flight.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { EXCHANGING, exchange, introspect } from '../support/exchange.ts'
import {
  authorizationRequest,
  post,
  redeem,
  refresh,
  tokens,
  userinfo,
} from '../support/journey.ts'
import {
  copyOf,
  fieldsOf,
  isSignedIn,
  removalOf,
  send,
  sessionsOf,
  signedIn,
} from '../support/people.ts'
import { STORES, startOn } from '../support/redis-together.ts'
import { oneOf, someOf } from '../support/some-of.ts'
import { PASSWORD, type Usher } from '../support/usher.ts'

const SCOPE = 'openid profile offline_access'
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }
const WRITERS = someOf([4, 11, 24], 3)

let usher: Usher

interface User extends Issued {
  id: string
  username: string
  browser: Browser
}

let users = 0
async function newUser(): Promise<User> {
  const username = `ada${users++}`
  const { id } = await usher.addAccount({ username })
  const browser = await signedIn(usher, username)
  await tokens(usher, { browser, username, scope: SCOPE })
  return { id, username, browser }
}

interface Ending {
  /** Opens the page. The function it returns submits the form, and returns the status. */
  prepare(user: User): Promise<() => Promise<number>>
  /** Whether the session continues. */
  staysSignedIn?: true
}

/** Opens a page in this browser and submits its form. */
async function form(browser: Browser, path: string, fields: Record<string, string> = {}) {
  const tab = copyOf(browser)
  await tab.open(path)
  const body = fieldsOf(tab.page, fields)
  const action = tab.page.html.querySelector('form')?.getAttribute('action') || tab.page.url
  return async () => {
    const to = new URL(action, tab.page.url)
    return (await send(tab, to, { form: body, headers: SAME_ORIGIN })).status
  }
}

/** Another browser of the same user, which ends the session of the first. */
const other = ({ username }: User) => signedIn(usher, username)

const ENDINGS: Record<string, Ending> = {
  'sign-out': {
    prepare: ({ browser }) => form(browser, '/api/oauth/logout', { logout: 'yes' }),
  },
  'the end of a session from another browser': {
    prepare: async user => form(await other(user), '/account/sessions/end?session=others'),
  },
  'the removal of an application': {
    prepare: ({ browser }) => form(browser, removalOf('web')),
    staysSignedIn: true,
  },
  'a change of password': {
    prepare: async user =>
      form(await other(user), '/account/password', {
        current: PASSWORD,
        password: `another ${PASSWORD}`,
        repeat: `another ${PASSWORD}`,
      }),
  },
  'disabling the account': {
    prepare:
      async ({ id }) =>
      async () => {
        await usher.directory.change(id, account => ({ ...account, enabled: false }))
        await usher.directory.endAccess(id)
        return 200
      },
  },
  'the removal of the account': {
    prepare:
      async ({ id }) =>
      async () => {
        const account = await usher.directory.find(id)
        if (account) await usher.directory.remove(account)
        return 200
      },
  },
}

const revoking = (name: 'access_token' | 'refresh_token'): Ending => ({
  prepare:
    async ({ [name]: token = '' }) =>
    async () =>
      (await post(usher, '/api/oauth/revoke', { token })).status,
})
const REVOCATIONS: Record<string, Ending> = {
  'the revocation of the access token': revoking('access_token'),
  'the revocation of the refresh token': revoking('refresh_token'),
}

interface Issued {
  scope?: string
  access_token?: string
  refresh_token?: string
}

/** Requests of the session one after the other, until `isOver`; returns everything that was issued. */
async function write(
  { browser }: User,
  isOver: () => boolean,
  hasWritten: () => void,
): Promise<Issued[]> {
  const issued: Issued[] = []
  while (!isOver()) {
    const { url, ...request } = authorizationRequest(usher, { scope: SCOPE })
    const answer = await send(copyOf(browser), url, { method: 'GET' })
    expect(answer.status).toBeLessThan(500)
    const location = URL.parse(answer.headers.get('location') ?? '')
    const code = location?.searchParams.get('code')
    if (!code) continue
    const { status, body } = await redeem(usher, code, { url, ...request })
    expect(status).toBeLessThan(500)
    if (status === 200) issued.push(body)
    hasWritten()
  }
  return issued
}

const isSignOut = (ending: string) =>
  ending === 'sign-out' || ending.startsWith('the end of a session')

async function expectEnded({ access_token = '', refresh_token }: Issued) {
  expect((await userinfo(usher, access_token)).status).toBe(401)
  if (refresh_token) expect((await refresh(usher, refresh_token)).status).toBe(400)
}

describe.each(oneOf(STORES))('on %s', (_, startStore) => {
  beforeAll(async () => {
    // Attempts are counted before the password is checked, and eight sign-ins of one account are in flight.
    const security = { account_attempts: 100 }
    usher = await startOn(startStore, { ...EXCHANGING, usher: { security } })
  })
  afterAll(() => usher.close())

  describe.each(Object.entries(ENDINGS))('%s', (name, { prepare, staysSignedIn }) => {
    test.each(WRITERS)('succeeds against %i requests at a time', async writers => {
      const user = await newUser()
      const end = await prepare(user)
      let isOver = false
      const begun = Promise.withResolvers<void>()
      const writing = Array.from({ length: writers }, () =>
        write(user, () => isOver, begun.resolve),
      )
      await begun.promise
      const status = await end()
      isOver = true
      const issued = (await Promise.all(writing)).flat()
      expect(status).toBe(200)
      expect(await isSignedIn(user.browser)).toBe(staysSignedIn === true)
      if (!staysSignedIn) {
        const left = await sessionsOf(usher, user.id)
        // The browser that changed the password has a new session.
        expect(left.length).toBeLessThanOrEqual(1)
      }
      // Grants with a refresh token outlive a sign-out.
      const ended = issued.filter(({ refresh_token }) => !(isSignOut(name) && refresh_token))
      for (const tokens of ended) await expectEnded(tokens)
    })
  })

  test.each(Object.entries({ ...ENDINGS, ...REVOCATIONS }))(
    'no token that is exchanged meanwhile survives %s',
    async (name, { prepare }) => {
      const user = await newUser()
      const { browser, username } = user
      const scope = isSignOut(name) ? 'openid profile' : SCOPE
      const { access_token, refresh_token } = await tokens(usher, { browser, username, scope })
      const end = await prepare({ ...user, access_token, refresh_token })
      const begun = Promise.withResolvers<void>()
      const exchanging = Array.from({ length: 4 }, async () => {
        const issued: string[] = []
        for (;;) {
          const { status, body } = await exchange(usher, access_token, { client_id: 'web' })
          expect(status).toBeLessThan(500)
          if (status !== 200) return issued
          issued.push(body.access_token)
          begun.resolve()
        }
      })
      await Promise.race([begun.promise, ...exchanging])
      expect(await end()).toBe(200)
      const issued = (await Promise.all(exchanging)).flat()
      expect(issued).not.toEqual([])
      for (const token of issued) expect(await introspect(usher, token)).toEqual({ active: false })
    },
  )
})
