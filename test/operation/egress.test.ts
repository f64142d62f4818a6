// Outgoing requests reach public addresses, and those that `egress.allow` lists.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { tokens } from '../support/journey.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'

let wiki: Receiver
let elsewhere: Receiver
beforeAll(async () => {
  wiki = await startReceiver('wiki')
  elsewhere = await startReceiver('elsewhere')
})
afterAll(() => Promise.all([wiki.close(), elsewhere.close()]))
beforeEach(() => {
  wiki.tokens.length = 0
  wiki.answerWith((_req, res) => res.writeHead(200).end())
})

/** Sends a logout token to `host` after a sign-out of Ada. Returns the audit event about the delivery. */
async function deliveryTo(host: string, allow: string[], use?: (usher: Usher) => Promise<void>) {
  const backchannel_logout_uri = `http://${host}:${wiki.port}/`
  const client = { ...wiki.client, backchannel_logout_uri }
  const usher = await startUsher({ clients: { wiki: client }, usher: { egress: { allow } } })
  try {
    const { id } = await usher.addAccount(ADA)
    const { client_id, redirect_uris } = wiki.client
    await tokens(usher, { client_id, redirect_uri: redirect_uris[0] })
    await usher.directory.endAccess(id)
    await usher.deliver('new')
    await use?.(usher)
    const lines = usher.output.map(line => JSON.parse(line))
    return lines.find(({ event = '' }) => event.startsWith('logout_'))
  } finally {
    await usher.close()
  }
}

test.each([
  ['127.0.0.1', []],
  ['localhost', []],
  ['[::1]', []],
  ['127.0.0.1', ['127.0.0.2', '10.0.0.0/8', 'wiki.internal']],
  ['localhost', ['localhost.example.org', '10.0.0.0/8']],
  ['[::1]', ['127.0.0.1', 'fd00::/8']],
])('%s receives nothing when egress allows %j', async (host, allow) => {
  expect(await deliveryTo(host, allow)).toMatchObject({
    event: 'logout_failed',
    reason: expect.stringMatching(/no public address.*egress\.allow/),
  })
  expect(wiki.tokens).toEqual([])
})

test.each([
  ['127.0.0.1', ['127.0.0.1']],
  ['127.0.0.1', ['127.0.0.0/8']],
  ['localhost', ['localhost']],
  ['localhost', ['127.0.0.0/8', '::1']],
  ['[::1]', ['::1/128']],
])('%s is notified when egress allows %j', async (host, allow) => {
  expect(await deliveryTo(host, allow)).toMatchObject({ event: 'logout_delivered' })
  expect(wiki.tokens).toHaveLength(1)
})

test('a redirect is not followed', async () => {
  wiki.answerWith((_req, res) => {
    res.writeHead(307, { location: `http://127.0.0.1:${elsewhere.port}/` }).end()
  })
  const delivery = await deliveryTo('127.0.0.1', ['127.0.0.0/8'])
  expect(delivery).toMatchObject({ event: 'logout_failed', reason: 'answered 307' })
  expect(elsewhere.connections()).toBe(0)
})

test('an endless response is not read to its end', async () => {
  let closed = false
  wiki.answerWith((_req, res) => {
    res.writeHead(200)
    const more = () => res.write('x'.repeat(65_536), error => error || setImmediate(more))
    res.on('close', () => {
      closed = true
    })
    more()
  })
  const delivery = await deliveryTo('127.0.0.1', ['127.0.0.1'], async () => {
    await expect.poll(() => closed).toBe(true)
  })
  expect(delivery).toMatchObject({ event: 'logout_delivered' })
})

test('no secret in a URL is in the log', async () => {
  const usher = await startUsher({
    clients: {
      wiki: {
        ...wiki.client,
        backchannel_logout_uri: `http://127.0.0.1:${wiki.port}/hook?key=canary`,
      },
    },
  })
  const { id } = await usher.addAccount(ADA)
  const { client_id, redirect_uris } = wiki.client
  await tokens(usher, { client_id, redirect_uri: redirect_uris[0] })
  await usher.directory.endAccess(id)
  await usher.deliver('new')
  await usher.close()
  expect(usher.output.join()).toContain('logout_failed')
  expect(usher.output.join()).not.toMatch(/canary|logout_token|eyJ/)
})
