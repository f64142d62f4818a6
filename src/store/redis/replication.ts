// Writes that succeed only when a replica has them too. Thus a failover loses
// none of them.
//
// WAIT blocks its connection, and confirms writes of this connection only.
// Writes therefore have a connection of their own, and one WAIT serves all that
// were answered before it was sent. A write that no replica confirms may have
// happened: it is refused as unavailable. From then on, until a replica has
// caught up, nothing more is written.

import { Cluster, Command, type Redis } from 'ioredis'

/**
 * Returns a function that runs a command on this connection, and resolves when
 * a replica has confirmed it, within `confirmMs`.
 */
export function createReplication(
  connection: Redis | Cluster,
  confirmMs: number,
) {
  const links = new WeakMap<Redis, Link>()

  /** Undefined while the cluster knows no primary for the slot of this key. */
  function linkOf(key: string): Link | undefined {
    const node =
      connection instanceof Cluster ? nodeOf(connection, key) : connection
    const link = node && (links.get(node) ?? createLink(node, confirmMs))
    if (node && link) links.set(node, link)
    return link
  }

  /** A write that ASK redirects, while its slot moves, is not seen. */
  return async <T>(key: string, command: () => Promise<T>): Promise<T> => {
    const before = linkOf(key)
    if (before?.isLagging()) await before.confirm()
    const answer = await command()
    const link = linkOf(key)
    // After a failover another node answers. In between, the node that answered
    // is unknown.
    if (!link || (before && link !== before))
      throw new Error('the slot has moved meanwhile')
    await link.confirm()
    return answer
  }
}

function nodeOf(cluster: Cluster, key: string): Redis | undefined {
  const [name] = cluster.slots[new Command('get', [key]).getSlot()] ?? []
  return cluster
    .nodes('master')
    .find(({ options: { host, port } }) => `${host}:${port}` === name)
}

type Link = ReturnType<typeof createLink>

/** One connection to one server. */
function createLink(redis: Redis, confirmMs: number) {
  /** The WAIT under way; it never rejects. */
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  /** No replica confirmed the latest WAIT. */
  let isLagging = false

  async function wait(): Promise<void> {
    const confirmed = await redis.wait(1, confirmMs)
    isLagging = confirmed < 1
    if (isLagging) throw new Error('no replica has confirmed the write')
  }

  /**
   * Resolves when a replica has everything that was answered on this connection
   * before the call.
   */
  async function confirm(): Promise<void> {
    // After a reconnection, WAIT knows nothing of what was written before.
    const { stream } = redis
    // The running WAIT may have been sent before the write, so this waits for
    // the next one.
    next ??= running.then(() => {
      next = undefined
      const waiting = wait()
      running = waiting.catch(() => {})
      return waiting
    })
    await next
    if (stream !== redis.stream) {
      throw new Error('the connection was lost before a replica confirmed')
    }
  }

  return { confirm, isLagging: () => isLagging }
}
