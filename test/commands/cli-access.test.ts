// Commands about the sessions and consents of a user.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { authorize, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { isSignedIn, signedIn } from '../support/people.ts'
import { ADA, GRACE, type Usher } from '../support/usher.ts'

let operated: Operated
let service: Usher
beforeAll(async () => {
  operated = await startOperated()
  service = operated.service
  await service.addAccount(ADA)
})
afterAll(() => operated.close())

const usher = (words: string) => operated.usher(words)
const read = async (words: string): Promise<Record<string, unknown>[]> =>
  JSON.parse((await usher(`${words} --json`)).stdout)

test('sessions are listed with their start, last use, applications and a handle that is no credential', async () => {
  expect((await usher('sessions list ada')).stdout).toBe('ada is not signed in.\n')
  const { browser } = await tokens(service)
  const [session, ...others] = await read('sessions list ada')
  expect(others).toEqual([])
  expect(session).toMatchObject({
    handle: expect.stringMatching(/^[0-9a-f]{32}$/),
    clients: ['web'],
  })
  expect(session).not.toHaveProperty('uid')
  const cookies = await browser.cookies()
  expect(cookies).not.toContain(String(session?.handle))
  expect((await usher('sessions list ada')).stdout).toMatch(
    /^[0-9a-f]{32} .*\n {4}since \d{4}-\d\d-\d\d \d\d:\d\d UTC, last used .* UTC; applications: web\n$/,
  )
})

test('sessions end ends one session or all, and lists the access that continues', async () => {
  await usher('sessions end ada')
  const [one, other] = [await signedIn(service), await signedIn(service)]
  const before = await read('sessions list ada')
  expect(before).toHaveLength(2)
  const wrong = await usher(`sessions end ada ${'0'.repeat(32)}`)
  expect(wrong).toMatchObject({ code: 1 })
  expect(wrong.stderr).toContain('not found. List the sessions: npm run usher -- sessions list ada')
  expect(await operated.usher('sessions end ada ')).toMatchObject({ code: 1 })
  expect(await read('sessions list ada')).toHaveLength(2)
  await usher(`sessions end ada ${before[0]?.handle}`)
  expect(await read('sessions list ada')).toHaveLength(1)
  expect([await isSignedIn(one), await isSignedIn(other)].filter(Boolean)).toHaveLength(1)
  const { stderr, code } = await usher('sessions end ada')
  expect(code).toBe(0)
  expect(stderr).toMatch(/^Ended sessions of ada: 1\. Applications with offline access keep it/)
  expect(await isSignedIn(one)).toBe(false)
  expect(await isSignedIn(other)).toBe(false)
})

test('grants withdraw has the same effect as Remove access on the account page', async () => {
  const { refresh_token } = await tokens(service)
  const [grant] = await read('grants list ada')
  expect(grant).toMatchObject({ client_id: 'web', scopes: expect.arrayContaining(['profile']) })
  expect((await usher('grants list ada')).stdout).toMatch(/^web {2}openid, .*\n {4}since /)
  const slip = await usher('grants withdraw ada wbe')
  expect(slip).toMatchObject({
    code: 1,
    stderr: 'Access of ada for wbe not found; did you mean web?\n',
  })
  expect((await usher('grants withdraw ada web')).stderr).toContain('its tokens are revoked')
  expect((await refresh(service, refresh_token)).body.error).toBe('invalid_grant')
  expect((await usher('grants list ada')).stdout).toBe('ada has allowed no application access.\n')
  expect((await usher('grants withdraw ada')).stderr).toContain('CLIENT_ID is missing')
  expect((await usher('grants list nobody')).stderr).toBe(
    'Account nobody not found. List the accounts: npm run usher -- accounts list\n',
  )
})

test('clients end revokes the tokens of all users of one client, and no others', async () => {
  await service.addAccount(GRACE)
  const of = (username: string, client_id = 'web') => tokens(service, { username, client_id })
  const [one, other, unused, spa] = await Promise.all([
    of('ada'),
    of('grace'),
    authorize(service),
    of('ada', 'spa'),
  ])
  const ended = await usher('clients end web')
  expect(ended).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^Tokens of web are revoked: \d+/),
  })
  for (const { access_token, refresh_token } of [one, other]) {
    expect((await userinfo(service, access_token)).status).toBe(401)
    expect((await refresh(service, refresh_token)).body.error).toBe('invalid_grant')
  }
  expect((await redeem(service, unused.code, unused.request)).body.error).toBe('invalid_grant')
  expect((await userinfo(service, spa.access_token)).status).toBe(200)
  expect((await tokens(service, { browser: one.browser })).access_token).toBeTruthy()
  expect((await usher('clients end wob')).stderr).toContain('did you mean web?')
})

test('accounts export NAME prints everything about one user, without secrets', async () => {
  const { browser, access_token, refresh_token } = await tokens(service)
  const { stdout, code } = await usher('accounts export ada')
  expect(code).toBe(0)
  const data = JSON.parse(stdout)
  expect(data).toMatchObject({
    account: { username: 'ada', email: ADA.email, has_password: true },
    consents: expect.arrayContaining([expect.objectContaining({ client_id: 'web' })]),
    grants: expect.arrayContaining([expect.objectContaining({ client_id: 'web' })]),
    sessions: expect.arrayContaining([expect.objectContaining({ handle: expect.any(String) })]),
  })
  const cookies = await browser.cookies()
  const values = cookies.split('; ').map(cookie => cookie.split('=')[1] ?? '')
  for (const secret of ['argon2', access_token, refresh_token, ...values]) {
    expect(stdout).not.toContain(secret)
  }
  expect((await usher('accounts export nobody-here')).code).toBe(1)
})
