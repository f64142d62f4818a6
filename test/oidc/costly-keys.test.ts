// Keys that clients bring themselves cost little: the length of RSA keys, their number, and the key that a JWT names.

import { type JWK, SignJWT } from 'jose'
import { expect } from 'vitest'
import { keyCostProblem } from '../../src/oidc/keys.ts'
import { forgedJwt, okpKey, rsaKey } from '../support/costly-keys.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { KEY_SITE_OPTIONS, type KeySite, startKeySite } from '../support/key-site.ts'
import { ASSERTION, assertionClaims, jwk, KEYED, privateKey } from '../support/keyed.ts'
import { createProver } from '../support/proofs.ts'
import { CALLBACK, METADATA, registerNew } from '../support/registration.ts'
import { CLIENTS, startUsher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const SPA_CALLBACK = 'https://spa.example.org/callback'
const TOKEN = '/api/oauth/token'
const { kid: _, ...OWN } = jwk

let site: KeySite
const test = usherTest(async () => {
  site = await startKeySite()
  const jwks_uri = `http://127.0.0.1:${site.port}/configured`
  const clients = { ...CLIENTS, keyed: { ...KEYED, jwks: undefined, jwks_uri } }
  return { ...KEY_SITE_OPTIONS, clients }
})
test.afterAll(() => site.close())

const named = (keys: object[]) => keys.map((key, i) => ({ ...key, kid: `k${i}` }))
const times = (n: number, make: () => object) => Array.from({ length: n }, make)

type Header = { alg: string; kid?: string }

/** Sends a token request that a client signs with the header, by its own key where `alg` is ES256. */
async function authenticate(client_id: string, header: Header) {
  const claims = { ...assertionClaims(usher.issuer), iss: client_id, sub: client_id }
  const signed = new SignJWT(claims).setProtectedHeader(header)
  const isOwn = header.alg === 'ES256'
  const client_assertion = isOwn ? await signed.sign(privateKey) : forgedJwt(header, claims)
  const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
  const body = { ...form, client_assertion, client_assertion_type: ASSERTION }
  const { status, json } = await send(usher, TOKEN, { body })
  return [status, json.error, json.error_description]
}

const VALID = [400, 'invalid_grant', expect.any(String)]
const refused = (text: string) => [401, 'invalid_client', expect.stringContaining(text)]

// biome-ignore format: a table
const SETS: [what: string, keys: object[], header: Header, expected: unknown[]][] = [
  ['one key, without a kid',         [OWN],                                   { alg: 'ES256' },             VALID],
  ['ten keys, and a kid',            named([OWN, ...times(9, okpKey)]),       { alg: 'ES256', kid: 'k0' },  VALID],
  ['ten keys that all fit, and a kid', named([OWN, ...times(9, () => OWN)]),  { alg: 'ES256', kid: 'k3' },  VALID],
  ['RSA of 4096 bits beside it',     named([OWN, rsaKey(4096)]),              { alg: 'ES256', kid: 'k0' },  VALID],
  ['two keys that fit, without a kid', named([OWN, OWN]),                     { alg: 'ES256' },             refused('kid is required')],
  ['a kid that two keys have',       [OWN, OWN].map(key => ({ ...key, kid: 'a' })), { alg: 'ES256', kid: 'a' }, refused('several keys of this client have the kid')],
  ['eleven keys',                    named([OWN, ...times(10, okpKey)]),      { alg: 'ES256', kid: 'k0' },  refused('has 11 keys: at most 10')],
  ['700 Ed25519 keys',               named(times(700, okpKey)),               { alg: 'EdDSA', kid: 'k0' },  refused('has 700 keys: at most 10')],
  ['RSA with a long exponent',       [rsaKey(3072, 3072)],                    { alg: 'RS256' },             refused('keys.0 of this client: e has 32 bits at most')],
  ['RSA with an exponent of 40 bits', named([OWN, rsaKey(2048, 40)]),         { alg: 'RS256', kid: 'k1' },  refused('keys.1 of this client: e has 32 bits at most')],
  ['RSA of 16384 bits',              named([OWN, rsaKey(16_384)]),            { alg: 'PS256', kid: 'k1' },  refused('keys.1 of this client: n: RSA has 4096 bits at most')],
  ['RSA of 4104 bits',               [rsaKey(4104)],                          { alg: 'RS256' },             refused('n: RSA has 4096 bits at most')],
]
test.each(SETS)('keys of a jwks_uri: %s', async (_, keys, header, expected) => {
  site.answer(JSON.stringify({ keys }))
  expect(await authenticate(await site.register(usher), header)).toEqual(expected)
})

test.each<[string, object[], string]>([
  ['eleven keys', named(times(11, okpKey)), 'jwks has 10 keys at most'],
  ['RSA with a long exponent', [rsaKey(3072, 3072)], 'jwks.keys.0 e has 32 bits at most'],
  ['RSA of 8192 bits', [rsaKey(8192)], 'jwks.keys.0 n: RSA has 4096 bits at most'],
])('a registration with %s is refused', async (_, keys, description) => {
  const keyed = { token_endpoint_auth_method: 'private_key_jwt', jwks: { keys } }
  await expect(registerNew(usher, { ...METADATA, ...keyed })).rejects.toThrow(description)
})

test('a client file can have more keys, and none that costs as much', async () => {
  site.answer(JSON.stringify({ keys: [OWN, ...times(12, okpKey), OWN] }))
  expect(await authenticate('keyed', { alg: 'ES256' })).toEqual(VALID)
  const optionsOf = (keys: object[]) => ({ clients: { keyed: { ...KEYED, jwks: { keys } } } })
  await startAnother(optionsOf(named(times(12, okpKey))))
  await expect(startUsher(optionsOf([rsaKey(2048, 64)]))).rejects.toThrow('e has 32 bits at most')
})

test('a request object needs a kid where several keys fit', async () => {
  const keys = named([OWN, OWN])
  const { client_id } = await registerNew(usher, { ...METADATA, jwks: { keys } })
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: client_id, aud: usher.issuer, client_id, exp: now + 60, nbf: now }
  const query = { client_id, response_type: 'code', scope: 'openid', redirect_uri: CALLBACK }
  const ask = async (header: Header) => {
    const request = await new SignJWT({ ...claims, ...query })
      .setProtectedHeader(header)
      .sign(privateKey)
    const search = new URLSearchParams({ client_id, request })
    const { status, text } = await send(usher, `/api/oauth/authorize?${search}`)
    return [status, text]
  }
  expect(await ask({ alg: 'ES256' })).toEqual([400, expect.stringContaining('kid is required')])
  expect(await ask({ alg: 'ES256', kid: 'k1' })).toEqual([303, expect.any(String)])
})

