// The way to a server, which can lose a reply (the server has done what was asked, and nobody hears)
// and can hang: nothing is refused, and nothing comes through.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface FlakyLink {
  url: string
  /** Drops a reply that is on its way, and the connection with it: the next, or one `later`. */
  loseNextReply(later?: number): void
  /** Loses nothing more, if it has not yet. */
  relent(): void
  /** How many replies were lost so far. */
  lost(): number
  /** Whether anything comes through; what was held up does when it opens. */
  hang(): void
  open(): void
  close(): Promise<void>
}

/** To the unix socket of a server, or its port; the link listens on a port the system gives. */
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
