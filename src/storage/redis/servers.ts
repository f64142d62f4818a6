// The Redis servers behind a URL: one connection to read from and, once replicas are seen, one more to
// write on and wait for them; which server is the primary, and whether they can be trusted.

import { setTimeout } from 'node:timers/promises'
import { Cluster, type Redis } from 'ioredis'
import type { RedisSettings } from '../../config/schema/usher.ts'
import { type Check, StoreUnavailable } from '../store.ts'
import { checkServer, hasReplica, merge, readInfo } from './checks.ts'
import { type Connection, createConnection } from './connection.ts'
import { ReplicatedWriter } from './replication.ts'

/** ioredis itself tries unreachable sentinels for ever. */
const CONNECT_TIMEOUT_MS = 3000
/** Pause before a connection that has ended is made anew. */
const RECONNECT_PAUSE_MS = 200

/** The servers of one URL. */
export class Servers {
  /** To read from. */
  readonly connection: Connection
  #connect: () => Connection
  #durability: RedisSettings['durability']
  /** Present once replicas are seen: from then on a write fails unless one of them has it. */
  #writer?: ReplicatedWriter
  #isClosed = false

  private constructor(url: string, settings: RedisSettings) {
    this.#connect = () => createConnection(url, settings)
    this.#durability = settings.durability
    this.connection = this.#connect()
  }

  /** Resolves when they are ready; rejects when there is nothing to reach. */
  static async open(url: string, settings: RedisSettings): Promise<Servers> {
    const servers = new Servers(url, settings)
    try {
      await servers.#connectTo(servers.connection)
      await servers.#lookForReplicas()
      return servers
    } catch (error) {
      await servers.close()
      throw error
    }
  }

  get isReplicated(): boolean {
    return this.#writer !== undefined
  }

  /** Runs a command that writes in the slot of `key`; resolves when the write is durable. */
  write<T>(key: string, command: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#writer?.run(key, command) ?? command(this.connection)
  }

  get masters(): Redis[] {
    return this.connection instanceof Cluster ? this.connection.nodes('master') : [this.connection]
  }

  /** Also looks for replicas that have come since. */
  async check(): Promise<Check[]> {
    if (!this.masters.length) throw new StoreUnavailable('Redis: no node of the cluster is known')
    this.#lookForReplicas().catch(() => {})
    const checks = await Promise.all(this.masters.map(node => checkServer(node, this.isReplicated)))
    const worst = merge(checks)
    // Reads would stay with a server that was demoted: the address leads to another by now.
    if (worst.some(({ name, state }) => name === 'role' && state === 'wrong')) this.#reconnect()
    return worst
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([leave(this.connection), this.#writer && leave(this.#writer.connection)])
  }

  async #lookForReplicas() {
    if (this.#writer || this.#durability === 'primary') return
    if (this.#durability === 'auto' && !(await this.#hasReplicas())) return
    const connection = this.#connect()
    await this.#connectTo(connection)
    if (this.#writer || this.#isClosed) return connection.disconnect()
    this.#writer = new ReplicatedWriter(connection)
    // Only the writer notices that its server is no longer the primary.
    connection.on('close', () => this.#isClosed || this.#reconnect())
  }

  /** Connects again when ioredis gives up, as it may while Sentinel fails over. */
  async #connectTo(connection: Connection): Promise<void> {
    await ready(connection)
    connection.on('end', async () => {
      await setTimeout(RECONNECT_PAUSE_MS, undefined, { ref: false })
      if (!this.#isClosed) await connection.connect().catch(() => {})
    })
  }

  async #hasReplicas(): Promise<boolean> {
    const infos = await Promise.all(this.masters.map(readInfo))
    return infos.some(hasReplica)
  }

  /** Only a connection that stands: one that is being made through Sentinel would end for good. */
  #reconnect() {
    const { connection } = this
    const stands = !(connection instanceof Cluster) && connection.status === 'ready'
    if (stands) connection.disconnect(true)
  }
}

/** Waits for replies, then disconnects: quitting alone leaves connections to Sentinels open. */
async function leave(connection: Connection): Promise<void> {
  await connection.quit().catch(() => {})
  connection.disconnect()
}

/** Connects. A later failure is reported by the command that fails. */
async function ready(connection: Connection): Promise<void> {
  let reason: unknown
  connection.on('error', error => {
    const { lastNodeError: last } = error
    reason ??= last ? new Error(`none of its nodes lets us in: ${last.message}`) : error
  })
  connection.on('sentinelError', error => {
    reason = error
  })
  const late = setTimeout(CONNECT_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`there was no answer in ${CONNECT_TIMEOUT_MS} ms`)
  })
  try {
    await Promise.race([connection.connect(), late])
  } catch (error) {
    connection.disconnect()
    throw reason ?? error
  }
}
