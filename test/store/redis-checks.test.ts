// Unsafe settings of Redis are reported with the command that fixes them.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { REDIS_DEFAULTS } from '../../src/store/redis/settings.ts'
import { openRedisStore } from '../../src/store/redis/store.ts'
import type { Check, Store } from '../../src/store/store.ts'
import { run, runUsher } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  type RedisGroup,
  startCluster,
  startReplica,
  startSentinels,
} from '../support/redis-together.ts'
import { startService } from '../support/service.ts'

const folder = temporaryFolder()
const NAMES = 'role version eviction persistence memory replicas min-replicas access clock'.split(
  ' ',
)
const PASSWORD = 'CANARY1815'
const USHER_SECRET = Buffer.alloc(32, 'checks').toString('base64url')

let port: number
let server: RedisServer
let operator: Redis
let url: string
beforeAll(async () => {
  port = await freePort()
  server = await startRedis({ port, settings: ['--requirepass', PASSWORD] })
  url = `redis://:${PASSWORD}@127.0.0.1:${port}`
  operator = new Redis(url).on('error', () => {})
})
afterAll(async () => {
  operator.disconnect()
  await server.stop()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await operator.config('SET', 'maxmemory-policy', 'noeviction')
  await operator.config('SET', 'appendonly', 'yes')
  await operator.config('SET', 'maxmemory', '0')
})
async function open(at: string, settings = REDIS_DEFAULTS): Promise<Store> {
  const store = await openRedisStore(at, settings)
  onTestFinished(() => store.close())
  return store
}
async function checkOf(store: Store, name: string): Promise<Check | undefined> {
  return (await store.check()).find(check => check.name === name)
}
/** Runs a command in redis-cli, as an operator does. */
function type(line = '', at = ['-p', String(port), '-a', PASSWORD, '--no-auth-warning']) {
  const [program = '', ...words] = line.split(' ')
  execFileSync(program, [...at, ...words], { stdio: 'ignore' })
}

