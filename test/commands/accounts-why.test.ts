// `accounts why` reports what currently prevents an account from signing in.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { accountCounter, networkCounter } from '../../src/sign-in/authentication.ts'
import { Browser } from '../support/browser.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { afterSignIn } from '../support/people.ts'
import { withUpstreams } from '../support/upstream.ts'
import { ADA, CLIENTS, PASSWORD } from '../support/usher.ts'

const ISSUER = 'https://sso.example.org'
const PUBLIC = {
  redirect_uris: ['https://app.example.org/callback'],
  token_endpoint_auth_method: 'none',
}
/** An account that signs in at the upstream issuer. */
const EDITH = {
  username: 'edith',
  email_verified: false,
  attributes: {},
  enabled: true,
  links: [{ issuer: ISSUER, subject: 'edith' }],
}

let operated: Operated
beforeAll(async () => {
  const { usher, files } = withUpstreams({ corp: { issuer: ISSUER } })
  const sign_in = { by: ['username', 'email'] }
  const wiki = { ...PUBLIC, client_id: 'wiki', client_name: 'Wiki', allow: { groups: ['finance'] } }
  operated = await startOperated({ usher: { ...usher, sign_in }, files, clients: { wiki } })
  await operated.service.addAccount(ADA)
  await operated.usher('accounts add --username grace')
})
afterAll(() => operated.close())

const why = async (words: string) => (await operated.usher(`accounts why ${words}`)).stdout

test('accounts why reports the problem of the account, and the command that fixes it', async () => {
  expect(await operated.usher('accounts why ada')).toMatchObject({
    code: 0,
    stdout: 'Nothing prevents a sign-in with the right password.\n',
  })
  expect(await why(ADA.email)).toBe('Nothing prevents a sign-in with the right password.\n')
  expect(await why('nobody')).toContain('no account has this username or id. ')
  await operated.usher('accounts disable grace')
  const { stdout: text, code, stderr } = await operated.usher('accounts why grace')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'The account cannot sign in at the moment.\n',
  })
  expect(text).toMatch(/^the account is disabled\n {2}→ .* accounts enable usr_\w+\n/)
  expect(text).toMatch(
    /\nthe account has no password\n {2}→ .* accounts password-link usr_\w+, or .*\n$/,
  )
  const { reasons } = JSON.parse(await why('grace --json'))
  expect(reasons).toMatchObject([{ reason: 'disabled' }, { reason: 'no_password' }])
})

test('accounts why reports where an account without a password signs in', async () => {
  await operated.service.directory.transfer(EDITH)
  const at = `at corp (${ISSUER})`
  expect(await why('edith')).toBe(`Nothing prevents a sign-in ${at}.\n`)
  expect(JSON.parse(await why('edith --json'))).toMatchObject({
    reasons: [],
    upstreams: [`corp (${ISSUER})`],
  })
  await operated.usher('accounts password edith')
  const either = `Nothing prevents a sign-in with the right password or ${at}.`
  expect(await why('edith')).toMatch(
    new RegExp(`^${RegExp.escape(either)} The user must change it by `),
  )
})

test('accounts why --client names the attribute that is missing', async () => {
  await operated.usher('accounts add --username joan')
  const { stdout, stderr } = await operated.usher('accounts why joan --client wiki')
  expect(stdout).toContain(
    'wiki needs one of these values of groups, and the account has none: finance\n' +
      '  → npm run usher -- accounts set joan groups+=finance; or allow in the file of wiki\n',
  )
  expect(stderr).toBe('The account cannot sign in to wiki at the moment.\n')
  await operated.usher('accounts set joan groups+=finance')
  expect(await why('joan --client wiki')).not.toContain('finance')
  const slip = await operated.usher('accounts why joan --client wikki')
  expect(slip.stderr).toContain('Client wikki not found; did you mean wiki?')
})

