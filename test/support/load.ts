// Concurrent clients behind a load balancer, each with a refresh token of its own. The balancer checks
// /readyz, keeps connections open, and sends a request to the next node if its connection was refused. It
// never repeats a request that may have arrived.

import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { authorizationRequest } from './journey.ts'
import { SECRET } from './usher.ts'

/** The interval of the checks of /readyz. A node announces its shutdown ten intervals before. */
const CHECK_INTERVAL_MS = 100
const MAX_CHECKS_WITHOUT_NODE = 50

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

/** `pause`: milliseconds between two rounds of a client. */
export function startLoad(issuer: string, ports: number[], families: string[], pause = 0) {
  const { host } = new URL(issuer)
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
    return async function send(message: Message, expected: number): Promise<Reply> {
      for (;;) {
        const nodes = await whenReady()
        // Random: in turns, the four requests of a round would always go to the same of two nodes.
        const port = nodes[Math.floor(Math.random() * nodes.length)] ?? 0
        const reply = await exchange(port, message, host, agents.get(port)).catch(unlessRefused)
        if (!reply) {
          ready.delete(port)
          refused++
          continue
        }
        if (reply.status !== expected) throw new Error(`${reply.status} ${reply.body}`)
        answered++
        return reply
      }
    }
  }

  async function checkReadiness(port: number) {
    while (!isOver) {
      const isReady = await exchange(port, { path: '/readyz' }, host).then(
        ({ status }) => status === 200,
        () => false,
      )
      if (isReady) ready.add(port)
      else ready.delete(port)
      await setTimeout(CHECK_INTERVAL_MS)
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
