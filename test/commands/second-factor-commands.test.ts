// The operator's commands for second factors, which are also in backups.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { runUsher } from '../support/command.ts'
import { addApp, atFactor, factorsOf } from '../support/factors.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { credentials, isSignedIn, words } from '../support/people.ts'
import { ADA, GRACE } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'factors').toString('base64url')
const NEW = 'another battery, another staple'
let operated: Operated
let ada: string
const folder = mkdtempSync(join(tmpdir(), 'usher-factors-'))
beforeAll(async () => {
  const usher = { sign_in: { second_factor: 'optional' } }
  operated = await startOperated({ usher, env: { USHER_SECRET } })
  ada = (await operated.service.addAccount(ADA)).id
  await operated.service.addAccount(GRACE)
})
afterAll(async () => {
  await operated.close()
  rmSync(folder, { recursive: true })
})

test('accounts factors lists without secrets, and removes one', async () => {
  const { secret, browser } = await addApp(operated.service, 'ada')
  await browser.submit({ name: 'my phone' })
  const { stdout } = await operated.usher('accounts factors ada')
  expect(stdout).toMatch(/^[\w-]{16} {2}totp {2}.* UTC {2}.* UTC {2}my phone\n/)
  expect(stdout).toContain('recovery codes left: 10')
  const { stdout: json } = await operated.usher('accounts factors ada --json')
  expect(JSON.parse(json)).toMatchObject({ factors: [{ type: 'totp' }], recovery_codes: 10 })
  const { stdout: exported } = await operated.usher('accounts export ada')
  expect(JSON.parse(exported)).toMatchObject({
    factors: [{ type: 'totp', name: 'my phone' }],
    recovery_codes: 10,
    activity: expect.arrayContaining([expect.objectContaining({ event: 'second_factor_added' })]),
  })
  expect(stdout + json + exported).not.toContain(secret)
  expect((await operated.usher('accounts why ada')).stdout).toContain(
    'Second factors: totp; recovery codes: 10.',
  )
  const wrong = await operated.usher('accounts factors ada --remove other')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('other not found') })
  const [factor] = (await factorsOf(operated.service, ada)).factors
  expect((await operated.usher(`accounts factors ada --remove ${factor?.id}`)).code).toBe(0)
  expect((await factorsOf(operated.service, ada)).factors).toEqual([])
})

test('config explain has the reason of a wrong code', async () => {
  await addApp(operated.service)
  const { browser } = await atFactor(operated.service, 'ada')
  await browser.submit({ code: '000000' })
  const reference = browser.page.html.querySelector('.problem code')?.text
  const { stdout } = await operated.usher(`config explain ${reference}`)
  expect(stdout).toContain('the one-time code or recovery code was wrong')
})

test('a backup has the factors, sealed, and a restored store asks for them', async () => {
  await operated.usher('accounts factors grace --remove all')
  const { secret, codes } = await addApp(operated.service, 'grace')
  const file = join(folder, 'backup')
  expect((await operated.usher(`store backup ${file}`)).code).toBe(0)
  const text = readFileSync(file, 'latin1')
  for (const plain of [secret, ...codes]) expect(text).not.toContain(plain)
  const env = {
    USHER_SECRET,
    USHER_CONFIG: operated.service.settings.folder,
    USHER_STORE: `sqlite:${join(folder, 'restored.db')}`,
  }
  expect(await runUsher(['store', 'restore', file], env)).toMatchObject({ code: 0 })
  const { stdout } = await runUsher(['accounts', 'factors', 'grace'], env)
  expect(stdout).toContain('totp')
})

test('accounts password-link --reset-factors removes the factors when the link is used', async () => {
  const opened = await operated.usher('accounts password-link grace --reset-factors --json')
  expect(opened.stderr).toContain('removes the second factors of grace')
  expect(opened.stderr).toContain('Second factors: totp; recovery codes: 10.')
  const grace = await operated.service.directory.findByUsername('grace')
  const read = () => factorsOf(operated.service, grace?.id ?? '')
  const path = new URL(JSON.parse(opened.stdout).link).pathname
  const browser = new Browser(operated.service.issuer)
  const use = async (at: string, repeat = NEW) => {
    await browser.open(at)
    await browser.submit({ password: NEW, repeat })
  }
  await use(path, 'another')
  expect(await read()).toMatchObject({ factors: [{ type: 'totp' }] })
  // A newer link without the option replaces the one with it, and removes nothing.
  const { stdout, stderr } = await operated.usher('accounts password-link grace --json')
  expect(stderr).toMatch(/^It replaces the link that is open until \S.*\.\n/)
  expect((await browser.open(path)).status).toBe(410)
  await use(new URL(JSON.parse(stdout).link).pathname)
  expect(browser.heading).toBe(words('welcome.done_title'))
  expect(await read()).toMatchObject({ factors: [{ type: 'totp' }] })
  const reset = await operated.usher('accounts password-link grace --reset-factors --json')
  await use(new URL(JSON.parse(reset.stdout).link).pathname)
  expect(browser.heading).toBe(words('welcome.done_title'))
  expect(await read()).toMatchObject({ factors: [], recovery: [] })
  const line = operated.service.output.find(text => text.includes('second_factors_reset')) ?? '{}'
  expect(JSON.parse(line)).toMatchObject({ account: grace?.id, factors: ['totp'] })
  await browser.open('/account')
  await browser.submit(credentials('grace', NEW))
  expect(await isSignedIn(browser)).toBe(true)
})

test('accounts factors --remove all, and accounts remove, leave nothing', async () => {
  const opened = await atFactor(operated.service, 'ada')
  expect(await isSignedIn(opened.browser)).toBe(false)
  const { stderr } = await operated.usher('accounts factors ada --remove all')
  expect(stderr).toContain('ada has no second factor any more')
  expect(await factorsOf(operated.service, ada)).toMatchObject({ factors: [], recovery: [] })
  await addApp(operated.service)
  await operated.usher('accounts remove ada --yes')
  expect(await factorsOf(operated.service, ada)).toMatchObject({ factors: [], recovery: [] })
})
