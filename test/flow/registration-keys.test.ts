// Applications that register themselves and have their keys at an address of their own (jwks_uri).

import { exportJWK, generateKeyPair } from 'jose'
import * as openid from 'openid-client'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { explainFailure } from '../../src/commands/failure.ts'
import { sparingly } from '../../src/oidc/client-keys.ts'
import { findFailure } from '../../src/oidc/failures.ts'
import { configurationOf, signInWith } from '../support/client-library.ts'
import { ASSERTION, signAssertion } from '../support/keyed.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { CALLBACK, METADATA, ON, registerNew } from '../support/registration.ts'
import { PUBLIC_JWKS, requestObject } from '../support/signers.ts'
import { ADA, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const pairs = {
  old: await generateKeyPair('ES256', { extractable: true }),
  new: await generateKeyPair('ES256', { extractable: true }),
  sealed: await generateKeyPair('ECDH-ES', { extractable: true }),
}
type Kid = keyof typeof pairs
const jwkOf = async (kid: Kid) => ({
  ...(await exportJWK(pairs[kid].publicKey)),
  kid,
  use: kid === 'sealed' ? 'enc' : 'sig',
})
const FEATURES = { ...ON.usher.features, request_objects: true, encryption: true }

let usher: Usher
let site: Receiver
let elsewhere: Receiver
let addresses = 0
beforeAll(async () => {
  site = await startReceiver('site')
  elsewhere = await startReceiver('elsewhere')
  usher = await startUsher({ usher: { features: FEATURES, egress: { allow: ['127.0.0.1'] } } })
  await usher.addAccount(ADA)
})
afterAll(() => Promise.all([usher.close(), site.close(), elsewhere.close()]))
beforeEach(() => publish('old'))
afterEach(() => {
  vi.useRealTimers()
})

/** From now on the address has these, and nobody has asked for them. */
async function publish(...kids: Kid[]) {
  answer(JSON.stringify({ keys: await Promise.all(kids.map(jwkOf)) }))
}

function answer(text: string, status = 200, headers = {}) {
  site.tokens.length = 0
  site.answerWith((_req, res) => res.writeHead(status, headers).end(text))
}

/** Each at an address of its own. */
async function registerKeyed(metadata: object = {}, at = usher): Promise<string> {
  const jwks_uri = `http://127.0.0.1:${site.port}/${addresses++}`
  const keyed = { ...METADATA, token_endpoint_auth_method: 'private_key_jwt', jwks_uri }
  return (await registerNew(at, { ...keyed, ...metadata })).client_id
}

/** What is wrong with its request: the code alone when it is known by its key. */
async function sign(client_id: string, kid: Kid, at = usher) {
  const claims = { iss: client_id, sub: client_id }
  const client_assertion = await signAssertion(at.issuer, {
    claims,
    key: pairs[kid].privateKey,
    kid,
  })
  const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
  const body = { ...form, client_assertion, client_assertion_type: ASSERTION }
  return send(at, '/api/oauth/token', { body })
}
const outcome = async (...request: Parameters<typeof sign>) => (await sign(...request)).json.error

/** Nothing waits: the clock alone is another. */
function wait(seconds: number) {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })
}

test('it is known by a key at its address; after a rotation by the new one, and no more by the old', async () => {
  const id = await registerKeyed()
  expect(site.tokens).toHaveLength(0)
  expect([await outcome(id, 'old'), await outcome(id, 'old')]).toEqual(
    Array(2).fill('invalid_grant'),
  )
  await publish('new')
  expect(await outcome(id, 'new')).toBe('invalid_client')
  expect(site.tokens).toHaveLength(0)
  wait(60)
  expect(await outcome(id, 'new')).toBe('invalid_grant')
  expect(await outcome(id, 'old')).toBe('invalid_client')
  expect(site.tokens).toHaveLength(1)
})

test('a key that was taken away counts for five minutes at most, whatever the answer said', async () => {
  const keys = JSON.stringify({ keys: [await jwkOf('old')] })
  answer(keys, 200, { 'cache-control': 'max-age=31536000' })
  const id = await registerKeyed()
  expect(await outcome(id, 'old')).toBe('invalid_grant')
  await publish('new')
  wait(300)
  expect(await outcome(id, 'old')).toBe('invalid_client')
})

test('strangers with keys that nobody knows have us ask an address twice a minute', async () => {
  answer('', 404)
  const id = await registerKeyed()
  const crowd = () => Promise.all(Array.from({ length: 20 }, () => outcome(id, 'new')))
  expect(new Set(await crowd())).toEqual(new Set(['invalid_client']))
  expect(site.tokens).toHaveLength(1)
  wait(30)
  await crowd()
  expect(site.tokens).toHaveLength(2)
})

test('of all addresses together 120 are asked in a minute, and the keys that are there go on', async () => {
  let asked = 0
  const fetch = sparingly(async () => new Response(String(asked++)))
  const ask = (i: number) => fetch(`https://stranger.example.net/${i}`, { method: 'GET' })
  const all = await Promise.allSettled(Array.from({ length: 150 }, (_, i) => ask(i)))
  expect(asked).toBe(120)
  expect(all.filter(({ status }) => status === 'rejected')).toHaveLength(30)
  expect(await (await ask(7)).text()).toBe('7')
})

