// A failed request to an address of a stranger always takes the same time. Otherwise the duration would
// reveal the open ports of an inner network.

import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { createFetch, FAILURE_MS } from '../../src/operation/egress.ts'
import { startNameServer } from '../support/name-server.ts'
import { listen } from '../support/ports.ts'

/** Starts a TCP server that sends `text` on each connection. */
async function serve(text: string) {
  const server = createServer(socket => {
    socket.on('error', () => {})
    if (text) socket.end(text)
  })
  return { server, url: `http://127.0.0.2:${await listen(server, '127.0.0.2')}/` }
}

test('every failure takes the same time', async () => {
  const nameServer = await startNameServer(name => {
    if (name.startsWith('silent')) return undefined
    return name.startsWith('inner') ? ['127.0.0.1'] : []
  })
  const [silent, missing, html, closed] = await Promise.all(
    ['', 'HTTP/1.1 404 Not Found\r\n\r\n', 'HTTP/1.1 200 OK\r\n\r\n<html>', ''].map(serve),
  )
  closed?.server.close()
  const urls = [
    'https://silent.example.net/',
    'https://nowhere.example.net/',
    'https://inner.example.net/',
    'https://inner.example.net:6379/',
    'https://127.0.0.1/',
    ...[silent, missing, html, closed].map(site => site?.url ?? ''),
  ]
  const fetch = createFetch({ allow: ['127.0.0.2'], ports: [443] })
  const times = urls.map(async url => {
    const began = performance.now()
    await fetch(url, { method: 'GET', signal: AbortSignal.timeout(2_500) }).catch(() => {})
    return performance.now() - began
  })
  const found = await Promise.all(times)
  expect(Math.min(...found)).toBeGreaterThan(FAILURE_MS - 10)
  expect(Math.max(...found) - Math.min(...found)).toBeLessThan(200)
  nameServer.close()
  for (const site of [silent, missing, html]) site?.server.close()
})
