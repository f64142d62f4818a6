// Connections that are held and hardly used: each ends in its time, and nobody else waits for them.

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createListener } from '../../src/http/listener.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

let service: Service
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'usher-slow-'))
  writeConfig(folder, { usher: { listen: { keep_alive: '7 s' } } })
  service = await startService({ USHER_STORE: 'sqlite::memory:', USHER_CONFIG: folder })
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

/** Seconds until it was closed, and what was said before. */
async function hold(bytes: string, slowly = '') {
  const { hostname, port } = new URL(service.issuer)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const began = performance.now()
  let heard = ''
  socket.on('data', data => {
    heard += data
  })
  socket.on('error', () => {})
  socket.write(bytes)
  const drip = setInterval(() => socket.write(slowly), 1000)
  // `once` would take a reset, which a drop that comes too late is answered with, for a failure.
  await new Promise(resolve => socket.once('close', resolve))
  clearInterval(drip)
  return { seconds: (performance.now() - began) / 1000, status: heard.slice(9, 12) }
}

const many = (count: number, one: () => ReturnType<typeof hold>) =>
  Promise.all(Array.from({ length: count }, one))

test('500 slow connections end after 10 s (headers), 15 s (body) and listen.keep_alive (idle), and hold up nobody', async () => {
  const { host } = new URL(service.issuer)
  const post = `POST /api/oauth/token HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 5000\r\n`
  const form = `${post}Content-Type: application/x-www-form-urlencoded\r\n\r\n`
  const kinds = [
    many(150, () => hold('GET /livez HTTP/1.1\r\n', 'X-Slow: 1\r\n')),
    many(50, () => hold('')),
    many(200, () => hold(form, 'a')),
    many(100, () => hold(`GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`)),
  ]
  let isOver = false
  let slowest = 0
  const ask = async () => {
    for (let count = 0; ; count++) {
      if (isOver) return count
      const began = performance.now()
      const { status } = await fetch(`${service.issuer}/.well-known/openid-configuration`)
      expect(status).toBe(200)
      slowest = Math.max(slowest, performance.now() - began)
    }
  }
  const asking = ask()
  const [headers, silent, body, idle] = await Promise.all(kinds)
  isOver = true
  expect(await asking).toBeGreaterThan(100)
  expect(slowest).toBeLessThan(1000)

  const spread = (held: typeof headers = []) => {
    const seconds = held.map(({ seconds }) => seconds)
    const statuses = new Set(held.map(({ status }) => status))
    return [
      [...statuses].join(),
      Math.floor(Math.min(...seconds)),
      Math.floor(Math.max(...seconds)),
    ]
  }
  const within = (seconds: number) => expect.toSatisfy((latest: number) => latest < seconds + 3)
  expect(spread(headers)).toEqual(['408', 10, within(10)])
  expect(spread(silent)).toEqual(['408', 10, within(10)])
  expect(spread(body)).toEqual(['408', 15, within(15)])
  expect(spread(idle)).toEqual(['200', expect.toSatisfy(soonest => soonest >= 7), within(7)])
})

test('connections at once are bounded', () => {
  const server = createListener(() => {}, { keep_alive: 75 }, pino({ enabled: false }))
  expect(server.maxConnections).toBe(5000)
})
