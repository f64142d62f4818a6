// How a connection to Redis is made: alone, through Sentinel, as a Cluster; with what timeouts and
// secrets. Commands of ours are scripts (the .lua files beside this one).

import { readFileSync } from 'node:fs'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { RedisSettings } from '../../config/schema.ts'

const DEMOTED = /READONLY|^(LOADING|MASTERDOWN|CLUSTERDOWN|NOAUTH|ERR WAIT cannot be used)/

/** Milliseconds; a dead or hung Redis is an answer within a second. */
const OPTIONS = {
  connectTimeout: 800,
  commandTimeout: 800,
  socketTimeout: 1000,
  keepAlive: 5000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  // Safe to send again: the scripts know a repeat.
  reconnectOnError: ({ message }) => (DEMOTED.test(message) ? 2 : false),
} satisfies RedisOptions
const pause = (times: number) => Math.min(50 * times, 500) + Math.random() * 100

const lua = (name: string) => readFileSync(`${import.meta.dirname}/${name}.lua`, 'utf8')
const scripts = {
  usherPut: { lua: lua('put'), numberOfKeys: 1 },
  usherConsume: { lua: lua('consume'), numberOfKeys: 1 },
  usherRemove: { lua: lua('remove'), numberOfKeys: 1 },
  usherTouch: { lua: lua('touch'), numberOfKeys: 1 },
  usherIndex: { lua: lua('index'), numberOfKeys: 1 },
  usherSnapshot: { lua: lua('snapshot'), numberOfKeys: 1 },
  usherRestore: { lua: lua('restore'), numberOfKeys: 1 },
}
export type ScriptName = keyof typeof scripts
export type Argument = string | number | Uint8Array
type Script = (key: string, ...args: Argument[]) => Promise<unknown>
export type Connection = (Redis | Cluster) &
  Record<ScriptName, Script> & {
    usherSnapshotBuffer(key: string): Promise<(Buffer | null)[]>
  }

/**
 * Not yet connected. `redis://`, `rediss://`, `redis+sentinel://h:p,h:p/NAME` or
 * `redis+cluster://h:p,h:p`, each with `user:password@` if need be.
 */
export function createConnection(
  url: string,
  settings: RedisSettings,
  { enableAutoPipelining = true } = {},
): Connection {
  const { hosts, kind, name, ...credentials } = parseUrl(url)
  const options: RedisOptions = { ...OPTIONS, ...credentials, ...tlsOf(settings) }
  if (settings.username) options.username = settings.username
  if (settings.database !== undefined) options.db = settings.database
  const common = { lazyConnect: true, scripts, enableAutoPipelining }
  readPassword(options, settings)

  if (kind === 'cluster') {
    // What it gives to the connections it makes, also when the password has changed since.
    const clusterRetryStrategy = (times: number) => {
      readPassword(options, settings)
      return pause(times)
    }
    return new Cluster(hosts, {
      ...common,
      redisOptions: options,
      enableOfflineQueue: false,
      clusterRetryStrategy,
      slotsRefreshTimeout: 1000,
    }) as Connection
  }
  const retryStrategy = (times: number) => {
    readPassword(redis.options, settings)
    return pause(times)
  }
  const sentinels = kind === 'sentinel' && {
    sentinels: hosts,
    name,
    sentinelRetryStrategy: pause,
    failoverDetector: true,
    sentinelPassword: secretIn(settings.sentinel_password_file),
    enableTLSForSentinelMode: options.tls !== undefined,
  }
  const all = { ...options, ...common, retryStrategy, ...sentinels }
  const redis = sentinels ? new Redis(all) : new Redis(url, all)
  return redis as Connection
}

function parseUrl(url: string) {
  const [, kind, userinfo, nodes = '', name] =
    /^redis\+(sentinel|cluster):\/\/(?:([^@/]*)@)?([^/]+)\/?(.*)$/.exec(url) ?? []
  const [username, password] = (userinfo ?? '').split(':').map(decodeURIComponent)
  const hosts = nodes.split(',').map(node => ({
    host: node.slice(0, node.lastIndexOf(':')).replace(/^\[|\]$/g, ''),
    port: Number(node.slice(node.lastIndexOf(':') + 1)),
  }))
  return { kind, hosts, name, ...(username && { username }), ...(password && { password }) }
}

function tlsOf({ tls }: RedisSettings): Pick<RedisOptions, 'tls'> {
  if (!tls) return {}
  const files = Object.entries(tls).map(([name, file]) => [name, readFileSync(String(file))])
  return { tls: Object.fromEntries(files) }
}

/** From its file at every new connection, so that it can be changed there. */
function readPassword(options: RedisOptions, { password_file }: RedisSettings): void {
  const password = secretIn(password_file)
  if (password) options.password = password
}

/** Undefined for a file that is away for the moment: the last value stays. */
function secretIn(file: string | undefined): string | undefined {
  try {
    return file && readFileSync(file, 'utf8').trim()
  } catch {
    return undefined
  }
}
