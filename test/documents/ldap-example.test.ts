// docs/examples/ldap: an Usher with the accounts of an LDAP directory, with a real slapd.

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { AccountsSource } from '../../src/features/accounts-module.ts'
import { temporaryFolder } from '../support/folder.ts'
import { refresh, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn, signedIn } from '../support/people.ts'
import { freePort } from '../support/ports.ts'
import { findProgram } from '../support/programs.ts'
import { PASSWORD, startUsher, type Usher } from '../support/usher.ts'

const EXAMPLE = join(import.meta.dirname, '../../docs/examples/ldap')
const BASE = 'ou=people,dc=example,dc=org'
const ADMIN = { dn: 'cn=admin,dc=example,dc=org', password: 'the password of the admin' }
/** The binary id of Active Directory, as slapd.conf defines it. */
const OBJECT_GUID = [
  `attributetype ( 1.2.840.113556.1.4.2 NAME 'objectGUID' EQUALITY octetStringMatch
    SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )`,
  "objectclass ( 1.1.1 NAME 'directoryUser' AUXILIARY MAY objectGUID )",
]
const folder = temporaryFolder()
const options = { signal: AbortSignal.timeout(60_000) }

let url: string
let slapd: ChildProcess
let usher: Usher
let source: AccountsSource

/** Installs the dependencies of the example, as an operator does. */
function install() {
  if (existsSync(join(EXAMPLE, 'node_modules/ldapts'))) return
  const { status, stderr } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: EXAMPLE })
  if (status !== 0)
    throw new Error(`This test needs ldapts: npm ci in docs/examples/ldap\n${stderr}`)
}

async function startSlapd() {
  slapd = spawn(
    findProgram('slapd', 'slapd'),
    ['-d', '0', '-h', url, '-f', join(folder, 'slapd.conf')],
    {
      stdio: 'inherit',
    },
  )
  const port = Number(new URL(url).port)
  await vi.waitFor(
    async () => {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.destroy()
    },
    { timeout: 10_000 },
  )
}
async function stopSlapd() {
  const exited = once(slapd, 'exit')
  slapd.kill()
  await exited
}

/** Applies LDIF. Each record ends with an empty line. */
function change(ldif: string) {
  const words = ['-x', '-H', url, '-D', ADMIN.dn, '-w', ADMIN.password]
  execFileSync(findProgram('ldapmodify', 'ldap-utils'), [...words], { input: ldif, stdio: 'pipe' })
}
const add = (dn: string, ...lines: string[]) =>
  change(`dn: ${dn}\nchangetype: add\n${lines.join('\n')}\n\n`)
const addUser = (uid: string, cn: string, ...lines: string[]) =>
  add(
    `uid=${uid},${BASE}`,
    'objectClass: inetOrgPerson',
    `uid: ${uid}`,
    `cn: ${cn}`,
    `sn: ${cn.split(' ').at(-1)}`,
    `mail: ${uid}@example.org`,
    'departmentNumber: Engines',
    `userPassword: ${PASSWORD}`,
    ...lines,
  )

beforeAll(async () => {
  install()
  mkdirSync(join(folder, 'data'))
  url = `ldap://127.0.0.1:${await freePort()}`
  writeFileSync(
    join(folder, 'slapd.conf'),
    [
      ...['core', 'cosine', 'inetorgperson'].map(name => `include /etc/ldap/schema/${name}.schema`),
      ...OBJECT_GUID,
      'modulepath /usr/lib/ldap',
      'moduleload back_mdb',
      'moduleload memberof',
      `pidfile ${join(folder, 'slapd.pid')}`,
      'database mdb',
      'suffix "dc=example,dc=org"',
      `rootdn "${ADMIN.dn}"`,
      `rootpw "${ADMIN.password}"`,
      `directory ${join(folder, 'data')}`,
      'overlay memberof',
      '',
    ].join('\n'),
  )
  writeFileSync(join(folder, 'password'), `${ADMIN.password}\n`)
  await startSlapd()
  add(
    'dc=example,dc=org',
    'objectClass: dcObject',
    'objectClass: organization',
    'o: Example',
    'dc: example',
  )
  add(BASE, 'objectClass: organizationalUnit', 'ou: people')
  addUser('ada', 'Ada Lovelace')
  addUser('grace', 'Grace Hopper')
  Object.assign(process.env, {
    LDAP_URL: url,
    LDAP_BASE: BASE,
    LDAP_BIND_DN: ADMIN.dn,
    LDAP_BIND_PASSWORD_FILE: join(folder, 'password'),
  })
  source = await import(join(EXAMPLE, 'accounts-source.ts'))
  usher = await startUsher({
    usher: { accounts: { module: join(EXAMPLE, 'accounts-source.ts') } },
    claims: { claims: { department: { scope: 'profile', from: 'attributes.department' } } },
  })
})
afterAll(async () => {
  await usher?.close()
  if (slapd?.exitCode === null) await stopSlapd()
  for (const name of Object.keys(process.env)) if (/^LDAP_/.test(name)) delete process.env[name]
})

