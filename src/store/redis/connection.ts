// Creates connections to Redis: a single server, a socket's path, Sentinel or a
// Cluster, with their timeouts and secrets. Scripts (scripts/*.lua) are
// commands of a connection.

import { readFileSync } from 'node:fs'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { RedisSettings } from './settings.ts'

/** ioredis itself tries unreachable sentinels for ever. */
const CONNECT_TIMEOUT_MS = 3000
const DEMOTED = /READONLY|^(LOADING|MASTERDOWN|NOAUTH|ERR WAIT cannot be used)/

/** Times are in milliseconds. Commands have the limit of `inTime`. */
const OPTIONS = {
  connectTimeout: 800,
  // Longer than this process may be busy: a connection whose replies wait to be
  // read must not be closed.
  socketTimeout: 3000,
  disconnectTimeout: 100,
  keepAlive: 5000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  // 2: sends the command again, which is safe, because the scripts recognise a
  // repeated operation.
  reconnectOnError: ({ message }) => (DEMOTED.test(message) ? 2 : false),
} satisfies RedisOptions
const pause = (times: number) => Math.min(50 * times, 500) + Math.random() * 100

const script = (name: string) => ({
  lua: readFileSync(`${import.meta.dirname}/scripts/${name}.lua`, 'utf8'),
})
const SCRIPTS = { usherWrite: script('write'), usherIndex: script('index') }
/** Takes the number of keys, the keys, and arguments. */
type Script<T> = (
  keys: number,
  ...args: (string | number | Uint8Array)[]
) => Promise<T>
/** A connection with the commands of scripts/*.lua. */
export type Connection = (Redis | Cluster) & {
  usherWrite: Script<[outcome: string, indexes?: string, listed?: number]>
  usherIndex: Script<number>
}

/**
 * Returns a connection that is not open yet. `url` is `redis://`, `rediss://`,
 * `redis+unix:///PATH`, `redis+sentinel://h:p,h:p/NAME` or
 * `redis+cluster://h:p,h:p`, optionally with `user:password@`. `settings` take
 * precedence over it.
 */
export function createConnection(
  url: string,
  settings: RedisSettings,
): Connection {
  const { hosts, kind, name, ...credentials } = parseUrl(url)
  const options: RedisOptions = {
    ...OPTIONS,
    ...credentials,
    ...optionsOf(settings),
  }
  const common = { lazyConnect: true, scripts: SCRIPTS }
  /** Reads the files again, for the next connection. */
  const renew = ({ options }: Redis) =>
    Object.assign(options, optionsOf(settings, options))

  if (kind === 'cluster') {
    const cluster = new Cluster(hosts, {
      ...common,
      redisOptions: options,
      enableOfflineQueue: false,
      clusterRetryStrategy: pause,
      slotsRefreshTimeout: 1000,
    })
    cluster.on('+node', renew)
    return cluster as Connection
  }
  const all = { ...options, ...common, retryStrategy: pause }
  const sentinels = {
    sentinels: hosts,
    name,
    sentinelRetryStrategy: pause,
    failoverDetector: true,
    enableTLSForSentinelMode: settings.tls !== undefined,
  }
  const named = kind === 'unix' ? { path: `/${name}` } : sentinels
  const redis = kind ? new Redis({ ...all, ...named }) : new Redis(url, all)
  // The options of a URL take precedence over others.
  renew(redis)
  for (const event of ['close', 'sentinelError'])
    redis.on(event, () => renew(redis))
  return redis as Connection
}

/**
 * Connects, or rejects with the reason. A later failure is reported by the
 * command that fails.
 */
export async function connect(connection: Connection): Promise<void> {
  let reason: unknown
  const keepFirst = (error: Error & { lastNodeError?: Error }) => {
    const { lastNodeError: last } = error
    reason ??= last
      ? new Error(
          `no node of the cluster accepts the connection: ${last.message}`,
        )
      : error
  }
  for (const event of ['sentinelError', 'error'])
    connection.on(event, keepFirst)
  try {
    await inTime(CONNECT_TIMEOUT_MS, connection.connect())
  } catch (error) {
    connection.disconnect()
    throw reason ?? error
  }
}

/**
 * Rejects after `ms`, also for a command that waits behind others on its
 * connection. Answers that arrived while this process was busy are read first:
 * Node reads sockets between a timer and `setImmediate`. The `commandTimeout`
 * of ioredis would reject them.
 */
export function inTime<T>(ms: number, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`there was no answer in ${ms} ms`))
    const timer = setTimeout(() => setImmediate(late), ms)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

function parseUrl(url: string) {
  const [, kind, userinfo = '', nodes = '', name] =
    /^redis\+(sentinel|cluster|unix):\/\/(?:(.*)@)?([^/@]*)\/?(.*)$/.exec(
      url,
    ) ?? []
  const [username, password] = userinfo.split(/:(.*)/s).map(decodeURIComponent)
  const hosts = nodes.split(/, */).map(node => {
    const { hostname, port } = new URL(`redis://${node}`)
    // ioredis knows the usual ports.
    return {
      host: hostname.replace(/^\[|\]$/g, ''),
      ...(port && { port: Number(port) }),
    }
  })
  return {
    kind,
    hosts,
    name,
    ...(username && { username }),
    ...(password && { password }),
  }
}

/**
 * Returns the options of a connection from the settings, and from the files
 * that they name. A file that cannot be read keeps its value in `last`.
 */
function optionsOf(
  settings: RedisSettings,
  last: RedisOptions = {},
): RedisOptions {
  const {
    username,
    database: db,
    password_file,
    sentinel_password_file,
    tls,
  } = settings
  const secret = (name: 'password' | 'sentinelPassword', file?: string) =>
    file && { [name]: orLast(last[name], () => readSecret(file)) }
  const certificates = tls && orLast(last.tls, () => readCertificates(tls))
  return {
    ...(username && { username }),
    ...(db !== undefined && { db }),
    ...secret('password', password_file),
    ...secret('sentinelPassword', sentinel_password_file),
    ...(certificates && { tls: certificates, sentinelTLS: certificates }),
  }
}

/**
 * Returns what `read` returns, or the last value if it throws. Throws if there
 * is no last value: at the start.
 */
function orLast<T>(last: T, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (last == null) throw error
    return last
  }
}

function readSecret(file: string): string {
  const secret = readFileSync(file, 'utf8').trim()
  if (!secret) throw new Error(`${file} is empty`)
  return secret
}

/**
 * Throws for a certificate without its key, which would end a connection for
 * good.
 */
function readCertificates(
  tls: NonNullable<RedisSettings['tls']>,
): SecureContextOptions {
  const files = Object.entries(tls).map(([name, file]) => [
    name,
    readFileSync(file),
  ])
  const options: SecureContextOptions = Object.fromEntries(files)
  createSecureContext(options)
  return options
}
