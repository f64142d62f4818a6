// The operator's commands for second factors, and an issuer that has got another host.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createRules } from '../../src/features/factors/rules.ts'
import { Browser } from '../support/browser.ts'
import { run, runUsher } from '../support/command.ts'
import { addApp, atFactor, factorsOf } from '../support/factors.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { Authenticator, addPasskey, usePasskey } from '../support/passkeys.ts'
import { credentials, isSignedIn, open, signedIn, words } from '../support/people.ts'
import { ADA, ALAN, GRACE, type Usher } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'factors').toString('base64url')
const SIGN_IN = { methods: ['password', 'passkey'], second_factor: 'optional' }
const NEW = 'another battery, another staple'
let operated: Operated
let service: Usher
/** Account ids. Alan has a passkey. */
let ada: string
let grace: string
let alan: string
let phone: Authenticator
beforeAll(async () => {
  operated = await startOperated({ usher: { sign_in: SIGN_IN }, env: { USHER_SECRET } })
  service = operated.service
  ada = (await service.addAccount(ADA)).id
  grace = (await service.addAccount(GRACE)).id
  alan = (await service.addAccount(ALAN)).id
  phone = new Authenticator(service.issuer)
  const browser = await signedIn(service, 'alan')
  await addPasskey(browser, phone)
  await browser.submit({ name: 'my phone' })
})
afterAll(() => operated.close())

const printed = async (command: string) => (await operated.usher(command)).stdout

test('accounts factors lists an app without its secret, and removes one', async () => {
  const { secret, browser } = await addApp(service, 'ada')
  await browser.submit({ name: 'my app' })
  const text = await printed('accounts factors ada')
  expect(text).toMatch(/^[\w-]{16} {2}totp {2}.* UTC {2}.* UTC {2}my app\n/)
  expect(text).toContain('recovery codes left: 10')
  const json = await printed('accounts factors ada --json')
  expect(JSON.parse(json)).toMatchObject({ factors: [{ type: 'totp' }], recovery_codes: 10 })
  const exported = await printed('accounts export ada')
  expect(JSON.parse(exported)).toMatchObject({
    factors: [{ type: 'totp', name: 'my app' }],
    recovery_codes: 10,
    activity: expect.arrayContaining([expect.objectContaining({ event: 'second_factor_added' })]),
  })
  expect(text + json + exported).not.toContain(secret)
  const why = await printed('accounts why ada')
  expect(why).toContain('Second factors: totp; recovery codes: 10.')
  for (const id of ['other', '-an_id']) {
    const wrong = await operated.usher(`accounts factors ada --remove ${id}`)
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining(`${id} not found`) })
  }
  const [factor] = (await factorsOf(service, ada)).factors
  expect((await operated.usher(`accounts factors ada --remove ${factor?.id}`)).code).toBe(0)
  expect((await factorsOf(service, ada)).factors).toEqual([])
})

test('accounts factors lists passkeys without their keys, and accounts why names them', async () => {
  const text = await printed('accounts factors alan')
  expect(text).toMatch(/^[\w-]{43} {2}passkey {2}.* UTC {2}.* UTC {2}my phone\n/)
  const json = await printed('accounts factors alan --json')
  const [passkey] = (await factorsOf(service, alan)).factors
  expect(JSON.parse(json)).toMatchObject({ factors: [{ type: 'passkey', id: passkey?.id }] })
  expect(text + json).not.toContain(passkey?.type === 'passkey' ? passkey.key : '')
  expect(await printed('accounts why alan')).toContain('Second factors: passkey;')
})

describe('config explain has the reason of', () => {
  const explained = (browser: Browser) =>
    printed(`config explain ${browser.page.html.querySelector('.problem code')?.text}`)

  test('a wrong code', async () => {
    await addApp(service)
    const { browser } = await atFactor(service, 'ada')
    await browser.submit({ code: '000000' })
    expect(await explained(browser)).toContain('the one-time code or recovery code was wrong')
  })

  test.each([
    [{ isVerified: false }, 'the answer of the browser was not valid'],
    [{ id: 'AAAA' }, 'the account has no such passkey'],
  ])('a passkey with %j', async (wrong, text) => {
    const { browser } = await open(service)
    await usePasskey(browser, phone, wrong)
    expect(await explained(browser)).toContain(text)
  })
})

