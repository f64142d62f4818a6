// The Redis servers behind a URL: a single server, a socket's path, Sentinel or
// a Cluster. There is a connection to read from, and one to write on; scripts
// (scripts/*.lua) are commands of both.
//
//   send         a command of `reader`: bounded in number and time; every error is a StoreUnavailable
//   sendWrite    a command of `writer`: the same, and resolves when a replica has it, once there is one (replication.ts)
//   check        the findings of checks.ts about every primary
//
// A connection that ends is made again. One that stays with a server that was
// demoted is closed: the address leads to the new primary.

import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import {
  type Check,
  now,
  type Observer,
  type Outage,
  StoreUnavailable,
} from '../store.ts'
import { checkServers, hasReplica, readInfo } from './checks.ts'
import { modeProblem } from './reasons.ts'
import { createReplication } from './replication.ts'
import { optionsOf, parseUrl, type RedisSettings } from './settings.ts'

/**
 * Further commands are refused, so that a slow Redis does not fill the memory
 * of this process.
 */
const MAX_IN_FLIGHT = 2000
/** A command without a reply is rejected after this time. */
const REPLY_TIMEOUT_MS = 900
/**
 * A replica must confirm a write so long before the time for the reply ends:
 * the command that waits for it is answered then, and not cut off.
 */
const REFUSAL_MS = 400
/** A connection must be made so long before the time for a reply ends. */
const SENDING_MS = 100
/** Pause before a connection that has ended is made anew. */
const RECONNECT_PAUSE_MS = 200
/**
 * A store that returns may fail again at first. An error within this time
 * continues the outage.
 */
const SAME_OUTAGE_SECONDS = 10

/** ioredis itself tries unreachable sentinels for ever. */
const CONNECT_TIMEOUT_MS = 3000
const DEMOTED = /READONLY|^(LOADING|MASTERDOWN|NOAUTH|ERR WAIT cannot be used)/

