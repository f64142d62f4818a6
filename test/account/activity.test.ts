// The page with the recent activity, and the notice about a sign-in with another browser.

import { expect, vi } from 'vitest'
import { keepActivity, recentActivity } from '../../src/account/activity.ts'
import { Browser } from '../support/browser.ts'
import { ada, grace, usher, usherTest } from '../support/fixtures.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { credentials, onlineTokens, removalOf, signedIn, textOf, words } from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
const NETWORK = words('sessions.network', { network: '127.0.0.x' })
const rowsOn = ({ page }: Browser) =>
  page.html.querySelectorAll('ul.rows > li').map(({ outerHTML }) => textOf(outerHTML))

const noticesOn = (browser: Browser) => rowsOn(browser).filter(row => row.includes('New sign-in'))

test('the page has sign-ins, failed ones and changes of this user, the latest first', async () => {
  const { browser } = await onlineTokens(usher)
  const guesser = new Browser(usher.issuer)
  await guesser.open('/account')
  for (let i = 0; i < 2; i++) await guesser.submit(credentials('ada', 'not the password'))
  await vi.waitFor(async () => {
    const [latest] = await recentActivity(usher.records, ada)
    expect(latest).toMatchObject({ event: 'sign_in_failed', count: 2 })
  }, PATIENCE_MS)
  await browser.open(removalOf())
  await browser.submit()
  await keepActivity(usher.records, { event: 'password_set', account: ada })
  await signedIn(usher, 'grace')

  await browser.open('/account/activity')
  const rows = rowsOn(browser)
  const expected = [
    ['password_set'],
    ['access_removed', 'Web application', NETWORK],
    ['sign_in_failed', words('activity.attempts', { count: '2' }), NETWORK],
    ['consent_given', 'Web application', NETWORK],
    ['sign_in_succeeded', 'Web application', NETWORK],
  ]
  for (const [i, [event, ...facts]] of expected.entries()) {
    for (const text of [words(`activity.${event}`), ...facts]) expect(rows[i]).toContain(text)
  }
  expect(rows).toHaveLength(expected.length)
  expect(browser.page.text).not.toContain('127.0.0.1')
})

test('the overview has a notice about a sign-in with a browser that the account did not have', async () => {
  const browser = await signedIn(usher, 'grace')
  const notices = async () => {
    await browser.open('/account')
    return noticesOn(browser)
  }
  await signedIn(usher, 'grace')
  expect(await notices()).toEqual([])
  const other = new Browser(usher.issuer, (url, init) =>
    fetch(url, { ...init, headers: { ...init?.headers, 'user-agent': 'Firefox/145.0 Linux' } }),
  )
  await other.open('/account')
  await other.submit(credentials('grace'))
  expect(await notices()).toEqual([expect.stringContaining('Firefox on Linux')])
  expect(noticesOn(other)).toEqual([])
})

test('the page names the factor of a sign-in, and of one that was added or removed', async () => {
  const expected = [
    ['second_factor_removed', 'passkey'],
    ['second_factor_added', 'totp'],
    ['sign_in_succeeded', 'recovery_code'],
    ['sign_in_succeeded', 'passkey'],
    ['sign_in_succeeded', 'totp'],
  ] as const
  const browser = await signedIn(usher, 'ada')
  for (const [event, factor] of expected.toReversed()) {
    await keepActivity(usher.records, { event, factor, account: ada })
  }
  await browser.open('/account/activity')
  const rows = rowsOn(browser)
  for (const [i, [event, factor]] of expected.entries()) {
    expect(rows[i]).toContain(words(`activity.${event}_${factor}`))
  }
  expect(rows.slice(0, 5).join()).toContain('You signed in with a recovery code')
})

test.each([
  ['en-GB,en;q=0.9', /\d{1,2} [A-Z][a-z]+ 20\d\d/],
  ['en-US,en;q=0.9', /[A-Z][a-z]+ \d{1,2}, 20\d\d/],
  ['en-AU', /\d{1,2} [A-Z][a-z]+ 20\d\d/],
  ['en-xx-yy-zz-$,en-GB', /\d{1,2} [A-Z][a-z]+ 20\d\d/],
  ['fr-CH,de-AT;q=0.1', /\d{1,2} [a-zéû]+ 20\d\d/],
])('for a browser with %s, dates have the form of its region', async (language, form) => {
  const browser = await signedIn(usher, 'ada')
  await browser.open('/account/sessions', { 'accept-language': language })
  await keepActivity(usher.records, { event: 'password_set', account: ada })
  await usher.records
    .of<{ at: number }[]>('Activity')
    .change(ada, ({ value = [] }) => value.map(entry => ({ ...entry, at: entry.at - 2 * 86_400 })))
  await browser.open('/account/activity', { 'accept-language': language })
  expect(browser.page.html.querySelector('h2 time')?.text).toMatch(form)
})

test('the activity is removed with the account', async () => {
  const account = await usher.directory.find(grace)
  expect(await recentActivity(usher.records, grace)).not.toEqual([])
  if (account) await usher.directory.remove(account)
  expect(await recentActivity(usher.records, grace)).toEqual([])
})

test('an entry of another day has its date on the overview, and its time below the day on the page', async () => {
  const { id } = await usher.addAccount({ username: 'lisa' })
  const browser = await signedIn(usher, 'lisa')
  const at = Math.floor(Date.now() / 1000) - 3 * 24 * 3600
  await expect.poll(() => recentActivity(usher.records, id)).toHaveLength(1)
  await usher.records
    .of<{ at: number }[]>('Activity')
    .change(id, ({ value }) => value?.map(entry => ({ ...entry, at })))
  const timesOn = async (path: string) => {
    await browser.open(path)
    return browser.page.html.querySelectorAll('main time').map(({ text }) => text)
  }
  const day = new Intl.DateTimeFormat('en', { dateStyle: 'long', timeZone: 'UTC' })
  expect(await timesOn('/account')).toEqual([day.format(at * 1000)])
  const [heading, time] = await timesOn('/account/activity')
  expect(heading).toBe(day.format(at * 1000))
  expect(time).toMatch(/:\d\d.* UTC$/)
})
