// Outgoing requests reach public addresses, and those that `egress.allow` lists. A listener on a private address
// gets no TCP connection, however the address is written and whatever its name resolves to.

import { readFileSync } from 'node:fs'
import { createServer as createTlsServer } from 'node:https'
import { createServer, type Server } from 'node:net'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createFetch } from '../../src/operation/egress.ts'
import { makeCertificate } from '../support/certificates.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, tokens } from '../support/journey.ts'
import { startNameServer } from '../support/name-server.ts'
import { listen } from '../support/ports.ts'
import { startReceiver } from '../support/receiver.ts'
import { ADA, FAILURES, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

/** A public address (example.com). The tests need no response from it. */
const PUBLIC = '93.184.215.14'
const names: Record<string, string[]> = {
  'loopback.example.net': ['127.0.0.1'],
  'loopback6.example.net': ['0:0:0:0:0:0:0:1'],
  'mapped.example.net': ['0:0:0:0:0:ffff:7f00:1'],
  'unspecified.example.net': ['0.0.0.0'],
  'wiki.example.net': ['127.0.0.2'],
}
/** Names that resolve to another address each time. */
const turns: Record<string, string[]> = {
  'rebinding.example.net': [PUBLIC, '127.0.0.1'],
  'moving.example.net': ['127.0.0.2', '127.0.0.1'],
}
const addressesOf = (name: string) => {
  if (name.startsWith('silent')) return undefined
  const turn = turns[name]
  if (!turn) return names[name] ?? []
  const isFirst = nameServer.queries.filter(question => question === `A ${name}`).length <= 1
  return isFirst ? turn.slice(0, 1) : turn.slice(1)
}

const folder = temporaryFolder()
let nameServer: Awaited<ReturnType<typeof startNameServer>>
let usher: Usher
let listener: Server
let port: number
let connections = 0
beforeAll(async () => {
  nameServer = await startNameServer(addressesOf)
  listener = createServer(() => connections++)
  port = await listen(listener, '::')
  usher = await startUsher({
    clients: {},
    usher: { features: { client_id_metadata_documents: true }, egress: { ports: [443, port] } },
  })
})
afterAll(async () => {
  nameServer.close()
  listener.close()
  await usher.close()
})
beforeEach(() => {
  connections = 0
  nameServer.queries.length = 0
})

/** `fetch` as the product makes it, with this `egress.allow`. */
const fetchWith = (...allow: string[]) => createFetch({ allow, ports: [443] }, FAILURES.requestMs)

const begin = (client_id: string) =>
  send(usher, authorizationRequest(usher, { client_id, redirect_uri: 'https://a.example/' }).url)

const INNER = [
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0x7f.1',
  '0.0.0.0',
  '[::1]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[2002:7f00:1::]',
  'localhost',
  'localhost.',
  'any.localhost',
  'loopback.example.net',
  'loopback6.example.net',
  'mapped.example.net',
  'unspecified.example.net',
]

test('a document at an address that is not public is not requested', async () => {
  const answers = await Promise.all(INNER.map(host => begin(`https://${host}:${port}/document`)))
  for (const { status, text } of answers) {
    expect(status).toBe(400)
    expect(text).toContain('fetch failed')
  }
  expect(connections).toBe(0)
})

test('a name is resolved once, and only the address that was checked is connected to', async () => {
  const id = `https://rebinding.example.net:${port}/document`
  // The public address does not answer.
  for (const [asked, status] of [
    [1, 503],
    [2, 400],
  ] as const) {
    expect((await begin(id)).status).toBe(status)
    expect(nameServer.queries.filter(question => question.startsWith('A '))).toHaveLength(asked)
  }
  expect(connections).toBe(0)
})

test('a name that changes to a private address after the check is refused', async () => {
  const [right, wrong] = [createServer(), createServer()]
  const heard: string[] = []
  right.on('connection', socket => {
    heard.push('right')
    socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
  })
  wrong.on('connection', () => heard.push('wrong'))
  const port = await listen(right, '127.0.0.2')
  await listen(wrong, '127.0.0.1', port)
  const fetch = fetchWith('127.0.0.2')
  const notify = () => fetch(`http://moving.example.net:${port}/`, { method: 'POST', body: 'x' })
  expect((await notify()).status).toBe(204)
  await expect(notify()).rejects.toThrow('no public address')
  expect(heard).toEqual(['right'])
  right.close()
  wrong.close()
})

test('a public address is requested on the ports of egress.ports only', async () => {
  const fetch = fetchWith()
  const ask = (port: number) => fetch(`https://${PUBLIC}:${port}/`, { method: 'GET' })
  await expect(ask(8443)).rejects.toThrow('port 8443 is not one of egress.ports')
  await expect(ask(80)).rejects.toThrow('port 80 is not one of egress.ports')
})

test('name servers that do not answer delay no other request', async () => {
  const silent = Array.from({ length: 20 }, (_, i) => begin(`https://silent-${i}.example.net/x`))
  const { lookup } = await import('node:dns/promises')
  await expect.poll(() => nameServer.queries.length).toBeGreaterThan(20)
  const began = performance.now()
  await lookup('localhost')
  // Behind the others it would take as long as several of them.
  expect(performance.now() - began).toBeLessThan(5000)
  const statuses = (await Promise.all(silent)).map(({ status }) => status)
  expect(new Set(statuses)).toEqual(new Set([503]))
})

test('no TLS session is resumed, because its ticket could be sent to another server', async () => {
  const trusted = getCACertificates()
  const certificate = makeCertificate(folder, 'wiki.example.net', {
    extensions: ['subjectAltName=DNS:wiki.example.net'],
  })
  setDefaultCACertificates([...trusted, certificate.pem])
  const reused: boolean[] = []
  const tls = { cert: certificate.pem, key: readFileSync(certificate.key) }
  const server = createTlsServer(tls, (_req, res) => res.setHeader('connection', 'close').end('{}'))
  server.on('secureConnection', (socket: TLSSocket) => reused.push(socket.isSessionReused()))
  const port = await listen(server, '127.0.0.2')
  const fetch = fetchWith('127.0.0.2')
  for (let i = 0; i < 3; i++) {
    const answer = await fetch(`https://wiki.example.net:${port}/`, { method: 'GET' })
    expect(await answer.json()).toEqual({})
  }
  expect(reused).toEqual([false, false, false])
  setDefaultCACertificates(trusted)
  server.close()
})

test('an answer is read up to 64 KiB', async () => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n')
    const more = () => socket.writable && socket.write('"'.repeat(65_536), () => setImmediate(more))
    more()
  })
  const url = `http://127.0.0.1:${await listen(server)}/`
  await expect(fetchWith('127.0.0.1')(url, { method: 'GET' })).rejects.toThrow(/exceeded/)
  server.close()
})

