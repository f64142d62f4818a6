// Forged request objects, client assertions and hints are refused, and no URL in them is fetched.

import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  KeyObject,
  randomUUID,
  sign,
} from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { CompactEncrypt, decodeProtectedHeader, importJWK, type JSONWebKeySet } from 'jose'
import { expect } from 'vitest'
import { CIBA_GRANT } from '../../src/oidc/vocabulary.ts'
import { cpuTimeOf } from '../support/cpu.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, redeem } from '../support/journey.ts'
import {
  ASSERTION,
  assertionClaims,
  jwk,
  KEYED,
  privateKey,
  signAssertion,
} from '../support/keyed.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const MAX_CPU_MS = 1000
const KEYED_URI = 'https://keyed.example.org/callback'

let elsewhere: Receiver
const test = usherTest(async () => {
  elsewhere = await startReceiver('elsewhere')
  const keyed = { ...KEYED, grant_types: ['authorization_code', 'refresh_token', CIBA_GRANT] }
  const features = { encryption: true, ciba: true }
  return { clients: { ...CLIENTS, keyed }, usher: { features } }
})
test.afterAll(() => elsewhere.close())

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

/** Sends a request object in a request of the client itself. Returns whether it was accepted. */
const inRequest = (path: string, accepted: number) => async (request: string) => {
  const client_assertion = await signAssertion(usher.issuer)
  const body = { request, client_assertion_type: ASSERTION, client_assertion }
  const { status } = await send(usher, path, { body })
  expect(status).toBeLessThan(500)
  return status === accepted
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
  'pushed request object': inRequest('/api/oauth/par', 201),
  'backchannel request object': inRequest('/api/oauth/backchannel_authentication', 200),
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

/** Returns a valid JWT for this use, and the public key that verifies it. */
async function honest(use: string) {
  const claims = claimsOf(use)
  if (claims) return { jwt: await signAssertion(usher.issuer, { claims }), key: jwk }
  const { code, request } = await authorize(usher, { browser })
  const { body } = await redeem(usher, code, request)
  const { kid } = decodeProtectedHeader(body.id_token)
  const { json } = await send<JSONWebKeySet>(usher, '/api/oauth/jwks')
  const key = json.keys.find(key => key.kid === kid)
  if (!key) throw new Error('signed by no key of ours')
  return { jwt: body.id_token, key }
}

test.each(Object.entries(USES))(
  '%s: more than fifty forgeries are refused, and nothing is fetched',
  async (name, isTaken) => {
    const real = await honest(name)
    const forged = Object.entries(await forgeries(real.jwt, real.key))
    expect(forged.length).toBeGreaterThan(50)
    const taken: string[] = []
    const slow: string[] = []
    for (const [what, jwt] of forged) {
      // The server is in this process.
      const took = await cpuTimeOf(async () => {
        if (await isTaken(jwt)) taken.push(what)
      })
      if (took > MAX_CPU_MS) slow.push(what)
    }
    expect(taken).toEqual([])
    expect(slow).toEqual([])
    expect(await isTaken(real.jwt)).toBe(true)
    expect(elsewhere.connections()).toBe(0)
  },
)

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
])('a request object with a valid signature is refused with %s', async (_, claims) => {
  const jwt = await signAssertion(usher.issuer, { claims: { ...requestClaims(), ...claims } })
  for (const use of ['request object', 'pushed request object']) {
    expect(await USES[use]?.(jwt)).toBe(false)
  }
})

// Forged JWTs, made from a valid one. No recipient may accept them.

const attacker = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const encode = (part: object | string) =>
  Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')
const decode = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString())

const signed = (header: object, payload: object) => {
  const data = `${encode(header)}.${encode(payload)}`
  const key = { key: attacker.privateKey, dsaEncoding: 'ieee-p1363' } as const
  return `${data}.${sign('sha256', Buffer.from(data), key).toString('base64url')}`
}
const hashed = (header: { alg: string }, payload: object, secret: string) => {
  const data = `${encode(header)}.${encode(payload)}`
  const digest = header.alg.replace('HS', 'sha')
  return `${data}.${createHmac(digest, secret).update(data).digest('base64url')}`
}

