// Registered clients that publish their keys at a jwks_uri, and limits of the requests to it: their number,
// their addresses and their size.

import type { ServerResponse } from 'node:http'
import * as openid from 'openid-client'
import { expect, onTestFinished } from 'vitest'
import { cacheKeySets } from '../../src/operation/client-key-sets.ts'
import { configurationOf, signInWith } from '../support/client-library.ts'
import { explanationOf, moveClock, startAnother, usher, usherTest } from '../support/fixtures.ts'
import {
  authenticateWith,
  FEATURES,
  jwkOf,
  KEY_SITE_OPTIONS,
  type KeySite,
  outcome,
  pairs,
  setOf,
  startKeySite,
} from '../support/key-site.ts'
import { startReceiver } from '../support/receiver.ts'
import { CALLBACK } from '../support/registration.ts'
import { PUBLIC_JWKS, requestObject } from '../support/signers.ts'
import { send } from '../support/wire.ts'

let site: KeySite
const test = usherTest(KEY_SITE_OPTIONS)
test.beforeAll(async () => {
  site = await startKeySite()
})
test.afterAll(() => site.close())
test.beforeEach(async () => site.answer(await setOf('old')))

test('a client authenticates with a key of its jwks_uri; after a rotation only the new key is valid', async () => {
  const id = await site.register(usher)
  expect(site.requests()).toBe(0)
  expect([await outcome(usher, id, 'old'), await outcome(usher, id, 'old')]).toEqual(
    Array(2).fill('invalid_grant'),
  )
  site.answer(await setOf('new'))
  expect(await outcome(usher, id, 'new')).toBe('invalid_client')
  expect(site.requests()).toBe(0)
  moveClock(60)
  expect(await outcome(usher, id, 'new')).toBe('invalid_grant')
  expect(await outcome(usher, id, 'old')).toBe('invalid_client')
  expect(site.requests()).toBe(1)
})

test('a removed key is accepted for at most five minutes, whatever the response headers say', async () => {
  const keys = await setOf('old')
  site.answer(keys, 200, { 'cache-control': 'max-age=31536000' })
  const id = await site.register(usher)
  expect(await outcome(usher, id, 'old')).toBe('invalid_grant')
  site.answer(await setOf('new'))
  moveClock(300)
  expect(await outcome(usher, id, 'old')).toBe('invalid_client')
})