test('accounts password-link --reset-factors removes the factors when the link is used', async () => {
  await addApp(service, 'grace')
  const opened = await operated.usher('accounts password-link grace --reset-factors --json')
  expect(opened.stderr).toContain('removes the second factors of grace')
  expect(opened.stderr).toContain('Second factors: totp; recovery codes: 10.')
  const read = () => factorsOf(service, grace)
  const pathOf = ({ stdout }: { stdout: string }) => new URL(JSON.parse(stdout).link).pathname
  const browser = new Browser(service.issuer)
  const use = async (path: string, repeat = NEW) => {
    await browser.open(path)
    await browser.submit({ password: NEW, repeat })
  }
  await use(pathOf(opened), 'another')
  expect(await read()).toMatchObject({ factors: [{ type: 'totp' }] })
  // A newer link without the option replaces the one with it, and removes nothing.
  const newer = await operated.usher('accounts password-link grace --json')
  expect(newer.stderr).toMatch(/^It replaces the link that is open until \S.*\.\n/)
  expect((await browser.open(pathOf(opened))).status).toBe(410)
  await use(pathOf(newer))
  expect(browser.heading).toBe(words('welcome.done_title'))
  expect(await read()).toMatchObject({ factors: [{ type: 'totp' }] })
  await use(pathOf(await operated.usher('accounts password-link grace --reset-factors --json')))
  expect(browser.heading).toBe(words('welcome.done_title'))
  expect(await read()).toMatchObject({ factors: [], recovery: [] })
  const line = service.output.find(text => text.includes('second_factors_reset')) ?? '{}'
  expect(JSON.parse(line)).toMatchObject({ account: grace, factors: ['totp'] })
  await browser.open('/account')
  await browser.submit(credentials('grace', NEW))
  expect(await isSignedIn(browser)).toBe(true)
})

test('accounts factors --remove all, and accounts remove, leave nothing', async () => {
  const opened = await atFactor(service, 'ada')
  expect(await isSignedIn(opened.browser)).toBe(false)
  const { stderr } = await operated.usher('accounts factors ada --remove all')
  expect(stderr).toContain('ada has no second factor any more')
  expect(await factorsOf(service, ada)).toMatchObject({ factors: [], recovery: [] })
  await addApp(service)
  await operated.usher('accounts remove ada --yes')
  expect(await factorsOf(service, ada)).toMatchObject({ factors: [], recovery: [] })
})

test('an account without a password signs in with its passkey', async () => {
  await service.directory.change(alan, account => ({ ...account, password: undefined }))
  const { stdout, code } = await operated.usher('accounts why alan')
  expect(stdout).toContain('Nothing prevents a sign-in with a passkey.')
  expect(code).toBe(0)
})

test('an issuer with another host is refused while there are passkeys, unless the former host is named', async () => {
  expect(await printed('doctor')).toContain('✓ passkeys     RP ID localhost')
  const { settings } = service
  const { folder: USHER_CONFIG, store: USHER_STORE } = settings
  const USHER_ISSUER = 'https://id.example.org'
  const env = { USHER_SECRET, USHER_CONFIG, USHER_STORE, USHER_ISSUER }
  const refused = await runUsher(['config', 'check'], env)
  expect(refused.code).toBe(1)
  expect(refused.stdout).toContain('users have passkeys for the host localhost')
  const started = await run(['src/main.ts'], env)
  expect(started.code).toBe(1)
  expect(started.stderr).toContain('[passkey-host]')
  expect(started.stderr).toContain('Nothing was started.')

  const sign_in = { ...SIGN_IN, former_hosts: ['localhost'] }
  writeFileSync(join(USHER_CONFIG, 'usher.yaml'), JSON.stringify({ sign_in }))
  expect((await runUsher(['config', 'check'], env)).code).toBe(0)
  const found = await factorsOf(service, alan)
  expect(createRules(settings).usable(found).factors).toHaveLength(1)
  expect(createRules({ ...settings, issuer: USHER_ISSUER }).usable(found).factors).toEqual([])
})
