// Limits of requests to the jwks_uri of clients: their number, their addresses and their size.

import type { ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { explainFailure } from '../../src/commands/failure.ts'
import { cacheKeySets } from '../../src/operation/client-key-sets.ts'
import { findFailure } from '../../src/operation/failures.ts'
import {
  authenticateWith,
  FEATURES,
  KEY_SITE_OPTIONS,
  type KeySite,
  moveClock,
  outcome,
  setOf,
  startKeySite,
} from '../support/key-site.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { startUsher, type Usher } from '../support/usher.ts'

let usher: Usher
let site: KeySite
let elsewhere: Receiver
beforeAll(async () => {
  site = await startKeySite()
  usher = await startUsher(KEY_SITE_OPTIONS)
  elsewhere = await startReceiver('elsewhere')
})
afterAll(() => Promise.all([usher.close(), site.close(), elsewhere.close()]))
beforeEach(async () => site.answer(await setOf('old')))
afterEach(() => {
  vi.useRealTimers()
})

test('assertions with unknown keys cause two requests a minute to a jwks_uri', async () => {
  site.answer('', 404)
  const id = await site.register(usher)
  const crowd = () => Promise.all(Array.from({ length: 20 }, () => outcome(usher, id, 'new')))
  expect(new Set(await crowd())).toEqual(new Set(['invalid_client']))
  expect(site.requests()).toBe(1)
  moveClock(30)
  await crowd()
  expect(site.requests()).toBe(2)
})

test('a registered client has ten addresses a minute, and a client of the config folder as many as it needs', async () => {
  let asked = 0
  const answer = async () => new Response(String(asked++))
  const addresses = Array.from({ length: 15 }, (_, i) => `https://keys.example.org/${i}`)
  const clients = addresses.map(jwks_uri => ({ ...usher.settings.clients[0], jwks_uri })) as never
  const fetches = { forOperator: answer, forStrangers: answer }
  const fetch = cacheKeySets(fetches, { ...usher.settings, clients })
  const ask = (host: string, i: number) => fetch(`https://${host}/${i}`, { method: 'GET' })
  const others = addresses.map((_, i) => ask('stranger.example.net', i))
  const outcomes = (await Promise.allSettled(others)).map(({ status }) => status)
  expect(outcomes.filter(status => status === 'fulfilled')).toHaveLength(10)
  expect(await (await ask('stranger.example.net', 7)).text()).toBe('7')
  await Promise.all(addresses.map((_, i) => ask('keys.example.org', i)))
  expect(asked).toBe(25)
})

const RIGHT = await setOf('old')
// biome-ignore format: a table
const WRONG: [what: string, text: string, status?: number, headers?: object][] = [
  ['is a 404',              'not found', 404],
  ['is a redirect with keys', RIGHT, 302],
  ['is no JSON',            '<html>'],
  ['is a list',             '[]'],
  ['is null',               'null'],
  ['is empty',              '', 204],
  ['has a number as a key',   '{"keys":[7]}'],
  ['has a shared secret',   '{"keys":[{"kty":"oct","k":"AAAA"}]}'],
  ['has an incomplete key',       '{"keys":[{"kty":"EC","crv":"P-256"}]}'],
  ['has an invalid key',   '{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b","kid":"old"}]}'],
  ['has a content-encoding', RIGHT, 200, { 'content-encoding': 'gzip' }],
  ['is too long',   ' '.repeat(64 * 1024) + RIGHT],
]
test.each(WRONG)(
  'a client is refused without a 5xx when the response of its jwks_uri %s',
  async (_, text, status, headers) => {
    site.answer(text, status, headers)
    const { status: refused, json } = await authenticateWith(
      'old',
      await site.register(usher),
      usher,
    )
    expect([refused, json.error, site.requests()]).toEqual([401, 'invalid_client', 1])
  },
)

test('an endless response is not read to its end', async () => {
  const closed = Promise.withResolvers<void>()
  site.answerWith((_req, res) => {
    const more = () => res.write('x'.repeat(65_536), error => error || setImmediate(more))
    res.on('close', closed.resolve)
    more()
  })
  expect(await outcome(usher, await site.register(usher), 'old')).toBe('invalid_client')
  await closed.promise
})

test('a redirect is not followed, and config explain shows the address', async () => {
  const location = `http://127.0.0.1:${elsewhere.port}/`
  site.answer(await setOf('old'), 302, { location })
  const client_id = await site.register(usher)
  const { status, headers } = await authenticateWith('old', client_id, usher)
  expect([status, elsewhere.connections()]).toEqual([401, 0])
  const read = () => findFailure(usher.records, headers.get('x-request-id') ?? '')
  await expect.poll(read).toBeTruthy()
  const failure = await read()
  if (!failure) throw new Error('nothing is remembered')
  const { wrong } = explainFailure({ failure })
  expect(wrong).toContain(`there is no JWKS at the jwks_uri of ${client_id} (`)
})

test('no internal address is requested unless the operator allows it', async () => {
  const strict = await startUsher({ usher: { features: FEATURES } })
  try {
    for (const host of ['127.0.0.1', 'localhost', '[::1]']) {
      const id = await site.register(strict, { jwks_uri: `http://${host}:${site.port}/` })
      expect(await outcome(strict, id, 'old')).toBe('invalid_client')
    }
    for (const host of ['169.254.169.254', '10.0.0.1', '2130706433:1', '[::ffff:7f00:1]:1']) {
      const jwks_uri = `https://${host}/latest/meta-data`
      const id = await site.register(strict, { jwks_uri })
      expect(await outcome(strict, id, 'old')).toBe('invalid_client')
    }
    expect(site.requests()).toBe(0)
  } finally {
    await strict.close()
  }
})

test.each<[string, (res: ServerResponse) => void]>([
  ['is a 500', res => res.writeHead(500).end(RIGHT)],
  ['is a 503', res => res.writeHead(503).end()],
  ['is a 429', res => res.writeHead(429).end()],
  ['breaks off', res => res.destroy()],
  ['does not come', () => {}],
])(
  'a client is answered 503, and later accepted, when the response of its jwks_uri %s',
  async (_, respond) => {
    const id = await site.register(usher)
    site.answerWith((_req, res) => respond(res))
    const { status, json, headers } = await authenticateWith('old', id, usher)
    expect([status, json.error]).toEqual([503, 'temporarily_unavailable'])
    expect(headers.get('retry-after')).toBeTruthy()
    expect(headers.get('www-authenticate')).toBeNull()
    site.answer(RIGHT)
    moveClock(31)
    expect(await outcome(usher, id, 'old')).toBe('invalid_grant')
  },
)
