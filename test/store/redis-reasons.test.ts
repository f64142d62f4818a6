// A Redis that cannot be used is refused with what to write instead.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStore } from '../../src/store/open.ts'
import { REDIS_DEFAULTS, type RedisSettings } from '../../src/store/redis/settings.ts'
import { makeCertificate } from '../support/certificates.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { freePorts } from '../support/redis-together.ts'

const ports = { plain: 0, cluster: 0, tls: 0, sentinel: 0 }
const servers: RedisServer[] = []
let sentinel: ReturnType<typeof spawn>

/** Resolves when a server listens at the port. */
async function untilOpen(port: number) {
  for (let i = 0; i < 200; i++) {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
    await setTimeout(50)
  }
  throw new Error(`nothing listens on ${port}`)
}

beforeAll(async () => {
  const [plain = 0, cluster = 0, tls = 0, watching = 0] = await freePorts(4)
  Object.assign(ports, { plain, cluster, tls, sentinel: watching })
  const server = await startRedis({ port: plain })
  servers.push(server)
  servers.push(await startRedis({ port: cluster, settings: ['--cluster-enabled', 'yes'] }))
  const { cert, key } = makeCertificate(server.folder, 'tls')
  const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
  const listen = ['--tls-port', String(tls), '--tls-auth-clients', 'no']
  servers.push(await startRedis({ settings: [...listen, ...files] }))
  const file = join(server.folder, 'sentinel.conf')
  const monitor = `sentinel monitor main 127.0.0.1 ${plain} 1`
  writeFileSync(file, `port ${watching}\nbind 127.0.0.1\n${monitor}\n`)
  sentinel = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' })
  await untilOpen(watching)
  await untilOpen(tls)
})
afterAll(async () => {
  const ended = once(sentinel, 'exit')
  sentinel.kill('SIGKILL')
  await ended
  for (const server of servers) await server.stop()
})

type Server = keyof typeof ports
const at = (scheme: string, server: Server, end = '') =>
  `${scheme}://127.0.0.1:${ports[server]}${end}`

test.each<[what: string, url: () => string, meaning: string, settings?: Partial<RedisSettings>]>([
  ['a server of a Cluster', () => at('redis', 'cluster'), 'write redis+cluster://HOST:PORT'],
  ['a Sentinel', () => at('redis', 'sentinel'), 'write redis+sentinel://HOST:PORT'],
  ['no Cluster', () => at('redis+cluster', 'plain'), 'write redis://HOST:PORT'],
  ['no Sentinel', () => at('redis+sentinel', 'plain', '/main'), 'write redis://HOST:PORT'],
  ['a name that no Sentinel has', () => at('redis+sentinel', 'sentinel', '/other'), 'another NAME'],
  ['TLS where there is none', () => at('rediss', 'plain'), 'write redis:// in place of rediss://'],
  ['no TLS where there is', () => at('redis', 'tls'), 'write rediss:// in place of redis://'],
  ['an unknown authority', () => at('rediss', 'tls'), 'redis.tls.ca'],
  ['a database too high', () => at('redis', 'plain', '/99'), 'no database of this number'],
  [
    'a database too high, by its key',
    () => at('redis', 'plain'),
    'redis.database',
    { database: 99 },
  ],
  ['a port without a server', () => 'redis://127.0.0.1:1', 'nothing listens'],
  ['a name without an address', () => 'redis://nohost.invalid', 'name of the host is not found'],
])('%s is refused with what to write', async (_, url, meaning, settings) => {
  const opening = openStore(url(), { ...REDIS_DEFAULTS, ...settings })
  const message = await opening.then(
    store => store.close(),
    (error: Error) => error.message,
  )
  expect(message).toContain(meaning)
  expect(message).not.toMatch(/Node\.js/)
})