/** Stores so many attempts that the next one has to wait for minutes. */
const attempts = (counter: string) =>
  operated.service.records.of('Attempts').change(counter, () => ({ count: 40, at: Date.now() }))

test('accounts why reports until when an account is throttled, and counts no attempt', async () => {
  const ada = await operated.service.directory.findByUsername(ADA.username)
  await attempts(accountCounter(ada?.id ?? ''))
  const before = JSON.parse(await why('ada --json'))
  expect(before.reasons).toMatchObject([{ reason: 'throttled', until: expect.any(Number) }])
  expect(before.reasons[0].until).toBeGreaterThan(Date.now() / 1000)
  expect(await why('ada')).toMatch(
    /^throttled from every network, except .*, until \S+Z\n {2}→ wait/,
  )
  expect(JSON.parse(await why('ada --json'))).toEqual(before)
  const browser = await afterSignIn(operated.service, ADA.username, PASSWORD)
  expect(browser.heading).toBe('Sign in')
})

test('accounts why with an IP address reports whether that network is throttled', async () => {
  const counter = { count: 500, at: Date.now() + 60_000 }
  await operated.service.records.of('Attempts').change(networkCounter('192.0.2.7'), () => counter)
  expect(await why('ada --ip 192.0.2.9')).toContain(
    'throttled from the network of 192.0.2.9, until',
  )
  expect(await why('ada --ip 198.51.100.7')).not.toContain('the network of')
  const wrong = await operated.usher('accounts why ada --ip nowhere')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('--ip takes an IP') })
})

test('a temporary password is printed once, and its expiry is shown', async () => {
  const added = await operated.usher('accounts add --username edsger --must-change')
  const [id, first = ''] = added.stdout.split('\n')
  expect(added).toMatchObject({ code: 0, stderr: '' })
  expect(id).toMatch(/^usr_[0-9a-z]{26}$/)
  const browser = await afterSignIn(operated.service, 'edsger', first)
  expect(browser.heading).toBe('Choose a new password')

  const { stdout } = await operated.usher('accounts password edsger')
  expect(stdout.trim()).not.toBe(first)
  const shown = JSON.parse((await operated.usher('accounts show edsger --json')).stdout)
  const threeDays = Date.now() / 1000 + 3 * 24 * 3600
  expect(Math.abs(shown.change_password_by - threeDays)).toBeLessThan(120)
  expect(await why('edsger')).toMatch(/right password\. The user must change it by 20\S+Z\.\n$/)

  await operated.service.directory.change(id ?? '', account => ({
    ...account,
    change_password_by: 1,
  }))
  expect(await why('edsger')).toMatch(
    /^the temporary password has expired\n {2}→ .*accounts password usr_/,
  )
  await operated.usher('accounts password edsger')
  expect(await why('edsger')).toMatch(/^Nothing prevents .* must change it by 20\S+Z\.\n$/)
})

test('accounts invite and accounts password-link print a link, and accounts why says that it is open', async () => {
  const { service } = operated
  const words =
    'accounts invite --username barbara --email b@example.org --groups finance,board --for 2d'
  const invited = await operated.usher(words)
  const link = invited.stdout.trim()
  expect(link).toMatch(/^http:\/\/localhost:3000\/welcome\/[\w-]{65}$/)
  expect(invited.stderr).toMatch(
    /^With this link, barbara chooses a password\. It works once, until/,
  )
  const account = await service.directory.findByUsername('barbara')
  expect(account).toMatchObject({ attributes: { groups: ['finance', 'board'] }, enabled: true })
  expect(account?.password).toBeUndefined()
  const { stdout } = await operated.usher('accounts why barbara')
  expect(stdout).toContain('the account has no password')
  expect(stdout).toMatch(/\nThe link for a password is open until \S+Z\.\n$/)
  const browser = new Browser(service.issuer)
  await browser.open(new URL(link).pathname)
  const password = 'another battery, another staple'
  await browser.submit({ password, repeat: password })
  expect(await why('barbara')).toBe('Nothing prevents a sign-in with the right password.\n')
  const made = await operated.usher('accounts password-link barbara --json')
  expect(made.stderr).toMatch(
    /^The use of the link replaces the password of barbara, and ends \d sessions? and all tokens; nothing ends before\.\n/,
  )
  const again = JSON.parse(made.stdout)
  expect(Math.abs(again.until - Date.now() / 1000 - 3 * 24 * 3600)).toBeLessThan(120)
  expect(await why('barbara')).toMatch(/right password\.\nThe link for a password is open until/)
  expect(JSON.parse(await why('barbara --json')).link_until).toBe(again.until)
  const wrong = await operated.usher('accounts password-link barbara --for 31d')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('at most 30 days') })
})

