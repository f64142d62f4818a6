// The operator's commands for passkeys, and an issuer that has got another host.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createRules } from '../../src/features/factors/rules.ts'
import { run } from '../support/command.ts'
import { factorsOf } from '../support/factors.ts'
import { type Operated, startOperated } from '../support/operated.ts'
import { Authenticator, addPasskey, usePasskey } from '../support/passkeys.ts'
import { open, signedIn } from '../support/people.ts'
import { ADA } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'passkeys').toString('base64url')
const MOVED = 'https://id.example.org'
const SIGN_IN = { methods: ['password', 'passkey'], second_factor: 'optional' }
let operated: Operated
let phone: Authenticator
let ada: string
beforeAll(async () => {
  operated = await startOperated({ usher: { sign_in: SIGN_IN }, env: { USHER_SECRET } })
  ada = (await operated.service.addAccount(ADA)).id
  phone = new Authenticator(operated.service.issuer)
  const browser = await signedIn(operated.service)
  await addPasskey(browser, phone)
  await browser.submit({ name: 'my phone' })
})
afterAll(() => operated.close())

/** Runs a program with the same store, and an issuer with another host. */
const moved = (...words: string[]) => {
  const { folder, store } = operated.service.settings
  const env = { USHER_SECRET, USHER_CONFIG: folder, USHER_STORE: store, USHER_ISSUER: MOVED }
  return run(words, env)
}

test('accounts factors lists passkeys without their keys, and accounts why names them', async () => {
  const { stdout } = await operated.usher('accounts factors ada')
  expect(stdout).toMatch(/^[\w-]{43} {2}passkey {2}.* UTC {2}.* UTC {2}my phone\n/)
  const { stdout: json } = await operated.usher('accounts factors ada --json')
  const [passkey] = (await factorsOf(operated.service, ada)).factors
  const key = passkey?.type === 'passkey' ? passkey.key : ''
  expect(JSON.parse(json)).toMatchObject({ factors: [{ type: 'passkey', id: passkey?.id }] })
  expect(stdout + json).not.toContain(key)
  expect((await operated.usher('accounts why ada')).stdout).toContain(
    'Second factors: passkey; recovery codes: 10.',
  )
})

test('doctor shows the RP ID', async () => {
  const { stdout } = await operated.usher('doctor')
  expect(stdout).toContain('✓ passkeys     RP ID localhost')
})

test.each([
  ['passkey_wrong', { isVerified: false }, 'the answer of the browser was not valid'],
  ['passkey_unknown', { id: 'AAAA' }, 'the account has no such passkey'],
] as const)('config explain has the reason of %s', async (_, wrong, text) => {
  const { browser } = await open(operated.service)
  await usePasskey(browser, phone, wrong)
  const reference = browser.page.html.querySelector('.problem code')?.text
  const { stdout } = await operated.usher(`config explain ${reference}`)
  expect(stdout).toContain(text)
})

test('an issuer with another host is refused while there are passkeys, unless the former host is named', async () => {
  const refused = await moved('src/cli.ts', 'config', 'check')
  expect(refused).toMatchObject({ code: 1 })
  expect(refused.stdout).toContain('users have passkeys for the host localhost')
  const started = await moved('src/main.ts')
  expect(started).toMatchObject({ code: 1 })
  expect(started.stderr).toContain('[passkey-host]')
  expect(started.stderr).toContain('Nothing was started.')

  const file = join(operated.service.settings.folder, 'usher.yaml')
  writeFileSync(file, JSON.stringify({ sign_in: { ...SIGN_IN, former_hosts: ['localhost'] } }))
  expect(await moved('src/cli.ts', 'config', 'check')).toMatchObject({ code: 0 })
  const found = await factorsOf(operated.service, ada)
  const { settings } = operated.service
  expect(createRules(settings).usable(found).factors).toHaveLength(1)
  expect(createRules({ ...settings, issuer: MOVED }).usable(found).factors).toEqual([])
})

test('accounts why: an account without a password signs in with its passkey', async () => {
  const { directory } = operated.service
  await directory.change(ada, account => ({ ...account, password: undefined }))
  const { stdout, code } = await operated.usher('accounts why ada')
  expect(stdout).toContain('Nothing prevents a sign-in with a passkey.')
  expect(code).toBe(0)
})
