// Registered clients that publish their keys at a jwks_uri.

import * as openid from 'openid-client'
import { expect, vi } from 'vitest'
import { configurationOf, signInWith } from '../support/client-library.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import {
  jwkOf,
  KEY_SITE_OPTIONS,
  type KeySite,
  moveClock,
  outcome,
  pairs,
  setOf,
  startKeySite,
} from '../support/key-site.ts'
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
test.afterEach(() => {
  vi.useRealTimers()
})

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
