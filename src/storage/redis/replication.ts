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

/** Returns a function that runs a command on this connection, and resolves when a replica has confirmed it. */
export function createReplication(connection: Connection) {
  const links = new WeakMap<Redis, Link>()

  /** Undefined while a cluster's node is lost: the next command finds out who took over. */
  function linkOf(key: string): Link | undefined {
    const node = connection instanceof Cluster ? nodeOf(connection, key) : connection
    const link = node && (links.get(node) ?? new Link(node))
    if (node && link) links.set(node, link)
    return link
  }

  /** A write that ASK redirects, while its slot moves, is not seen. */
  return async <T>(key: string, command: () => Promise<T>): Promise<T> => {
    const before = linkOf(key)
    if (before?.isLagging) await before.confirm()
    const answer = await command()
    const link = linkOf(key)
    // After a failover another node answers. In between, the node that answered is unknown.
    if (!link || (before && link !== before)) throw new Error('the slot has moved meanwhile')
    await link.confirm()
    return answer
  }
}

function nodeOf(cluster: Cluster, key: string): Redis | undefined {
  const [name] = cluster.slots[new Command('get', [key]).getSlot()] ?? []
  return cluster.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === name)
}

/** One connection to one server. */
class Link {
  #redis: Redis
  /** The WAIT under way; it never rejects. */
  #running: Promise<void> = Promise.resolve()
  #next?: Promise<void>
  /** The latest WAIT was in vain. */
  isLagging = false

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** Resolves when a replica has everything that was answered on this connection before the call. */
  async confirm(): Promise<void> {
    // After a reconnection, WAIT knows nothing of what was written before.
    const { stream } = this.#redis
    // The WAIT under way may have been sent before the write: the next one counts.
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      const wait = this.#wait()
      this.#running = wait.catch(() => {})
      return wait
    })
    await this.#next
    if (stream !== this.#redis.stream) {
      throw new Error('the connection was lost before a replica confirmed')
    }
  }

  async #wait(): Promise<void> {
    const confirmed = await this.#redis.wait(1, CONFIRM_TIMEOUT_MS)
    this.isLagging = confirmed < 1
    if (this.isLagging) throw new Error('no replica has confirmed the write')
  }
}
