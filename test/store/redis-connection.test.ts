// The connection to Redis: TLS, users and passwords, databases and prefixes, for each of its five kinds.

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openInstallation, openStore } from '../../src/store/open.ts'
import { REDIS_DEFAULTS, type RedisSettings } from '../../src/store/redis/settings.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { makeCertificate } from '../support/certificates.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort, freePorts } from '../support/ports.ts'
import { openPatientStore, type RedisServer, startRedis } from '../support/redis.ts'
import { untilInfo } from '../support/redis-together.ts'
import { consume, list, put, refusal, remove } from './operations.ts'
import { bytes, fresh, now, text } from './store-suite.ts'

const folder = temporaryFolder()
const inFolder = (name: string) => join(folder, name)
function fileWith(content: string): string {
  const file = inFolder(fresh())
  writeFileSync(file, content)
  return file
}

/** A password with all characters that have a meaning in a URL. */
const PASSWORD = 'p@ss:w/rd#?%é+CANARY'
const IN_URL = `usher:${encodeURIComponent(PASSWORD)}@`
const SENTINEL_PASSWORD = 'sentinel-CANARY'
/** The permissions that the documentation lists. */
const RIGHTS = ['~usher:*', '+@all', '-@dangerous', '+info']

async function open(
  url: string,
  settings: Partial<RedisSettings> = {},
  openAt: typeof openStore = openPatientStore,
): Promise<Store> {
  const store = await openAt(url, { ...REDIS_DEFAULTS, ...settings })
  onTestFinished(() => store.close())
  return store
}
async function works(store: Store): Promise<void> {
  const key = fresh()
  expect(await put(store, key, bytes('x'), { expires: now() + 60, indexes: [key] })).toBe(true)
  expect(await list(store, key)).toMatchObject([{ key, version: 1 }])
  expect(await consume(store, key, now())).toBe(true)
  expect(await remove(store, key, now() + 60)).toBe(true)
  expect((await store.check()).filter(({ state }) => state === 'wrong')).toEqual([])
}
const refusalAt = (url: string, settings?: Partial<RedisSettings>) => refusal(open(url, settings))

const CLIENT = {
  ca: inFolder('ours.pem'),
  cert: inFolder('usher.pem'),
  key: inFolder('usher.key'),
}
const readAll = (files: Record<string, string>) =>
  Object.fromEntries(Object.entries(files).map(([name, file]) => [name, readFileSync(file)]))
const tlsSettings = (port: number, clients: 'yes' | 'no') => [
  ...['--port', '0', '--tls-port', String(port), '--tls-replication', 'yes'],
  ...['--tls-cert-file', inFolder('redis.pem'), '--tls-key-file', inFolder('redis.key')],
  ...['--tls-ca-cert-file', inFolder('ours.pem'), '--tls-auth-clients', clients],
]
beforeAll(() => {
  const authority = { extensions: ['basicConstraints=CA:TRUE'] }
  const issuer = makeCertificate(folder, 'ours', authority)
  makeCertificate(folder, 'other', authority)
  const extensions = ['subjectAltName=IP:127.0.0.1,DNS:localhost']
  for (const name of ['redis', 'usher']) makeCertificate(folder, name, { issuer, extensions })
})

describe('TLS', () => {
  let ports: number[]
  let servers: RedisServer[]
  beforeAll(async () => {
    ports = await freePorts(2)
    const kinds = ['no', 'yes'] as const
    servers = await Promise.all(
      ports.map((port, i) => startRedis({ port, settings: tlsSettings(port, kinds[i] ?? 'no') })),
    )
  })
  afterAll(() => Promise.all(servers.map(server => server.stop())))
  const { ca, ...certificate } = CLIENT

  test.each(['redis', 'rediss'])('%s:// with a private certificate authority', async scheme => {
    await works(await open(`${scheme}://127.0.0.1:${ports[0]}`, { tls: { ca } }))
  })

  test.each(['redis', 'rediss'])('%s:// with a client certificate', async scheme => {
    await works(await open(`${scheme}://127.0.0.1:${ports[1]}`, { tls: CLIENT }))
  })

  test('a certificate of another authority is refused on both sides', async () => {
    const url = `rediss://${IN_URL}127.0.0.1:${ports[0]}`
    expect(await refusalAt(url, { tls: { ca: inFolder('other.pem') } })).toMatch(/certificate/)
    expect(await refusalAt(url)).toMatch(/certificate/)
    expect(await refusalAt(`rediss://127.0.0.1:${ports[1]}`, { tls: { ca } })).toMatch(
      /certificate required|ECONNRESET/,
    )
    expect(await refusalAt(url.replace('rediss', 'redis'))).not.toBe('')
  })

  test('a certificate with a wrong private key is refused', async () => {
    const tls = { ca, ...certificate, key: inFolder('redis.key') }
    expect(await refusalAt(`rediss://127.0.0.1:${ports[1]}`, { tls })).toMatch(
      /key values mismatch/,
    )
  })
})

