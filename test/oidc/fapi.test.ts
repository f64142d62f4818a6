// `profile: fapi2`: one line in a client's file switches on the FAPI 2.0 Security Profile.

import { createPrivateKey } from 'node:crypto'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { configurationOf, follow, newRequest } from '../support/client-library.ts'
import { client, read } from '../support/config-folder.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import {
  ASSERTION,
  assertionClaims,
  jwk,
  KEYED,
  privateKey,
  signAssertion,
} from '../support/keyed.ts'
import { createProver } from '../support/proofs.ts'
import { ADA, CLIENTS } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const FAPI = { ...KEYED, profile: 'fapi2' }
const CALLBACK = 'https://keyed.example.org/callback'
const SCOPE = 'openid profile email offline_access'
const PAR = '/api/oauth/par'

const rsa = await generateKeyPair('RS256', { extractable: true })

const test = usherTest(async () => {
  const keys = [jwk, { ...(await exportJWK(rsa.publicKey)), kid: 'rsa' }]
  return { clients: { ...CLIENTS, keyed: { ...FAPI, jwks: { keys } } } }
})

/** openid-client with private_key_jwt assertions for the issuer, and DPoP. */
async function connect() {
  const key = { key: privateKey, kid: jwk.kid }
  const metadata = { id_token_signed_response_alg: 'ES256' }
  const config = await configurationOf(usher, 'keyed', metadata, openid.PrivateKeyJwt(key))
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('ES256'))
  return { config, DPoP }
}

async function tokensOf({ config, DPoP }: Awaited<ReturnType<typeof connect>>) {
  const { params, checks } = await newRequest({ redirect_uri: CALLBACK, scope: SCOPE })
  const url = await openid.buildAuthorizationUrlWithPAR(config, params, { DPoP })
  const answer = await follow(usher, url)
  return openid.authorizationCodeGrant(config, answer, checks, {}, { DPoP })
}

test('openid-client signs in, reads UserInfo and refreshes with DPoP proofs that have a nonce', async () => {
  const connected = await connect()
  const given = await tokensOf(connected)
  expect(given).toMatchObject({ token_type: 'dpop', expires_in: 600 })
  const { config, DPoP } = connected
  const sub = given.claims()?.sub ?? ''
  const info = await openid.fetchUserInfo(config, given.access_token, sub, { DPoP })
  expect(info.email).toBe(ADA.email)
})

test('the refresh token is not rotated, so that a lost response costs nothing, and keeps its lifetime', async () => {
  const { config, DPoP } = await connect()
  const { refresh_token = '' } = await tokensOf({ config, DPoP })
  for (let i = 0; i < 3; i++) {
    const renewed = await openid.refreshTokenGrant(config, refresh_token, {}, { DPoP })
    expect(renewed.refresh_token).toBe(refresh_token)
    expect(renewed.claims()?.nonce).toBeUndefined()
  }
  const { exp = 0 } = await openid.tokenIntrospection(config, refresh_token)
  const days = (exp - Date.now() / 1000) / (24 * 3600)
  expect(days).toBeGreaterThan(89.9)
  await openid.tokenRevocation(config, refresh_token)
  const refused = openid.refreshTokenGrant(config, refresh_token, {}, { DPoP })
  await expect(refused).rejects.toMatchObject({ error: 'invalid_grant' })
})

test('only pushed requests are accepted', async () => {
  const { config } = await connect()
  const { params } = await newRequest({ redirect_uri: CALLBACK })
  const browser = new Browser(usher.issuer)
  const page = await browser.open(openid.buildAuthorizationUrl(config, params))
  expect(page.params.get('error')).toBe('invalid_request')
  expect(page.params.get('iss')).toBe(usher.issuer)
})

