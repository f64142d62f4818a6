// The Redis servers behind a URL: a connection to read from, and one to write on. Commands are timed and
// bounded; writes wait for a replica once there is one (replication.ts).

import { setTimeout as pause } from 'node:timers/promises'
import { Cluster, type Redis } from 'ioredis'
import type { RedisSettings } from '../../config/schema/usher.ts'
import { type Check, now, type Observer, type Outage, StoreUnavailable } from '../store.ts'
import { checkServers, hasReplica, readInfo } from './checks.ts'
import { type Connection, connect, createConnection } from './connection.ts'
import { createReplication } from './replication.ts'

/** One more operation is refused, so that a slow Redis does not fill the memory of this process. */
const MAX_IN_FLIGHT = 2000
/** A command without a reply is rejected after this time. */
const REPLY_TIMEOUT_MS = 900
/** Pause before a connection that has ended is made anew. */
const RECONNECT_PAUSE_MS = 200

/** The servers of one URL. */
export class Servers {
  /** Whether replicas were seen: from then on a write fails unless one of them has it. */
  isReplicated = false
  #reader: Connection
  #writer: Connection
  #replicate: ReturnType<typeof createReplication>
  #durability: RedisSettings['durability']
  #observe: Observer
  #isClosed = false
  #inFlight = 0
  #failingSince?: number
  #lastOutage?: Outage

  private constructor(url: string, settings: RedisSettings, observe: Observer) {
    this.#reader = createConnection(url, settings)
    this.#writer = createConnection(url, settings)
    this.#replicate = createReplication(this.#writer)
    this.#durability = settings.durability
    this.#observe = observe
  }

  /** Resolves when they are ready; rejects when there is nothing to reach. */
  static async open(url: string, settings: RedisSettings, observe: Observer): Promise<Servers> {
    const servers = new Servers(url, settings, observe)
    try {
      for (const connection of [servers.#reader, servers.#writer])
        await servers.#connect(connection)
      await servers.#readInfo()
    } catch (error) {
      await servers.close()
      throw error
    }
    // Only the writer notices that its server is no longer the primary.
    servers.#writer.on('close', () => servers.isReplicated && servers.#reconnect())
    return servers
  }

  get masters(): Redis[] {
    return this.#reader instanceof Cluster ? this.#reader.nodes('master') : [this.#reader]
  }

  get outage(): Outage | undefined {
    return this.#failingSince ? { from: this.#failingSince, to: now() } : this.#lastOutage
  }

  /** Counts one operation, of as many commands as it takes. */
  async admit<T>(operate: () => Promise<T>): Promise<T> {
    if (this.#inFlight >= MAX_IN_FLIGHT) throw new StoreUnavailable('Redis: too many operations')
    this.#inFlight++
    return operate().finally(() => this.#inFlight--)
  }

  /** Sends a command. Every error becomes StoreUnavailable: a caller must not take it for a missing record. */
  async send<T>(command: string, ask: () => Promise<T>): Promise<T> {
    const started = performance.now()
    let failed = true
    try {
      const answer = await inTime(ask())
      failed = false
      return answer
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      // An error of ioredis has the command in it that failed: what was written, or a password.
      const cause = Object.assign(error as Error, { command: undefined })
      throw new StoreUnavailable(`Redis: ${cause.message}`, { cause })
    } finally {
      this.#observe(command, (performance.now() - started) / 1000, failed)
    }
  }

  read<T>(command: string, ask: (connection: Connection) => Promise<T>): Promise<T> {
    return this.send(command, () => ask(this.#reader))
  }

  /** Sends a command that writes in the slot of `key`; resolves when the write is durable. */
  async write<T>(
    command: string,
    key: string,
    ask: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    const work = () => ask(this.#writer)
    try {
      const answer = await this.send(command, () =>
        this.isReplicated ? this.#replicate(key, work) : work(),
      )
      this.#lastOutage = this.outage
      this.#failingSince = undefined
      return answer
    } catch (error) {
      this.#failingSince ??= now()
      throw error
    }
  }

  check(): Promise<Check[]> {
    return this.send('info', async () => {
      const { masters } = this
      if (!masters.length) throw new StoreUnavailable('Redis: no node of the cluster is known')
      const worst = await checkServers(masters, await this.#readInfo(), this.isReplicated)
      // Reads would stay with a server that was demoted: the address leads to another by now.
      if (worst.some(({ name, state }) => name === 'role' && state === 'wrong')) this.#reconnect()
      return worst
    })
  }

  /** Waits for replies, then disconnects: quitting alone leaves connections to Sentinels open. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const connection of [this.#reader, this.#writer]) {
      if (connection.status === 'ready') await connection.quit().catch(() => {})
      connection.disconnect()
    }
  }

  /** Also looks for replicas that have come since. */
  async #readInfo() {
    const infos = await Promise.all(this.masters.map(readInfo))
    const isSeen = this.#durability === 'auto' && infos.some(hasReplica)
    this.isReplicated ||= isSeen || this.#durability === 'replicated'
    return infos
  }

  /** Connects, and again when ioredis gives up, as it may while Sentinel fails over. */
  async #connect(connection: Connection): Promise<void> {
    await connect(connection)
    connection.on('end', async () => {
      await pause(RECONNECT_PAUSE_MS, undefined, { ref: false })
      if (!this.#isClosed) await connection.connect().catch(() => {})
    })
  }

  /** Only a connection that stands: one that is being made through Sentinel would end for good. */
  #reconnect() {
    const stands = !(this.#reader instanceof Cluster) && this.#reader.status === 'ready'
    if (stands && !this.#isClosed) this.#reader.disconnect(true)
  }
}

/** Rejects after the time limit, also for a command that waits behind others on its connection. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreUnavailable('Redis: no answer in time'))
    const timer = setTimeout(late, REPLY_TIMEOUT_MS)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
