// The copy to another store: its commands, and its effects on users and clients.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { copyStore } from '../../src/commands/store.ts'
import { openInstallation, openStore } from '../../src/store/open.ts'
import { NAMING_KEY } from '../../src/store/seal.ts'
import type { Store } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { runUsher } from '../support/command.ts'
import { directoryIn } from '../support/directory.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorize, redeem, refresh, tokens, userinfo } from '../support/journey.ts'
import { isSignedIn, silently } from '../support/people.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const PASSWORD = 'the-password-of-redis'
const SECRETS = [Buffer.alloc(32, 'move')]
const USHER_SECRET = SECRETS.map(secret => secret.toString('base64url')).join(' ')
const folder = temporaryFolder()
let server: RedisServer
/** The URL of a database, with the password. */
let database: (number: number) => string
beforeAll(async () => {
  const port = await freePort()
  server = await startRedis({ port, settings: ['--requirepass', PASSWORD] })
  database = number => `redis://:${PASSWORD}@127.0.0.1:${port}/${number}`
})
afterAll(() => server?.stop())

const newFile = (name: string) => `sqlite:${join(mkdtempSync(join(folder, 'store-')), name)}`

async function usher(args: string[], env: Record<string, string> = {}) {
  const { stdout, stderr, code } = await runUsher(args, env)
  return { stdout, stderr, code }
}

const copyBetween = (from: string, to: string, env: Record<string, string> = {}) =>
  usher(['store', 'copy', '--from', from, '--to', to], env)

async function using<T>(location: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(location)
  return work(store).finally(() => store.close())
}

/** Creates an installation with the commands. */
async function installation(usernames: string[], secrets: Uint8Array[] = []) {
  const location = newFile('usher.db')
  const { records, store } = await openInstallation(location, secrets)
  const directory = directoryIn(records)
  for (const username of usernames) await directory.add({ username })
  await store.close()
  return location
}

/** An installation with so many records that the copy reports its progress. */
async function large() {
  const location = newFile('large.db')
  const { records, store } = await openInstallation(location, SECRETS)
  const ids = Array.from({ length: 15_000 }, (_, i) => `token ${i}`)
  await Promise.all(ids.map(id => records.of('AccessToken').save(id, { id }, { ttl: 3600 })))
  await store.close()
  return location
}

/** Copies a store while no node uses either of them. */
const move = (from: string, to: string) =>
  using(from, source => using(to, target => copyStore(source, target)))

test('users and clients notice nothing: from SQLite to Redis, and back', async () => {
  const stores = [newFile('first.db'), database(1), newFile('last.db')]
  const begin = (store = '') => startUsher({ store, env: { USHER_SECRET } })
  let here: Usher = await begin(stores[0])
  const ada = await here.addAccount(ADA)
  let held = await tokens(here)
  let signedIn = held.browser
  const waiting = await authorize(here, { browser: signedIn })
  const used = held

  for (const [from = '', to = ''] of [stores.slice(0, 2), stores.slice(1)]) {
    await here.close()
    await move(from, to)
    here = await begin(to)

    expect((await userinfo(here, held.access_token)).body).toMatchObject({ sub: ada.id })
    const renewed = await refresh(here, held.refresh_token)
    expect(renewed.status).toBe(200)
    expect((await userinfo(here, renewed.body.access_token)).status).toBe(200)

    const browser = new Browser(here.issuer)
    browser.jar = signedIn.jar
    expect(await isSignedIn(browser)).toBe(true)
    expect(await silently(here, browser)).toBeUndefined()
    expect(await here.consents.find(ada.id, 'web')).toMatchObject({ client_id: 'web' })
    expect((await here.directory.findByUsername('ada'))?.id).toBe(ada.id)
    held = { ...held, ...renewed.body }
    signedIn = browser
  }

  // A code from the first store can be redeemed in the last store once.
  expect((await redeem(here, waiting.code, waiting.request)).status).toBe(200)
  expect((await redeem(here, waiting.code, waiting.request)).body.error).toBe('invalid_grant')
  // The reuse of a code that was redeemed in the first store revokes its tokens in the last one.
  expect((await redeem(here, used.code, used.request)).body.error).toBe('invalid_grant')
  expect((await refresh(here, held.refresh_token)).body.error).toBe('invalid_grant')
  await here.close()
})