describe('a notification', () => {
  const wiki = startReceiver('wiki')
  afterAll(async () => (await wiki).close())
  const notify = async (host: string, allow: string[]) => {
    const { port, tokens } = await wiki
    tokens.length = 0
    return fetchWith(...allow)(`http://${host}:${port}/`, { method: 'POST', body: 'x' })
  }

  test.each([
    ['127.0.0.1', []],
    ['localhost', []],
    ['[::1]', []],
    ['127.0.0.1', ['127.0.0.2', '10.0.0.0/8', 'wiki.internal']],
    ['localhost', ['localhost.example.org', '10.0.0.0/8']],
    ['[::1]', ['127.0.0.1', 'fd00::/8']],
  ])('is not sent to %s when egress allows %j', async (host, allow) => {
    await expect(notify(host, allow)).rejects.toThrow(/no public address.*egress\.allow/)
    expect((await wiki).tokens).toEqual([])
  })

  test.each([
    ['127.0.0.1', ['127.0.0.1']],
    ['127.0.0.1', ['127.0.0.0/8']],
    ['localhost', ['localhost']],
    ['localhost', ['127.0.0.0/8', '::1']],
    ['[::1]', ['::1/128']],
  ])('is sent to %s when egress allows %j', async (host, allow) => {
    expect((await notify(host, allow)).status).toBe(200)
    expect((await wiki).tokens).toHaveLength(1)
  })

  test('does not follow a redirect, and does not read an endless response to its end', async () => {
    const { answerWith, port, tokens } = await wiki
    answerWith((_req, res) => res.writeHead(307, { location: `http://127.0.0.1:${port}/` }).end())
    expect((await notify('127.0.0.1', ['127.0.0.0/8'])).status).toBe(307)
    expect(tokens).toHaveLength(1)
    let isClosed = false
    answerWith((_req, res) => {
      res.writeHead(200)
      const more = () => res.write('x'.repeat(65_536), error => error || setImmediate(more))
      res.on('close', () => {
        isClosed = true
      })
      more()
    })
    expect((await notify('127.0.0.1', ['127.0.0.1'])).status).toBe(200)
    await expect.poll(() => isClosed).toBe(true)
  })

  test('that is refused is in the log, without the secrets of its URL', async () => {
    const { client } = await wiki
    const backchannel_logout_uri = `${client.backchannel_logout_uri}&key=canary`
    const usher = await startUsher({ clients: { wiki: { ...client, backchannel_logout_uri } } })
    const { id } = await usher.addAccount(ADA)
    const { client_id, redirect_uris } = client
    await tokens(usher, { client_id, redirect_uri: redirect_uris[0] })
    await usher.directory.endAccess(id)
    await usher.deliver('new')
    await usher.close()
    expect(usher.output.join()).toContain('logout_failed')
    expect(usher.output.join()).not.toMatch(/canary|logout_token|eyJ/)
  })
})
