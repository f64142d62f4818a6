// OAuth 2.0 Attestation-Based Client Authentication (a draft): instances of an application authenticate with an
// attestation of its backend.

import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { expect } from 'vitest'
import { rsaKey } from '../support/costly-keys.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorize, codeForm } from '../support/journey.ts'
import { CLIENTS, startUsher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const CHALLENGE = '/api/oauth/challenge'
const pair = () => generateKeyPair('ES256', { extractable: true })
type Pair = Awaited<ReturnType<typeof pair>>
const [backend, stranger] = [await pair(), await pair()]
const jwks = { keys: [{ ...(await exportJWK(backend.publicKey)), kid: 'backend' }] }
const { client_secret_hashes: _, ...web } = { ...CLIENTS.web, client_secret_hashes: [] }
const wallet = {
  ...web,
  client_id: 'wallet',
  redirect_uris: ['https://wallet.example.org/callback'],
  token_endpoint_auth_method: 'attest_jwt_client_auth',
  jwks,
}
const options = { usher: { features: { client_attestation: true } }, clients: { wallet } }
const test = usherTest(options)

const now = () => Math.floor(Date.now() / 1000)
/** The JWT in which a backend says that the key is of an instance of its application. */
const attestation = (jwk: JWK, by: Pair = backend) =>
  new SignJWT({ cnf: { jwk } })
    .setProtectedHeader({ alg: 'ES256', kid: 'backend', typ: 'oauth-client-attestation+jwt' })
    .setSubject('wallet')
    .setIssuedAt()
    .setExpirationTime(now() + 300)
    .sign(by.privateKey)
const proof = (instance: Pair, challenge?: unknown) =>
  new SignJWT({ challenge })
    .setProtectedHeader({ alg: 'ES256', typ: 'oauth-client-attestation-pop+jwt' })
    .setAudience(usher.issuer)
    .setIssuedAt()
    .setJti(randomUUID())
    .sign(instance.privateKey)
const getChallenge = async () =>
  (await send(usher, CHALLENGE, { method: 'POST' })).json.attestation_challenge

/** The headers with which an instance of the application authenticates. */
async function headersOf(instance: Pair, more: { by?: Pair; challenge?: unknown } = {}) {
  const { by, challenge = await getChallenge() } = more
  return {
    'oauth-client-attestation': await attestation(await exportJWK(instance.publicKey), by),
    'oauth-client-attestation-pop': await proof(instance, challenge),
  }
}

/** The form of a token request for a new code. */
async function newForm(): Promise<Record<string, string>> {
  const [redirect_uri = ''] = wallet.redirect_uris
  const scope = 'openid offline_access'
  const { code, request } = await authorize(usher, { client_id: 'wallet', redirect_uri, scope })
  return codeForm(code, request)
}

test('an instance redeems a code, and its refresh token is bound to its key', async () => {
  const [instance, other] = [await pair(), await pair()]
  const body = await newForm()
  const { status, json } = await send(usher, TOKEN, { body, headers: await headersOf(instance) })
  expect([status, typeof json.access_token]).toEqual([200, 'string'])
  const renewal = { grant_type: 'refresh_token', refresh_token: String(json.refresh_token) }
  const refreshBy = async (key: Pair) =>
    send(usher, TOKEN, { body: renewal, headers: await headersOf(key) })
  expect(await refreshBy(other)).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
  expect(await refreshBy(instance)).toMatchObject({ status: 200 })
})

test('an attestation by another key, a proof by another key and a repeated proof are refused', async () => {
  const instance = await pair()
  const body = { grant_type: 'refresh_token', refresh_token: 'x' }
  const errorOf = async (headers: Record<string, string>) =>
    (await send(usher, TOKEN, { body, headers })).json.error
  const valid = await headersOf(instance)
  expect(await errorOf(valid)).toBe('invalid_grant')
  expect(await errorOf(valid)).toBe('invalid_client')
  expect(await errorOf(await headersOf(instance, { by: stranger }))).toBe('invalid_client')
  const foreign = { 'oauth-client-attestation-pop': await proof(stranger, await getChallenge()) }
  expect(await errorOf({ ...valid, ...foreign })).toBe('invalid_client')
  expect((await send(usher, TOKEN, { body: { ...body, client_id: 'wallet' } })).json.error).toBe(
    'invalid_client',
  )
})

test('an attestation of a key whose signatures take long is refused', async () => {
  const body = { grant_type: 'refresh_token', refresh_token: 'x' }
  const headers = {
    ...(await headersOf(await pair())),
    'oauth-client-attestation': await attestation(rsaKey(3072, 3072)),
  }
  const { json } = await send(usher, TOKEN, { body, headers })
  expect([json.error, json.error_description]).toEqual([
    'invalid_client',
    'cnf.jwk of the attestation: e has 32 bits at most: AQAB',
  ])
})

test('a proof without a challenge of the provider is answered with one', async () => {
  const instance = await pair()
  const body = { grant_type: 'refresh_token', refresh_token: 'x' }
  const headers = await headersOf(instance, { challenge: 'invented' })
  const refused = await send(usher, TOKEN, { body, headers })
  expect(refused.json.error).toBe('use_attestation_challenge')
  const challenge = refused.headers.get('oauth-client-attestation-challenge')
  const again = await send(usher, TOKEN, {
    body,
    headers: await headersOf(instance, { challenge }),
  })
  expect(again.json.error).toBe('invalid_grant')
})

test('discovery lists it; while it is off, a client file cannot name the method', async () => {
  const { json } = await send(usher, '/.well-known/openid-configuration')
  expect(json.token_endpoint_auth_methods_supported).toContain('attest_jwt_client_auth')
  expect(json.challenge_endpoint).toBe(usher.issuer + CHALLENGE)
  const message = /needs a setting that is off: `features.client_attestation`/
  await expect(startUsher({ clients: { wallet } })).rejects.toThrow(message)
  const { jwks: _keys, ...keyless } = wallet
  await expect(startUsher({ ...options, clients: { keyless } })).rejects.toThrow(
    /attest_jwt_client_auth needs the keys/,
  )
})
