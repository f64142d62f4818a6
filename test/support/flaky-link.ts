// A proxy to a server. It can drop a reply: the server executed the command, but the client gets no reply.
// It can hang: it accepts connections, but forwards no bytes.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface FlakyLink {
  url: string
  /** Drops one reply and closes its connection. `later` replies pass before. */
  loseNextReply(later?: number): void
  /** Cancels a `loseNextReply` that has not dropped a reply yet. */
  relent(): void
  /** The number of dropped replies. */
  lost(): number
  /** Stops forwarding. `open` forwards the delayed bytes and all later ones. */
  hang(): void
  open(): void
  close(): Promise<void>
}

/** Starts a proxy to a unix socket or port. It listens on a free port. */
export async function flakyLink(target: string | number): Promise<FlakyLink> {
  let losing = false
  let pass = 0
  let hanging = false
  let closed = false
  let lost = 0
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    if (closed) return client.destroy()
    const upstream = typeof target === 'number' ? connect(target, '127.0.0.1') : connect(target)
    sockets.add(client).add(upstream)
    if (hanging) for (const socket of [client, upstream]) socket.pause()
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      socket.setNoDelay().on('error', end).on('close', end)
    }
    client.on('data', data => upstream.write(data))
    upstream.on('data', data => {
      if (!losing || pass-- > 0) return client.write(data)
      losing = false
      lost++
      end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `redis://127.0.0.1:${port}`,
    loseNextReply(later = 0) {
      pass = later
      losing = true
    },
    relent() {
      losing = false
    },
    lost: () => lost,
    hang() {
      hanging = true
      for (const socket of sockets) socket.pause()
    },
    open() {
      hanging = false
      for (const socket of sockets) socket.resume()
    },
    async close() {
      closed = true
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
