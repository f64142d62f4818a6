// Signed authorization requests (JAR, RFC 9101), and signed authorization responses (JARM).

import {
  CompactEncrypt,
  decodeJwt,
  exportJWK,
  generateKeyPair,
  type JSONWebKeySet,
  type JWK,
} from 'jose'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { configurationOf, follow, newRequest } from '../support/client-library.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { pushedUrl, signInAndAllow } from '../support/journey.ts'
import { jwk, privateKey } from '../support/keyed.ts'
import {
  CLIENTS,
  SECRET,
  startUsher,
  type Usher,
  type UsherOptions,
  WEB,
} from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const jwks = { keys: [jwk] }
const folder = temporaryFolder()
const JWT_MODES = ['jwt', 'query.jwt', 'form_post.jwt']
const clients = {
  ...CLIENTS,
  jar: { ...CLIENTS.web, client_id: 'jar', jwks },
  strict: { ...CLIENTS.web, client_id: 'strict', jwks, require_signed_request_object: true },
  jarm: {
    ...CLIENTS.web,
    client_id: 'jarm',
    response_modes: JWT_MODES,
    authorization_signed_response_alg: 'ES256',
  },
}

const ALGORITHMS = ['RSA-OAEP-256', 'ECDH-ES'] as const
const encrypting = Object.fromEntries(
  ALGORITHMS.map(alg => [
    alg,
    { ...clients.jar, client_id: alg, request_object_encryption_alg: alg },
  ]),
)

let jar: openid.Configuration
const test = usherTest({
  clients: { ...clients, ...encrypting },
  usher: { features: { encryption: true } },
})
test.beforeAll(async () => {
  jar = await configurationOf(usher, 'jar')
})

const KEY = { key: privateKey, kid: 'one' }
const now = () => Math.floor(Date.now() / 1000)

/** The error or code of the response to the client, or the text of the error page. */
async function responseTo(url: URL): Promise<string> {
  const { location, text, status } = await send(usher, url)
  expect(status).toBeLessThan(500)
  if (!location) return text
  return location.searchParams.get('error') ?? location.pathname.replace(/\/[^/]*$/, '')
}

test('openid-client signs its request, and parameters beside the JWT are ignored', async () => {
  const request = await newRequest({ redirect_uri: WEB, scope: 'openid email' })
  const url = await openid.buildAuthorizationUrlWithJAR(jar, request.params, KEY)
  url.searchParams.set('scope', 'openid profile email offline_access')
  url.searchParams.set('redirect_uri', 'https://evil.example/')
  url.searchParams.set('nonce', 'another')
  const answer = await follow(usher, url)
  expect(answer.origin).toBe(new URL(WEB).origin)
  const tokens = await openid.authorizationCodeGrant(jar, answer, request.checks)
  expect(tokens.scope).toBe('openid email')
  expect(tokens).not.toHaveProperty('refresh_token')
})

test('offline_access in a request object shows the consent page', async () => {
  const request = await newRequest({ redirect_uri: WEB, scope: 'openid offline_access' })
  const url = await openid.buildAuthorizationUrlWithJAR(jar, request.params, KEY)
  const tokens = await openid.authorizationCodeGrant(jar, await follow(usher, url), request.checks)
  expect(tokens.refresh_token).toBeTruthy()
})

test('a signed request can be pushed', async () => {
  const request = await newRequest({ redirect_uri: WEB })
  const signed = await openid.buildAuthorizationUrlWithJAR(jar, request.params, KEY)
  const body = { request: signed.searchParams.get('request') ?? '' }
  const pushed = await send(usher, '/api/oauth/par', { body, headers: basic('jar', SECRET) })
  expect(pushed.status).toBe(201)
  const answer = await follow(usher, pushedUrl(usher, 'jar', pushed))
  const tokens = await openid.authorizationCodeGrant(jar, answer, request.checks)
  expect(tokens.claims()?.nonce).toBe(request.checks.expectedNonce)
})

