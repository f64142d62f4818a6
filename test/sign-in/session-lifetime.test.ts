// The lifetime of a session: each use extends it up to a limit.

import { expect } from 'vitest'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { ageSessions, isSignedIn, open, sessionsOf, signedIn, silently } from '../support/people.ts'

const test = usherTest({ usher: { lifetimes: { session_idle: '2 h', session: '24 h' } } })

const HOUR = 3600
const now = () => Date.now() / 1000

/** The remaining lifetime of Ada's only session in seconds. */
async function remaining() {
  const [session, ...more] = await usher.records
    .of<{ exp: number }>('Session')
    .list('sessions of account', ada)
  expect(more).toEqual([])
  return (session?.exp ?? 0) - now()
}

/** Simulates that the session was not used for this time. */
async function idle(seconds: number) {
  const [{ uid = '' } = {}] = await sessionsOf(usher, ada)
  await usher.records
    .of<{ exp: number }>('Session')
    .change(uid, ({ value }) => value && { ...value, exp: value.exp - seconds }, {
      indexes: [['sessions of account', ada]],
    })
}

test('every use extends the session, but never beyond the maximum time since the sign-in', async () => {
  await usher.directory.endAccess(ada)
  const browser = await signedIn(usher)
  expect(await remaining()).toBeGreaterThan(2 * HOUR - 60)
  await idle(1.5 * HOUR)
  await open(usher, { client_id: 'first' }, browser)
  expect(await remaining()).toBeGreaterThan(2 * HOUR - 60)

  await ageSessions(usher, ada, 23.5 * HOUR)
  await open(usher, { client_id: 'first' }, browser)
  expect(browser.page.params.get('code')).toBeTruthy()
  expect(await remaining()).toBeLessThan(0.5 * HOUR + 3)
  const cookies = await browser.jar.getCookies(usher.issuer)
  const { expires } = cookies.find(({ key }) => key === 'usher_session') ?? {}
  expect(new Date(String(expires)).getTime() / 1000 - now()).toBeLessThan(0.5 * HOUR + 3)
})

test('an idle session requires a new sign-in, for the account pages and for applications', async () => {
  await usher.directory.endAccess(ada)
  const browser = await signedIn(usher)
  await idle(2 * HOUR + 60)
  expect(await isSignedIn(browser)).toBe(false)
  expect(await silently(usher, browser, { client_id: 'first' })).toBe('login_required')
})
