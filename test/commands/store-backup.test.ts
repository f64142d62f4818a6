// Backup and restore by an operator beside a running service, and a store that is emptied while a node
// runs.

import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { COMMANDS } from '../../src/commands/table.ts'
import { createInvitations } from '../../src/features/registration/invitations.ts'
import { takeAuditEvents } from '../../src/operation/operator-events.ts'
import { publishedKids } from '../../src/operation/signing-keys.ts'
import { openInstallation, openStore, storeFile } from '../../src/store/open.ts'
import { Browser } from '../support/browser.ts'
import { runUsher } from '../support/command.ts'
import { addApp, atFactor, codeOf, factorsOf, nextCode } from '../support/factors.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorize, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn } from '../support/people.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { startService } from '../support/service.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

const USHER_SECRET = Buffer.alloc(32, 'backup').toString('base64url')
const folder = temporaryFolder()
let server: RedisServer
let database: (number: number) => string
beforeAll(async () => {
  const port = await freePort()
  server = await startRedis({ port })
  database = number => `${server.url}/${number}`
})
afterAll(() => server.stop())
const newFile = () => join(mkdtempSync(join(folder, 'made-')), 'file')

/** The command line of an operator. */
async function usher(args: string[], store: string, env: Record<string, string> = {}) {
  const { stderr, code } = await runUsher(args, { USHER_SECRET, USHER_STORE: store, ...env })
  return { stderr, code }
}

test('a backup runs beside the service any number of times, and restores everything but one-time records', async () => {
  const [first, second, file] = [database(2), `sqlite:${newFile()}`, newFile()]
  const env = { USHER_SECRET }
  const before = await startUsher({ store: first, env })
  const ada = await before.addAccount(ADA)
  const held = await tokens(before)
  const { code, request } = await authorize(before, { browser: held.browser })
  for (const count of [1, 2]) {
    const made = await usher(['store', 'backup', file], first)
    expect(made, `backup ${count}`).toMatchObject({ code: 0 })
    expect(made.stderr).toContain('Sessions, codes, tokens, grants and replay records are not')
  }
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const content = readFileSync(file, 'utf8')
  for (const secret of [ADA.email, ada.id, held.refresh_token, code, USHER_SECRET]) {
    expect(content).not.toContain(secret)
  }
  await before.close()

  const restored = await usher(['store', 'restore', file], second)
  expect(restored).toMatchObject({ code: 0 })
  expect(restored.stderr).toContain('would make used ones valid again')

  const after = await startUsher({ store: second, env })
  expect((await redeem(after, code, request)).body).toMatchObject({ error: 'invalid_grant' })
  const reused = await refresh(after, held.refresh_token)
  expect(reused.body).toMatchObject({ error: 'invalid_grant' })
  expect((await userinfo(after, held.access_token)).status).toBe(401)
  const again = await tokens(after, { browser: new Browser(after.issuer) })
  expect((await userinfo(after, again.access_token)).body).toMatchObject({ sub: ada.id })
  expect(await after.consents.find(ada.id, 'web')).toMatchObject({ client_id: 'web' })
  await after.close()
})

test('second factors are in a backup, sealed, and no code that was used is valid again', async () => {
  const [first, second, file] = [`sqlite:${newFile()}`, `sqlite:${newFile()}`, newFile()]
  const options = { env: { USHER_SECRET }, usher: { sign_in: { second_factor: 'optional' } } }
  const before = await startUsher({ ...options, store: first })
  const { id } = await before.addAccount(ADA)
  const { secret, codes } = await addApp(before)
  await usher(['store', 'backup', file], first)
  const text = readFileSync(file, 'latin1')
  for (const plain of [secret, ...codes]) expect(text).not.toContain(plain)
  const used = [
    { code: codeOf(secret, 1), recovery: '' },
    { code: '', recovery: codes[0] ?? '' },
  ]
  const signIn = async (at: Usher, form: Record<string, string>) => {
    const { browser } = await atFactor(at, 'ada')
    await browser.submit(form)
    return isSignedIn(browser)
  }
  for (const form of used) expect(await signIn(before, form)).toBe(true)
  await before.close()
  await usher(['store', 'restore', file], second)
  const after = await startUsher({ ...options, store: second })
  for (const form of used) expect(await signIn(after, form)).toBe(false)
  expect(await signIn(after, { code: await nextCode(after, id) })).toBe(true)
  expect((await factorsOf(after, id)).recovery).toEqual([])
  await after.close()
})

