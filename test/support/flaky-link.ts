// The way to a server, which can lose a reply: the server has done what was asked, and nobody hears.

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
  close(): Promise<void>
}

/** `path` is the unix socket of the server; the link listens on a port the system gives. */
export async function flakyLink(path: string): Promise<FlakyLink> {
  let losing = false
  let pass = 0
  let lost = 0
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    const upstream = connect(path)
    sockets.add(client).add(upstream)
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
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
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