test('request objects are verified with the keys of the jwks_uri', async () => {
  const redirect_uris = ['https://keyed.example.org/callback']
  const ask = async () => {
    const client_id = await site.register(usher, {
      redirect_uris,
      request_object_signing_alg: 'ES256',
    })
    const request = await requestObject('ES256', client_id, usher.issuer)
    const params = new URLSearchParams({
      client_id,
      request,
      scope: 'openid',
      response_type: 'code',
    })
    return send(usher, `/api/oauth/authorize?${params}`)
  }
  site.answer(JSON.stringify(PUBLIC_JWKS))
  expect((await ask()).location?.pathname).toMatch(/^\/interaction\//)
  site.answer('', 404)
  const { status, text } = await ask()
  expect([status, text]).toEqual([400, expect.stringContaining('invalid_client_metadata')])
  expect(text).toContain('JSON Web Key Set failed to be refreshed')
})

test('responses are encrypted to these keys; without a suitable key the request is refused with the reason', async () => {
  site.answer(await setOf('old', 'sealed'))
  const sealed = { id_token_encrypted_response_alg: 'ECDH-ES' }
  const begin = async (keys = {}) => {
    const id = await site.register(usher, { ...sealed, ...keys })
    const key = { key: pairs.old.privateKey, kid: 'old' }
    const config = await configurationOf(usher, id, sealed, openid.PrivateKeyJwt(key))
    openid.enableDecryptingResponses(config, undefined, {
      key: pairs.sealed.privateKey,
      kid: 'sealed',
    })
    return signInWith(usher, config, { redirect_uri: CALLBACK })
  }
  expect((await begin()).claims()?.iss).toBe(usher.issuer)
  site.answer(await setOf('old'))
  await expect(begin()).rejects.toMatchObject({ status: 400, error: 'invalid_client_metadata' })
  for (const junk of [
    { kty: 'EC', crv: 'P-256', x: 'a', y: 'b', use: 'enc' },
    { kty: 'OKP', crv: 'Ed25519', x: 'a' },
  ]) {
    site.answer(JSON.stringify({ keys: [await jwkOf('old'), junk] }))
    await expect(begin()).rejects.toMatchObject({ status: 400, error: 'invalid_client_metadata' })
  }
  const jwks = {
    keys: [await jwkOf('old'), { kty: 'EC', crv: 'P-256', x: 'a', y: 'b', kid: 'junk' }],
  }
  await expect(begin({ jwks, jwks_uri: null })).rejects.toMatchObject({ status: 400 })
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
const WRONG: [what: string, text: string, status?: number, headers?: object][] = [
  ['is a 404', 'not found', 404],
  ['is a redirect with keys', RIGHT, 302],
  ['is no JSON', '<html>'],
  ['is null', 'null'],
  ['has a number as a key', '{"keys":[7]}'],
  ['has a shared secret', '{"keys":[{"kty":"oct","k":"AAAA"}]}'],
  ['has an invalid key', '{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b","kid":"old"}]}'],
  ['has a content-encoding', RIGHT, 200, { 'content-encoding': 'gzip' }],
  ['is too long', ' '.repeat(64 * 1024) + RIGHT],
]
test.for(WRONG)('a client is refused when its jwks_uri %s', async ([, text, status, headers]) => {
  site.answer(text, status, headers)
  const client_id = await site.register(usher)
  const { status: refused, json } = await authenticateWith('old', client_id, usher)
  expect([refused, json.error, site.requests()]).toEqual([401, 'invalid_client', 1])
})

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
  const elsewhere = await startReceiver('elsewhere')
  onTestFinished(() => elsewhere.close())
  site.answer(RIGHT, 302, { location: `http://127.0.0.1:${elsewhere.port}/` })
  const client_id = await site.register(usher)
  const { status, headers } = await authenticateWith('old', client_id, usher)
  expect([status, elsewhere.connections()]).toEqual([401, 0])
  const id = headers.get('x-request-id') ?? ''
  const { wrong } = await explanationOf(usher, id)
  expect(wrong).toContain(`there is no JWKS at the jwks_uri of ${client_id} (`)
})

test('no internal address is requested unless the operator allows it', async () => {
  const strict = await startAnother({ usher: { features: FEATURES } })
  const loopback = ['127.0.0.1', 'localhost', '[::1]'].map(host => `http://${host}:${site.port}/`)
  const internal = ['169.254.169.254', '10.0.0.1', '2130706433:1', '[::ffff:7f00:1]:1']
  const addresses = internal.map(host => `https://${host}/latest/meta-data`)
  for (const jwks_uri of [...loopback, ...addresses]) {
    const id = await site.register(strict, { jwks_uri })
    expect(await outcome(strict, id, 'old')).toBe('invalid_client')
  }
  expect(site.requests()).toBe(0)
})

test.each<[string, (res: ServerResponse) => void]>([
  ['is a 500', res => res.writeHead(500).end(RIGHT)],
  ['is a 429', res => res.writeHead(429).end()],
  ['breaks off', res => res.destroy()],
  ['does not come', () => {}],
])('a client gets 503 while its jwks_uri %s', async (_, respond) => {
  const id = await site.register(usher)
  site.answerWith((_req, res) => respond(res))
  const { status, json, headers } = await authenticateWith('old', id, usher)
  expect([status, json.error]).toEqual([503, 'temporarily_unavailable'])
  expect(headers.get('retry-after')).toBeTruthy()
  expect(headers.get('www-authenticate')).toBeNull()
  site.answer(RIGHT)
  moveClock(31)
  expect(await outcome(usher, id, 'old')).toBe('invalid_grant')
})