describe('the checks', () => {
  test('are all ok on a Redis with the recommended settings', async () => {
    const checks = await (await open(url)).check()
    expect(checks.map(({ name }) => name)).toEqual(NAMES)
    expect(checks.filter(({ state, fix }) => state !== 'ok' || fix)).toEqual([])
  })

  test.each([
    ['eviction', 'wrong', 'maxmemory-policy', 'allkeys-lru'],
    ['eviction', 'wrong', 'maxmemory-policy', 'volatile-ttl'],
    ['persistence', 'warning', 'appendonly', 'no'],
  ])('%s is %s with %s %s, and its line fixes it', async (name, state, setting, value) => {
    const store = await open(url)
    await operator.config('SET', setting, value)
    const check = await checkOf(store, name)
    expect(check).toMatchObject({ name, state })
    type(check?.fix)
    expect(await checkOf(store, name)).toMatchObject({ state: 'ok' })
  })

  test('memory is a warning from four fifths of maxmemory on', async () => {
    const store = await open(url)
    const used = Number(/used_memory:(\d+)/.exec(await operator.info('memory'))?.[1])
    await operator.config('SET', 'maxmemory', String(Math.round(used * 2)))
    expect(await checkOf(store, 'memory')).toMatchObject({ state: 'ok' })
    await operator.config('SET', 'maxmemory', String(Math.round(used * 1.1)))
    const { state, found } = (await checkOf(store, 'memory')) ?? {}
    expect(state).toBe('warning')
    expect(found).toMatch(/^\d\d % of maxmemory$/)
  })

  test('durability: replicated is wrong without a replica, and with one if the primary accepts writes alone', async () => {
    const port = await freePort()
    const primary = await startRedis({ port, settings: ['--repl-diskless-sync-delay', '0'] })
    onTestFinished(() => primary.stop())
    const store = await open(primary.url, { ...REDIS_DEFAULTS, durability: 'replicated' })
    const check = await checkOf(store, 'replicas')
    expect(check).toMatchObject({ state: 'wrong' })
    expect(check?.fix).toContain('redis.durability: primary')
    const replica = await startReplica(port)
    onTestFinished(() => replica.stop())
    expect(await checkOf(store, 'replicas')).toMatchObject({ state: 'ok', found: /^1; / })
    const lonely = await checkOf(store, 'min-replicas')
    expect(lonely).toMatchObject({ state: 'warning' })
    type(lonely?.fix, ['-p', String(port)])
    expect(await checkOf(store, 'min-replicas')).toMatchObject({ state: 'ok' })
  })

  test('a Redis without a password is a warning', async () => {
    const server = await startRedis({ port: await freePort() })
    onTestFinished(() => server.stop())
    const check = await checkOf(await open(server.url), 'access')
    expect(check).toMatchObject({ state: 'warning', fix: expect.stringContaining('requirepass') })
  })

  const ALL = 'read records, change and delete records, read settings'
  test.each([
    ['nopass ~* +@all', ALL],
    ['nopass ~usher:* +@all -@dangerous', 'read records, change and delete records'],
    ['nopass ~* +@read', 'read records'],
    ['nopass +info', ''],
    ['nopass ~public:* +get', ''],
    ['off nopass ~* +@all', ''],
    ['resetpass >other ~* +@all', ''],
  ])(
    'with a user of its own, and `default` as %s: a client without a password can "%s"',
    async (rules, can) => {
      const port = await freePort()
      const server = await startRedis({ port })
      onTestFinished(() => server.stop())
      const admin = new Redis(server.url)
      onTestFinished(() => admin.disconnect())
      await admin.call('ACL', 'SETUSER', 'usher', 'on', '>engines', '~usher:*', '+@all')
      await admin.call('ACL', 'SETUSER', 'default', 'reset', 'on', ...rules.split(' '))
      const check = await checkOf(await open(`redis://usher:engines@127.0.0.1:${port}`), 'access')
      const found = `without a password, every client that reaches it can: ${can}`
      expect(check).toMatchObject(
        can ? { state: 'warning', found } : { state: 'ok', found: 'a password is needed' },
      )
    },
  )

  test.each([
    [0.5, 'ok'],
    [2, 'warning'],
    [-2, 'warning'],
    [10, 'wrong'],
    [-10, 'wrong'],
  ])('a clock that is %d s off is %s', async (seconds, state) => {
    const store = await open(url)
    const clock = Date.now
    vi.spyOn(Date, 'now').mockImplementation(() => clock() + seconds * 1000)
    const check = await checkOf(store, 'clock')
    expect(check?.state).toBe(state)
    const [apart] = check?.found.split(' s apart') ?? []
    // The time of the check itself is in it.
    expect(Math.abs(Number(apart) - Math.abs(seconds))).toBeLessThan(0.5)
  })
})

describe.each<[string, () => Promise<RedisGroup>]>([
  ['a Cluster', () => startCluster()],
  ['Sentinel', startSentinels],
])('%s', (name, start) => {
  let group: RedisGroup
  beforeAll(async () => {
    group = await start()
  })
  afterAll(() => group?.stop())

  test('gets for each check the state of its worst server', async () => {
    const store = await open(group.url)
    const checks = await store.check()
    expect(checks.map(({ name }) => name).sort()).toEqual([...NAMES].sort())
    const unwise = checks.filter(({ state }) => state !== 'ok').map(({ name }) => name)
    expect(unwise.sort()).toEqual(['access', 'min-replicas'])
    expect(checks.find(({ name }) => name === 'replicas')?.found).toMatch(
      name === 'Sentinel' ? /^2; a write succeeds/ : /^1; a write succeeds/,
    )
    const last = group.servers[name === 'Sentinel' ? 0 : 2]
    const operator = new Redis(last?.url ?? '')
    await operator.config('SET', 'maxmemory-policy', 'allkeys-lfu')
    operator.disconnect()
    expect(await checkOf(store, 'eviction')).toMatchObject({ state: 'wrong' })
  })

  test('does not prevent the exit of a command', async () => {
    const env = { USHER_STORE: group.url, USHER_SECRET }
    const { code, stderr, took } = await run(['src/cli.ts', 'accounts', 'list'], env)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    // Without the time limits of a connection; a start takes some seconds on a busy machine.
    expect(took).toBeLessThan(20_000)
  })
})

/** A config folder with this usher.yaml, as JSON, which is YAML. */
function configWith(usher: object): string {
  const config = mkdtempSync(join(folder, 'config-'))
  writeFileSync(join(config, 'usher.yaml'), JSON.stringify(usher))
  return config
}
const environment = () => ({ USHER_STORE: url, USHER_SECRET })

