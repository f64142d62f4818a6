// CIBA in ping mode on two nodes: the client is notified that the user has answered. The user does not
// wait for the notification.

import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { openRecord } from '../../src/store/records.ts'
import { createSeal } from '../../src/store/seal.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { makeCertificate } from '../support/certificates.ts'
import {
  answer,
  cibaClient,
  forgetRequests,
  PENDING,
  poll,
  pollAtOnce,
  sendRequest,
  startRequest,
} from '../support/ciba.ts'
import { temporaryFolder } from '../support/folder.ts'
import { credentials } from '../support/people.ts'
import { end, listen } from '../support/ports.ts'
import { ADA, CLIENTS, startUsher, type Usher } from '../support/usher.ts'

const TOKEN = { client_notification_token: 'notify-me.0123456789' }
const TAKEN: RequestListener = (_req, res) => res.writeHead(204).end()

/** The ping callbacks that the client received. */
const pings: { authorization?: string; body: string }[] = []
let take = TAKEN
const folder = temporaryFolder()
const { pem: cert, key } = makeCertificate(folder, 'till', {
  extensions: ['subjectAltName=IP:127.0.0.1,IP:127.0.0.2'],
})
const server = createServer({ cert, key: readFileSync(key) }, async (req, res) => {
  pings.push({ authorization: req.headers.authorization, body: await text(req) })
  take(req, res)
})

let [usher, other]: Usher[] = []
let node: Usher
let ada: string
let browser: Browser
const authorities = getCACertificates('default')
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  setDefaultCACertificates([...authorities, cert])
  const port = await listen(server, '0.0.0.0')
  const till = cibaClient('till', {
    backchannel_token_delivery_mode: 'ping',
    backchannel_client_notification_endpoint: `https://127.0.0.1:${port}/ping`,
  })
  const inside = cibaClient('inside', {
    backchannel_token_delivery_mode: 'ping',
    backchannel_client_notification_endpoint: `https://127.0.0.2:${port}/ping`,
  })
  const options = {
    clients: { ...CLIENTS, till, inside },
    usher: { features: { ciba: true }, egress: { allow: ['127.0.0.1/32'] } },
    store: `sqlite:${join(folder, 'usher.db')}`,
  }
  node = usher = await startUsher(options)
  other = await startUsher(options)
  ada = (await node.addAccount(ADA)).id
  // Ada answers on the other node.
  browser = new Browser(other.issuer)
  await browser.open('/account')
  await browser.submit(credentials())
})
afterAll(async () => {
  vi.useRealTimers()
  setDefaultCACertificates(authorities)
  await Promise.all([usher?.close(), other?.close()])
  await end(server)
})
beforeEach(async () => {
  pings.length = 0
  take = TAKEN
  node.output.length = 0
  await forgetRequests(node, ada)
})

const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000)
const facts = () =>
  node.output
    .map(line => JSON.parse(line))
    .filter(({ event = '' }) => event.startsWith('ping_'))
    .map(({ event, attempt, reason }) => [event, attempt, reason].filter(Boolean).join(' '))

test('when the user answers on another node, the client gets one ping and can fetch its tokens', async () => {
  const id = await startRequest(node, TOKEN)
  await node.deliver('new')
  expect(pings).toEqual([])
  await answer(browser, 'allow')
  await Promise.all([node, other, node].map(each => each?.deliver('new')))
  expect(pings).toHaveLength(1)
  const [{ authorization, body } = { body: '' }] = pings
  expect(authorization).toBe(`Bearer ${TOKEN.client_notification_token}`)
  expect(JSON.parse(body)).toEqual({ auth_req_id: id })
  expect(await poll(node, id)).toHaveProperty('access_token')
  pass(300)
  await node.deliver('again')
  expect(pings).toHaveLength(1)
})

test('after the ping a token request is not too early, not even right after a poll', async () => {
  const id = await startRequest(node, TOKEN)
  expect(await pollAtOnce(node, id)).toMatchObject(PENDING)
  expect(await pollAtOnce(node, id)).toMatchObject({ error: 'slow_down' })
  await answer(browser, 'allow')
  await node.deliver('new')
  expect(await pollAtOnce(node, id)).toHaveProperty('access_token')
})

test('a client that hangs or fails delays no other client, and gets pings until it polls', async () => {
  take = () => {}
  const id = await startRequest(node, TOKEN)
  await answer(browser, 'allow')
  expect(pings).toEqual([])
  take = (_req, res) => res.writeHead(503).end()
  await node.deliver('new')
  pass(11)
  await node.deliver('again')
  expect(await poll(node, id)).toHaveProperty('access_token')
  pass(31)
  await node.deliver('again')
  expect(pings).toHaveLength(2)
  expect(facts()).toEqual(['ping_failed 1 answered 503', 'ping_failed 2 answered 503'])
})

test('no ping is sent to a private address that egress.allow does not list', async () => {
  await startRequest(node, TOKEN, 'inside')
  await answer(browser, 'deny')
  await node.deliver('new')
  expect(pings).toEqual([])
  expect(facts()).toEqual([expect.stringContaining('egress.allow')])
})

test('in ping mode a request without a valid client_notification_token is refused', async () => {
  for (const client_notification_token of ['', 'two words', 'x'.repeat(1025)]) {
    const { status, json } = await sendRequest(node, { client_notification_token })
    expect([status, json.error]).toEqual([400, 'invalid_request'])
  }
})

test('an answer that is repeated after an outage causes the ping that the first one did not', async () => {
  const id = await startRequest(node, TOKEN)
  if (!other) throw new Error('there is one node')
  const { store } = other
  const { write } = store
  const seal = createSeal(other.secrets)
  store.write = async change => {
    const isPing = 'value' in change && openRecord(seal, change)?.kind === 'Ping'
    if (isPing) throw new StoreUnavailable('away')
    return write(change)
  }
  expect((await answer(browser, 'allow')).status).toBe(503)
  store.write = write
  await node.deliver('new')
  expect(pings).toEqual([])
  await answer(browser, 'allow')
  await node.deliver('new')
  expect(JSON.parse(pings[0]?.body ?? '')).toEqual({ auth_req_id: id })
})
