// Import of accounts from other systems, and export to another installation.

import { spawn } from 'node:child_process'
import { createHmac, randomBytes, scryptSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { hash as argon2 } from '@node-rs/argon2'
import { hash as bcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { afterSignIn } from '../support/people.ts'
import { findProgram } from '../support/programs.ts'
import { PASSWORD, startUsher } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()

/** A new installation, and a function that runs its commands. */
function installation() {
  const home = mkdtempSync(join(folder, 'home-'))
  mkdirSync(join(home, 'config'))
  writeFileSync(join(home, 'config/claims.yaml'), 'claims: {}\n')
  const store = `sqlite:${join(home, 'usher.db')}`
  const own = { USHER_CONFIG: join(home, 'config'), USHER_STORE: store }
  const usher = (words: string, input = '') => runUsher(words.split(' '), own, input)
  /** Runs a command on a terminal, and returns what that shows. */
  async function onTerminal(words: string, redirection = '') {
    const script = findProgram('script', 'bsdutils')
    const command = `node src/cli.ts ${words} ${redirection}`
    const env = { ...process.env, ...own }
    const child = spawn(script, ['-qec', command, '/dev/null'], { cwd: ROOT, env })
    const [stdout] = await Promise.all([text(child.stdout), once(child, 'exit')])
    return stdout
  }
  return { usher, onTerminal, store }
}

const lines = (...records: object[]) => records.map(record => JSON.stringify(record)).join('\n')
const read = (jsonl: string): { username: string; password_hash?: string }[] =>
  jsonl
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))
const sorted = (jsonl: string) => read(jsonl).toSorted((a, b) => (a.username < b.username ? -1 : 1))

test('an import has the same subjects, hashes, dates and disabled accounts as the export', async () => {
  const [here, there] = [installation(), installation()]
  const { stdout: id } = await here.usher('accounts add --username ada --password-stdin', PASSWORD)
  await here.usher('accounts add --username grace --name Grace\u2028Hopper --email g@example.org')
  await here.usher('accounts disable grace')
  await here.usher('accounts add --username edsger --must-change')
  const given = await here.usher('accounts export')
  expect(given.stderr).toContain('password hashes')
  expect(read(given.stdout)).toHaveLength(3)
  expect(given.stdout).toContain('"change_password_by":')
  expect(given.stdout).toContain(id.trim())
  expect(given.stdout).toContain('$argon2id$')
  const taken = await there.usher('accounts import', given.stdout)
  expect(taken).toMatchObject({ code: 0, stdout: '' })
  expect(taken.stderr).toContain(
    'Accounts added: 3. Accounts that existed and stay as they are: 0.',
  )
  expect(sorted((await there.usher('accounts export')).stdout)).toEqual(sorted(given.stdout))
})

test('an import and an export of 10,000 accounts report progress on a terminal only', async () => {
  const { usher, onTerminal } = installation()
  const file = join(folder, 'many.jsonl')
  const many = Array.from({ length: 10_000 }, (_, i) => ({ username: `user-${i}` }))
  writeFileSync(file, lines(...many))
  expect(await onTerminal(`accounts import ${file}`)).toMatch(
    /^10000 lines read …\r\nAccounts added: 10000\./,
  )
  const given = await usher('accounts export')
  expect(given.stderr).not.toContain('…')
  expect(new Set(read(given.stdout).map(({ username }) => username)).size).toBe(10_000)
  const out = join(folder, 'exported.jsonl')
  const shown = await onTerminal('accounts export', `> ${out}`)
  expect(shown).toMatch(/10000 accounts read …\r\n$/)
  expect(sorted(readFileSync(out, 'utf8'))).toEqual(sorted(given.stdout))
  const again = await usher(`accounts import ${file}`)
  expect(again.stderr).toBe(
    'Accounts added: 0. Accounts that existed and stay as they are: 10000.\n',
  )
})

test('importing twice changes nothing, by id or else by username', async () => {
  const { usher } = installation()
  const ada = { username: 'ada', id: `usr_${'a'.repeat(26)}`, name: 'Ada' }
  await usher('accounts import', lines(ada, { username: 'alan' }))
  const before = (await usher('accounts export')).stdout
  const again = await usher('accounts import', lines({ ...ada, name: 'Eve' }, { username: 'ALAN' }))
  expect(again).toMatchObject({ code: 0 })
  expect(again.stderr).toContain(
    'Accounts added: 0. Accounts that existed and stay as they are: 2.',
  )
  expect((await usher('accounts export')).stdout).toBe(before)
})