/** Returns the forged JWTs by their defect. `key` verifies the valid one. */
async function forgeries(jwt: string, key: JsonWebKey) {
  const site = `http://127.0.0.1:${elsewhere.port}`
  const [first = '', second = '', third = ''] = jwt.split('.')
  const [header, payload] = [decode(first), decode(second)]
  const { kid } = header
  const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
  const own = attacker.publicKey.export({ format: 'jwk' })
  const es = { alg: 'ES256', kid }
  const unsigned = (alg: unknown, signature = '') =>
    `${encode({ ...header, alg })}.${second}.${signature}`
  const secrets = { JWK: JSON.stringify(key), PEM: String(pem), 'trimmed PEM': String(pem).trim() }
  const zeros = (bytes: number) => Buffer.alloc(bytes).toString('base64url')
  const bomb = deflateRawSync(Buffer.alloc(10_000_000)).toString('base64url')
  const jwe = (more: object, text = zeros(64)) =>
    `${encode({ enc: 'A128GCM', ...more })}.${zeros(32)}.${zeros(12)}.${text}.${zeros(16)}`
  const isRsa = key.kty === 'RSA'
  const encrypted = await new CompactEncrypt(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({
      alg: isRsa ? 'RSA-OAEP-256' : 'ECDH-ES',
      enc: 'A256GCM',
      kid,
      cty: 'json',
    })
    .encrypt(await importJWK(key, isRsa ? 'RSA-OAEP-256' : 'ECDH-ES'))

  return {
    'alg none': unsigned('none'),
    'alg None': unsigned('None'),
    'alg NONE': unsigned('NONE'),
    'alg nOnE': unsigned('nOnE'),
    'alg none, with the signature': unsigned('none', third),
    'no alg': unsigned(undefined, third),
    'an empty alg': unsigned('', third),
    'a list of algs': unsigned(['none', header.alg], third),
    'alg null': unsigned(null),
    'another alg over the same signature': unsigned(isRsa ? 'PS256' : 'RS256', third),
    'no signature': `${first}.${second}.`,
    'two parts': `${first}.${second}`,
    'half a signature': `${first}.${second}.${third.slice(0, 40)}`,
    'a signature of zeros': `${first}.${second}.${zeros(64)}`,
    'a signature of zeros, ES256': `${encode(es)}.${second}.${zeros(64)}`,
    'another payload': `${first}.${encode({ ...payload, jti: 'another' })}.${third}`,
    'another header': `${encode({ ...header, x: 1 })}.${second}.${third}`,
    'a key of the attacker, with the valid kid': signed(es, payload),
    'a key of the attacker, without a kid': signed({ alg: 'ES256' }, payload),
    'the key of the attacker in jwk': signed({ ...es, jwk: own }, payload),
    'the key of the attacker in jwk alone': signed({ alg: 'ES256', jwk: own }, payload),
    'the key of the attacker at jku': signed({ ...es, jku: `${site}/jwks` }, payload),
    'the key of the attacker at x5u': signed({ ...es, x5u: `${site}/x5c` }, payload),
    'the key of the attacker in x5c': signed({ ...es, x5c: [encode('a certificate')] }, payload),
    'a kid that is a URL': signed({ alg: 'ES256', kid: `${site}/kid` }, payload),
    'a kid that is a path': hashed({ alg: 'HS256', ...{ kid: '../../dev/null' } }, payload, ''),
    'a kid that is SQL': signed({ alg: 'ES256', kid: "' OR 1=1 --" }, payload),
    'a kid that is an object': signed({ alg: 'ES256', kid: {} }, payload),
    'an unknown crit': signed({ ...es, crit: ['x'], x: 1 }, payload),
    'a payload that is not encoded': signed({ ...es, crit: ['b64'], b64: false }, payload),
    ...Object.fromEntries(
      Object.entries(secrets).flatMap(([name, text]) =>
        ['HS256', 'HS512'].map(alg => [
          `${alg} with the verifying key as ${name}`,
          hashed({ alg, ...{ kid } }, payload, text),
        ]),
      ),
    ),
    'HS256 with the secret': hashed({ alg: 'HS256' }, payload, SECRET),
    'HS384 with the secret': hashed({ alg: 'HS384' }, payload, SECRET),
    'HS256 with an empty secret': hashed({ alg: 'HS256' }, payload, ''),
    'encrypted to the verifying key, without a signature': encrypted,
    'encrypted, dir': jwe({ alg: 'dir' }),
    'encrypted, A256KW': jwe({ alg: 'A256KW' }),
    'encrypted, RSA-OAEP': jwe({ alg: 'RSA-OAEP', kid }),
    'encrypted, RSA1_5': jwe({ alg: 'RSA1_5', kid }),
    'PBES2 of two thousand million rounds': jwe({
      alg: 'PBES2-HS256+A128KW',
      p2c: 2 ** 31,
      p2s: zeros(16),
    }),
    'a zip bomb': jwe({ alg: 'RSA-OAEP-256', zip: 'DEF', kid }, bomb.slice(0, 4000)),
    'a header of 5 kB': signed({ ...es, x: 'x'.repeat(3800) }, payload),
    'JSON in place of compact': JSON.stringify({
      payload: second,
      protected: first,
      signature: third,
    }),
    'four parts': `${jwt}.${third}`,
    'a payload that is a list': `${first}.${encode('[]')}.${third}`,
    'a header that is a list': `${encode('[]')}.${second}.${third}`,
    'no JSON': `${encode('{')}.${second}.${third}`,
    'nothing encoded': '..',
  }
}