test('a client that must sign requests cannot send an unsigned one', async () => {
  const { params } = await newRequest({ redirect_uri: WEB })
  const strict = await configurationOf(usher, 'strict')
  expect(await responseTo(openid.buildAuthorizationUrl(strict, params))).toBe('invalid_request')
  const url = await openid.buildAuthorizationUrlWithJAR(strict, params, KEY)
  expect(await responseTo(url)).toBe('/interaction')
})

test('the length limits apply in a request object too', async () => {
  const { params } = await newRequest({ redirect_uri: WEB, state: 'x'.repeat(4097) })
  const url = await openid.buildAuthorizationUrlWithJAR(jar, params, KEY)
  expect(await responseTo(url)).toBe('invalid_request')
})

test('an unreadable request object is a 400', async () => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const refusal = { status: 400, json: { error: 'invalid_request_object' } }
  for (const name of ['client_id', 'scope', 'nonce']) {
    const payload = part({ [name]: { toString: 1, valueOf: 1 } })
    const request = `${part({ alg: 'ES256' })}.${payload}.`
    const query = new URLSearchParams({ client_id: 'jar', request })
    expect(await send(usher, `/api/oauth/authorize?${query}`)).toMatchObject(refusal)
    const form = { headers: basic('jar', SECRET), body: { client_id: 'jar', request } }
    expect(await send(usher, '/api/oauth/par', form)).toMatchObject(refusal)
  }
})

