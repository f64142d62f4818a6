// What ends access always succeeds, however many requests of the same user are in flight.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { authorizationRequest, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import {
  copyOf,
  credentials,
  fieldsOf,
  isSignedIn,
  removalOf,
  send,
  sessionsOf,
} from '../support/people.ts'
import { startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'
import { PASSWORD, startUsher, type Usher } from '../support/usher.ts'

const SCOPE = 'openid profile offline_access'
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }
const WRITERS = [4, 11, 24]

let usher: Usher

interface User {
  id: string
  username: string
  browser: Browser
}

let users = 0
async function signedIn(): Promise<User> {
  const username = `ada${users++}`
  const { id } = await usher.addAccount({ username })
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit(credentials(username))
  await tokens(usher, { browser, username, scope: SCOPE })
  return { id, username, browser }
}

interface Ending {
  /** Opens the page; what it returns sends the form, and returns the status of the answer. */
  prepare(user: User): Promise<() => Promise<number>>
  /** Whether the session goes on. */
  staysSignedIn?: true
}

/** Sends the form of a page that this browser opens now. */
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
async function other({ username }: User) {
  const browser = new Browser(usher.issuer)
  await browser.open('/account')
  await browser.submit(credentials(username))
  return browser
}

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

interface Issued {
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

describe.each([
  ['SQLite', async () => ({ url: 'sqlite::memory:', stop: async () => {} })],
  ['Redis', async () => startRedis({ port: (await freePorts(1))[0] })],
])('on %s', (_, startStore) => {
  let store: { url: string; stop(): Promise<void> }
  beforeAll(async () => {
    store = await startStore()
    const USHER_SECRET = Buffer.alloc(32, 'endings').toString('base64url')
    usher = await startUsher({ store: store.url, env: { USHER_SECRET } })
  })
  afterAll(async () => {
    await usher.close()
    await store.stop()
  })

  describe.each(Object.entries(ENDINGS))('%s', (name, { prepare, staysSignedIn }) => {
    test.each(WRITERS)('succeeds against %i requests at a time', async writers => {
      const user = await signedIn()
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
      const isSignOut = name === 'sign-out' || name.startsWith('the end of a session')
      for (const { access_token, refresh_token } of issued) {
        // What has a refresh token outlives a sign-out.
        if (isSignOut && refresh_token) continue
        expect((await userinfo(usher, access_token ?? '')).status).toBe(401)
        if (refresh_token) expect((await refresh(usher, refresh_token)).status).toBe(400)
      }
    })
  })
})
