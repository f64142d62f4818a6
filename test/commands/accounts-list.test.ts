// `accounts list`: the columns, the filters, and the reads of a large store.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { keepActivity, lastSignIns } from '../../src/account/activity.ts'
import { countStopped, readRows } from '../../src/commands/account-rows.ts'
import { readSettings } from '../../src/config/load.ts'
import { createFactors, type Factor } from '../../src/features/factors/factors.ts'
import { createLinks } from '../../src/features/links.ts'
import { hashSecret } from '../../src/oidc/clients.ts'
import type { Account } from '../../src/sign-in/account.ts'
import { openInstallation } from '../../src/store/open.ts'
import { now } from '../../src/store/store.ts'
import { runUsher } from '../support/command.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { withUpstreams } from '../support/upstream.ts'
import { writeConfig } from '../support/usher.ts'

const root = temporaryFolder()
/** The config folder. */
const folder = join(root, 'config')
const USHER_STORE = `sqlite:${join(root, 'usher.db')}`
const list = (...words: string[]) =>
  runUsher(['accounts', 'list', ...words], { USHER_CONFIG: folder, USHER_STORE })
const names = async (...words: string[]) => {
  const { stdout } = await list(...words, '--json')
  return (JSON.parse(stdout) as Account[]).map(({ username }) => username)
}

const DAY = 24 * 3600
const OLD = now() - 100 * DAY
const LINKS = [{ issuer: 'https://corp.example.org', subject: '1' }]
const app: Factor = { type: 'totp', id: 'app', name: '', created: OLD, secret: 'AAAA', step: 1 }
const passkey: Factor = {
  ...{ type: 'passkey', id: 'key', name: '', created: OLD, host: 'localhost', key: '' },
  ...{ counter: 0, transports: [], isDeviceBound: false },
}
const password = 'a long enough password'
const staff = { attributes: { groups: ['staff'] } }

/** Times of all sign-ins, by username. */
let signedIn: number

beforeAll(async () => {
  mkdirSync(folder)
  const corp = { issuer: LINKS[0]?.issuer, accounts: 'link', second_factor: 'exempt' }
  const sign_in = { second_factor: 'optional', methods: ['password', 'passkey', 'corp'] }
  writeConfig(folder, { ...withUpstreams({ corp }), usher: { sign_in }, clients: {} })
  const { store, records } = await openInstallation(USHER_STORE, [])
  const directory = directoryIn(records)
  const ada = await directory.add(
    {
      ...{ username: 'ada', name: 'Ada "A" Lovelace', email: 'ada@example.org' },
      ...{ email_verified: true, attributes: { groups: ['finance', 'staff'] } },
    },
    password,
    { created: OLD },
  )
  await createFactors(records).add(ada.id, app)
  await createFactors(records).add(ada.id, passkey)
  await keepActivity(records, { event: 'sign_in_succeeded', account: ada.id })
  await keepActivity(records, { event: 'sign_in_failed', account: ada.id })
  signedIn = (await lastSignIns(records, [ada.id]))[0] ?? 0
  const grace = await directory.add({ username: 'grace', email: 'grace@example.org', ...staff })
  await createLinks(records, directory).make(grace, 3600)
  await directory.add({ username: 'hal', name: '=1+1' })
  await directory.add({ username: 'alan', ...staff }, password, { created: OLD })
  const change_password_by = now() + DAY
  await directory.add({ username: 'Tim' }, password, { change_password_by })
  const { id } = await directory.add({ username: 'zoe' }, password, { created: OLD })
  await directory.endAccess(id, account => ({ ...account, enabled: false }))
  await directory.add({ username: 'corp' }, undefined, { links: LINKS, created: OLD })
  await store.close()
})

const dayOf = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10)

test('accounts list has a row for each account, in the order of the usernames', async () => {
  const { stdout, stderr, code } = await list()
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
  const rows = stdout.trimEnd().split('\n')
  expect(rows.map(row => row.split(/ {2,}/))).toEqual([
    ['USERNAME', 'NAME', '✓ ADDRESS', 'GROUPS', 'STATE', 'FACTOR', 'SIGNED IN'],
    [
      ...['ada', 'Ada "A" Lovelace', '✓ ada@example.org', 'finance,staff', 'active'],
      ...['app,passkey', dayOf(signedIn)],
    ],
    ['alan', '–', '–', 'staff', 'active', '–', '–'],
    ['corp', '–', '–', '–', 'active', '–', '–'],
    ['grace', '–', '? grace@example.org', 'staff', 'invited', '–', '–'],
    ['hal', '=1+1', '–', '–', 'no link', '–', '–'],
    ['Tim', '–', '–', '–', 'temporary', '–', '–'],
    ['zoe', '–', '–', '–', 'disabled', '–', '–'],
  ])
})