test('each invalid line is reported by number and reason, without its content; the others are imported', async () => {
  const { usher } = installation()
  const file = join(folder, 'mixed.jsonl')
  const secret = 'a-hash-that-nobody-should-see'
  const written = [
    `\uFEFF${JSON.stringify({ username: 'ada' })}\r`,
    `{"password_hash": "${secret}"`,
    '',
    JSON.stringify({ username: 'grace', password_hash: secret }),
    JSON.stringify({ username: 'grace', password: secret }),
    JSON.stringify({ username: 'grace', password_hash: `$2b$31$${'a'.repeat(53)}` }),
    JSON.stringify({ username: 'Ada', id: `usr_${'b'.repeat(26)}` }),
    JSON.stringify({ username: 'alan', e_mail: 'alan@example.org' }),
    JSON.stringify({ username: 'alan' }),
  ]
  writeFileSync(file, written.join('\n'))
  await usher('accounts add --username ada')
  const { stderr, code } = await usher(`accounts import ${file}`)
  expect(code).toBe(1)
  expect(stderr).not.toContain(secret)
  expect(stderr.trim().split('\n')).toEqual([
    'line 2: is not JSON: one object a line, and nothing else',
    'line 4: password_hash: is no hash of a known kind: argon2, bcrypt, scrypt or PBKDF2',
    'line 5: password: unknown key; a hash stands in password_hash',
    'line 6: password_hash: takes too long to check, or too much memory',
    'line 7: This username is taken.',
    'line 8: e_mail: unknown key; did you mean email?',
    'Accounts added: 1. Accounts that existed and stay as they are: 1.',
    'Lines not imported: 6. Fix them, and run it again.',
  ])
  expect(sorted((await usher('accounts export')).stdout)).toMatchObject([
    { username: 'ada' },
    { username: 'alan' },
  ])
})

test('a missing file, two files, and a file without lines are refused', async () => {
  const { usher } = installation()
  expect(await usher('accounts import no.jsonl')).toMatchObject({
    code: 1,
    stderr: 'File no.jsonl not found.\n',
  })
  expect((await usher('accounts import a b')).stderr).toContain('b is too much')
  const endless = await usher('accounts import', '['.repeat(2 ** 21))
  expect(endless).toMatchObject({ code: 1 })
  expect(endless.stderr).toContain('one object a line')
})

test('a hash that cannot be verified is refused, and a user with a valid one signs in', async () => {
  const { usher, store } = installation()
  const digest = 'A'.repeat(43)
  const hopeless = [
    `$argon2id$v=19$m=15,t=1,p=2$c29tZXNhbHQ$${digest}`,
    `$argon2id$v=19$m=65536,t=2,p=1$eA$${digest}`,
    `$argon2id$v=19$m=65536,t=2,p=1$c29tZX.hbHQ$${digest}`,
    `$scrypt$ln=17,r=1,p=1$c29tZXNhbHQ$${digest}`,
  ]
  const right = await argon2(PASSWORD, { memoryCost: 32, parallelism: 4, timeCost: 1 })
  const users = [...hopeless, right].map((password_hash, i) => ({
    username: `user-${i}`,
    password_hash,
  }))
  const { code, stderr } = await usher('accounts import', lines(...users))
  expect(code).toBe(1)
  expect(stderr.match(/^line [1-4]: password_hash: can never be checked/gm)).toHaveLength(4)
  expect(stderr).toContain('Accounts added: 1.')
  const service = await startUsher({ store })
  for (const { username } of users) {
    const browser = await afterSignIn(service, username, PASSWORD)
    const isIn = username === 'user-4'
    expect(browser.page.status, username).toBe(isIn ? 200 : 400)
    expect(browser.heading, username).toBe(isIn ? 'Your account' : 'Sign in')
  }
  await service.close()
})

test('users with hashes of other systems sign in and get an argon2id hash', async () => {
  const { usher, store } = installation()
  const b64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '')
  const salt = randomBytes(16)
  const scrypt = b64(scryptSync(PASSWORD, salt, 32, { N: 2 ** 14, r: 8, p: 1 }))
  const users = [
    { username: 'ada', password_hash: await bcrypt(PASSWORD, 10) },
    { username: 'grace', password_hash: `$scrypt$ln=14,r=8,p=1$${b64(salt)}$${scrypt}` },
    { username: 'alan', password_hash: `$pbkdf2-sha256$1$${b64(salt)}$${b64(pbkdf2Once(salt))}` },
  ]
  await usher('accounts import', lines(...users))
  const service = await startUsher({ store })
  const signIn = async (username: string, password: string) => {
    const browser = await afterSignIn(service, username, password)
    return browser.heading
  }
  expect(await signIn('ada', 'not the password')).toBe('Sign in')
  for (const { username, password_hash } of users) {
    expect(await signIn(username, PASSWORD)).toBe('Your account')
    const { password } = (await service.directory.findByUsername(username)) ?? {}
    expect(password).toMatch(/^\$argon2id\$/)
    expect(password).not.toBe(password_hash)
    expect(await signIn(username, PASSWORD)).toBe('Your account')
  }
  await service.close()
})

