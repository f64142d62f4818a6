// The Redis deployments for faults: alone, behind a link, with Sentinels, as a Cluster, or with replicas
// that are promoted manually.

import { Redis } from 'ioredis'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import {
  freePorts,
  type RedisGroup,
  startCluster,
  startSentinels,
  untilInfo,
} from '../../support/redis-together.ts'
import { type Link, startLink } from './proxy.ts'

export type StageKind = 'alone' | 'without file' | 'linked' | 'sentinels' | 'cluster' | 'replicas'

export interface Stage {
  url: string
  servers: RedisServer[]
  sentinels: RedisServer[]
  /** The link between Usher and the first server; with `replicas` also those of the replication. */
  links: Link[]
  /** Connects an operator to a server; default: the first. */
  operator(server?: RedisServer): Redis
  close(): Promise<void>
}

const MAKERS: Record<StageKind, () => Promise<Made>> = {
  alone: () => alone(),
  'without file': () =>
    alone(['--appendonly', 'no', '--save', '86400 1', '--enable-protected-configs', 'yes']),
  linked,
  sentinels: () => startSentinels().then(together),
  cluster: () => startCluster().then(together),
  replicas,
}

type Made = Pick<Stage, 'url' | 'servers'> & Partial<Stage>

export async function openStage(kind: StageKind): Promise<Stage> {
  const made = await MAKERS[kind]()
  const { servers, sentinels = [], links = [] } = made
  const operators: Redis[] = []
  return {
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

/** With `everysec`, `kill -9` loses acknowledged writes while the disk is busy (docs/redis.md). */
async function alone(settings = ['--appendfsync', 'always']): Promise<Made> {
  const [port] = await freePorts(1)
  const server = await startRedis({ port, settings })
  return { url: server.url, servers: [server] }
}

async function linked(): Promise<Made> {
  const { servers } = await alone()
  const link = await startLink(portOf(first(servers)))
  return { url: link.url, servers, links: [link] }
}

function together({ url, servers, sentinels, stop }: RedisGroup): Made {
  return { url, servers, sentinels, close: stop }
}

/** Starts one primary and two replicas. Usher and each replica have a link to the primary. */
async function replicas(): Promise<Made> {
  const [port, ...others] = await freePorts(3)
  const primary = await startRedis({ port, settings: ['--repl-diskless-sync-delay', '0'] })
  const links = [await startLink(portOf(primary))]
  const servers = [primary]
  for (const port of others) {
    const link = await startLink(portOf(primary))
    const settings = ['--replicaof', '127.0.0.1', String(link.port)]
    links.push(link)
    servers.push(await startRedis({ port, settings }))
  }
  await untilInfo(primary.url, 'replication', /(slave\d:.*state=online.*\s+){2}/)
  return { url: first(links).url, servers, links }
}
