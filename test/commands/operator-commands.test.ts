// Runs the commands of the operator's documentation as they are written there.

import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readFolder } from '../../src/config/load.ts'
import { runUsher } from '../support/command.ts'
import { block, linkProject, runCommands } from '../support/documents.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** A copy of the project's folder with its own store and secret. */
const folder = temporaryFolder()
const secretFile = join(folder, 'secret')
const oldSecret = Buffer.alloc(32, 'old').toString('base64url')
let service: Service

beforeAll(async () => {
  linkProject(folder)
  cpSync(join(ROOT, 'config'), join(folder, 'config'), { recursive: true })
  mkdirSync(join(folder, 'data'))
  writeFileSync(secretFile, `${oldSecret}\n`)
  service = await start()
})
afterAll(() => service.stop())

const start = () =>
  startService({
    USHER_CONFIG: join(folder, 'config'),
    USHER_STORE: `sqlite:${join(folder, 'data/usher.db')}`,
    USHER_SECRET_FILE: secretFile,
  })

async function run(script: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  return (await runCommands(script, folder, { ...service.env, ...env })).stdout
}

/** Commands that the page does not have run in this process. */
async function usher(words: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  return (await runUsher(words.split(' '), { ...service.env, ...env })).stdout
}
const usernames = async () => JSON.stringify(await usher('accounts list'))
const add = (username: string) => usher(`accounts add --username ${username}`)

test('a restored backup contains the accounts of its time, and no later ones', async () => {
  await add('ada')
  await run(block('backup'))
  await add('grace')
  expect(await usernames()).toMatch(/ada.*grace/)
  await service.stop()
  await run(block('restore'))
  service = await start()
  expect(await usernames()).toMatch(/ada/)
  expect(await usernames()).not.toMatch(/grace/)
})

test('accounts are exported as lines of JSON, and imported from them', async () => {
  const before = await usernames()
  await run(block('transfer'))
  expect(readFileSync(join(folder, 'accounts.jsonl'), 'utf8')).toMatch(/"username":"ada"/)
  expect(await usernames()).toBe(before)
})

test('status shows the running service, its keys and accounts', async () => {
  const lines = (await usher('status')).split('\n')
  const of = (title: string) => lines.find(line => line.startsWith(`${title} `)) ?? ''
  expect(of('issuer')).toContain(service.issuer)
  expect(of('service')).toMatch(/ ready/)
  expect(of('keys')).toMatch(/ (RS256|ES256|EdDSA) +(next|current) /)
  expect(of('accounts')).toMatch(/ \d+ {2}\d+ (active|no link)/)
  expect(of('config')).toMatch(/ loaded \d{4}-\d\d-\d\d \d\d:\d\d UTC$/)
  expect(of('clients')).toMatch(/ demo {2}last token: never$/)
  expect(lines.filter(line => line.length > 110)).toEqual([])
})

test('accounts are listed by the filters of the page', async () => {
  await usher('accounts add --username alan --email alan@example.org')
  expect(await run(block('accounts-list'))).toMatch(/^USERNAME .*\n(.*\n)*alan .* no link /)
  expect(readFileSync(join(folder, 'accounts.csv'), 'utf8')).toMatch(
    /,alan,,alan@example.org,false,/,
  )
})

