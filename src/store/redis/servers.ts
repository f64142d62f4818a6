// The Redis servers behind a URL: a connection to read from, and one to write
// on. Commands are timed and bounded; writes wait for a replica once there is
// one (replication.ts).

import { setTimeout as pause } from 'node:timers/promises'
import { Cluster, type Redis } from 'ioredis'
import {
  type Check,
  now,
  type Observer,
  type Outage,
  StoreUnavailable,
} from '../store.ts'
import { checkServers, hasReplica, readInfo } from './checks.ts'
import {
  type Connection,
  connect,
  createConnection,
  inTime,
} from './connection.ts'
import { modeProblem } from './reasons.ts'
import { createReplication } from './replication.ts'
import type { RedisSettings } from './settings.ts'

/**
 * Further commands are refused, so that a slow Redis does not fill the memory
 * of this process.
 */
const MAX_IN_FLIGHT = 2000
/** A command without a reply is rejected after this time. */
const REPLY_TIMEOUT_MS = 900
/** Pause before a connection that has ended is made anew. */
const RECONNECT_PAUSE_MS = 200
/**
 * A store that returns may fail again at first. An error within this time
 * continues the outage.
 */
const SAME_OUTAGE_SECONDS = 10

/** ioredis goes on with the database 0 where there is none of the number. */
async function requireDatabase(connection: Connection): Promise<void> {
  if (connection instanceof Cluster) return
  const { db = 0 } = connection.options
  if (db > 0) await inTime(REPLY_TIMEOUT_MS, connection.select(db))
}

/**
 * Connects to the servers of one URL. Rejects when there is nothing to reach.
 */
export async function openServers(
  url: string,
  settings: RedisSettings,
  observe: Observer,
) {
  const reader = createConnection(url, settings)
  const writer = createConnection(url, settings)
  const replicate = createReplication(writer)
  /**
   * Whether replicas were seen: from then on a write fails unless one of them
   * has it.
   */
  let isReplicated = settings.durability === 'replicated'
  let isClosed = false
  let inFlight = 0
  let outage: Outage | undefined

  const masters = (): Redis[] =>
    reader instanceof Cluster ? reader.nodes('master') : [reader]

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
      const answer = await inTime(REPLY_TIMEOUT_MS, ask())
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

  /**
   * Sends a command of `writer` that writes in the slot of `key`; resolves when
   * the write is durable.
   */
  async function write<T>(
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
      const { from = now(), to = now() } = outage ?? {}
      outage = { from: now() - to < SAME_OUTAGE_SECONDS ? from : now() }
      throw error
    }
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

  /** Also looks for replicas that have come since. */
  async function readInfos() {
    const infos = await Promise.all(masters().map(readInfo))
    isReplicated ||= settings.durability === 'auto' && infos.some(hasReplica)
    return infos
  }

  /**
   * Only if connected: `disconnect` would end a Sentinel connection in progress
   * for good.
   */
  function reconnect() {
    const stands = !(reader instanceof Cluster) && reader.status === 'ready'
    if (stands && !isClosed) reader.disconnect(true)
  }

  try {
    for (const connection of [reader, writer]) {
      await connect(connection)
      await requireDatabase(connection)
      // ioredis may give up while Sentinel fails over.
      connection.on('end', async () => {
        await pause(RECONNECT_PAUSE_MS, undefined, { ref: false })
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
  let connects = 0
  for (const event of ['ready', '+node']) reader.on(event, () => connects++)
  // Only the writer notices that its server is no longer the primary.
  writer.on('close', () => isReplicated && reconnect())
  return {
    /** The connection to read from: its commands are given to `send`. */
    reader,
    /** The connection to write on: its commands are given to `write`. */
    writer,
    send,
    write,
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
