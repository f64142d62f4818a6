// Signature and encryption of ID tokens and UserInfo responses.

import {
  compactDecrypt,
  decodeJwt,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  type JSONWebKeySet,
  jwtVerify,
} from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { configurationOf, signInWith } from '../support/client-library.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, post, signInAndAllow } from '../support/journey.ts'
import { CLIENTS, SECRET, startUsher, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const rsa = await generateKeyPair('RSA-OAEP-256', { extractable: true })
const ec = await generateKeyPair('ECDH-ES', { extractable: true })
const jwks = {
  keys: [
    { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', use: 'enc' },
    { ...(await exportJWK(ec.publicKey)), kid: 'ec', use: 'enc' },
  ],
}
const SIGNED = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
const clients = {
  ...Object.fromEntries(
    SIGNED.map(alg => {
      const algs = { id_token_signed_response_alg: alg, userinfo_signed_response_alg: alg }
      return [alg, { ...CLIENTS.web, client_id: alg, ...algs }]
    }),
  ),
  sealed: {
    ...CLIENTS.web,
    client_id: 'sealed',
    jwks,
    id_token_encrypted_response_alg: 'RSA-OAEP-256',
    id_token_encrypted_response_enc: 'A256GCM',
    userinfo_signed_response_alg: 'ES256',
    userinfo_encrypted_response_alg: 'ECDH-ES',
    authorization_encrypted_response_alg: 'ECDH-ES',
    introspection_encrypted_response_alg: 'RSA-OAEP-256',
    response_modes: ['query', 'jwt'],
  },
}
const usher_yaml = { features: { encryption: true, jwt_introspection: true } }

const test = usherTest({ clients, usher: usher_yaml })

test.each(SIGNED)('ID token and UserInfo can be signed with %s', async alg => {
  const metadata = { id_token_signed_response_alg: alg, userinfo_signed_response_alg: alg }
  const config = await configurationOf(usher, alg, metadata)
  const tokens = await signInWith(usher, config, { redirect_uri: WEB })
  expect(decodeProtectedHeader(tokens.id_token ?? '').alg).toBe(alg)

  const headers = { authorization: `Bearer ${tokens.access_token}` }
  const { text, headers: listed } = await send(usher, '/api/oauth/userinfo', { headers })
  expect(listed.get('content-type')).toBe('application/jwt; charset=utf-8')
  const { json } = await send<JSONWebKeySet>(usher, '/api/oauth/jwks')
  const keys = json.keys.filter(key => key.alg === alg)
  const { kid } = decodeProtectedHeader(text)
  const key = keys.find(key => key.kid === kid)
  if (!key) throw new Error(`no key ${kid}`)
  const { payload } = await jwtVerify(text, key, { issuer: usher.issuer, audience: alg })
  expect(payload).toMatchObject({ sub: tokens.claims()?.sub, email: 'ada@example.org' })
  expect(payload).not.toHaveProperty('nonce')
})

test('for a client with encryption keys they are encrypted, too', async () => {
  const config = await configurationOf(usher, 'sealed', {
    id_token_encrypted_response_alg: 'RSA-OAEP-256',
    userinfo_signed_response_alg: 'ES256',
  })
  openid.enableDecryptingResponses(
    config,
    undefined,
    { key: rsa.privateKey, kid: 'rsa' },
    {
      key: ec.privateKey,
      kid: 'ec',
    },
  )
  const tokens = await signInWith(usher, config, { redirect_uri: WEB })
  expect(tokens.claims()).toMatchObject({ name: 'Ada Lovelace' })
  const sub = tokens.claims()?.sub ?? ''
  const listed = await openid.fetchUserInfo(config, tokens.access_token, sub)
  expect(listed).toMatchObject({ email: 'ada@example.org' })
  const headers = { authorization: `Bearer ${tokens.access_token}` }
  const { text } = await send(usher, '/api/oauth/userinfo', { headers })
  expect(decodeProtectedHeader(text)).toMatchObject({ alg: 'ECDH-ES', enc: 'A128CBC-HS256' })
})

test('authorization and introspection responses are encrypted to the key of the client', async () => {
  const params = { client_id: 'sealed', redirect_uri: WEB, response_mode: 'jwt' }
  const browser = new Browser(usher.issuer)
  await browser.open(authorizationRequest(usher, params).url)
  const { params: answer } = await signInAndAllow(browser, 'ada')
  const { plaintext } = await compactDecrypt(answer.get('response') ?? '', ec.privateKey)
  const { iss, aud, code } = decodeJwt(new TextDecoder().decode(plaintext))
  expect([iss, aud, typeof code]).toEqual([usher.issuer, 'sealed', 'string'])

  const accept = 'application/token-introspection+jwt'
  const asked = { body: { token: 'x' }, headers: { ...basic('sealed', SECRET), accept } }
  const { text } = await send(usher, '/api/oauth/introspect', asked)
  const introspected = await compactDecrypt(text, rsa.privateKey)
  const claims = decodeJwt(new TextDecoder().decode(introspected.plaintext))
  expect(claims).toMatchObject({ token_introspection: { active: false }, aud: 'sealed' })
  const plain = await post(usher, '/api/oauth/introspect', { token: 'x', client_id: 'sealed' })
  expect([plain.status, plain.body.error]).toEqual([400, 'invalid_request'])
})

test('discovery lists no weak or symmetric algorithm, and no encryption of requests without a key', async () => {
  const { json } = await send(usher, '/.well-known/openid-configuration')
  const listed = Object.entries(json).filter(([name]) => /_encryption_(alg|enc)_values_/.test(name))
  expect(Object.fromEntries(listed.filter(([name]) => name.includes('_alg_')))).toEqual({
    authorization_encryption_alg_values_supported: ['RSA-OAEP-256', 'ECDH-ES'],
    id_token_encryption_alg_values_supported: ['RSA-OAEP-256', 'ECDH-ES'],
    introspection_encryption_alg_values_supported: ['RSA-OAEP-256', 'ECDH-ES'],
    userinfo_encryption_alg_values_supported: ['RSA-OAEP-256', 'ECDH-ES'],
  })
  expect(json.userinfo_signing_alg_values_supported).toEqual(
    json.id_token_signing_alg_values_supported,
  )
})

const web = (more: object) => ({ clients: { web: { ...CLIENTS.web, ...more } } })
test.each<[string, object, RegExp]>([
  ['encryption that is off', { id_token_encrypted_response_alg: 'ECDH-ES', jwks }, /feature-off/],
  ['RSA-OAEP with SHA-1', { id_token_encrypted_response_alg: 'RSA-OAEP', jwks }, /RSA-OAEP-256/],
  [
    'responses to no key',
    { authorization_encrypted_response_alg: 'ECDH-ES' },
    /client-key-missing/,
  ],
  ['dir', { userinfo_encrypted_response_alg: 'dir', jwks }, /RSA-OAEP-256/],
  ['A256KW', { userinfo_encrypted_response_alg: 'A256KW', jwks }, /RSA-OAEP-256/],
  ['HS256', { userinfo_signed_response_alg: 'HS256' }, /EdDSA/],
  ['none', { id_token_signed_response_alg: 'none' }, /EdDSA/],
])('a client file with %s is refused', async (_, more, reason) => {
  await expect(startUsher(web(more))).rejects.toThrow(reason)
})

test('a client without an encryption key is refused at the start', async () => {
  const keys = [{ ...jwks.keys[0], use: 'sig' }]
  const more = { id_token_encrypted_response_alg: 'RSA-OAEP-256', jwks: { keys } }
  const start = startUsher({ ...web(more), usher: usher_yaml })
  await expect(start).rejects.toThrow(/needs a key to encrypt to/)
})

test('PS256 has a key, and is in discovery, only if a client uses it', async () => {
  const other = await startAnother()
  const { json } = await send(other, '/.well-known/openid-configuration')
  expect(json.id_token_signing_alg_values_supported).toEqual(['RS256', 'ES256', 'EdDSA'])
})
