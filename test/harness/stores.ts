// The stores of deployments: a SQLite file, or one or more Redis servers.

import { join } from 'node:path'
import { Redis } from 'ioredis'
import { type Link, startLink } from '../support/link.ts'
import { freePort } from '../support/ports.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  AT_ONCE,
  type RedisGroup,
  startCluster,
  startReplica,
  startSentinels,
  untilInfo,
} from '../support/redis-together.ts'

/** `linked`: every process has a link to Redis of its own; `replicas`: those are promoted manually. */
export type StoreKind =
  | 'SQLite'
  | 'Redis'
  | 'synced'
  | 'without file'
  | 'one link'
  | 'linked'
  | 'sentinels'
  | 'cluster'
  | 'replicas'

export interface Stores {
  /** The locations of the store, which the processes have in turn. */
  urls: string[]
  servers: RedisServer[]
  sentinels: RedisServer[]
  /** The links between Usher and the first server; with `replicas` also those of the replication. */
  links: Link[]
  /** Connects an operator to a server; default: the first. */
  operator(server?: RedisServer): Redis
  close(): Promise<void>
}

type Made = Pick<Stores, 'urls' | 'servers'> & Partial<Stores>

/** With `everysec`, `kill -9` loses acknowledged writes while the disk is busy (docs/redis.md). */
const SYNCED = ['--appendfsync', 'always']
const WITHOUT_FILE = [
  '--appendonly',
  'no',
  '--save',
  '86400 1',
  '--enable-protected-configs',
  'yes',
]

const MAKERS: Record<StoreKind, (folder: string, processes: number) => Promise<Made>> = {
  SQLite: async folder => ({ urls: [`sqlite:${join(folder, 'usher.db')}`], servers: [] }),
  Redis: () => single(),
  synced: () => single(SYNCED),
  'without file': () => single(WITHOUT_FILE),
  'one link': () => linked(1),
  linked: (_, processes) => linked(processes),
  sentinels: () => startSentinels().then(together),
  cluster: () => startCluster(2000).then(together),
  replicas,
}

/** `folder`: that of a SQLite file. */
export async function openStores(kind: StoreKind, folder: string, processes: number) {
  const made = await MAKERS[kind](folder, processes)
  const { servers, sentinels = [], links = [] } = made
  const operators: Redis[] = []
  const stores: Stores = {
    sentinels,
    links,
    ...made,
    operator(server = first(servers)) {
      const redis = new Redis(server.url, { maxRetriesPerRequest: 3 })
      // Each command reports its own error.
      redis.on('error', () => {})
      operators.push(redis)
      return redis
    },
    async close() {
      for (const operator of operators) operator.disconnect()
      await Promise.all(links.map(link => link.close()))
      const all = [...sentinels, ...servers]
      for (const server of all) resume(server)
      await Promise.all(all.map(server => server.stop()))
      await made.close?.()
    },
  }
  return stores
}

export function first<T>([one]: T[]): T {
  if (one === undefined) throw new Error('the list is empty')
  return one
}

export const portOf = ({ url }: { url: string }) => Number(new URL(url).port)

export const suspend = ({ pid }: RedisServer) => process.kill(pid, 'SIGSTOP')

/** Resumes a server. A server that no longer runs is not an error. */
export function resume({ pid }: RedisServer) {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {}
}

async function single(settings: string[] = []): Promise<Made> {
  const port = await freePort()
  const server = await startRedis({ port, settings })
  return { urls: [server.url], servers: [server] }
}

async function linked(count: number): Promise<Made> {
  const { servers } = await single(SYNCED)
  const start = () => startLink(portOf(first(servers)))
  const links = await Promise.all(Array.from({ length: count }, start))
  return { urls: links.map(({ url }) => url), servers, links }
}

function together({ url, servers, sentinels, stop }: RedisGroup): Made {
  return { urls: [url], servers, sentinels, close: stop }
}

/** Starts one primary and two replicas. Usher and each replica have a link to the primary. */
async function replicas(): Promise<Made> {
  const port = await freePort()
  const primary = await startRedis({ port, settings: AT_ONCE })
  const link = await startLink(port)
  const one = await startReplica(port)
  const other = await startReplica(port)
  await untilInfo(primary.url, 'replication', /(slave\d:.*state=online.*\s+){2}/)
  const servers = [primary, one.replica, other.replica]
  return { urls: [link.url], servers, links: [link, one.link, other.link] }
}