describe('where sign_in.methods has no password', () => {
  const STAFF = {
    issuer: 'https://login.example.net',
    link_by_verified_email: true,
    allow: { email_domains: ['example.net'] },
  }
  let operated: Operated
  beforeAll(async () => {
    const { usher, files } = withUpstreams({ corp: { issuer: ISSUER }, staff: STAFF })
    const sign_in = { methods: ['corp', 'staff', 'passkey'], second_factor: 'optional' }
    const corp = { ...PUBLIC, client_id: 'corp', client_name: 'Corp', require_sign_in: 'corp' }
    const two = { ...PUBLIC, client_id: 'two', client_name: 'Two', second_factor: 'required' }
    const clients = { ...CLIENTS, corp, two }
    operated = await startOperated({ usher: { ...usher, sign_in }, files, clients })
    await operated.service.addAccount(ADA)
    const { directory } = operated.service
    await directory.add({ username: 'grace', email: 'grace@example.net', email_verified: true })
    await directory.transfer(EDITH)
  })
  afterAll(() => operated.close())
  const why = async (words: string) => (await operated.usher(`accounts why ${words}`)).stdout

  test('a password is no way to sign in', async () => {
    const { code, stdout } = await operated.usher('accounts why ada')
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^the account cannot sign in by a method that is allowed here: corp, staff, passkey\n {2}→ .* accounts link usr_\w+ --upstream corp --subject SUB; or sign_in\.methods in usher\.yaml\n$/,
    )
    const { reasons } = JSON.parse(await why('ada --json'))
    expect(reasons).toMatchObject([{ reason: 'method_missing' }])
    expect(await why('edith')).toBe(`Nothing prevents a sign-in at corp (${ISSUER}).\n`)
  })

  test('an issuer that links accounts by their address is a way to sign in', async () => {
    expect(await why('grace')).toBe(
      `Nothing prevents a sign-in at staff (${STAFF.issuer}), which links the account by its address.\n`,
    )
  })

  test('with a client, its require_sign_in is the only method', async () => {
    expect(await why('edith --client corp')).toBe(
      `Nothing prevents a sign-in at corp (${ISSUER}).\n`,
    )
    const { stdout, stderr } = await operated.usher('accounts why grace --client corp')
    expect(stdout).toMatch(/allowed here: corp\n.*; or require_sign_in in the file of corp\n$/)
    expect(stderr).toBe('The account cannot sign in to corp at the moment.\n')
  })

  test('with a client, a second factor that it needs and the account lacks is said', async () => {
    const missing = 'A second factor is required, and the account has none'
    expect(await why('edith')).not.toContain(missing)
    expect(await why('edith --client two')).toContain(missing)
  })

  test('config explain names the methods of the sign-in to a client', async () => {
    const explained = async (id: string) =>
      JSON.parse((await operated.usher(`config explain ${id} --json`)).stdout)
    expect(await explained('corp')).toMatchObject({ sign_in: ['corp'] })
    expect(await explained('two')).toMatchObject({ sign_in: ['corp', 'staff', 'passkey'] })
  })
})