test('a backup to a place that cannot hold one is refused with its name', async () => {
  const store = `sqlite:${newFile()}`
  await usher(['accounts', 'add', '--username', 'ada'], store)
  const absent = join(folder, 'absent')
  const places = [
    ['/dev/null', '/dev/null is not a file.\n'],
    ['/tmp', '/tmp is not a file.\n'],
    [join(absent, 'file'), `Folder ${absent} not found.\n`],
  ] as const
  for (const [file, stderr] of places) {
    const refused = await usher(['store', 'backup', file, '--overwrite'], store)
    expect(refused).toEqual({ stderr, code: 1 })
  }
})

describe('a backup replaces', () => {
  /** A store with accounts, and a backup of it. */
  async function backedUp(...usernames: string[]) {
    const [store, file] = [`sqlite:${newFile()}`, newFile()]
    for (const name of usernames) await usher(['accounts', 'add', '--username', name], store)
    expect(await usher(['store', 'backup', file], store)).toMatchObject({ code: 0 })
    return { store, file, content: readFileSync(file, 'utf8') }
  }
  /** Backs up `store` to `file`, without and with `--overwrite`. */
  async function replaced(file: string, store: string, reason: string) {
    const before = readFileSync(file, 'utf8')
    const refused = await usher(['store', 'backup', file], store)
    const stderr = `${file} ${reason}. To replace it: --overwrite\n`
    expect(refused).toEqual({ stderr, code: 1 })
    expect(readFileSync(file, 'utf8')).toBe(before)
    expect(readdirSync(dirname(file))).toEqual(['file'])
    expect(await usher(['store', 'backup', file, '--overwrite'], store)).toMatchObject({ code: 0 })
    expect(readFileSync(file, 'utf8')).not.toBe(before)
  }

  test('one of more records only with --overwrite, and one of fewer at once', async () => {
    const { store, file } = await backedUp('ada', 'grace')
    await usher(['accounts', 'remove', 'grace', '--yes'], store)
    await replaced(file, store, 'has more records: 5, and the new backup 3')
    await usher(['accounts', 'add', '--username', 'alan'], store)
    expect(await usher(['store', 'backup', file], store)).toMatchObject({ code: 0 })
  })

  test('one of another installation only with --overwrite, however small', async () => {
    const { file } = await backedUp('ada')
    const { store } = await backedUp('ada', 'grace', 'alan')
    await replaced(file, store, 'is a backup of another installation')
  })

  test('a file that is no backup, or not all of one, only with --overwrite', async () => {
    const { store, file, content } = await backedUp('ada')
    const later = content.replace(/"usher_backup":\d+/, '"usher_backup":99')
    for (const other of ['notes\n', content.slice(0, -20), later]) {
      writeFileSync(file, other)
      await replaced(file, store, 'is no backup of Usher, or not all of one')
    }
  })

  test('an empty file, and a backup from before a change of the secret', async () => {
    const { store, file } = await backedUp('ada')
    const env = { USHER_SECRET: Buffer.alloc(32, 'next').toString('base64url') }
    const both = { USHER_SECRET: `${env.USHER_SECRET} ${USHER_SECRET}` }
    expect(await usher(['store', 'reseal'], store, both)).toMatchObject({ code: 0 })
    expect(await usher(['store', 'backup', file], store, env)).toMatchObject({ code: 0 })
    writeFileSync(file, '')
    expect(await usher(['store', 'backup', file], store, env)).toMatchObject({ code: 0 })
  })
})

