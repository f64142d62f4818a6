// Forged request objects, client assertions and hints are refused, and no URL in them is fetched.

import { KeyObject, randomUUID, sign } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeProtectedHeader, type JSONWebKeySet } from 'jose'
import { describe, expect } from 'vitest'
import { CIBA_GRANT } from '../../src/oidc/vocabulary.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { forgeries } from '../support/forgeries.ts'
import { authorizationRequest, authorize, redeem } from '../support/journey.ts'
import {
  ASSERTION,
  assertionClaims,
  jwk,
  KEYED,
  privateKey,
  signAssertion,
} from '../support/keyed.ts'
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
  const keyed = { ...KEYED, grant_types: ['authorization_code', 'refresh_token', CIBA_GRANT] }
  const features = { encryption: true, ciba: true }
  return { clients: { ...CLIENTS, keyed }, usher: { features } }
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

/** The parameters of a backchannel authentication request. An unknown user gets no request. */
function backchannelClaims() {
  const nbf = Math.floor(Date.now() / 1000)
  return { client_id: undefined, sub: undefined, nbf, scope: 'openid', login_hint: randomUUID() }
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
  async 'backchannel request object'(request) {
    const client_assertion = await signAssertion(usher.issuer)
    const body = { request, client_assertion_type: ASSERTION, client_assertion }
    const { status } = await send(usher, '/api/oauth/backchannel_authentication', { body })
    expect(status).toBeLessThan(500)
    return status === 200
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

/** The claims of a JWT that the client signs, for this use. */
function claimsOf(use: string): Record<string, unknown> | undefined {
  if (use === 'client assertion') return {}
  if (use === 'backchannel request object') return backchannelClaims()
  return use.includes('object') ? requestClaims() : undefined
}

async function honest(use: string) {
  const at = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
  const common = { secret: SECRET, elsewhere: at }
  const claims = claimsOf(use)
  if (claims) return { ...common, jwt: await signAssertion(usher.issuer, { claims }), key: jwk }
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

/** The own `typ` of each JWT that a client signs. */
const OWN_TYPES = {
  'request object': 'oauth-authz-req+jwt',
  'pushed request object': 'oauth-authz-req+jwt',
  'backchannel request object': 'oauth-authz-req+jwt',
  'client assertion': 'client-authentication+jwt',
}

// RFC 8725 §3.11, RFC 7515 §4.1.11
test.each(Object.entries(OWN_TYPES))(
  'a %s with a valid signature is accepted with its own typ or none, and refused with crit or the typ of another JWT',
  async (use, own) => {
    const uses = Object.values(OWN_TYPES)
    const foreign = ['logout+jwt', 'dpop+jwt', 'at+jwt', 'secevent+jwt', 'JOSE', '', 7, null]
    const types = [...foreign, ...uses.filter(type => type !== own)]
    const accepted = [{}, ...['JWT', 'jwt', own, `application/${own}`].map(typ => ({ typ }))]
    const critical = [
      { crit: ['b64'], b64: true },
      { crit: ['exp'], exp: 1 },
      { crit: [] },
      { b64: true },
    ]
    const all = [...accepted, ...types.map(typ => ({ typ })), ...critical]
    const taken: object[] = []
    for (const header of all) {
      const jwt = await signAs(header, claimsOf(use) ?? {})
      if (await USES[use]?.(jwt)) taken.push(header)
    }
    expect(taken).toEqual(accepted)
  },
)

/** Signs a JWT with any header; libraries refuse to make some of them. */
function signAs(header: object, claims: Record<string, unknown>) {
  const payload = { ...assertionClaims(usher.issuer), ...claims }
  const parts = [{ alg: 'ES256', kid: 'one', ...header }, payload]
  const data = parts.map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  const key = { key: KeyObject.from(privateKey), dsaEncoding: 'ieee-p1363' } as const
  return `${data}.${sign('sha256', Buffer.from(data), key).toString('base64url')}`
}

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
    ['an iat to come', { iat: later(300) }],
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
