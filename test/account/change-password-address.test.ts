// /.well-known/change-password leads password managers to the page (W3C, A Well-Known URL for Changing Passwords).

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { test, usher } from '../support/fixtures.ts'
import { signedIn } from '../support/people.ts'
import { SECRET, startUsher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const ADDRESS = '/.well-known/change-password'

test('the address redirects to the page, for browsers and for programs', async () => {
  for (const accept of ['text/html', '*/*', 'application/json']) {
    const { status, location } = await send(usher, ADDRESS, { headers: { accept } })
    expect([status, location?.href]).toEqual([302, `${usher.issuer}/account/password`])
  }
  expect((await send(usher, ADDRESS, { method: 'HEAD' })).status).toBe(302)
})

test('a signed-in user is on the page, and another one signs in first', async () => {
  const browser = await signedIn(usher, 'ada')
  await browser.open(ADDRESS)
  expect([browser.page.url.pathname, browser.heading]).toEqual([
    '/account/password',
    'Change your password',
  ])
  const stranger = new Browser(usher.issuer)
  await stranger.open(ADDRESS)
  expect(stranger.heading).toBe('Sign in')
})

test('an unknown address there is 404, as password managers check', async () => {
  const unknown = '/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200'
  expect((await send(usher, unknown)).status).toBe(404)
})

test('without passwords there is no such address', async () => {
  const corp = {
    label: 'Sign in with Corp',
    issuer: 'http://localhost:9',
    accounts: 'link',
    client_id: 'usher',
    client_secret_file: 'corp.secret',
  }
  const files = { 'upstreams/corp.yaml': JSON.stringify(corp), 'corp.secret': SECRET }
  const other = await startUsher({ usher: { sign_in: { methods: ['corp'] } }, files })
  expect((await send(other, ADDRESS)).status).toBe(404)
  await other.close()
})
