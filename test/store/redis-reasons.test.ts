// A Redis that cannot be used is refused within five seconds, without its password, with what to write instead.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStore } from '../../src/store/open.ts'
import { REDIS_DEFAULTS, type RedisSettings } from '../../src/store/redis/settings.ts'
import { makeCertificate } from '../support/certificates.ts'
import { freePorts } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { refusal } from './operations.ts'

const ports = { plain: 0, cluster: 0, tls: 0, sentinel: 0 }
const servers: RedisServer[] = []
beforeAll(async () => {
  const [plain = 0, cluster = 0, tls = 0, sentinel = 0] = await freePorts(4)
  Object.assign(ports, { plain, cluster, tls, sentinel })
  const server = await startRedis({ port: plain })
  servers.push(server)
  servers.push(await startRedis({ port: cluster, settings: ['--cluster-enabled', 'yes'] }))
  const { cert, key } = makeCertificate(server.folder, 'tls')
  const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
  const listen = ['--tls-port', String(tls), '--tls-auth-clients', 'no']
  servers.push(await startRedis({ settings: [...listen, ...files] }))
  const file = join(server.folder, 'sentinel.conf')
  writeFileSync(file, `sentinel monitor main 127.0.0.1 ${plain} 1\n`)
  servers.push(await startRedis({ port: sentinel, file }))
})
afterAll(async () => {
  for (const server of servers) await server.stop()
})

type Server = keyof typeof ports
const at = (scheme: string, server: Server, end = '') =>
  `${scheme}://127.0.0.1:${ports[server]}${end}`

const refusalAt = (url: string, settings: Partial<RedisSettings> = {}) =>
  refusal(openStore(url, { ...REDIS_DEFAULTS, ...settings }))

test.each<[what: string, url: () => string, meaning: string, settings?: Partial<RedisSettings>]>([
  [
    'a server of a Cluster',
    () => at('redis', 'cluster'),
    'this is a server of a Cluster: write redis+cluster://HOST:PORT',
  ],
  [
    'a Sentinel',
    () => at('redis', 'sentinel'),
    'this is a Sentinel: write redis+sentinel://HOST:PORT',
  ],
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
])('%s is refused with what to write', async (_, url, meaning, settings) => {
  const message = await refusalAt(url(), settings)
  expect(message).toContain(meaning)
  expect(message).not.toMatch(/Node\.js/)
})

test.each([
  ['redis://', 'redis://usher:CANARY@127.0.0.1:1', /ECONNREFUSED.*nothing listens/],
  ['rediss://', 'rediss://usher:CANARY@127.0.0.1:1', /ECONNREFUSED/],
  ['Sentinel', 'redis+sentinel://usher:CANARY@127.0.0.1:1,127.0.0.1:1/usher', /sentinel.*closed/],
  ['a second Sentinel', 'redis+sentinel://127.0.0.1:1, 127.0.0.1/usher', /sentinel 127.*closed/],
  ['a Cluster', 'redis+cluster://usher:CANARY@127.0.0.1:1,127.0.0.1:1', /no node of the cluster/],
  ['a socket', 'redis+unix://usher:CANARY@/nowhere/redis.sock', /ENOENT/],
  ['a name', 'redis://usher:CANARY@nohost.invalid', /name of the host is not found/],
  ['a URL', 'redis://usher:CANARY/x@127.0.0.1', /Invalid URL/],
  ['an escape', 'redis+cluster://usher:%CANARY@127.0.0.1', /URI malformed/],
])('%s that cannot be reached is reported', async (_, url, reason) => {
  expect(await refusalAt(url)).toMatch(reason)
})
