// Attacks on the account pages: open redirects, and access to the data of another user.

import { expect } from 'vitest'
import { ada, endAccessOf, grace, usher, usherTest } from '../support/fixtures.ts'
import {
  endOf,
  endsOn,
  fieldsOf,
  isSignedIn,
  onlineTokens,
  removalOf,
  send,
  sessionsOf,
  signedIn,
} from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const test = usherTest({ accounts: [ADA, GRACE] })
test.beforeEach(() => endAccessOf(ada, grace))

test('the return address stays on the issuer', async () => {
  const browser = await signedIn(usher)
  for (const state of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/account/applications/../../evil',
    'javascript:alert(1)',
    '',
  ]) {
    const query = new URLSearchParams({ state, code: 'x' })
    const answer = await send(browser, `/account/signed-in?${query}`, { method: 'GET' })
    expect(answer.headers.get('location'), state).toBe('/account')
  }
  const known = '/account/sessions/end?session=x'
  const back = await send(browser, `/account/signed-in?${new URLSearchParams({ state: known })}`, {
    method: 'GET',
  })
  expect(back.headers.get('location')).toBe(known)
  const twice = await send(browser, '/account/signed-in?state=//evil.example&state=/account', {
    method: 'GET',
  })
  expect(twice.headers.get('location')).toBe('/account')
})

test('a user sees no data of another user', async () => {
  const adas = await onlineTokens(usher)
  const graces = await onlineTokens(usher, { username: 'grace', client_id: 'post' })
  const { uid, jti } = (await sessionsOf(usher, ada))[0] ?? {}
  for (const [path, own] of [
    ['/account/applications', 'Post application'],
    ['/account/sessions', 'Post application'],
  ] as const) {
    const page = await graces.browser.open(path)
    expect(page.text).toContain(own)
    expect(page.text).not.toContain('Web application')
    for (const secret of [ada, grace, uid, jti]) expect(page.text).not.toContain(secret)
  }
  const mine = await adas.browser.open('/account/sessions')
  for (const secret of [ada, uid, jti]) expect(mine.text).not.toContain(secret)
})

test('a session handle is valid only for its own user, and only unmodified', async () => {
  const browser = await signedIn(usher)
  await signedIn(usher)
  const graces = await signedIn(usher, 'grace')
  const end = await endOf(browser)
  const handle = end.searchParams.get('session') ?? ''
  expect(handle).toMatch(/^[0-9a-f]{32}$/)
  expect((await send(browser, end, { method: 'GET' })).status).toBe(200)
  expect((await send(graces, end, { method: 'GET' })).status).toBe(404)

  const sessions = await sessionsOf(usher, ada)
  const flipped = (handle.startsWith('A') ? 'B' : 'A') + handle.slice(1)
  const swapped = handle.toLowerCase() === handle ? handle.toUpperCase() : handle.toLowerCase()
  const others = [flipped, swapped, handle.slice(1), `${handle}A`, ` ${handle}`, '', '__proto__']
  const ids = sessions.flatMap(({ uid, jti }) => [uid, jti])
  for (const wrong of [...others, ...ids]) {
    const url = `/account/sessions/end?${new URLSearchParams({ session: wrong })}`
    expect((await send(browser, url, { method: 'GET' })).status, wrong).toBe(404)
  }
  for (const query of ['', `?session=${handle}&session=${handle}`, `?session[]=${handle}`]) {
    const answer = await send(browser, `/account/sessions/end${query}`, { method: 'GET' })
    expect(answer.status, query).toBe(404)
  }
  for (const client_id of ['web', `${ada} web`, '', '__proto__', 'usher-account']) {
    const answer = await send(graces, removalOf(client_id), { method: 'GET' })
    expect(answer.status, client_id).toBe(404)
  }
})

test('a CSRF token is valid only for the record that its page names', async () => {
  const browser = await signedIn(usher)
  const [second, third] = [await signedIn(usher), await signedIn(usher)]
  const page = await browser.open('/account/sessions')
  const [one, other] = endsOn(page)
  await browser.open(one ?? '')
  const form = fieldsOf(browser.page)
  expect((await send(browser, other ?? '', { form })).status).toBe(403)
  expect(await Promise.all([second, third].map(isSignedIn))).toEqual([true, true])
  expect((await send(browser, one ?? '', { form })).status).toBe(200)
  const left = await Promise.all([second, third].map(isSignedIn))
  expect(left.filter(Boolean)).toHaveLength(1)
})
