// Clients behind a balancer: several at once, each with a refresh token of its own. The balancer asks
// /readyz, keeps connections open, and sends what was refused a connection to the next node; it repeats
// nothing that may have arrived.

import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { authorizationRequest } from './journey.ts'
import { SECRET } from './usher.ts'

/** Milliseconds between two looks at /readyz; the notice before a node closes is ten of them. */
const LOOK = 100
/** Looks. */
const PATIENCE = 50

interface Reply {
  status: number
  body: string
}

interface Message {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: string
}

/** `pause`: milliseconds of each client between two rounds. */
export function startLoad(issuer: string, ports: number[], families: string[], pause = 0) {
  const { host } = new URL(issuer)
  const ready = new Set<number>()
  const failed: string[] = []
  let answered = 0
  let refused = 0
  let isOver = false

  /** A busy machine may leave a moment without any: that is not what is proved here. */
  async function whenReady(): Promise<number[]> {
    for (let look = 0; look < PATIENCE; look++) {
      if (ready.size) return [...ready]
      await setTimeout(LOOK)
    }
    throw new Error('no node is ready')
  }

  /** A connection to each node. */
  function client() {
    const agents = new Map(ports.map(port => [port, new Agent({ keepAlive: true, maxSockets: 1 })]))
    return async function send(message: Message, expected: number): Promise<Reply> {
      for (;;) {
        const nodes = await whenReady()
        // In turns, four requests would go to two nodes the same way each time.
        const port = nodes[Math.floor(Math.random() * nodes.length)] ?? 0
        try {
          const reply = await exchange(port, message, host, agents.get(port))
          if (reply.status !== expected) throw new Error(`${reply.status} ${reply.body}`)
          answered++
          return reply
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error
          ready.delete(port)
          refused++
        }
      }
    }
  }

  async function look(port: number) {
    while (!isOver) {
      const isReady = await exchange(port, { path: '/readyz' }, host).then(
        ({ status }) => status === 200,
        () => false,
      )
      if (isReady) ready.add(port)
      else ready.delete(port)
      await setTimeout(LOOK)
    }
  }

  async function work(family: string) {
    const send = client()
    let refresh_token = family
    while (!isOver) {
      try {
        const form = new URLSearchParams({ grant_type: 'refresh_token', refresh_token })
        const { body } = await send(tokenRequest(form), 200)
        const tokens = JSON.parse(body)
        refresh_token = tokens.refresh_token
        const authorization = `Bearer ${tokens.access_token}`
        await send({ path: '/api/oauth/userinfo', headers: { authorization } }, 200)
        await send({ path: '/.well-known/openid-configuration' }, 200)
        const { url } = authorizationRequest({ issuer }, { client_id: 'web' })
        await send({ path: `${url.pathname}${url.search}` }, 303)
        await setTimeout(pause)
      } catch (error) {
        failed.push(String(error))
        return
      }
    }
  }

  const lookouts = ports.map(look)
  const workers = setTimeout(LOOK * 2).then(() => Promise.all(families.map(work)))
  return {
    inRotation: (port: number) => ready.has(port),
    answeredSoFar: () => answered,
    async stop() {
      isOver = true
      await Promise.all([workers, ...lookouts])
      return { failed, answered, refused }
    },
  }
}

function tokenRequest(form: URLSearchParams): Message {
  const authorization = `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}`
  const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
  return { method: 'POST', path: '/api/oauth/token', headers, body: form.toString() }
}

function exchange(port: number, message: Message, host: string, agent?: Agent): Promise<Reply> {
  const { method, path, headers, body } = message
  return new Promise((resolve, reject) => {
    const answer = async (response: IncomingMessage) =>
      resolve({ status: response.statusCode ?? 0, body: await text(response) })
    const options = { host: '127.0.0.1', port, method, path, headers: { host, ...headers }, agent }
    request(options, response => answer(response).catch(reject))
      .on('error', reject)
      .end(body)
  })
}