describe('encryption', () => {
  const jwksOf = async (at: Usher) => (await send<JSONWebKeySet>(at, '/api/oauth/jwks')).json.keys

  async function encrypted(text: string, alg: string, key: JWK, enc = 'A256GCM') {
    const header = { alg, enc, kid: key.kid, cty: 'oauth-authz-req+jwt' }
    return new CompactEncrypt(new TextEncoder().encode(text))
      .setProtectedHeader(header)
      .encrypt(key)
  }
  /** A signed request of the client, and the key that it encrypts to. */
  async function requestFor(alg: string) {
    const config = await configurationOf(usher, alg)
    const made = await newRequest({ redirect_uri: WEB, scope: 'openid offline_access' })
    const url = await openid.buildAuthorizationUrlWithJAR(config, made.params, KEY)
    const key = (await jwksOf(usher)).find(jwk => jwk.alg === alg)
    if (!key) throw new Error(`no key for ${alg}`)
    return { config, made, url, key, signed: url.searchParams.get('request') ?? '' }
  }

  test('a signed request is encrypted to the key of the provider, in a link and pushed', async () => {
    for (const alg of ALGORITHMS) {
      const { config, made, url, key, signed } = await requestFor(alg)
      expect(key).toMatchObject({ use: 'enc', kid: expect.any(String) })
      const request = await encrypted(signed, alg, key)
      url.searchParams.set('request', request)
      url.searchParams.set('scope', 'openid email')
      const answer = await follow(usher, url)
      const tokens = await openid.authorizationCodeGrant(config, answer, made.checks)
      expect([tokens.scope, typeof tokens.refresh_token]).toEqual([
        'openid offline_access',
        'string',
      ])
      const form = { headers: basic(alg, SECRET), body: { request } }
      expect((await send(usher, '/api/oauth/par', form)).status).toBe(201)
    }
  })

  test('other algorithms, other keys and unsigned requests are refused', async () => {
    const { key, signed } = await requestFor('RSA-OAEP-256')
    const other = await generateKeyPair('RSA-OAEP-256', { extractable: true })
    const foreign = { ...(await exportJWK(other.publicKey)), kid: key.kid }
    const { alg: _, ...anyAlg } = key
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${signed.split('.')[1]}.`
    const requests = [
      await encrypted(signed, 'RSA-OAEP', anyAlg),
      await encrypted(signed, 'RSA-OAEP-256', key, 'A192GCM'),
      await encrypted(signed, 'RSA-OAEP-256', foreign),
      await encrypted(unsigned, 'RSA-OAEP-256', key),
      await encrypted('no JWT', 'RSA-OAEP-256', key),
    ]
    for (const [i, request] of requests.entries()) {
      const form = { headers: basic('RSA-OAEP-256', SECRET), body: { request } }
      const { json } = await send(usher, '/api/oauth/par', form)
      const { error, error_description } = json
      expect([error, error_description]).toEqual([
        'invalid_request_object',
        i < 3 ? expect.stringMatching(/^request must be encrypted to a key/) : expect.any(String),
      ])
    }
  })

  test('keys are made for the algorithms that clients name, and are published while the feature is on', async () => {
    const store = `sqlite:${folder}/usher.db`
    const env = { USHER_SECRET: 'x'.repeat(43) }
    const usesAt = async (started: UsherOptions) => {
      const at = await startUsher({ ...started, store, env })
      const { json } = await send(at, '/.well-known/openid-configuration')
      const keys = await jwksOf(at)
      await at.close()
      const encryption = keys.flatMap(({ use, alg }) => (use === 'enc' ? [alg] : []))
      expect(json.request_object_encryption_alg_values_supported ?? []).toEqual(encryption)
      expect(Object.hasOwn(json, 'request_object_encryption_enc_values_supported')).toBe(
        encryption.length > 0,
      )
      return encryption
    }
    const ON = { features: { encryption: true } }
    const ec = { ...encrypting['ECDH-ES'] }
    expect(await usesAt({ usher: ON, clients })).toEqual([])
    expect(await usesAt({ usher: ON, clients: { ec } })).toEqual(['ECDH-ES'])
    expect(await usesAt({ usher: ON, clients: encrypting })).toEqual([...ALGORITHMS])
    expect(await usesAt({ clients })).toEqual([])
  })
})

describe('JARM', () => {
  test.each([...JWT_MODES, ''])(
    'openid-client accepts the response with response_mode=%s',
    async mode => {
      const config = await configurationOf(usher, 'jarm', {
        authorization_signed_response_alg: 'ES256',
      })
      openid.useJwtResponseMode(config)
      const browser = new Browser(usher.issuer)
      const request = await newRequest({ redirect_uri: WEB })
      const url = openid.buildAuthorizationUrl(config, request.params)
      if (mode) url.searchParams.set('response_mode', mode)
      await browser.open(url)
      const page = await signInAndAllow(browser, 'ada')
      const field = page.html?.querySelector('input[name=response]')
      const response = page.params.get('response') ?? field?.getAttribute('value') ?? ''
      expect(Boolean(field)).toBe(mode === 'form_post.jwt')
      expect(decodeJwt(response)).toMatchObject({ iss: usher.issuer, aud: 'jarm' })
      const answer = new URL(`${WEB}?${new URLSearchParams({ response })}`)
      const tokens = await openid.authorizationCodeGrant(config, answer, request.checks)
      expect(tokens.claims()?.name).toBe('Ada Lovelace')
    },
  )

  test('errors are signed too, and a client registered for JWTs cannot use plain modes', async () => {
    const config = await configurationOf(usher, 'jarm')
    const { params } = await newRequest({ redirect_uri: WEB, prompt: 'none' })
    const url = openid.buildAuthorizationUrl(config, { ...params, response_mode: 'jwt' })
    const { location } = await send(usher, url)
    const received = decodeJwt(location?.searchParams.get('response') ?? '')
    expect(received).toMatchObject({ error: 'login_required', aud: 'jarm', state: params.state })
    expect(received.exp).toBeLessThan(now() + 600)
    for (const response_mode of ['query', 'form_post', 'fragment.jwt', 'fragment']) {
      const plain = openid.buildAuthorizationUrl(config, { ...params, response_mode })
      const { location, text } = await send(usher, plain)
      expect(`${location} ${text}`).toMatch(/invalid_request|unsupported_response_mode/)
      expect(`${location} ${text}`).not.toContain('code=')
    }
  })
})