/** Arguments of the commands that need some. */
const ARGUMENTS: Record<string, string[]> = {
  'accounts show': ['ada'],
  'accounts why': ['ada'],
  'accounts set': ['ada', '--name', 'Ada'],
  'accounts password-link': ['ada'],
  'accounts link': ['ada', '--upstream', 'corp', '--subject', '1'],
  'accounts unlink': ['ada', '--upstream', 'corp'],
  'accounts disable': ['ada'],
  'accounts enable': ['ada'],
  'accounts password': ['ada'],
  'accounts remove': ['ada', '--yes'],
  'clients show': ['app_0123456789abcdef01234567'],
  'clients uninvite': ['0123'],
  'clients end': ['web'],
  'clients remove': ['app_0123456789abcdef01234567', '--yes'],
  'clients secret': ['none'],
  'config explain': ['0123456789abcdef'],
  'config schema': [newFile()],
  'grants list': ['ada'],
  'grants withdraw': ['ada', 'web'],
  'keys retire': ['none'],
  'sessions list': ['ada'],
  'sessions end': ['ada'],
  'pages preview': [newFile()],
  'store backup': [newFile()],
  'store restore': [newFile()],
  'store copy': ['--from', `sqlite:${newFile()}`, '--to', `sqlite:${newFile()}`],
}
/** Commands that make an installation in an empty store. */
const MAKERS = [
  'accounts add',
  'accounts invite',
  'accounts import',
  'clients invite',
  'keys rotate',
]

describe.each([
  ['SQLite', () => `sqlite:${newFile()}`],
  ['Redis', () => database(8)],
])('on an empty %s', (_, storeOf) => {
  test('every command that adds nothing creates nothing', async () => {
    const config = mkdtempSync(join(folder, 'config-'))
    const features = { dynamic_registration: true }
    writeFileSync(join(config, 'usher.yaml'), JSON.stringify({ features }))
    const store = storeOf()
    const path = storeFile(store)
    const operator = path ? undefined : new Redis(store)
    const left = async () => (path ? readdirSync(dirname(path)) : operator?.keys('*'))
    for (const { name } of COMMANDS) {
      if (MAKERS.includes(name)) continue
      // Without a secret of its own, SQLite generates one.
      const env = { USHER_CONFIG: config, ...(path && { USHER_SECRET: '' }) }
      await usher([...name.split(' '), ...(ARGUMENTS[name] ?? [])], store, env)
      expect(await left(), name).toEqual([])
    }
    operator?.disconnect()
  }, 120_000)
})

test('a store that has lost its generated secret does not get another one', async () => {
  const file = newFile()
  const env = { USHER_SECRET: '' }
  await usher(['accounts', 'add', '--username', 'ada'], `sqlite:${file}`, env)
  const secret = join(dirname(file), 'usher.secret')
  rmSync(secret)
  for (const name of ['list', 'add --username grace']) {
    const words = ['accounts', ...name.split(' ')]
    const { stderr, code } = await usher(words, `sqlite:${file}`, env)
    expect(code, name).toBe(1)
    expect(stderr).toContain(`${secret} is missing`)
    expect(existsSync(secret)).toBe(false)
  }
})

/** A backup of every record in a store, as earlier versions wrote it. */
async function backupOfAll(location: string): Promise<string> {
  const store = await openStore(location)
  const lines: object[] = [{ usher_backup: 2, at: new Date().toISOString() }]
  for await (const { value, ...entry } of store.scan()) {
    if (value) lines.push({ ...entry, value: Buffer.from(value).toString('base64') })
  }
  lines.push({ records: lines.length - 1 })
  await store.close()
  const file = newFile()
  writeFileSync(file, lines.map(line => `${JSON.stringify(line)}\n`).join(''))
  return file
}