test.each([
  [['--invited'], ['grace', 'hal']],
  [['--disabled'], ['zoe']],
  [['--without-second-factor'], ['alan', 'grace', 'hal', 'Tim', 'zoe']],
  [
    ['--unused', '90d'],
    ['alan', 'corp', 'zoe'],
  ],
  [['groups=staff'], ['ada', 'alan', 'grace']],
  [['groups=sta'], []],
  [['LOVELACE'], ['ada']],
  [
    ['EXAMPLE.org', 'groups=staff'],
    ['ada', 'grace'],
  ],
  [['--without-second-factor', '--unused', '30d', 'groups=staff'], ['alan']],
  [['--invited', '--disabled'], []],
])('accounts list %j', async (words, found) => {
  expect(await names(...words)).toEqual(found)
})

test('--without-second-factor also says who is ready', async () => {
  const { stderr } = await list('--without-second-factor')
  expect(stderr).toBe(
    'Without a second factor: 5 (1 active, 1 invited, 1 no link, 1 temporary, 1 disabled). With one: 1. ' +
      'Exempt, by their issuer: 1. With second_factor: required they add one at a sign-in.\n',
  )
})

test('a passkey for another host is no second factor', async () => {
  const env = { USHER_CONFIG: folder, USHER_STORE: `sqlite:${join(root, 'former.db')}` }
  const { store, records } = await openInstallation(env.USHER_STORE, [])
  const { id } = await directoryIn(records).add({ username: 'ada' }, password)
  await createFactors(records).add(id, { ...passkey, host: 'former.example.org' })
  await store.close()
  const words = ['accounts', 'list', '--without-second-factor']
  expect((await runUsher(words, env)).stdout).toMatch(/^ada /m)
})

test('--json has all of an account without its password, and the state', async () => {
  const { stdout } = await list('ada')
  expect(stdout).not.toContain('argon2')
  const json = await list('--json')
  const all = JSON.parse(json.stdout)
  expect(json.stdout).toBe(`${JSON.stringify(all, null, 2)}\n`)
  expect(json.stdout).not.toContain('argon2')
  expect(all[0]).toMatchObject({
    ...{ username: 'ada', state: 'active', second_factors: ['totp', 'passkey'] },
    ...{ last_sign_in: signedIn, has_password: true },
  })
  expect(all[3]).toMatchObject({ username: 'grace', state: 'invited', second_factors: [] })
  expect(all[3].link_until).toBeGreaterThan(now())
  expect((await list('nobody', '--json')).stdout).toBe('[]\n')
})

test('--csv is a table that spreadsheets read, without formulas', async () => {
  const { stdout } = await list('--csv')
  const [head, ada = '', ...others] = stdout.trimEnd().split('\n')
  expect(head).toBe(
    'id,username,name,email,email_verified,groups,state,link_until,second_factors,last_sign_in,created',
  )
  expect(ada.replace(/^usr_\w{26}/, 'ID')).toBe(
    `ID,ada,"Ada ""A"" Lovelace",ada@example.org,true,"finance;staff",active,,"totp;passkey",` +
      `${new Date(signedIn * 1000).toISOString().slice(0, 19)}Z,${new Date(OLD * 1000).toISOString().slice(0, 19)}Z`,
  )
  expect(others.find(line => line.includes(',hal,'))).toContain(",hal,'=1+1,,false,")
})

test('filters that find nothing, or are wrong, say so', async () => {
  expect((await list('nobody')).stdout).toBe('No account passes these filters.\n')
  expect(await list('--unused', '91d')).toMatchObject({
    ...{ code: 1, stdout: '' },
    stderr: '--unused takes a duration of at most 90 days, for which sign-ins are kept: 30d\n',
  })
  expect((await list('--unused', 'long')).code).toBe(1)
  expect((await list('--json', '--csv')).stderr).toBe('Choose one of --json and --csv.\n')
  const { id } = JSON.parse((await list('ada', '--json')).stdout)[0]
  expect(await names(id)).toEqual([])
})

