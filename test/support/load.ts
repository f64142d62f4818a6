// Concurrent clients behind a load balancer, each with a refresh token of its own. The balancer checks
// /readyz, keeps connections open, and sends a request to the next node if its connection was refused. It
// never repeats a request that may have arrived.

import { Agent } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { authorizationRequest } from './journey.ts'
import { SECRET } from './usher.ts'
import { basic, type Reply, send, type WireOptions } from './wire.ts'

/** The interval of the checks of /readyz. A node announces its shutdown ten intervals before. */
const CHECK_INTERVAL_MS = 100
const MAX_CHECKS_WITHOUT_NODE = 50

/** `pause`: milliseconds between two rounds of a client. */
export function startLoad(issuer: string, ports: number[], families: string[], pause = 0) {
  const at = (port: number) => ({ issuer, address: `http://127.0.0.1:${port}` })
  const ready = new Set<number>()
  const failed: string[] = []
  let answered = 0
  let refused = 0
  let isOver = false

  /** Waits for a ready node. On a busy machine there may be none for a moment. */
  async function whenReady(): Promise<number[]> {
    for (let check = 0; check < MAX_CHECKS_WITHOUT_NODE; check++) {
      if (ready.size) return [...ready]
      await setTimeout(CHECK_INTERVAL_MS)
    }
    throw new Error('no node is ready')
  }

  /** Each client has one connection to each node. */
  function client() {
    const agents = new Map(ports.map(port => [port, new Agent({ keepAlive: true, maxSockets: 1 })]))
    return async function ask(
      path: string,
      expected: number,
      options: WireOptions = {},
    ): Promise<Reply> {
      for (;;) {
        const nodes = await whenReady()
        // Random: in turns, the four requests of a round would always go to the same of two nodes.
        const port = nodes[Math.floor(Math.random() * nodes.length)] ?? 0
        const agent = agents.get(port)
        const reply = await send(at(port), path, { ...options, agent }).catch(unlessRefused)
        if (!reply) {
          ready.delete(port)
          refused++
          continue
        }
        if (reply.status !== expected) throw new Error(`${reply.status} ${reply.text}`)
        answered++
        return reply
      }
    }
  }

  async function checkReadiness(port: number) {
    while (!isOver) {
      const isReady = await send(at(port), '/readyz').then(
        ({ status }) => status === 200,
        () => false,
      )
      if (isReady) ready.add(port)
      else ready.delete(port)
      await setTimeout(CHECK_INTERVAL_MS)
    }
  }

  async function work(family: string) {
    const ask = client()
    let refresh_token = family
    while (!isOver) {
      try {
        const body = { grant_type: 'refresh_token', refresh_token }
        const { json } = await ask('/api/oauth/token', 200, { headers: basic('web', SECRET), body })
        refresh_token = String(json.refresh_token)
        const authorization = `Bearer ${json.access_token}`
        await ask('/api/oauth/userinfo', 200, { headers: { authorization } })
        await ask('/.well-known/openid-configuration', 200)
        const { url } = authorizationRequest({ issuer }, { client_id: 'web' })
        await ask(`${url.pathname}${url.search}`, 303)
        await setTimeout(pause)
      } catch (error) {
        failed.push(String(error))
        return
      }
    }
  }

  const checks = ports.map(checkReadiness)
  const workers = setTimeout(CHECK_INTERVAL_MS * 2).then(() => Promise.all(families.map(work)))
  return {
    inRotation: (port: number) => ready.has(port),
    answeredSoFar: () => answered,
    async stop() {
      isOver = true
      await Promise.all([workers, ...checks])
      return { failed, answered, refused }
    },
  }
}

/** A node that is starting or stopping refuses connections. Throws any other error again. */
function unlessRefused(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ECONNREFUSED') throw error
}