/** The kinds of Redis. For each: where its URL has the user, and its other settings. */
const KINDS = ['alone', 'a socket', 'Sentinel', 'Cluster', 'Sentinel over TLS'] as const

const CLUSTER = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1']

describe.each(KINDS)('a user of Redis, %s', kind => {
  const isTls = kind.endsWith('TLS')
  const servers: RedisServer[] = []
  let urlWith: (userinfo: string) => string
  let settings: Partial<RedisSettings> = {}
  let operator: Redis

  beforeAll(async () => {
    const [port = 0, watcher = 0] = await freePorts(2)
    const words = isTls ? tlsSettings(port, 'yes') : []
    const cluster = kind === 'Cluster' ? CLUSTER : []
    const socket = inFolder(`${port}.sock`)
    const listen = [...words, ...cluster, '--unixsocket', socket]
    servers.push(await startRedis({ port, settings: listen }))
    operator = new Redis(port, { ...(isTls && { tls: readAll(CLIENT) }) })
    urlWith = userinfo => `redis://${userinfo}127.0.0.1:${port}`
    if (isTls) settings = { tls: CLIENT }
    if (kind === 'a socket') urlWith = userinfo => `redis+unix://${userinfo}${socket}`
    if (kind === 'Cluster') {
      await operator.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16383)
      await untilInfo(servers[0]?.url ?? '', 'cluster', /cluster_state:ok/)
      urlWith = userinfo => `redis+cluster://${userinfo}127.0.0.1:${port}`
    }
    if (kind.startsWith('Sentinel')) await startSentinel(port, watcher)
    await setPassword(PASSWORD)
    // The default user has no permissions.
    await operator.call('ACL', 'SETUSER', 'default', 'on', '>of-the-operator-CANARY')
  })

  async function startSentinel(port: number, watcher: number) {
    const file = fileWith(`sentinel monitor usher 127.0.0.1 ${port} 1\n`)
    const secured = isTls ? tlsSettings(watcher, 'yes') : []
    const locked = [...secured, '--requirepass', SENTINEL_PASSWORD]
    servers.push(await startRedis({ port: watcher, file, settings: locked }))
    const sentinel_password_file = fileWith(`${SENTINEL_PASSWORD}\n`)
    settings = { ...settings, sentinel_password_file }
    urlWith = userinfo => `redis+sentinel://${userinfo}127.0.0.1:${watcher}/usher`
  }

  afterAll(async () => {
    operator?.disconnect()
    await Promise.all(servers.map(server => server.stop()))
  })
  const setPassword = (password: string) =>
    operator.call('ACL', 'SETUSER', 'usher', 'reset', 'on', `>${password}`, ...RIGHTS)

  test('is read from the URL, or from the settings and a file', async () => {
    await works(await open(urlWith(IN_URL), settings))
    const password_file = fileWith(`${PASSWORD}\n`)
    await works(await open(urlWith(''), { ...settings, username: 'usher', password_file }))
    const wrong = urlWith('nobody:wrong-CANARY@')
    await works(await open(wrong, { ...settings, username: 'usher', password_file }))
  })

  test('is refused with a wrong password, and without one', async () => {
    expect(await refusalAt(urlWith('usher:wrong-CANARY@'), settings)).toContain('WRONGPASS')
    const password_file = fileWith('wrong-CANARY')
    const wrong = { ...settings, username: 'usher', password_file }
    expect(await refusalAt(urlWith(''), wrong)).toContain('WRONGPASS')
    expect(await refusalAt(urlWith(''), settings)).toMatch(/NOAUTH|no node of the cluster/)
    expect(await refusalAt(urlWith(''), { ...wrong, password_file: fileWith('') })).toMatch(
      /is empty/,
    )
  })

  test('a password that changes on the server and in its file is used', async () => {
    const password_file = fileWith(PASSWORD)
    const authorities = isTls ? fileWith(readFileSync(CLIENT.ca, 'utf8')) : ''
    const tls = isTls ? { tls: { ...CLIENT, ca: authorities } } : {}
    const own = { ...settings, ...tls, username: 'usher', password_file }
    const store = await open(urlWith(''), own, openStore)
    const canWrite = () =>
      works(store).then(
        () => true,
        () => false,
      )
    await expect.poll(canWrite).toBe(true)
    // Another file that cannot be read does not keep the password from being read.
    if (authorities) rmSync(authorities)
    await setPassword('changed-CANARY')
    await operator.call('CLIENT', 'KILL', 'USER', 'usher')
    const state = () =>
      store.get(fresh()).then(
        () => 'works',
        (error: unknown) => {
          expect(error).toBeInstanceOf(StoreUnavailable)
          expect(inspect(error, { depth: 9 })).not.toContain('CANARY')
          return 'unavailable'
        },
      )
    await expect.poll(state).toBe('unavailable')
    // The file is empty for a moment, as if it was written in two steps.
    writeFileSync(password_file, '')
    await state()
    writeFileSync(password_file, 'changed-CANARY\n')
    await expect.poll(state).toBe('works')
    // The connection for writes reconnects by itself.
    await expect.poll(canWrite).toBe(true)
    await setPassword(PASSWORD)
  })
})

