// A load balancer: it distributes connections over the ready nodes, and tries the next node if a node refuses
// the connection.

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { joinSockets } from '../support/link.ts'
import { listen } from '../support/ports.ts'

/** The interval of the checks of /readyz. */
const CHECK_INTERVAL_MS = 200

export async function startBalancer(port: number, nodes: number[]) {
  const sockets = new Set<Socket>()
  let ready = nodes
  let turn = 0
  let isClosed = false

  function serve(client: Socket, attempts: number) {
    const list = ready.length ? ready : nodes
    const upstream = connect(list[turn++ % list.length] ?? 0, '127.0.0.1')
    const next = () => (attempts > 0 ? serve(client, attempts - 1) : client.destroy())
    upstream.once('error', next)
    upstream.once('connect', () => {
      upstream.off('error', next)
      joinSockets(client, upstream, sockets)
      client.pipe(upstream)
      upstream.pipe(client)
    })
  }
  const server = createServer(client => {
    client.on('error', () => client.destroy())
    serve(client, nodes.length)
  })
  await listen(server, '127.0.0.1', port)

  async function watch() {
    while (!isClosed) {
      const states = await Promise.all(nodes.map(isReady))
      ready = nodes.filter((_, i) => states[i])
      await setTimeout(CHECK_INTERVAL_MS, undefined, { ref: false })
    }
  }
  void watch()
  return {
    async close() {
      isClosed = true
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

export async function isReady(port: number): Promise<boolean> {
  const signal = AbortSignal.timeout(2000)
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal }).catch(() => undefined)
  await answer?.text().catch(() => '')
  return answer?.status === 200
}