test('a restore from a backup with every kind of record revives no signing key, invitation, session or token, and says what it revives', async () => {
  const [from, to] = [`sqlite:${newFile()}`, `sqlite:${newFile()}`]
  const env = { USHER_SECRET }
  const options = { env, usher: { features: { dynamic_registration: true } } }
  const before = await startUsher({ ...options, store: from })
  const ada = await before.addAccount(ADA)
  const held = await tokens(before)
  const invitations = createInvitations(before.records)
  const exp = Math.floor(Date.now() / 1000) + 3600
  await invitations.make({ exp, most: 1, policies: ['rules'] })
  const file = await backupOfAll(from)
  await before.close()

  const restored = await usher(['store', 'restore', file], to)
  expect(restored.code).toBe(0)
  for (const words of [
    /signing keys/,
    /invitations/,
    /passwords \(also temporary ones/,
    /consents/,
    /links to upstream issuers/,
    /disabled or removed/,
    /keys rotate --now, then keys retire KID/,
  ]) {
    expect(restored.stderr).toMatch(words)
  }
  const { store, records } = await openInstallation(to, [Buffer.alloc(32, 'backup')])
  expect(await publishedKids(records)).toEqual([])
  await store.close()
  const after = await startUsher({ ...options, store: to })
  expect(await createInvitations(after.records).list()).toEqual([])
  expect((await refresh(after, held.refresh_token)).body).toMatchObject({
    error: 'invalid_grant',
  })
  expect(await after.directory.find(ada.id)).toMatchObject({ username: ADA.username })
  await after.close()
})

test('a record that no secret decrypts is left out of a backup, which then fails, and prevents a restore', async () => {
  const [location, file] = [`sqlite:${newFile()}`, newFile()]
  await usher(['accounts', 'add', '--username', 'ada'], location)
  const store = await openStore(location)
  await store.write({ key: 'damaged', value: Buffer.from('damaged'.repeat(10)), version: 0 })
  await store.close()
  const { stderr, code } = await usher(['store', 'backup', file], location)
  expect(code).toBe(1)
  expect(stderr).toContain('Records that USHER_SECRET cannot decrypt: 1, left out.')
  expect(await usher(['store', 'restore', file], `sqlite:${newFile()}`)).toMatchObject({ code: 0 })
  const path = newFile()
  const refused = await usher(['store', 'restore', await backupOfAll(location)], `sqlite:${path}`)
  expect(refused).toMatchObject({ code: 1 })
  expect(existsSync(path)).toBe(false)
})

test('a backup follows no link at FILE.partial, and only its owner can read the file', async () => {
  const [location, file, other] = [`sqlite:${newFile()}`, newFile(), newFile()]
  await usher(['accounts', 'add', '--username', 'ada'], location)
  writeFileSync(other, 'of another user', { mode: 0o666 })
  for (const place of [
    (to: string) => symlinkSync(other, to),
    (to: string) => copyFileSync(other, to),
  ]) {
    place(`${file}.partial`)
    expect(await usher(['store', 'backup', file], location)).toMatchObject({ code: 0 })
    expect(readFileSync(other, 'utf8')).toBe('of another user')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(dirname(file))).toEqual(['file'])
  }
})

test('a restore does not repeat audit events of the command line', async () => {
  const [from, to, file] = [`sqlite:${newFile()}`, `sqlite:${newFile()}`, newFile()]
  await (await startUsher({ store: from, env: { USHER_SECRET } })).close()
  expect(await usher(['accounts', 'add', '--username', 'ada'], from)).toMatchObject({ code: 0 })
  expect(await usher(['store', 'backup', file], from)).toMatchObject({ code: 0 })
  expect(await usher(['store', 'restore', file], to)).toMatchObject({ code: 0 })
  const events = async (location: string) => {
    const { store, records } = await openInstallation(location, [Buffer.alloc(32, 'backup')])
    const names: string[] = []
    await takeAuditEvents(records, ({ event }) => names.push(event))
    return store.close().then(() => names)
  }
  expect(await events(from)).toEqual(['account_added'])
  expect(await events(to)).toEqual([])
})

