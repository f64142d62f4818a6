// Slow connections: each ends at its timeout, and they delay no other client. A bare Node server on the
// same machine measures the delay of the machine itself, which is subtracted.

import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createListener } from '../../src/operation/listener.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

/** The timeouts of connections in seconds. */
const LIMITS = { headers: 10, body: 15, idle: 7 }
type Limit = keyof typeof LIMITS

const BARE_SERVER = `
  const server = require('node:http').createServer({
    headersTimeout: ${LIMITS.headers * 1000},
    requestTimeout: ${LIMITS.body * 1000},
    keepAliveTimeout: ${LIMITS.idle * 1000},
    connectionsCheckingInterval: 1000,
  }, (_req, res) => res.end())
  const { parentPort } = require('node:worker_threads')
  server.listen(0, 'localhost', () => parentPort.postMessage(server.address().port))`

const folder = temporaryFolder()
let service: Service
let bare: Worker
let bareUrl: string
beforeAll(async () => {
  writeConfig(folder, { usher: { listen: { keep_alive: `${LIMITS.idle} s` } } })
  service = await startService({ USHER_STORE: 'sqlite::memory:', USHER_CONFIG: folder })
  bare = new Worker(BARE_SERVER, { eval: true })
  const [port] = await once(bare, 'message')
  bareUrl = `http://localhost:${port}`
})
afterAll(async () => {
  await service.stop()
  await bare.terminate()
})

/** Returns the seconds until the server closed the connection, and the status it answered. */
async function hold(issuer: string, bytes: string, slowly = '') {
  const { hostname, port } = new URL(issuer)
  const began = performance.now()
  const socket = connect(Number(port), hostname)
  let heard = ''
  socket.on('data', data => {
    heard += data
  })
  socket.on('error', () => {})
  socket.write(bytes)
  const drip = setInterval(() => socket.write(slowly), 1000)
  // `once` would reject on a reset, which is the reply to bytes after the end of the connection.
  await new Promise(resolve => socket.once('close', resolve))
  clearInterval(drip)
  return { seconds: (performance.now() - began) / 1000, status: heard.slice(9, 12) }
}

type Held = Awaited<ReturnType<typeof hold>>

/** Holds connections of each kind, `share` of 500. */
async function holdAll(issuer: string, share: number) {
  const { host } = new URL(issuer)
  const post = `POST /api/oauth/token HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5000\r\n`
  const form = `${post}Content-Type: application/x-www-form-urlencoded\r\n\r\n`
  const many = (count: number, one: () => Promise<Held>) =>
    Promise.all(Array.from({ length: count * share }, one))
  const [slow, silent, body, idle] = await Promise.all([
    many(150, () => hold(issuer, 'GET /livez HTTP/1.1\r\n', 'X-Slow: 1\r\n')),
    many(50, () => hold(issuer, '')),
    many(200, () => hold(issuer, form, 'a')),
    many(100, () => hold(issuer, `GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`)),
  ])
  return { headers: [...slow, ...silent], body, idle }
}

const latest = (held: Held[]) => Math.max(...held.map(({ seconds }) => seconds))

test('500 slow connections end after 10 s (headers), 15 s (body) and listen.keep_alive (idle), and delay no other client', async () => {
  let isOver = false
  const slowest = { service: 0, bare: 0 }
  const time = async (server: keyof typeof slowest, url: string) => {
    const began = performance.now()
    const response = await fetch(url)
    await response.arrayBuffer()
    expect(response.status).toBe(200)
    slowest[server] = Math.max(slowest[server], performance.now() - began)
  }
  const request = async () => {
    for (let count = 0; ; count++) {
      if (isOver) return count
      await time('service', `${service.issuer}/.well-known/openid-configuration`)
      await time('bare', bareUrl)
    }
  }
  const requests = request()
  const [held, control] = await Promise.all([holdAll(service.issuer, 1), holdAll(bareUrl, 0.1)])
  isOver = true
  expect(await requests).toBeGreaterThan(100)
  expect(slowest.service - slowest.bare).toBeLessThan(1000)

  const STATUS: Record<Limit, string> = { headers: '408', body: '408', idle: '200' }
  for (const [name, seconds] of Object.entries(LIMITS) as [Limit, number][]) {
    expect(new Set(held[name].map(({ status }) => status)), name).toEqual(new Set([STATUS[name]]))
    for (const one of held[name]) expect(one.seconds, name).toBeGreaterThanOrEqual(seconds)
    // The server checks timeouts once a second, so that a delay of a second is normal.
    const late = Math.max(0, latest(control[name]) - seconds - 1)
    expect(latest(held[name]), name).toBeLessThan(seconds + 3 + late)
  }
})

test('the number of concurrent connections is limited', () => {
  const server = createListener(() => {}, { keep_alive: 75 }, pino({ enabled: false }))
  expect(server.maxConnections).toBe(5000)
})