/** Times are in milliseconds. Commands have the limit of `inTime`. */
const OPTIONS = {
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
const retryPause = (times: number) =>
  Math.min(50 * times, 500) + Math.random() * 100

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
 * Connects to the servers of one URL. Rejects when there is nothing to reach.
 * `replyTimeoutMs` is longer in tests, whose Redis waits for a busy machine.
 */
export async function openServers(
  url: string,
  settings: RedisSettings,
  observe: Observer,
  replyTimeoutMs = REPLY_TIMEOUT_MS,
) {
  const reader = createConnection(url, settings, replyTimeoutMs)
  const writer = createConnection(url, settings, replyTimeoutMs)
  const { admit, send } = createSender(observe, replyTimeoutMs)
  const replicate = createReplication(writer, replyTimeoutMs - REFUSAL_MS)
  /**
   * Whether replicas were seen: from then on a write fails unless one of them
   * has it.
   */
  let isReplicated = settings.durability === 'replicated'
  let isClosed = false
  let connects = 0
  let outage: Outage | undefined

  const masters = (): Redis[] =>
    reader instanceof Cluster ? reader.nodes('master') : [reader]

  /**
   * Sends a command of `writer` that writes in the slot of `key`; resolves when
   * the write is durable.
   */
  async function sendWrite<T>(
    command: string,
    key: string,
    ask: () => Promise<T>,
  ): Promise<T> {
    // A write that is refused here is no outage of Redis.
    admit()
    try {
      const answer = await send(command, () =>
        isReplicated ? replicate(key, ask) : ask(),
      )
      if (outage) outage.to ??= now()
      return answer
    } catch (error) {
      outage = outageAfter(outage)
      throw error
    }
  }

  /** Also looks for replicas that have come since. */
  async function readInfos() {
    const infos = await Promise.all(masters().map(readInfo))
    isReplicated ||= settings.durability === 'auto' && infos.some(hasReplica)
    return infos
  }

  const check = (): Promise<Check[]> =>
    send('info', async () => {
      if (!masters().length)
        throw new StoreUnavailable('Redis: no node of the cluster is known')
      const worst = await checkServers(
        masters(),
        await readInfos(),
        isReplicated,
        settings.key_prefix,
      )
      // Reads would stay with a server that was demoted: the address leads to
      // another by now.
      if (worst.some(({ name, state }) => name === 'role' && state === 'wrong'))
        reconnect()
      return worst
    })

  /**
   * Only if connected: `disconnect` would end a Sentinel connection in progress
   * for good.
   */
  function reconnect() {
    const stands = !(reader instanceof Cluster) && reader.status === 'ready'
    if (stands && !isClosed) reader.disconnect(true)
  }

  /**
   * Waits for replies, then disconnects: quitting alone leaves connections to
   * Sentinels open.
   */
  async function close(): Promise<void> {
    isClosed = true
    for (const connection of [reader, writer]) {
      if (connection.status === 'ready') await connection.quit().catch(() => {})
      connection.disconnect()
    }
  }

  try {
    for (const connection of [reader, writer]) {
      await connect(connection, replyTimeoutMs)
      await requireDatabase(connection, replyTimeoutMs)
      // ioredis may give up while Sentinel fails over.
      connection.on('end', async () => {
        await wait(RECONNECT_PAUSE_MS, undefined, { ref: false })
        if (!isClosed) await connection.connect().catch(() => {})
      })
    }
    const [info] = await readInfos()
    const problem = modeProblem(url, info?.redis_mode)
    if (problem) throw new Error(problem)
  } catch (error) {
    await close()
    throw error
  }
  for (const event of ['ready', '+node']) reader.on(event, () => connects++)
  // Only the writer notices that its server is no longer the primary.
  writer.on('close', () => isReplicated && reconnect())
  return {
    /** The connection to read from: its commands are given to `send`. */
    reader,
    /** The connection to write on: its commands are given to `sendWrite`. */
    writer,
    send,
    sendWrite,
    check,
    close,
    masters,
    outage: () => outage,
    /**
     * Changes with each connection to read from: a cursor is valid on one
     * server only.
     */
    connects: () => connects,
  }
}

/**
 * Returns `send`, which every command goes through, and `admit`, which throws
 * while there are too many.
 */
function createSender(observe: Observer, replyTimeoutMs: number) {
  let inFlight = 0

  function admit(): void {
    if (inFlight >= MAX_IN_FLIGHT)
      throw new StoreUnavailable('Redis: too many operations')
  }

  /**
   * Sends a command. Every error becomes StoreUnavailable: a caller must not
   * take it for a missing record.
   */
  async function send<T>(command: string, ask: () => Promise<T>): Promise<T> {
    admit()
    inFlight++
    const started = performance.now()
    let failed = true
    try {
      const answer = await inTime(replyTimeoutMs, ask())
      failed = false
      return answer
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      // An error of ioredis has the command in it that failed: what was
      // written, or a password.
      const cause = Object.assign(error as Error, { command: undefined })
      throw new StoreUnavailable(`Redis: ${cause.message}`, { cause })
    } finally {
      inFlight--
      observe(command, (performance.now() - started) / 1000, failed)
    }
  }

  return { admit, send }
}

/** The outage that a failed write begins, or continues. */
function outageAfter(latest?: Outage): Outage {
  const { from = now(), to = now() } = latest ?? {}
  return { from: now() - to < SAME_OUTAGE_SECONDS ? from : now() }
}

/**
 * Returns a connection that is not open yet. `url` is `redis://`, `rediss://`,
 * `redis+unix:///PATH`, `redis+sentinel://h:p,h:p/NAME` or
 * `redis+cluster://h:p,h:p`, optionally with `user:password@`. `settings` take
 * precedence over it.
 */
function createConnection(
  url: string,
  settings: RedisSettings,
  replyTimeoutMs: number,
): Connection {
  const { hosts, kind, name, ...credentials } = parseUrl(url)
  const options: RedisOptions = {
    ...OPTIONS,
    connectTimeout: replyTimeoutMs - SENDING_MS,
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
      clusterRetryStrategy: retryPause,
      slotsRefreshTimeout: replyTimeoutMs,
    })
    cluster.on('+node', renew)
    return cluster as Connection
  }
  const all = { ...options, ...common, retryStrategy: retryPause }
  const sentinels = {
    sentinels: hosts,
    name,
    sentinelRetryStrategy: retryPause,
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
async function connect(
  connection: Connection,
  replyTimeoutMs: number,
): Promise<void> {
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
    const timeout = Math.max(CONNECT_TIMEOUT_MS, replyTimeoutMs)
    await inTime(timeout, connection.connect())
  } catch (error) {
    connection.disconnect()
    throw reason ?? error
  }
}

/** ioredis goes on with the database 0 where there is none of the number. */
async function requireDatabase(
  connection: Connection,
  replyTimeoutMs: number,
): Promise<void> {
  if (connection instanceof Cluster) return
  const { db = 0 } = connection.options
  if (db > 0) await inTime(replyTimeoutMs, connection.select(db))
}

/**
 * Rejects after `ms`, also for a command that waits behind others on its
 * connection. Answers that arrived while this process was busy are read first:
 * Node reads sockets between a timer and `setImmediate`. The `commandTimeout`
 * of ioredis would reject them.
 */
function inTime<T>(ms: number, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`there was no answer in ${ms} ms`))
    const timer = setTimeout(() => setImmediate(late), ms)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