// biome-ignore format: a table
const WRONG: [what: string, text: string, status?: number][] = [
  ['is none',               'not found', 404],
  ['is an error with keys', JSON.stringify(PUBLIC_JWKS), 500],
  ['is no JSON',            '<html>'],
  ['is no set',             '[]'],
  ['is null',               'null'],
  ['is empty',              '', 204],
  ['has something else',    '{"keys":[7]}'],
  ['has a shared secret',   '{"keys":[{"kty":"oct","k":"AAAA"}]}'],
  ['has half a key',        '{"keys":[{"kty":"EC","crv":"P-256"}]}'],
  ['has junk for a key',    '{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b","kid":"old"}]}'],
  ['has no end in sight',   ' '.repeat(65 * 1024)],
]
test.each(WRONG)(
  'with an answer that %s it is not known, which is no fault of ours',
  async (_, text, status) => {
    answer(text, status)
    const { status: refused, json } = await sign(await registerKeyed(), 'old')
    expect([refused, json.error, site.tokens.length]).toEqual([401, 'invalid_client', 1])
  },
)

test('an answer without end is not read to its end', async () => {
  const closed = Promise.withResolvers<void>()
  site.answerWith((_req, res) => {
    const more = () => res.write('x'.repeat(65_536), error => error || setImmediate(more))
    res.on('close', closed.resolve)
    more()
  })
  expect(await outcome(await registerKeyed(), 'old')).toBe('invalid_client')
  await closed.promise
})

test('a redirect is not followed, and config explain says which address it was', async () => {
  const location = `http://127.0.0.1:${elsewhere.port}/`
  answer(JSON.stringify({ keys: [await jwkOf('old')] }), 302, { location })
  const client_id = await registerKeyed()
  const { status, headers } = await sign(client_id, 'old')
  expect([status, elsewhere.connections()]).toEqual([401, 0])
  const read = () => findFailure(usher.records, headers.get('x-request-id') ?? '')
  await expect.poll(read).toBeTruthy()
  const failure = await read()
  if (!failure) throw new Error('nothing is remembered')
  const { wrong } = explainFailure({ failure, ids: [], scopes: [], resources: [] })
  expect(wrong).toBe(`the keys of ${client_id} cannot be had from its jwks_uri`)
})

test('row 17: nothing inside is asked that no operator has named', async () => {
  const strict = await startUsher({ usher: { features: FEATURES } })
  try {
    for (const host of ['127.0.0.1', 'localhost', '[::1]']) {
      const id = await registerKeyed({ jwks_uri: `http://${host}:${site.port}/` }, strict)
      expect(await outcome(id, 'old', strict)).toBe('invalid_client')
    }
    for (const host of ['169.254.169.254', '10.0.0.1', '2130706433:1', '[::ffff:7f00:1]:1']) {
      const jwks_uri = `https://${host}/latest/meta-data`
      const id = await registerKeyed({ jwks_uri }, strict)
      expect(await outcome(id, 'old', strict)).toBe('invalid_client')
    }
    expect(site.tokens).toEqual([])
  } finally {
    await strict.close()
  }
})

test('its request objects are verified with them', async () => {
  const redirect_uris = ['https://keyed.example.org/callback']
  const ask = async () => {
    const client_id = await registerKeyed({ redirect_uris, request_object_signing_alg: 'ES256' })
    const request = await requestObject('ES256', client_id, usher.issuer)
    const params = new URLSearchParams({
      client_id,
      request,
      scope: 'openid',
      response_type: 'code',
    })
    return send(usher, `/api/oauth/authorize?${params}`)
  }
  answer(JSON.stringify(PUBLIC_JWKS))
  expect((await ask()).location?.pathname).toMatch(/^\/interaction\//)
  answer('', 404)
  const { status, text } = await ask()
  expect([status, text]).toEqual([400, expect.stringContaining('invalid_request_object')])
  expect(text).toContain('its keys cannot be had from jwks_uri')
})

test('what it is told is encrypted to them; without them it is refused with the reason', async () => {
  await publish('old', 'sealed')
  const sealed = { id_token_encrypted_response_alg: 'ECDH-ES' }
  const begin = async (keys = {}) => {
    const id = await registerKeyed({ ...sealed, ...keys })
    const key = { key: pairs.old.privateKey, kid: 'old' }
    const config = await configurationOf(usher, id, sealed, openid.PrivateKeyJwt(key))
    openid.enableDecryptingResponses(config, undefined, {
      key: pairs.sealed.privateKey,
      kid: 'sealed',
    })
    return signInWith(usher, config, { redirect_uri: CALLBACK })
  }
  expect((await begin()).claims()?.iss).toBe(usher.issuer)
  await publish('old')
  await expect(begin()).rejects.toMatchObject({ status: 400, error: 'invalid_client_metadata' })
  for (const junk of [
    { kty: 'EC', crv: 'P-256', x: 'a', y: 'b', use: 'enc' },
    { kty: 'OKP', crv: 'Ed25519', x: 'a' },
  ]) {
    answer(JSON.stringify({ keys: [await jwkOf('old'), junk] }))
    await expect(begin()).rejects.toMatchObject({ status: 400, error: 'invalid_client_metadata' })
  }
  const jwks = {
    keys: [await jwkOf('old'), { kty: 'EC', crv: 'P-256', x: 'a', y: 'b', kid: 'junk' }],
  }
  await expect(begin({ jwks, jwks_uri: null })).rejects.toMatchObject({ status: 400 })
})