test('a password of Sentinel that changes while no connection stands is used', async () => {
  const [port = 0, watcher = 0] = await freePorts(2)
  const server = await startRedis({ port })
  const file = fileWith(`sentinel monitor usher 127.0.0.1 ${port} 1\n`)
  const settings = ['--requirepass', SENTINEL_PASSWORD]
  const sentinel = await startRedis({ port: watcher, file, settings })
  const [ofServer, ofSentinel] = [
    new Redis(port),
    new Redis(watcher, { password: SENTINEL_PASSWORD }),
  ]
  const sentinel_password_file = fileWith(SENTINEL_PASSWORD)
  try {
    const url = `redis+sentinel://127.0.0.1:${watcher}/usher`
    const store = await open(url, { sentinel_password_file })
    await works(store)
    await ofSentinel.call('ACL', 'SETUSER', 'default', 'resetpass', '>changed-CANARY')
    await ofServer.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    const state = () =>
      works(store).then(
        () => 'works',
        () => 'unavailable',
      )
    await expect.poll(state).toBe('unavailable')
    await setTimeout(1000)
    expect(await state()).toBe('unavailable')
    writeFileSync(sentinel_password_file, 'changed-CANARY')
    await expect.poll(state).toBe('works')
  } finally {
    ofServer.disconnect()
    ofSentinel.disconnect()
    await Promise.all([server.stop(), sentinel.stop()])
  }
})

describe('one Redis', () => {
  let server: RedisServer
  let operator: Redis
  beforeAll(async () => {
    const port = await freePort()
    server = await startRedis({ port })
    operator = new Redis(port)
  })
  afterAll(async () => {
    operator.disconnect()
    await server.stop()
  })
  const add = (store: Store, key: string) => put(store, key, bytes(key), { indexes: ['all'] })
  const scanned = async (store: Store) => {
    const keys: string[] = []
    for await (const { key } of store.scan()) keys.push(key)
    return keys.sort()
  }

  test('the documented permissions are sufficient and minimal', async () => {
    await operator.call('ACL', 'SETUSER', 'usher', 'on', `>${PASSWORD}`, ...RIGHTS)
    const store = await open(server.url.replace('//', `//${IN_URL}`))
    await works(store)
    await add(store, 'one')
    expect(await scanned(store)).toContain('one')
    const user = new Redis(server.url, { username: 'usher', password: PASSWORD })
    for (const [command = '', ...words] of [
      ['get', 'of-another'],
      ['flushall'],
      ['keys', '*'],
      ['config', 'get', '*'],
      ['acl', 'list'],
      ['replicaof', 'no', 'one'],
    ]) {
      await expect(user.call(command, ...words), command).rejects.toThrow(/NOPERM/)
    }
    user.disconnect()
    await operator.call('FLUSHALL')
  })

  test('a Redis user without INFO is named in the error', async () => {
    await operator.call('ACL', 'SETUSER', 'narrow', 'on', '>p', '~usher:*', '+@all', '-info')
    expect(await refusalAt(server.url.replace('//', '//narrow:p@'))).toMatch(/NOPERM.*info/)
  })

  test('the configured database is used, also after a reconnect', async () => {
    const store = await open(`${server.url}/2`, { database: 3 })
    const inUrl = await open(`${server.url}/2`)
    await put(store, 'here', bytes('three'), {})
    await put(inUrl, 'here', bytes('two'), {})
    await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    const read = (of: Store) => text(of, 'here').catch(() => 'away')
    await expect.poll(() => read(store)).toBe('three')
    await expect.poll(() => read(inUrl)).toBe('two')
    expect(await operator.dbsize()).toBe(0)
  })

  test('two installations with different prefixes do not see each other', async () => {
    const ours = await open(server.url, { key_prefix: 'ours:' })
    const theirs = await open(server.url, { key_prefix: 'theirs:' })
    const none = await open(server.url, { key_prefix: '' })
    for (const key of ['a', 'b']) await add(ours, key)
    for (const key of ['b', 'c']) await add(theirs, key)
    await add(none, 'd')
    expect(await scanned(ours)).toEqual(['a', 'b'])
    expect(await scanned(theirs)).toEqual(['b', 'c'])
    expect(await scanned(none)).toEqual(['d'])
    expect((await list(ours, 'all')).map(({ key }) => key).sort()).toEqual(['a', 'b'])
    expect(await remove(ours, 'b', now() + 60)).toBe(true)
    expect(await text(theirs, 'b')).toBe('b')
    const secrets = [Buffer.alloc(32, 1)]
    const installed = ['one:', 'two:'].map(async (key_prefix, i) => {
      const redis = { ...REDIS_DEFAULTS, key_prefix }
      const { store } = await openInstallation(server.url, [Buffer.alloc(32, i)], redis)
      await store.close()
    })
    await Promise.all(installed)
    const wrong = { ...REDIS_DEFAULTS, key_prefix: 'one:' }
    await expect(openInstallation(server.url, secrets, wrong)).rejects.toThrow(
      /cannot decrypt this store/,
    )
  })
})