test('a control character of an attribute does not reach the terminal', async () => {
  const env = { USHER_CONFIG: folder, USHER_STORE: `sqlite:${join(root, 'strange.db')}` }
  const { store, records } = await openInstallation(env.USHER_STORE, [])
  await directoryIn(records).add({
    username: 'ada',
    attributes: { groups: ['a\u001b[2J', 'b\nc'] },
  })
  await store.close()
  for (const words of [[], ['--csv']]) {
    const { stdout } = await runUsher(['accounts', 'list', ...words], env)
    expect(stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(stdout).toMatch(/a\?\[2J[,;]b\?c/)
  }
})

test('the first page of a large store is read alone', async () => {
  const { store, records } = await openInstallation('sqlite::memory:', [])
  let read = 0
  async function* all() {
    for (; read < 3_000; read++) {
      const username = `user${String(read).padStart(4, '0')}`
      yield { ...{ id: `usr_${read}`, username, password: 'hash', enabled: true }, ...TIMES }
    }
  }
  const TIMES = { created: OLD, updated: OLD, email_verified: false, attributes: {} }
  const directory = { ...directoryIn(records), all }
  const links = createLinks(records, directory)
  const source = { records, directory, links, factors: createFactors(records) }
  const pages = readRows(source, () => true)
  const first = await pages.next()
  expect(first.value?.length).toBe(1_000)
  expect(read).toBeLessThan(1_001)
  let rows = 0
  for await (const page of pages) rows += page.length
  expect(rows).toBe(2_000)
  await store.close()
})

test('config check and accounts list name those whom second_factor: required stops', async () => {
  const config = join(root, 'required')
  mkdirSync(config)
  const methods = { methods: ['password', 'passkey', 'corp'] }
  const corp = { issuer: LINKS[0]?.issuer, accounts: 'link', second_factor: 'exempt' }
  const sign_in = { ...methods, second_factor: 'required' }
  writeConfig(config, { ...withUpstreams({ corp }), usher: { sign_in }, clients: {} })
  const check = await runUsher(['config', 'check'], { USHER_CONFIG: config, USHER_STORE })
  expect(check.code).toBe(0)
  expect(check.stdout).toContain(
    'sign_in.second_factor: 2 of 7 accounts have no second factor, and must add one at the next sign-in: ' +
      'npm run usher -- accounts list --without-second-factor',
  )
  // A machine that checks another folder may have no access to the store.
  const other = await runUsher(['config', 'check', config], { USHER_STORE })
  expect(other.stdout).not.toContain('second factor')
})

test('a count ends in time, and says so', async () => {
  const { store, records } = await openInstallation(USHER_STORE, [])
  const directory = directoryIn(records)
  const links = createLinks(records, directory)
  const source = { records, directory, links, factors: createFactors(records) }
  const settings = await readSettings({ USHER_CONFIG: folder, USHER_STORE })
  expect(await countStopped(source, settings)).toEqual({ stopped: 2, total: 7, isAll: true })
  const none = { stopped: 0, total: 0, isAll: false }
  expect(await countStopped(source, settings, -1)).toEqual(none)
  await store.close()
})

test('status counts accounts by state, and lists secrets that expire', async () => {
  const config = join(root, 'status')
  mkdirSync(config)
  const at = now() + 5 * DAY
  const until = `${new Date(at * 1000).toISOString().slice(0, 19)}Z`
  const redirect_uris = ['https://wiki.example.org/callback']
  const [hash, next] = ['one', 'next'].map(word =>
    hashSecret(`the secret number ${word} of the wiki`),
  )
  const client_secret_hashes = [hash, { hash: next, until }]
  const wiki = { client_id: 'wiki', client_name: 'Wiki', redirect_uris, client_secret_hashes }
  writeConfig(config, { clients: { wiki } })
  const env = { USHER_CONFIG: config, USHER_STORE, USHER_ISSUER: 'http://127.0.0.1:1' }
  const { stdout, stderr } = await runUsher(['status', '--json'], env)
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toMatchObject({
    service: expect.stringContaining('does not answer'),
    keys: [],
    accounts: {
      ...{ total: 7, is_all: true, active: 3, invited: 1, no_link: 1 },
      ...{ temporary_password: 1, disabled: 1 },
    },
    client_invitations: 0,
    clients: [{ client_id: 'wiki', registered: false }],
    expiring: [{ what: 'a secret of wiki', at }],
  })
})

test('accounts list reads accounts while a client file has an error', async () => {
  const file = join(folder, 'clients', 'broken.yaml')
  writeFileSync(file, 'client_id: [')
  expect((await list('ada')).code).toBe(0)
  rmSync(file)
})