describe('the start', () => {
  test('is refused in one report with the line that fixes it, and nothing is written', async () => {
    await operator.flushall()
    await operator.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const PORT = await freePort()
    const { stderr, stdout, code, took } = await run(['src/main.ts'], {
      ...environment(),
      PORT: String(PORT),
    })
    expect(code).toBe(1)
    // Without the time limits of a connection; a start takes some seconds on a busy machine.
    expect(took).toBeLessThan(20_000)
    expect(stderr).toMatch(/^Usher cannot start: the store cannot be trusted\n {2}eviction: allk/m)
    expect(stderr).toContain('→ redis-cli CONFIG SET maxmemory-policy noeviction')
    expect(stderr + stdout).not.toContain(PASSWORD)
    expect(stderr).not.toContain('    at ')
    expect(await operator.dbsize()).toBe(0)
  })

  test('is refused with an explanation for a wrong password, which is not shown', async () => {
    const USHER_STORE = `redis://:wrong-${PASSWORD}@127.0.0.1:${port}`
    const { stderr, stdout, code } = await run(['src/main.ts'], { USHER_SECRET, USHER_STORE })
    expect(code).toBe(1)
    expect(stderr).toContain('Usher cannot start: Redis cannot be opened as a store: WRONGPASS')
    expect(stderr + stdout).not.toContain(PASSWORD)
  })

  test('is refused with an explanation if the metrics port is in use', async () => {
    const { stderr, code } = await run(['src/main.ts'], {
      USHER_STORE: 'sqlite::memory:',
      USHER_METRICS_PORT: String(port),
      PORT: String(await freePort()),
    })
    expect(code).toBe(1)
    expect(stderr).toMatch(new RegExp(`^Usher cannot start: .*EADDRINUSE.*127.0.0.1:${port}`, 'm'))
  })
})

test('a problem that appears later is shown by /readyz and logged once', async () => {
  const metricsPort = await freePort()
  await operator.config('SET', 'appendonly', 'no')
  const service = await startService({
    ...environment(),
    USHER_METRICS_PORT: String(metricsPort),
  })
  onTestFinished(async () => {
    await service.stop()
  })
  const ready = async () => {
    const answer = await fetch(`${service.issuer}/readyz`)
    return { code: answer.status, ...((await answer.json()) as object) }
  }
  const persistence = 'warning'
  const fine = { code: 200, status: 'ready', checks: { persistence } }
  expect(await ready()).toEqual(fine)

  await operator.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const degraded = { code: 503, status: 'degraded', checks: { persistence, eviction: 'wrong' } }
  await expect.poll(ready, { interval: 200 }).toEqual(degraded)
  expect((await fetch(`${service.issuer}/livez`)).status).toBe(200)
  await operator.config('SET', 'maxmemory-policy', 'noeviction')
  await expect.poll(ready, { interval: 200 }).toEqual(fine)

  const of = (name: string) =>
    service
      .log()
      .filter(({ log, event, check }) => `${log} ${event} ${check}` === `audit store_check ${name}`)
      .map(({ level, state }) => [level, state])
  const eviction = [
    [40, 'wrong'],
    [30, 'ok'],
  ]
  await expect.poll(() => of('eviction')).toEqual(eviction)
  expect(of('persistence')).toEqual([[40, 'warning']])

  const metrics = await fetch(`http://127.0.0.1:${metricsPort}/metrics`)
  expect(metrics.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const text = await metrics.text()
  for (const line of text.split('\n').filter(Boolean)) {
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? [\d.e+-]+)$/)
  }
  expect(text).toMatch(/command_seconds_count\{command="mget",outcome="ok"\} [1-9]/)
  const everything = text + service.stdout() + service.stderr()
  for (const secret of [PASSWORD, USHER_SECRET, '127.0.0.1:6379']) {
    expect(everything).not.toContain(secret)
  }
  for (const path of ['/', '/metrics/', '/readyz', '/.well-known/openid-configuration']) {
    expect((await fetch(`http://127.0.0.1:${metricsPort}${path}`)).status, path).toBe(404)
  }
  const post = await fetch(`http://127.0.0.1:${metricsPort}/metrics`, { method: 'POST' })
  expect(post.status).toBe(404)
  expect((await fetch(`${service.issuer}/metrics`)).status).toBe(404)
})

