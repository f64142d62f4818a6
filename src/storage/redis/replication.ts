// Writes that succeed only when a replica has them too. Thus a failover loses none of them.
//
// WAIT blocks its connection, and confirms writes of this connection only. Writes therefore have a
// connection of their own, and one WAIT serves all that were answered before it was sent. A write
// that no replica confirms may have happened: it is refused as unavailable. From then on, until a
// replica has caught up, nothing more is written.

import { Cluster, Command, type Redis } from 'ioredis'
import type { Connection } from './connection.ts'

/** How long a replica may take to confirm. */
const CONFIRM_TIMEOUT_MS = 500

/** Runs commands on a connection, each of which resolves when a replica has confirmed it. */
export class ReplicatedWriter {
  readonly connection: Connection
  #links = new WeakMap<Redis, Link>()

  /** Takes a connection of its own. */
  constructor(connection: Connection) {
    this.connection = connection
  }

  /** Runs a command and waits for a replica. A write that ASK redirects, while its slot moves, is not seen. */
  async run<T>(key: string, command: (connection: Connection) => Promise<T>): Promise<T> {
    const before = this.#linkOf(key)
    await before?.catchUp()
    const answer = await command(this.connection)
    const link = this.#linkOf(key)
    // After a failover another node answers. In between, the node that answered is unknown.
    if (!link || (before && link !== before)) throw new Error('the slot has moved meanwhile')
    await link.confirm()
    return answer
  }

  /** Undefined while a cluster's node is lost: the next command finds out who took over. */
  #linkOf(key: string): Link | undefined {
    const { connection } = this
    const node = connection instanceof Cluster ? nodeOf(connection, key) : connection
    if (!node) return undefined
    const link = this.#links.get(node) ?? new Link(node)
    this.#links.set(node, link)
    return link
  }
}

function nodeOf(cluster: Cluster, key: string): Redis | undefined {
  const [name] = cluster.slots[new Command('get', [key]).getSlot()] ?? []
  return cluster.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === name)
}

/** One connection to one server. */
class Link {
  #redis: Redis
  /** Rises with every lost connection: another knows nothing of what was written before. */
  #epoch = 0
  /** The WAIT under way; it never rejects. */
  #running: Promise<void> = Promise.resolve()
  #next?: Promise<void>
  #isLagging = false

  constructor(redis: Redis) {
    this.#redis = redis.on('close', () => {
      this.#epoch++
    })
  }

  /** Resolves at once, or when a replica has what it lacked. */
  async catchUp(): Promise<void> {
    if (this.#isLagging) await this.#join()
  }

  /** Resolves when a replica has everything that was answered on this connection before the call. */
  async confirm(): Promise<void> {
    const epoch = this.#epoch
    await this.#join()
    if (epoch !== this.#epoch) throw new Error('the connection was lost before a replica confirmed')
  }

  /** Joins the next WAIT: the one under way may have been sent before the write. */
  #join(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      const wait = this.#wait()
      this.#running = wait.catch(() => {})
      return wait
    })
    return this.#next
  }

  async #wait(): Promise<void> {
    const confirmed = await this.#redis.wait(1, CONFIRM_TIMEOUT_MS)
    this.#isLagging = confirmed < 1
    if (this.#isLagging) throw new Error('no replica has confirmed the write')
  }
}
