// Forged request objects, client assertions and hints are refused, and no URL in them is fetched.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeProtectedHeader, type JSONWebKeySet } from 'jose'
import { describe, expect } from 'vitest'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { forgeries } from '../support/forgeries.ts'
import { authorizationRequest, authorize, redeem } from '../support/journey.ts'
import { ASSERTION, jwk, KEYED, signAssertion } from '../support/keyed.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const MAX_CPU_MICROSECONDS = 1_000_000
const KEYED_URI = 'https://keyed.example.org/callback'

let elsewhere: Server
let visits = 0
const test = usherTest(async () => {
  elsewhere = createServer((_req, res) => {
    visits++
    res.end(JSON.stringify({ keys: [] }))
  })
  await new Promise<void>(resolve => elsewhere.listen(0, '127.0.0.1', resolve))
  return { clients: { ...CLIENTS, keyed: KEYED }, usher: { features: { encryption: true } } }
})
test.afterAll(() => {
  elsewhere.close()
})

/** The parameters of a request, as a request object has them. */
function requestClaims() {
  const params = { client_id: 'keyed', redirect_uri: KEYED_URI, response_type: 'code' }
  const { url } = authorizationRequest(usher, params)
  return { ...Object.fromEntries(url.searchParams), sub: undefined }
}

/** Sends the JWT in each place. Returns whether it was accepted. */
const USES: Record<string, (jwt: string) => Promise<boolean>> = {
  async 'request object'(request) {
    const url = new URL('/api/oauth/authorize', usher.issuer)
    const outside = { client_id: 'keyed', redirect_uri: KEYED_URI, response_type: 'code' }
    url.search = String(new URLSearchParams({ ...outside, request }))
    const { status, location } = await send(usher, url)
    expect(status).toBeLessThan(500)
    return location?.pathname.startsWith('/interaction/') ?? false
  },
  async 'pushed request object'(request) {
    const client_assertion = await signAssertion(usher.issuer)
    const body = { request, client_assertion_type: ASSERTION, client_assertion }
    const { status } = await send(usher, '/api/oauth/par', { body })
    expect(status).toBeLessThan(500)
    return status === 201
  },
  async 'client assertion'(client_assertion) {
    const form = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'keyed' }
    const body = { ...form, client_assertion_type: ASSERTION, client_assertion }
    const { status, json } = await send(usher, '/api/oauth/token', { body })
    expect(status).toBeLessThan(500)
    return json.error === 'invalid_grant'
  },
  async id_token_hint(id_token_hint) {
    const { url } = authorizationRequest(usher, { prompt: 'none', id_token_hint })
    const { status, location } = await send(usher, url, {
      headers: { cookie: await browser.cookies() },
    })
    expect(status).toBeLessThan(500)
    return location?.searchParams.has('code') ?? false
  },
  async 'hint at sign-out'(id_token_hint) {
    const query = new URLSearchParams({
      id_token_hint,
      post_logout_redirect_uri: 'https://app.example.org/bye',
    })
    const { status } = await send(usher, `/api/oauth/logout?${query}`)
    expect(status).toBeLessThan(500)
    return status < 400
  },
}

async function honest(use: string) {
  const at = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
  const common = { secret: SECRET, elsewhere: at }
  if (use === 'client assertion') {
    return { ...common, jwt: await signAssertion(usher.issuer), key: jwk }
  }
  if (use.includes('object')) {
    return {
      ...common,
      jwt: await signAssertion(usher.issuer, { claims: requestClaims() }),
      key: jwk,
    }
  }
  const { code, request } = await authorize(usher, { browser })
  const { body } = await redeem(usher, code, request)
  const { kid } = decodeProtectedHeader(body.id_token)
  const { json } = await send<JSONWebKeySet>(usher, '/api/oauth/jwks')
  const key = json.keys.find(key => key.kid === kid)
  if (!key) throw new Error('signed by no key of ours')
  return { ...common, jwt: body.id_token, key }
}

describe.each(Object.entries(USES))('%s', (name, isTaken) => {
  test('more than fifty forgeries are refused, and nothing is fetched', async () => {
    const real = await honest(name)
    const forged = Object.entries(await forgeries(real))
    expect(forged.length).toBeGreaterThan(50)
    const taken: string[] = []
    const slow: string[] = []
    for (const [what, jwt] of forged) {
      const before = process.cpuUsage()
      if (await isTaken(jwt)) taken.push(what)
      // The server is in this process. Other work on the machine does not count.
      const { user, system } = process.cpuUsage(before)
      if (user + system > MAX_CPU_MICROSECONDS) slow.push(what)
    }
    expect(taken).toEqual([])
    expect(slow).toEqual([])
    expect(await isTaken(real.jwt)).toBe(true)
    expect(visits).toBe(0)
  })
})

describe('a request object with a valid signature is refused with', () => {
  const later = (seconds: number) => Math.floor(Date.now() / 1000) + seconds
  test.each<[string, Record<string, unknown>]>([
    ['an assertion of the client', { client_id: undefined, sub: 'keyed' }],
    ['the client as its subject', { sub: 'keyed' }],
    ['another issuer', { iss: 'web' }],
    ['no issuer', { iss: undefined }],
    ['another audience', { aud: 'https://evil.example' }],
    ['no audience', { aud: undefined }],
    ['no exp', { exp: undefined }],
    ['an exp that is over', { exp: later(-60) }],
    ['an exp in more than ten minutes', { exp: later(660) }],
    ['an exp that never comes', { exp: 1e300 }],
    ['an nbf to come', { nbf: later(300) }],
    ['another client_id', { client_id: 'web' }],
    ['a request in it', { request: 'x.y.z' }],
    ['a request_uri in it', { request_uri: 'https://evil.example/' }],
    ['a redirect_uri of another', { redirect_uri: 'https://evil.example/' }],
  ])('%s', async (_, claims) => {
    const jwt = await signAssertion(usher.issuer, { claims: { ...requestClaims(), ...claims } })
    for (const use of ['request object', 'pushed request object']) {
      expect(await USES[use]?.(jwt)).toBe(false)
    }
  })
})