test('an outage of the store and its end are one audit event each, however many requests fail', async () => {
  const service = await startService(environment())
  onTestFinished(async () => {
    await service.stop()
  })
  const facts = () => [...service.stdout().matchAll(/"log":"audit","event":"(store_\w+)"/g)]
  const events = () => facts().map(([, event]) => event)
  await server.kill()
  await expect.poll(events).toEqual(['store_unavailable'])
  for (let i = 0; i < 5; i++) expect((await fetch(`${service.issuer}/readyz`)).status).toBe(503)
  await server.start()
  await expect.poll(events).toEqual(['store_unavailable', 'store_available'])
})

describe('usher doctor', () => {
  const doctor = (env: Record<string, string> = {}, ...words: string[]) =>
    runUsher(['doctor', ...words], { ...environment(), ...env })

  beforeAll(async () => {
    // The first account creates the installation.
    await runUsher(['accounts', 'add', '--username', 'ada'], environment())
  })

  test('prints a line for each check that is ok', async () => {
    const { stdout, stderr, code } = await doctor()
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
    // Only the config folder and the store are checked, because no service runs yet.
    expect(stdout).toMatch(/^! service {6}.* does not answer: ECONNREFUSED\n {15}→ start it; /m)
    expect(stdout.match(/^✓ .*$/gm)).toHaveLength(2 + NAMES.length)
    expect(stdout.trim().split('\n')).toHaveLength(2 + NAMES.length + 2)
    expect(stdout).toMatch(/^✓ store {8}found; USHER_SECRET decrypts it$/m)
  })

  test('names each problem, with the line that fixes it, and exits 1; a warning exits 0', async () => {
    await operator.config('SET', 'appendonly', 'no')
    expect(await doctor()).toMatchObject({ code: 0, stderr: '' })
    await operator.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const { stdout, stderr, code } = await doctor()
    expect({ stderr, code }).toEqual({ stderr: 'Failed checks: eviction.\n', code: 1 })
    expect(stdout).toMatch(/^✗ eviction {5}allkeys-lru: .*\n {15}→ redis-cli CONFIG SET maxm/m)
    expect(stdout).toMatch(/^! persistence {2}no append-only file/m)
    const json = await doctor({}, '--json')
    expect(json.code).toBe(1)
    const { checks } = JSON.parse(json.stdout) as { checks: Check[] }
    const states = Object.fromEntries(checks.map(({ name, state }) => [name, state]))
    expect(states).toMatchObject({ eviction: 'wrong', persistence: 'warning', config: 'ok' })
  })

  test.each<[string, () => Promise<Record<string, string>>, string, RegExp]>([
    [
      'an unavailable Redis',
      async () => ({ USHER_STORE: `redis://:${PASSWORD}@127.0.0.1:${await freePort()}` }),
      'store',
      /ECONNREFUSED/,
    ],
    [
      'a secret that does not fit',
      async () => ({ USHER_SECRET: Buffer.alloc(32, 'another').toString('base64url') }),
      'store',
      /USHER_SECRET cannot decrypt this store/,
    ],
    [
      'a replica that is missing',
      async () => ({ USHER_CONFIG: configWith({ redis: { durability: 'replicated' } }) }),
      'replicas',
      /none is connected/,
    ],
    [
      'a config folder that is wrong',
      async () => ({ USHER_CONFIG: configWith({ redis: { key_prefx: 'x' } }) }),
      'config',
      /usher\.yaml:1:11 {2}redis\.key_prefx: unknown key; did you mean key_prefix\?/,
    ],
    [
      'a config folder that is not there',
      async () => ({ USHER_CONFIG: join(folder, 'nowhere') }),
      'config',
      /folder not found/,
    ],
  ])('reports %s', async (_, env, name, found) => {
    const { stdout, stderr, code } = await doctor(await env())
    expect(code).toBe(1)
    expect(stdout).toMatch(new RegExp(`^✗ ${name} `, 'm'))
    expect(stdout).toMatch(found)
    expect(stdout).toMatch(/^ +→ \S/m)
    expect(stderr).toBe(`Failed checks: ${name}.\n`)
    expect(stdout + stderr).not.toContain(PASSWORD)
  })
})
