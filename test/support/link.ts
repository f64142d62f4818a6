// A proxy to a server, as a bad network: it stops or delays the bytes, or cuts connections. A dropped reply is
// one of a command that the server has executed.

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { listen } from './ports.ts'

/** `stall` buffers until the mode changes. `delay` delays replies by 300 ms. `trickle` sends 1 kB/s. */
export type Mode = 'pass' | 'stall' | 'delay' | 'trickle'

export type Link = Awaited<ReturnType<typeof startLink>>

const DELAY_MS = 300
/** Bytes for each tick: 1 kB/s. */
const TRICKLE_BYTES = 100
const TRICKLE_TICK_MS = 100
const STALL_POLL_MS = 5

/** Starts a proxy to a unix socket, or to a port of 127.0.0.1. */
export async function startLink(target: string | number) {
  let mode: Mode = 'pass'
  let losing = false
  /** Replies that pass before the dropped one. */
  let passing = 0
  let lost = 0
  const sockets = new Set<Socket>()

  async function unstalled(from: Socket) {
    while (mode === 'stall' && !from.destroyed) await setTimeout(STALL_POLL_MS)
  }

  /** Whether this reply is the one to drop. */
  function isDropped(): boolean {
    if (!losing || passing-- > 0) return false
    losing = false
    lost++
    return true
  }

  const delayOfReply = () => (mode === 'delay' ? setTimeout(DELAY_MS) : undefined)

  async function pump(from: Socket, to: Socket, isReply: boolean) {
    let sent = Promise.resolve()
    for await (const chunk of from as AsyncIterable<Buffer>) {
      await unstalled(from)
      if (isReply && isDropped()) {
        from.destroy()
        to.destroy()
        return
      }
      // The chain keeps the order of the chunks when the mode changes.
      const delay = isReply ? delayOfReply() : undefined
      const write = mode === 'trickle' ? trickle : pass
      sent = sent.then(() => delay).then(() => write(chunk, to))
      if (write === trickle) await sent
    }
  }

  const server = createServer(client => {
    const upstream = typeof target === 'number' ? connect(target, '127.0.0.1') : connect(target)
    joinSockets(client, upstream, sockets)
    pump(client, upstream, false).catch(() => upstream.destroy())
    pump(upstream, client, true).catch(() => client.destroy())
  })
  const port = await listen(server)
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    turn(next: Mode) {
      mode = next
    },
    /** Sets the target of new connections. */
    leadTo(other: number) {
      target = other
    },
    /** Drops one reply, and closes its connection. `later` replies pass before. */
    loseNextReply(later = 0) {
      passing = later
      losing = true
    },
    /** Cancels a `loseNextReply` that has not dropped a reply yet. */
    relent() {
      losing = false
    },
    /** The number of dropped replies. */
    lost: () => lost,
    /** Resets every connection with RST. */
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

async function trickle(chunk: Buffer, to: Socket) {
  for (let i = 0; i < chunk.length && !to.destroyed; i += TRICKLE_BYTES) {
    to.write(chunk.subarray(i, i + TRICKLE_BYTES))
    await setTimeout(TRICKLE_TICK_MS)
  }
}

async function pass(chunk: Buffer, to: Socket) {
  to.write(chunk)
}

/** Closes each socket when the other closes. Keeps both in `sockets` until then. */
export function joinSockets(one: Socket, other: Socket, sockets: Set<Socket>) {
  const end = () => {
    for (const socket of [one, other]) {
      socket.destroy()
      sockets.delete(socket)
    }
  }
  for (const socket of [one, other]) {
    sockets.add(socket.setNoDelay(true))
    socket.on('error', end).on('close', end)
  }
}