test('every page is written to a folder, in the requested languages', async () => {
  await run(block('preview'))
  const index = (name: string) => readFileSync(join(folder, name, 'index.html'), 'utf8')
  expect(index('preview')).toMatch(/fr\//)
  expect(index('folder')).toMatch(/de\//)
  expect(index('folder')).not.toMatch(/fr\//)
})

test('signing keys are rotated, and a leaked one is removed from the JWKS', async () => {
  expect(await run(block('keys'))).toMatch(/^current .*\n(.*\n)*next /m)
  const jwks = async () => {
    const response = await fetch(`${service.issuer}/api/oauth/jwks`)
    const { keys } = (await response.json()) as { keys: { kid: string }[] }
    return keys.map(({ kid }) => kid)
  }
  const [leaked] = (await usher('keys list')).match(/(?<=^current .* )\S+$/m) ?? []
  expect(await jwks()).toContain(leaked)
  await run(block('leaked'))
  await expect.poll(jwks).not.toContain(leaked)
})

const OLD = 'demo-secret-that-everybody-knows'

/** The status for this secret: 200 if the client is authenticated, else 401. */
async function statusWith(secret: string): Promise<number> {
  const authorization = `Basic ${Buffer.from(`demo:${secret}`).toString('base64')}`
  const body = new URLSearchParams({ token: 'none-of-ours' })
  const options = { method: 'POST', headers: { authorization }, body }
  return (await fetch(`${service.issuer}/api/oauth/introspect`, options)).status
}

test('the old and the new secret of a client are valid until the old one expires, without a restart', async () => {
  const script = block('client-secret').replace('7d', '12s')
  const began = Date.now()
  const secret = (await run(script, { NAME: 'demo' })).trim()
  const file = readFileSync(join(folder, 'config/clients/demo.yaml'), 'utf8')
  const [, until = ''] = /until: (\S+)/.exec(file) ?? []
  const end = Date.parse(until)
  expect(end).toBeGreaterThanOrEqual(began + 11_000)

  const old: [answered: number, status: number][] = []
  const fresh: number[] = []
  await expect
    .poll(
      async () => {
        const status = await statusWith(OLD)
        old.push([Date.now(), status])
        fresh.push(await statusWith(secret))
        return old.at(-1)?.[1]
      },
      { timeout: 25_000, interval: 100 },
    )
    .toBe(401)
  expect(old.filter(([answered, status]) => answered < end - 500 && status !== 200)).toEqual([])
  const taken = fresh.indexOf(200)
  expect(taken).toBeGreaterThanOrEqual(0)
  // Both were valid for a while, and the new one stayed valid.
  expect(old[taken]?.[1]).toBe(200)
  expect(new Set(fresh.slice(taken))).toEqual(new Set([200]))
  const { warnings, findings } = await readFolder({ PORT: '3000' }, join(folder, 'config'))
  expect(findings).toEqual([])
  expect(warnings.map(({ rule }) => rule)).toEqual(['secret-expired'])
})

test('Redis as documented refuses clients without a password; its user has all necessary permissions, also after a restart', async () => {
  const port = await freePort()
  const users = join(folder, 'users.acl')
  writeFileSync(users, '')
  // The settings of the page, as it has them.
  const page = readFileSync(join(ROOT, 'docs/redis.md'), 'utf8')
  const [, lines = ''] = /^## Server settings\n\n```\n(.*?)```/ms.exec(page) ?? []
  const settings = lines.replace('/etc/redis/users.acl', users).trim().split('\n')
  expect(settings).toContain(`aclfile ${users}`)
  const words = settings.flatMap(line => `--${line}`.split(' '))
  const redis = await startRedis({ port, settings: words })
  const acl = block('acl').replaceAll('redis-cli ', `redis-cli -p ${port} `)
  await run(acl, { PASSWORD: 'engines' })
  const saved = readFileSync(users, 'utf8')
  expect(saved).toMatch(/^user default (?!.*nopass)/m)
  for (const command of ['PING', 'GET usher:r:x', 'FLUSHALL', 'CONFIG GET maxmemory', 'ACL LIST']) {
    expect(await run(`redis-cli -p ${port} ${command}`), command).toContain('NOAUTH')
  }
  await redis.kill()
  await redis.start()
  expect(await run(`redis-cli -p ${port} PING`)).toContain('NOAUTH')
  await service.stop()
  const USHER_STORE_NEW = `redis://usher:engines@127.0.0.1:${port}`
  await run(block('copy'), { USHER_STORE_NEW })
  const moved = { USHER_STORE: USHER_STORE_NEW }
  expect(await usher('doctor', moved)).toMatch(/✓ eviction.*\n(.*\n)*✓ replicas.*\n(.*\n)*✓ access/)
  expect(await usher('accounts list', moved)).toMatch(/ada/)
  service = await startService({ ...moved, USHER_SECRET_FILE: secretFile })
  expect((await fetch(`${service.issuer}/readyz`)).status).toBe(200)
  await service.stop()
  await redis.stop()
  service = await start()
})