describe('an operator', () => {
  test('moves to Redis and back, and prints what was moved and the next step', async () => {
    const from = await installation(['ada', 'grace'])
    const secret = join(from.slice('sqlite:'.length), '../usher.secret')

    const there = await copyBetween(from, database(2))
    expect(there).toEqual({
      stdout: '',
      stderr:
        '5 records are copied.\n' +
        `Next: start every node with USHER_STORE as --to was and USHER_SECRET_FILE=${secret}, ` +
        'and none on --from.\n',
      code: 0,
    })
    const env = { USHER_SECRET_FILE: secret }
    const list = await usher(['accounts', 'list'], { ...env, USHER_STORE: database(2) })
    expect(list.stdout).toMatch(/ada.*\n.*grace/)

    const to = newFile('usher.db')
    const back = await copyBetween(database(2), to, env)
    expect(back.stderr).toBe(
      // The sixth record is the audit event of the first copy, which no node has logged yet.
      '6 records are copied.\n' +
        `Next: start every node with USHER_STORE=${to} and the same USHER_SECRET, ` +
        'and none on --from.\n',
    )
    const again = await usher(['accounts', 'list'], { ...env, USHER_STORE: to })
    expect(again).toEqual(list)
  })

  test('needs no secret to move, and warns when the secret does not fit', async () => {
    const from = await installation(['ada'], SECRETS)
    const blind = await copyBetween(from, newFile('blind.db'))
    expect(blind).toMatchObject({ code: 0 })
    expect(blind.stderr).toContain('3 records are copied; set USHER_SECRET')
    const other = { USHER_SECRET: Buffer.alloc(32, 'other').toString('base64url') }
    const wrong = await copyBetween(from, newFile('wrong.db'), other)
    expect(wrong).toMatchObject({ code: 0 })
    expect(wrong.stderr).toContain('but USHER_SECRET cannot decrypt this store or backup')
  })

  test('gets an explanation when the copy is refused, and nothing is created', async () => {
    const from = await installation(['ada'])
    const [nowhere, empty] = [newFile('none.db'), newFile('to.db')]
    const copy = ['store', 'copy']
    const [file, missing, target] = [from, nowhere, empty].map(name => name.slice(7))
    const cases: [string[], string][] = [
      [copy, '--from is missing: sqlite:PATH or redis://…\n'],
      [[...copy, '--from', from], '--to is missing: sqlite:PATH or redis://…\n'],
      [[...copy, '--from', from, '--to', from], '--from and --to name the same store.\n'],
      [[...copy, '--from', nowhere, '--to', empty], `--from: file ${missing} not found.\n`],
      [[...copy, '--from', database(9), '--to', empty], '--from holds no installation.\n'],
      [
        [...copy, '--from', from, '--to', `sqlite:${file?.replace('/usher', '/./usher')}`],
        '--to already holds this installation; choose an empty store (another file, database or redis.key_prefix).\n',
      ],
      [
        [...copy, '--from', from, '--to', 'sqlite::memory:'],
        '--to: sqlite::memory: is inside the running service. Name a file or a Redis.\n',
      ],
    ]
    for (const [args, stderr] of cases) {
      expect(await usher(args)).toEqual({ stdout: '', stderr, code: 1 })
    }
    expect(missing && existsSync(missing)).toBe(false)
    expect(target && existsSync(target)).toBe(false)

    const taken = await installation(['grace'])
    const refusal = await copyBetween(from, taken)
    expect(refusal).toMatchObject({ code: 1, stdout: '' })
    expect(refusal.stderr).toMatch(
      /^--to already holds another installation; choose an empty store/,
    )
    const { stdout } = await usher(['accounts', 'list'], { USHER_STORE: taken })
    const [, ...users] = stdout.trim().split('\n')
    expect(users.map(line => line.split(' ')[0])).toEqual(['grace'])
  })

  test('never sees the password of an invalid URL in the output', async () => {
    const from = await installation(['ada'])
    const port = await freePort()
    const urls = [
      `redis://:${PASSWORD}@127.0.0.1:${port}`,
      `redis://:${PASSWORD}@127.0.0.1:99999999`,
      `redis+cluster://:${PASSWORD}@127.0.0.1:${port}`,
      `redis+cluster://:not@${PASSWORD}@127.0.0.1:${port}`,
      `memcached://:${PASSWORD}@127.0.0.1`,
      `redis://:not-${PASSWORD}@127.0.0.1:${new URL(database(0)).port}`,
    ]
    for (const url of urls) {
      const { stdout, stderr, code } = await copyBetween(from, url)
      expect({ stdout, code }).toEqual({ stdout: '', code: 1 })
      expect(stderr).toMatch(/^--to: /)
      expect(stderr).not.toContain(PASSWORD)
    }
  })

  test('gets an error when Redis becomes unavailable, and completes the copy with the same command', async () => {
    const port = await freePort()
    const other = await startRedis({ port })
    const from = await large()
    const words = ['store', 'copy', '--from', from, '--to', other.url]
    const child = spawn('node', ['src/cli.ts', ...words], { cwd: ROOT })
    const exited = once(child, 'exit')
    let stderr = ''
    for await (const line of child.stderr) {
      if (!stderr) await other.kill('SIGKILL')
      stderr += line
    }
    await exited
    expect(child.exitCode).toBe(1)
    expect(stderr).toMatch(/^10000 copied …\n/)
    expect(stderr).toMatch(/Not finished: Redis: .*\nFix it and run the command again\.\n$/)
    await other.start()
    expect(await using(other.url, store => store.get(NAMING_KEY))).toBeUndefined()
    const again = await copyBetween(from, other.url, { USHER_SECRET })
    expect(again.code).toBe(0)
    expect(again.stderr).toMatch(/^10000 copied …\n15001 records are copied/)
    await other.stop()
  })
})