describe('a restore is refused, with nothing written,', () => {
  let file: string
  beforeAll(async () => {
    const usherHere = await startUsher({ store: database(3), env: { USHER_SECRET } })
    await usherHere.addAccount(ADA)
    file = newFile()
    await usher(['store', 'backup', file], database(3))
    await usherHere.close()
  })

  const refusal = (name: string, store = `sqlite:${newFile()}`, env = {}) =>
    usher(['store', 'restore', name], store, env)

  test('into a store that is in use', async () => {
    const { code, stderr } = await refusal(file, database(3))
    expect(code).toBe(1)
    expect(stderr).toMatch(/^USHER_STORE already holds this installation/)
  })

  test('of a file that is no backup, was cut, or has damaged lines', async () => {
    const whole = readFileSync(file, 'utf8')
    const lines = whole.split('\n')
    const changed = (number: number, change: (line: string) => string) =>
      lines.map((line, i) => (i === number - 1 ? change(line) : line)).join('\n')
    const last = lines.length - 2
    const cases: [content: string | Buffer, line: number][] = [
      [whole.slice(0, -(lines.at(-2)?.length ?? 0) - 40), last],
      [changed(3, line => line.replace('"value":"', '"value":"!')), 3],
      [changed(3, line => line.replace('"value":"', '"valu":"')), 3],
      [changed(4, line => line.replace(/.{6}"(,"version)/, 'AAAAAA"$1')), 4],
      [changed(2, line => line.replace('"key":"', '"key":"x')), 2],
      [changed(3, () => 'null'), 3],
      [changed(3, () => ''), 3],
      [Buffer.concat([Buffer.from(`${lines[0]}\n`), Buffer.from([0xff, 0xfe, 0x0a])]), 2],
    ]
    const store = newFile()
    for (const content of [lines.slice(0, -2).join('\n'), 'something else\n', '']) {
      const none = newFile()
      writeFileSync(none, content)
      const stderr = `${none} is no backup of Usher, or not all of one.\n`
      expect(await refusal(none, `sqlite:${store}`)).toEqual({ code: 1, stderr })
    }
    for (const [content, line] of cases) {
      const broken = newFile()
      writeFileSync(broken, content)
      const { code, stderr } = await refusal(broken, `sqlite:${store}`)
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(
          `${broken}: line ${line} is damaged: this is not all of the backup. Nothing was written`,
        ),
      })
      expect(existsSync(store)).toBe(false)
    }
    expect((await refusal(folder)).stderr).toMatch(/ is no backup of Usher/)
    expect((await refusal(file, `sqlite:${store}`)).code).toBe(0)
  })

  test('of a missing file, and with another secret', async () => {
    const missing = newFile()
    expect((await refusal(missing)).stderr).toBe(`File ${missing} not found.\n`)
    const other = { USHER_SECRET: Buffer.alloc(32, 'other').toString('base64url') }
    const { code, stderr } = await refusal(file, undefined, other)
    expect(code).toBe(1)
    expect(stderr).toContain('USHER_SECRET cannot decrypt this store or backup')
  })

  test('a backup of a store without an installation creates no file', async () => {
    const made = newFile()
    const { code, stderr } = await usher(['store', 'backup', made], database(9))
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'USHER_STORE holds no installation.\n' })
    expect(existsSync(made)).toBe(false)
  })
})

test('a running node notices that its store was emptied, and does not use a second identity', async () => {
  const port = await freePort()
  const own = await startRedis({ port })
  const operator = new Redis(own.url)
  const env = { USHER_STORE: own.url, USHER_SECRET }
  const service = await startService(env)
  const ready = async () => (await fetch(`${service.issuer}/readyz`)).status
  const keys = async () => (await fetch(`${service.issuer}/api/oauth/jwks`)).json()
  const records = () => operator.keys('usher:*').then(names => names.sort())
  const problems = () => service.log().filter(({ check }) => check === 'identity')
  try {
    expect(await ready()).toBe(200)
    const published = await keys()
    const saved = await Promise.all(
      (await records()).map(async name => [name, await operator.dumpBuffer(name)] as const),
    )
    await operator.flushall()
    await expect.poll(ready, { interval: 100 }).toBe(503)
    await expect.poll(problems).toMatchObject([{ level: 50, state: 'wrong' }])
    expect(problems()[0]?.found).toContain('the store was emptied')

    // The command line creates a new installation in the empty store. The node does not write into it.
    await operator.flushall()
    const added = await usher(['accounts', 'add', '--username', 'grace'], own.url)
    expect(added.code).toBe(0)
    await expect.poll(() => problems().length).toBeGreaterThan(0)
    const before = await records()
    const query = '?client_id=web&response_type=code&scope=openid'
    const answer = await fetch(`${service.issuer}/api/oauth/authorize${query}`)
    expect(answer.status).not.toBe(200)
    const token = await fetch(`${service.issuer}/api/oauth/userinfo`, {
      headers: { authorization: `Bearer ${'x'.repeat(65)}` },
    })
    expect(token.status).toBe(503)
    expect(await ready()).toBe(503)
    expect(await records()).toEqual(before)

    // The old content of the store is restored.
    await operator.flushall()
    for (const [name, dump] of saved) await operator.restore(name, 0, dump)
    await expect.poll(ready, { interval: 100 }).toBe(200)
    expect(await keys()).toEqual(published)
    await expect.poll(() => problems().at(-1)).toMatchObject({ level: 30, state: 'ok' })
  } finally {
    await service.stop()
    operator.disconnect()
    await own.stop()
  }
})