/** RFC 8018 §5.2, with one iteration and one block. */
const pbkdf2Once = (salt: Buffer) =>
  createHmac('sha256', PASSWORD)
    .update(salt)
    .update(Buffer.from([0, 0, 0, 1]))
    .digest()

test('a table is imported, and invited: a link for each new account', async () => {
  const { usher } = installation()
  const table = 'username;groups\nada;finance,board\n"bad name";\ngrace;\n'
  const imported = await usher('accounts import', table)
  expect(imported).toMatchObject({ code: 1, stderr: expect.stringContaining('line 3: username') })
  const shown = JSON.parse((await usher('accounts show ada --json')).stdout)
  expect(shown).toMatchObject({ attributes: { groups: ['finance', 'board'] }, has_password: false })
  const file = join(folder, 'people.csv')
  writeFileSync(file, 'username,name\nada,Ada\nalan,Alan Turing\nedsger,\n')
  const invited = await usher(`accounts invite --file ${file}`)
  const lines = invited.stdout.trim().split('\n').toSorted()
  expect(lines).toEqual(
    ['alan', 'edsger'].map(name => expect.stringMatching(`^${name} http\\S+/welcome/`)),
  )
  expect(invited).toMatchObject({ code: 0, stderr: expect.stringContaining('Accounts added: 2.') })
  const missing = await usher('accounts invite --file nowhere.csv')
  expect(missing).toMatchObject({ code: 1, stderr: 'File nowhere.csv not found.\n' })
})

test('addresses that are shared or not confirmed are named', async () => {
  const { usher } = installation()
  const SHARED = /eve: ada has the address ada@example\.org, too/
  await usher('accounts add --username ada --email ada@example.org')
  const table = 'username,email\neve,Ada@example.org\nalan,alan@example.org\nbob,\n'
  const file = join(folder, 'shared.csv')
  writeFileSync(file, table)
  const invited = await usher(`accounts invite --file ${file}`)
  expect(invited).toMatchObject({ code: 0, stderr: expect.stringMatching(/eve: ada has/) })
  expect(invited.stderr).toContain('Addresses that are not confirmed: 2.')
  const single = await usher('accounts invite --username kay --email alan@example.org')
  expect(single.stderr).toContain('kay: alan has the address alan@example.org, too')
  expect(single.stderr).toContain('Addresses that are not confirmed: 1.')
  const vouched = 'accounts invite --username joan --email joan@example.org --email-verified'
  expect((await usher(vouched)).stderr).not.toMatch(/has the address|not confirmed/)
  const added = await usher('accounts add --username lin --email alan@example.org')
  expect(added.stderr).toMatch(/lin: (alan, kay|kay, alan) has the address/)
  await usher('accounts set eve --email eve@example.org')
  const set = await usher('accounts set eve --email ada@example.org')
  expect(set.stderr).toMatch(SHARED)
  const imported = await usher(
    'accounts import',
    lines({ username: 'x', email: 'eve@example.org' }),
  )
  expect(imported.stderr).not.toContain('has the address')
})

test('a table may have a column attributes with JSON, beside others', async () => {
  const { usher } = installation()
  const table =
    'username,attributes,groups\nada,"{""dept"":""x"",""groups"":""y""}",board\neve,x,board\n'
  const { stderr } = await usher('accounts import', table)
  expect(stderr).toMatch(/^line 3: attributes: /m)
  const shown = JSON.parse((await usher('accounts show ada --json')).stdout)
  expect(shown.attributes).toEqual({ dept: 'x', groups: ['board'] })
})

test('an exported line has no character that acts on a terminal', async () => {
  const { usher } = installation()
  const attributes = { note: '\u009b31m \u202e ü' }
  await usher('accounts import', lines({ username: 'ada', attributes }))
  const { stdout } = await usher('accounts export')
  expect(stdout).toContain('"\\u009b31m \\u202e ü"')
  expect(JSON.parse(stdout).attributes).toEqual(attributes)
})
