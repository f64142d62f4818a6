// Groups of redis-servers: a primary with a replica, a cluster, and a primary with sentinels.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { GOOD_SECRET } from './config-folder.ts'
import { type Link, startLink } from './link.ts'
import { freePort, freePorts } from './ports.ts'
import { type RedisServer, startRedis } from './redis.ts'
import { startUsher, type UsherOptions } from './usher.ts'

export interface RedisGroup {
  url: string
  servers: RedisServer[]
  sentinels: RedisServer[]
  stop(): Promise<void>
}

/**
 * Settings for a fast start. Without them a primary waits five seconds for further replicas before the
 * first copy, and pings only every ten seconds, so that the replica acknowledges the copy late.
 */
export const AT_ONCE = '--repl-diskless-sync-delay 0 --repl-ping-replica-period 1'.split(' ')
/** The replica is online, and has acknowledged the data of the primary. */
const ONLINE = /slave0:.*state=online,offset=[1-9]\d*,lag=[01]/

const SECOND_ONLINE = new RegExp(ONLINE.source.replace('slave0', 'slave1'))

export interface RedisPair {
  primary: RedisServer
  /** Replicates the primary through `link`. */
  replica: RedisServer
  link: Link
  stop(): Promise<void>
}

interface StartedStore {
  url: string
  stop(): Promise<void>
}

/** The stores for tests of orders and faults. `oneOf` takes another one each week. */
export const STORES: [name: string, start: () => Promise<StartedStore>][] = [
  ['SQLite', async () => ({ url: 'sqlite::memory:', stop: async () => {} })],
  ['Redis', async () => startRedis({ port: await freePort() })],
]

/** Starts a store, and an Usher on it. `close` ends both. */
export async function startOn(startStore: () => Promise<StartedStore>, options: UsherOptions = {}) {
  const store = await startStore()
  const env = { USHER_SECRET: GOOD_SECRET }
  const usher = await startUsher({ store: store.url, env, ...options })
  return { ...usher, close: () => usher.close().then(store.stop) }
}

export async function startPair(): Promise<RedisPair> {
  const port = await freePort()
  const primary = await startRedis({ port, settings: AT_ONCE })
  const { link, replica, stop } = await startReplica(port)
  return { primary, replica, link, stop: () => stop().then(() => primary.stop()) }
}

/** Starts a replica of the server on the port `primary`. */
export async function startReplica(primary: number) {
  const link = await startLink(primary)
  const port = await freePort()
  const settings = ['--replicaof', '127.0.0.1', new URL(link.url).port, ...AT_ONCE]
  const replica = await startRedis({ port, settings })
  await untilInfo(`redis://127.0.0.1:${primary}`, 'replication', ONLINE)
  return { link, replica, stop: () => link.close().then(() => replica.stop()) }
}

/**
 * Starts three masters with one replica each. A replica takes over from a master that does not answer for
 * `failoverMs`: on a busy machine, that must be long in tests that are not about it.
 */
export async function startCluster(failoverMs = 15_000): Promise<RedisGroup> {
  const ports = await freePorts(6)
  const timeout = ['--cluster-node-timeout', String(failoverMs)]
  const settings = ['--cluster-enabled', 'yes', ...timeout, ...AT_ONCE]
  const servers = await Promise.all(ports.map(port => startRedis({ port, settings })))
  const nodes = ports.map(port => `127.0.0.1:${port}`)
  const create = ['--cluster', 'create', ...nodes, '--cluster-replicas', '1', '--cluster-yes']
  const { status, stdout } = spawnSync('redis-cli', create, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`redis-cli: ${stdout}`)
  for (const { url } of servers) await untilInfo(url, 'cluster', /cluster_state:ok/)
  for (const { url } of servers.slice(0, 3)) await untilInfo(url, 'replication', ONLINE)
  return {
    url: `redis+cluster://${nodes.slice(0, 3).join(',')}`,
    servers,
    sentinels: [],
    stop: () => stopAll(servers),
  }
}

/** Starts one primary, two replicas and three sentinels. */
export async function startSentinels(): Promise<RedisGroup> {
  const [primary = 0, ...others] = await freePorts(6)
  const replicas = others.slice(0, 2)
  const sentinelPorts = others.slice(2)
  const servers = [await startRedis({ port: primary, settings: AT_ONCE })]
  for (const port of replicas) {
    servers.push(
      await startRedis({
        port,
        settings: ['--replicaof', '127.0.0.1', String(primary), ...AT_ONCE],
      }),
    )
  }
  await untilInfo(servers[0]?.url ?? '', 'replication', SECOND_ONLINE)
  const folder = mkdtempSync(join(tmpdir(), 'usher-sentinels-'))
  const sentinels = await Promise.all(
    sentinelPorts.map(port => {
      const file = join(folder, `${port}.conf`)
      writeFileSync(
        file,
        `sentinel monitor usher 127.0.0.1 ${primary} 2\n` +
          'sentinel down-after-milliseconds usher 1000\n' +
          'sentinel failover-timeout usher 5000\n',
      )
      return startRedis({ port, file })
    }),
  )
  for (const { url } of sentinels) await untilInfo(url, 'sentinel', /slaves=2,sentinels=3/)
  const nodes = sentinelPorts.map(port => `127.0.0.1:${port}`)
  return {
    url: `redis+sentinel://${nodes.join(',')}/usher`,
    servers,
    sentinels,
    async stop() {
      await stopAll([...sentinels, ...servers])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const stopAll = (servers: RedisServer[]) =>
  Promise.all(servers.map(server => server.stop())).then(() => {})

const INFO_TIMEOUT_MS = 20_000

/** Waits until the INFO section of a server matches `expected`. */
export async function untilInfo(url: string, section: string, expected: RegExp) {
  const redis = new Redis(url)
  const ask = () => (section === 'cluster' ? redis.cluster('INFO') : redis.info(section))
  try {
    const started = performance.now()
    for (let info = await ask(); !expected.test(info); info = await ask()) {
      if (performance.now() - started > INFO_TIMEOUT_MS) throw new Error(`not ${expected}: ${info}`)
      await setTimeout(100)
    }
  } finally {
    redis.disconnect()
  }
}
