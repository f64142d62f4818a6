// Delivery of back-channel logout tokens when clients do not answer, when there are several nodes, and
// when the store is unavailable.

import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import { tokens } from '../support/journey.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { stopping } from '../support/stopping.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

const folder = temporaryFolder()
/** Two nodes on one store. */
let [usher, other]: Usher[] = []
let node: Usher
let wiki: Receiver
let chat: Receiver
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  wiki = await startReceiver('wiki')
  chat = await startReceiver('chat')
  const options = {
    clients: { wiki: wiki.client, chat: chat.client },
    usher: { egress: { allow: ['127.0.0.0/8'] } },
    store: `sqlite:${join(folder, 'usher.db')}`,
  }
  node = usher = await startUsher(options)
  other = await startUsher(options)
  await node.addAccount(ADA)
})
afterAll(async () => {
  vi.useRealTimers()
  await Promise.all([usher?.close(), other?.close(), wiki.close(), chat.close()])
})
beforeEach(() => {
  for (const receiver of [wiki, chat]) {
    receiver.tokens.length = 0
    receiver.answerWith((_req, res) => res.writeHead(200).end())
  }
  node.output.length = 0
})
// Nothing of a test is left in the queue.
afterEach(() => {
  pass(8 * 24 * HOUR)
})

const HOUR = 3600
const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000)

/** Signs Ada in to both applications and out. */
async function signOut() {
  const browser = new Browser(node.issuer)
  for (const { client } of [wiki, chat]) {
    const { client_id, redirect_uris } = client
    await tokens(node, { browser, client_id, redirect_uri: redirect_uris[0] })
  }
  await browser.open('/api/oauth/logout')
  await browser.submit({ logout: 'yes' })
  expect(browser.heading).toBe('Signed out')
}

const facts = () =>
  node.output
    .map(line => JSON.parse(line))
    .filter(({ event = '', client_id }) => event.startsWith('logout_') && client_id === 'wiki')
    .map(({ event, attempt, reason }) => [event, attempt, reason].filter(Boolean).join(' '))

test('a client that does not answer delays neither the sign-out nor the other clients', async () => {
  wiki.answerWith(() => {})
  await signOut()
  expect(wiki.tokens).toHaveLength(0)
  const delivery = node.deliver('new')
  await expect.poll(() => chat.tokens.length).toBe(1)
  await delivery
  expect(facts()).toEqual(['logout_failed 1 no answer in time'])
})

test('a failed notification is retried five times within an hour, each time with a new token', async () => {
  wiki.answerWith((_req, res) => res.writeHead(503).end())
  await signOut()
  await node.deliver('new')
  for (const seconds of [59, 2, 299, 2, 899, 2, 2399, 2, 2 * HOUR]) {
    pass(seconds)
    await node.deliver('again')
    await node.deliver('new')
  }
  expect(facts()).toEqual([
    ...[1, 2, 3, 4].map(attempt => `logout_failed ${attempt} answered 503`),
    'logout_given_up 5 answered 503',
  ])
  expect(chat.tokens).toHaveLength(1)
  const sent = wiki.tokens.map(token => decodeJwt(token))
  expect(new Set(sent.map(({ jti }) => jti)).size).toBe(5)
  const times = sent.map(({ iat = 0 }) => iat)
  const pauses = times.slice(1).map((time, i) => time - (times[i] ?? 0))
  expect(pauses.map(pause => Math.round(pause / 60))).toEqual([1, 5, 15, 40])
  expect(await node.metrics.text()).toMatch(/usher_audit_events_total\{event="logout_given_up"\} 1/)
})

test('a client that answers after an outage is notified once', async () => {
  wiki.answerWith((_req, res) => res.destroy())
  await signOut()
  await node.deliver('new')
  wiki.answerWith((_req, res) => res.writeHead(204).end())
  pass(61)
  await other?.deliver('again')
  expect(await wiki.claims(other?.issuer ?? '')).toMatchObject({ aud: 'wiki' })
  pass(HOUR)
  await node.deliver('again')
  expect(wiki.tokens).toHaveLength(2)
})

test('a notification that a client answers with 400 is not retried', async () => {
  wiki.answerWith((_req, res) => res.writeHead(400).end('{"error":"invalid_request"}'))
  await signOut()
  await node.deliver('new')
  pass(HOUR)
  await node.deliver('again')
  expect(facts()).toEqual(['logout_given_up 1 answered 400'])
})

test('while the store is unavailable no notification is sent, and none is lost', async () => {
  await signOut()
  const delivery = stopping(node.store)(0, () => node.deliver('new'))
  await expect(delivery).rejects.toThrow(StoreUnavailable)
  expect(wiki.tokens).toHaveLength(0)
  await node.deliver('new')
  expect([wiki.tokens.length, chat.tokens.length]).toEqual([1, 1])
})