describe('a request is refused', () => {
  const body = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'keyed' }
  const ask = async (client_assertion: string, headers: Record<string, string> = {}) =>
    send(usher, '/api/oauth/token', {
      body: { ...body, client_assertion_type: ASSERTION, client_assertion },
      headers,
    })
  test('with a proof without a nonce of the provider', async () => {
    const dpop = await (await createProver()).prove('POST', `${usher.issuer}/api/oauth/token`)
    const answer = await ask(await signAssertion(usher.issuer), { dpop })
    expect(answer).toMatchObject({ status: 400, json: { error: 'use_dpop_nonce' } })
    expect(answer.headers.get('dpop-nonce')).toMatch(/^[\w-]{43}$/)
  })
  test.each([
    ['for the token endpoint', () => `${usher.issuer}/api/oauth/token`],
    ['for the issuer in a list', () => [usher.issuer]],
  ])('with an assertion %s', async (_, audience) => {
    const answer = await ask(await signAssertion(usher.issuer, { claims: { aud: audience() } }))
    expect(answer).toMatchObject({ status: 401, json: { error: 'invalid_client' } })
  })
  test.each([
    ['RS256', 401, 'invalid_client'],
    ['PS256', 400, 'invalid_grant'],
  ])('with an assertion by RS256, where PS256 would do: %s', async (alg, status, error) => {
    const assertion = await new SignJWT(assertionClaims(usher.issuer))
      .setProtectedHeader({ alg, kid: 'rsa' })
      .sign(createPrivateKey({ key: await exportJWK(rsa.privateKey), format: 'jwk' }))
    expect(await ask(assertion)).toMatchObject({ status, json: { error } })
  })
  test.each([
    ['without nbf', undefined, 'nbf is needed'],
    ['with an nbf that is 61 minutes old', -3660, 'nbf is over 60 minutes old'],
    ['with an nbf that is 59 minutes old: not', -3540, undefined],
  ])('with a request object %s', async (_, since, reason) => {
    const at = Math.floor(Date.now() / 1000)
    const request = await signAssertion(usher.issuer, {
      claims: {
        sub: undefined,
        client_id: 'keyed',
        redirect_uri: CALLBACK,
        response_type: 'code',
        scope: 'openid',
        code_challenge: 'x'.repeat(43),
        code_challenge_method: 'S256',
        nbf: since === undefined ? undefined : at + since,
      },
    })
    const client_assertion = await signAssertion(usher.issuer)
    const body = { client_assertion_type: ASSERTION, client_assertion, request }
    const answer = await send(usher, PAR, { body })
    if (!reason) return expect(answer.status).toBe(201)
    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request_object' } })
    expect(answer.json.error_description).toContain(reason)
  })
  test('without PKCE', async () => {
    const client_assertion = await signAssertion(usher.issuer)
    const form = { client_assertion_type: ASSERTION, client_assertion, response_type: 'code' }
    const request = { ...form, client_id: 'keyed', redirect_uri: CALLBACK, scope: 'openid' }
    const answer = await send(usher, PAR, { body: request })
    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
  })
})

test('a pushed request from a clock that is 10 seconds ahead is accepted', async () => {
  const iat = Math.floor(Date.now() / 1000) + 10
  const claims = { iat, nbf: iat, exp: iat + 60 }
  const body = {
    client_assertion_type: ASSERTION,
    client_assertion: await signAssertion(usher.issuer, { claims }),
    ...(await newRequest({ redirect_uri: CALLBACK })).params,
    response_type: 'code',
    client_id: 'keyed',
  }
  const answer = await send(usher, PAR, { body })
  expect(answer).toMatchObject({ status: 201, json: { expires_in: 60 } })
})

test('the profile of one client does not change discovery for the others', async () => {
  const { json } = await send(usher, '/.well-known/openid-configuration')
  expect(json.require_pushed_authorization_requests).not.toBe(true)
})

const KEYS = { token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [jwk] } }
const fapi = (changes: object) => client({ ...KEYS, profile: 'fapi2', ...changes })

test.each<[string, object, object?]>([
  ['token_endpoint_auth_method', { token_endpoint_auth_method: 'none', jwks: undefined }],
  ['id_token_signed_response_alg', { id_token_signed_response_alg: 'RS256' }],
  ['require_pkce', { require_pkce: false }],
  ['require_pushed_authorization_requests', { require_pushed_authorization_requests: false }],
  ['dpop_bound_access_tokens', { dpop_bound_access_tokens: false }],
  ['profile', {}, { dpop: false }],
  ['profile', {}, { pushed_authorization_requests: false }],
])(
  'a client file that contradicts the profile is refused, at %s',
  async (key, changes, features = {}) => {
    expect((await read({ 'clients/web.yaml': fapi({}) })).findings).toEqual([])
    const usher = { 'usher.yaml': JSON.stringify({ features }) }
    const { findings } = await read({ ...usher, 'clients/web.yaml': fapi(changes) })
    expect(findings.map(finding => finding.key)).toEqual([key])
    expect(findings[0]?.message).toContain('fapi2')
  },
)
