// Proxies: a link to a Redis, which can stall, cut connections or drop replies, and a load balancer to the
// nodes, which tries the next node if a node refuses the connection.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'

/** `stall` buffers until the mode changes. `delay` delays replies by 300 ms. `trickle` sends 1 kB/s. */
export type Mode = 'pass' | 'stall' | 'delay' | 'trickle'

const DELAY_MS = 300
/** Bytes for each tick: 1 kB/s. */
const TRICKLE_BYTES = 100
const TICK_MS = 100

async function trickle(chunk: Buffer, to: Socket) {
  for (let i = 0; i < chunk.length && !to.destroyed; i += TRICKLE_BYTES) {
    to.write(chunk.subarray(i, i + TRICKLE_BYTES))
    await setTimeout(TICK_MS)
  }
}

async function pass(chunk: Buffer, to: Socket) {
  to.write(chunk)
}

export type Link = Awaited<ReturnType<typeof startLink>>

/** Starts a link to a port of 127.0.0.1. Its mode and target can change while it is used. */
export async function startLink(target: number) {
  let mode: Mode = 'pass'
  let losing = false
  let lost = 0
  const sockets = new Set<Socket>()

  async function unstalled(from: Socket) {
    while (mode === 'stall' && !from.destroyed) await setTimeout(TICK_MS)
  }

  function lose(from: Socket, to: Socket) {
    losing = false
    lost++
    from.destroy()
    to.destroy()
  }

  const delayOfReply = () => (mode === 'delay' ? setTimeout(DELAY_MS) : undefined)

  async function pump(from: Socket, to: Socket, isReply: boolean) {
    let sent = Promise.resolve()
    for await (const chunk of from as AsyncIterable<Buffer>) {
      await unstalled(from)
      if (isReply && losing) return lose(from, to)
      // The chain keeps the order of the chunks when the mode changes.
      const delay = isReply ? delayOfReply() : undefined
      const isSlow = mode === 'trickle'
      const write = isSlow ? trickle : pass
      sent = sent.then(() => delay).then(() => write(chunk, to))
      if (isSlow) await sent
    }
  }

  const server = createServer(client => {
    const upstream = connect(target, '127.0.0.1')
    join(client, upstream, sockets)
    pump(client, upstream, false).catch(() => upstream.destroy())
    pump(upstream, client, true).catch(() => client.destroy())
  })
  const port = await listen(server)
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    lost: () => lost,
    turn(next: Mode) {
      mode = next
    },
    /** Sets the target of new connections. */
    leadTo(other: number) {
      target = other
    },
    /** Drops the next reply and its connection. */
    loseNextReply() {
      losing = true
    },
    /** Resets every connection with RST. */
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    close: () => close(server, sockets),
  }
}

/** The interval of the checks of /readyz. */
const CHECK_INTERVAL_MS = 200

/** Starts a load balancer: it distributes connections over the ready nodes. */
export async function startBalancer(port: number, nodes: number[]) {
  const sockets = new Set<Socket>()
  let ready = nodes
  let turn = 0

  function serve(client: Socket, attempts: number) {
    const list = ready.length ? ready : nodes
    const upstream = connect(list[turn++ % list.length] ?? 0, '127.0.0.1')
    const next = () => (attempts > 0 ? serve(client, attempts - 1) : client.destroy())
    upstream.once('error', next)
    upstream.once('connect', () => {
      upstream.off('error', next)
      join(client, upstream, sockets)
      client.pipe(upstream)
      upstream.pipe(client)
    })
  }
  const server = createServer(client => {
    client.on('error', () => client.destroy())
    serve(client, nodes.length)
  })
  await listen(server, port)

  let watching = true
  const watch = async () => {
    while (watching) {
      const states = await Promise.all(nodes.map(isReady))
      ready = nodes.filter((_, i) => states[i])
      await setTimeout(CHECK_INTERVAL_MS, undefined, { ref: false })
    }
  }
  watch()
  return {
    close() {
      watching = false
      return close(server, sockets)
    },
  }
}

export async function isReady(port: number): Promise<boolean> {
  const signal = AbortSignal.timeout(2000)
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal }).catch(() => undefined)
  await answer?.text().catch(() => '')
  return answer?.status === 200
}

/** Closes each socket when the other closes. */
function join(one: Socket, other: Socket, sockets: Set<Socket>) {
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

async function listen(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function close(server: Server, sockets: Set<Socket>) {
  server.close()
  for (const socket of sockets) socket.destroy()
  await once(server, 'close')
}