test('users of the directory sign in, and applications read their attributes', async () => {
  const { access_token } = await tokens(usher)
  const { body } = await userinfo(usher, access_token)
  expect(body).toMatchObject({ sub: expect.stringMatching(/^usr_/), department: 'Engines' })
  for (const [username, password] of [
    ['ada', 'not the password'],
    ['nobody', PASSWORD],
    ['*', PASSWORD],
    ['ada)(uid=*', PASSWORD],
  ] as const) {
    await expect(signedIn(usher, username, password), username).rejects.toThrow('Sign in')
  }
})

test('an account has an id that stays when its name changes', async () => {
  const before = await source.find({ username: 'grace' }, options)
  expect(before).toMatchObject({
    username: 'grace',
    name: 'Grace Hopper',
    email: 'grace@example.org',
  })
  change(`dn: uid=grace,${BASE}\nchangetype: modrdn\nnewrdn: uid=hopper\ndeleteoldrdn: 1\n\n`)
  const after = await source.find({ id: before?.id ?? '' }, options)
  expect(after).toEqual({ ...before, username: 'hopper' })
  expect(await source.find({ username: 'grace' }, options)).toBeNull()
  expect(await source.authenticate({ username: 'hopper', password: '' }, options)).toBeNull()
})

test('the groups of a user are attributes of the account, also if there is one or none', async () => {
  const groupsOf = async (username: string) =>
    (await source.find({ username }, options))?.attributes?.groups
  addUser('mary', 'Mary Somerville')
  expect(await groupsOf('mary')).toEqual([])
  const groups = ['finance', 'board'].map(name => `cn=${name},dc=example,dc=org`)
  for (const [i, group] of groups.entries()) {
    add(group, 'objectClass: groupOfNames', `member: uid=mary,${BASE}`)
    expect(await groupsOf('mary')).toEqual(expect.arrayContaining(groups.slice(0, i + 1)))
  }
})

test('an account is found by a binary id, as objectGUID of Active Directory', async () => {
  for (const [uid, lastByte] of [
    ['konrad', 0x80],
    ['emmy', 0x81],
  ] as const) {
    const id = Buffer.from([0, 0xff, 0x2a, 0x28, ...Array(11).fill(0xc3), lastByte])
    addUser(uid, uid, 'objectClass: directoryUser', `objectGUID:: ${id.toString('base64')}`)
  }
  process.env.LDAP_ID = 'objectGUID'
  const { find }: AccountsSource = await import(`${join(EXAMPLE, 'accounts-source.ts')}?objectGUID`)
  for (const username of ['konrad', 'emmy']) {
    const account = await find({ username }, options)
    expect(account).toMatchObject({ username })
    expect(await find({ id: account?.id ?? '' }, options)).toEqual(account)
  }
})

test('a user who is removed from the directory loses every token and session', async () => {
  addUser('alan', 'Alan Turing')
  const { refresh_token, browser } = await tokens(usher, { username: 'alan' })
  change(`dn: uid=alan,${BASE}\nchangetype: delete\n\n`)
  await expect.poll(() => isSignedIn(browser)).toBe(false)
  expect((await refresh(usher, refresh_token)).body.error).toBe('invalid_grant')
})

test('while the directory is stopped, requests that need it get a 503, and no token is lost', async () => {
  const { access_token, refresh_token } = await tokens(usher)
  await stopSlapd()
  const status = async () => (await userinfo(usher, access_token)).status
  await expect.poll(status).toBe(503)
  expect((await refresh(usher, refresh_token)).status).toBe(503)
  await startSlapd()
  expect((await refresh(usher, refresh_token)).status).toBe(200)
})

test('the example passes the type checker', () => {
  const tsc = join(EXAMPLE, '../../../node_modules/.bin/tsc')
  const { stdout, status } = spawnSync(tsc, ['-p', EXAMPLE], { encoding: 'utf8' })
  expect(stdout).toBe('')
  expect(status).toBe(0)
})