test('a DPoP proof with such a key is refused before it is verified, at every endpoint', async () => {
  const prover = await createProver()
  const { url } = authorizationRequest(usher, { client_id: 'spa', redirect_uri: SPA_CALLBACK })
  const pushed = Object.fromEntries(new URL(url, usher.issuer).searchParams)
  const unknown = { client_id: 'spa', grant_type: 'refresh_token', refresh_token: 'unknown' }
  const endpoints: [path: string, form: Record<string, string>, authorization?: string][] = [
    [TOKEN, unknown],
    ['/api/oauth/par', pushed],
    ['/api/oauth/userinfo', {}, 'DPoP none-of-ours'],
  ]
  for (const [path, body, authorization] of endpoints) {
    const proofOf = (jwk: object) =>
      prover.prove('POST', usher.issuer + path, { header: { alg: 'ES256', jwk } })
    for (const [jwk, text] of [
      [rsaKey(3072, 3072), 'the header DPoP: jwk: e has 32 bits at most'],
      [rsaKey(16_384), 'the header DPoP: jwk: n: RSA has 4096 bits at most'],
    ] as const) {
      const dpop = await proofOf(jwk)
      const { json } = await send(usher, path, {
        body,
        headers: { dpop, ...(authorization && { authorization }) },
      })
      expect([path, json]).toEqual([
        path,
        expect.objectContaining({
          error: 'invalid_dpop_proof',
          error_description: expect.stringContaining(text),
        }),
      ])
    }
  }
})

const SIZES: [JWK, string | undefined][] = [
  [rsaKey(4096, 'AQAB'), undefined],
  [rsaKey(2048, 32), undefined],
  [{ ...rsaKey(4096), n: `AAAA${rsaKey(4096).n}` }, undefined],
  [rsaKey(2048, 'AAAAAAAAAAEAAQ'), undefined],
  [rsaKey(4104), 'n: RSA has 4096 bits at most'],
]
test('zeros before a number do not count for its length', () => {
  for (const [jwk, problem] of SIZES)
    expect([jwk, keyCostProblem({ ...jwk })]).toEqual([jwk, problem])
})
