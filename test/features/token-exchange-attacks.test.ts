// Token exchange: keys that tokens are bound to, pairwise subjects, and subject tokens that are not valid.

import { decodeJwt, decodeProtectedHeader, generateKeyPair, importJWK, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { EXCHANGE_GRANT } from '../../src/oidc/vocabulary.ts'
import { FILES } from '../support/apis.ts'
import { makeCertificate } from '../support/certificates.ts'
import { configurationOf } from '../support/client-library.ts'
import {
  ACCESS_TOKEN,
  EXCHANGING,
  exchange,
  ID_TOKEN,
  introspect,
  shopTokens,
  signingKey,
  TILL,
} from '../support/exchange.ts'
import { ada, moveClock, usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorize, codeForm, post, redeem, tokens } from '../support/journey.ts'
import { createProver, type Prover } from '../support/proofs.ts'
import { ADA, CLAIMS, SECRET, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const folder = temporaryFolder()
const certificate = makeCertificate(folder, 'own')
const other = makeCertificate(folder, 'other')
const { 'shop-api': shopApi, web } = EXCHANGING.clients
const { resources } = EXCHANGING
const own = { scopes: ['files:read'] }

const test = usherTest({
  accounts: [{ ...ADA, attributes: { may_act: { sub: 'another' } } } as typeof ADA],
  clients: {
    ...EXCHANGING.clients,
    strict: { ...web, client_id: 'strict', dpop_bound_access_tokens: true },
    nonced: { ...web, client_id: 'nonced', require_dpop_nonce: true },
    mtls: { ...web, client_id: 'mtls', tls_client_certificate_bound_access_tokens: true },
    wiki: {
      ...web,
      client_id: 'wiki',
      redirect_uris: ['https://wiki.example.org/callback'],
      subject_type: 'pairwise',
    },
    'wiki-api': {
      ...shopApi,
      client_id: 'wiki-api',
      subject_type: 'pairwise',
      sector_identifier_uri: 'https://wiki-api.example.org/',
    },
  },
  resources: {
    ...resources,
    files: {
      ...resources.files,
      exchange: [
        ...resources.files.exchange,
        { client: 'strict', ...own },
        { client: 'nonced', ...own },
        { client: 'mtls', ...own },
        { client: 'wiki', ...own },
        { client: 'wiki-api', from: ['shop', 'till'], ...own },
      ],
    },
  },
  claims: {
    claims: { ...CLAIMS.claims, may_act: { scope: 'acting', from: 'attributes.may_act' } },
  },
  usher: {
    features: { mtls: true, pairwise_subjects: true },
    proxy: ['127.0.0.1'],
    client_certificates: { header: 'X-Client-Cert' },
  },
})

const TOKEN = '/api/oauth/token'
const proofBy = (key: Prover, change = {}) => key.prove('POST', `${usher.issuer}${TOKEN}`, change)
const form = (subject_token: string, more: Record<string, string> = {}) => ({
  grant_type: EXCHANGE_GRANT,
  subject_token,
  subject_token_type: ACCESS_TOKEN,
  resource: FILES,
  ...more,
})

describe('a token that is bound to a key by DPoP', () => {
  async function bound(key: Prover, client_id = 'strict') {
    const { code, request } = await authorize(usher, { client_id, redirect_uri: WEB })
    const body = codeForm(code, request)
    const headers = { ...basic(client_id, SECRET), dpop: await proofBy(key) }
    const { json } = await send(usher, TOKEN, { body, headers })
    return String(json.access_token)
  }
  const ask = (token: string, dpop?: string, client_id = 'strict') =>
    send(usher, TOKEN, {
      body: form(token),
      headers: { ...basic(client_id, SECRET), ...(dpop !== undefined && { dpop }) },
    })

  test('is exchanged only with a proof by this key, and keeps it', async () => {
    const [key, thief] = [await createProver(), await createProver()]
    const token = await bound(key)
    const unproven = { status: 400, json: { error: 'invalid_request' } }
    expect(await ask(token)).toMatchObject(unproven)
    expect(await ask(token, await proofBy(thief))).toMatchObject(unproven)
    const proof = await proofBy(key)
    const { status, json } = await ask(token, proof)
    expect([status, json.token_type]).toEqual([200, 'DPoP'])
    const about = await introspect(usher, String(json.access_token))
    expect(about).toMatchObject({ active: true, cnf: { jkt: key.jkt } })
    const again = { status: 400, json: { error: 'invalid_dpop_proof' } }
    expect(await ask(token, proof)).toMatchObject(again)
  })

  test('is not exchanged with a proof that is wrong', async () => {
    const key = await createProver()
    const token = await bound(key)
    const now = Math.floor(Date.now() / 1000)
    const hollow = { toString: 1, valueOf: 1 }
    const wrong: [change: object, error?: string][] = [
      [{ claims: { htm: 'GET' } }],
      [{ claims: { htu: 'https://other.example.org/api/oauth/token' } }],
      [{ claims: { iat: now - 301 } }, 'use_dpop_nonce'],
      [{ claims: { iat: now + 361 } }, 'use_dpop_nonce'],
      [{ claims: { jti: undefined } }],
      [{ claims: { jti: hollow } }],
      [{ claims: { htu: [hollow] } }],
      [{ claims: { iat: hollow } }],
      [{ header: { typ: 'JWT' } }],
    ]
    for (const [change, error = 'invalid_dpop_proof'] of wrong) {
      const answer = await ask(token, await proofBy(key, change))
      expect(answer, JSON.stringify(change)).toMatchObject({ status: 400, json: { error } })
    }
  })

  test('is exchanged for a client that has to send a nonce, with a nonce of the provider', async () => {
    const key = await createProver()
    const { access_token } = await tokens(usher, { client_id: 'nonced', redirect_uri: WEB })
    const askWith = async (nonce?: string) =>
      ask(access_token, await proofBy(key, { claims: { nonce } }), 'nonced')
    const refused = { status: 400, json: { error: 'use_dpop_nonce' } }
    expect(await askWith('x')).toMatchObject(refused)
    const answer = await askWith()
    expect(answer).toMatchObject(refused)
    const { status, json } = await askWith(answer.headers.get('dpop-nonce') ?? '')
    expect([status, json.token_type]).toEqual([200, 'DPoP'])
  })

  test('can come from a token that is not bound', async () => {
    const { access_token } = await tokens(usher)
    const key = await createProver()
    const { json } = await ask(access_token, await proofBy(key), 'web')
    const about = await introspect(usher, String(json.access_token))
    expect(about).toMatchObject({ active: true, cnf: { jkt: key.jkt } })
  })
})

test('a token that is bound to a certificate is exchanged only with it, and keeps it', async () => {
  const ask = (body: Record<string, string>, sent?: typeof certificate) => {
    const header = sent && { 'x-client-cert': encodeURIComponent(sent.pem) }
    return send(usher, TOKEN, { body, headers: { ...basic('mtls', SECRET), ...header } })
  }
  const { code, request } = await authorize(usher, { client_id: 'mtls', redirect_uri: WEB })
  const { json } = await ask(codeForm(code, request), certificate)
  const token = String(json.access_token)
  const first = await ask(form(token), certificate)
  const about = await introspect(usher, String(first.json.access_token))
  expect(about).toMatchObject({ active: true, cnf: { 'x5t#S256': expect.any(String) } })
  for (const sent of [undefined, other]) {
    const answer = await ask(form(token), sent)
    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
  }
})

test('each client sees the subject of its own sector', async () => {
  const redirect_uri = 'https://wiki.example.org/callback'
  const { code, request } = await authorize(usher, { client_id: 'wiki', redirect_uri })
  const { body } = await redeem(usher, code, request)
  const { sub } = decodeJwt(body.id_token)
  const wiki = await exchange(usher, body.access_token, { client_id: 'wiki' })
  expect((await introspect(usher, wiki.body.access_token)).sub).toBe(sub)
  const { access_token } = await shopTokens(usher)
  const { body: next } = await exchange(usher, access_token, { client_id: 'wiki-api' })
  const about = await introspect(usher, next.access_token)
  expect(about).toMatchObject({ active: true, sub: expect.stringMatching(/^usr_/) })
  expect([sub, ada]).not.toContain(about.sub)
  // No part of one token is in the other, by which two APIs could compare users.
  expect(next.access_token.slice(0, 22)).not.toBe(access_token.slice(0, 22))
})

describe('a subject token is refused', () => {
  const INVALID = { status: 400, body: { error: 'invalid_request' } }

  test('if it has expired, as an opaque token, a JWT or an ID token', async () => {
    const { access_token, id_token } = await tokens(usher)
    const { access_token: jwt } = await shopTokens(usher, { resource: TILL })
    moveClock(700)
    const byWeb = { client_id: 'web' }
    const answers = [
      await exchange(usher, access_token, byWeb),
      await exchange(usher, jwt),
      await exchange(usher, id_token, { ...byWeb, subject_token_type: ID_TOKEN }),
    ]
    for (const answer of answers) {
      expect(answer).toMatchObject(INVALID)
      expect(answer.body.error_description).toContain('has expired')
    }
  })

  test('if another key signed it, or another issuer is in it, or it is another kind of JWT', async () => {
    const { access_token: jwt } = await shopTokens(usher, { resource: TILL })
    const { id_token } = await tokens(usher)
    const { alg = '', kid = '' } = decodeProtectedHeader(jwt)
    const claims = decodeJwt(jwt)
    const key = await importJWK(await signingKey(usher, kid), alg)
    const foreign = (await generateKeyPair(alg)).privateKey
    const sign = (by: typeof key, payload: object, typ?: string) =>
      new SignJWT({ ...payload }).setProtectedHeader({ alg, kid, typ }).sign(by)
    expect((await exchange(usher, await sign(key, claims, 'at+jwt'))).status).toBe(200)
    const wrong = [
      await sign(foreign, claims, 'at+jwt'),
      await sign(key, { ...claims, iss: 'https://other.example.org' }, 'at+jwt'),
      await sign(key, claims, 'JWT'),
      await sign(key, claims, 'logout+jwt'),
      await sign(key, { ...claims, jti: 'x' }, 'at+jwt'),
      await sign(key, { ...claims, jti: `${'x'.repeat(22)}.y` }, 'at+jwt'),
      await sign(key, { ...claims, client_id: 'post' }, 'at+jwt'),
      id_token,
      'a.b.c',
      '..',
    ]
    for (const token of wrong) expect(await exchange(usher, token)).toMatchObject(INVALID)
    const idToken = decodeJwt(id_token)
    const byWeb = { client_id: 'web', subject_token_type: ID_TOKEN }
    expect((await exchange(usher, await sign(key, idToken), byWeb)).status).toBe(200)
    for (const change of [{ azp: 'post' }, { aud: ['web', 'post'] }, { jti: undefined }]) {
      const token = await sign(key, JSON.parse(JSON.stringify({ ...idToken, ...change })))
      expect(await exchange(usher, token, byWeb)).toMatchObject(INVALID)
    }
    for (const typ of ['logout+jwt', 'at+jwt', 'token-introspection+jwt']) {
      const token = await sign(key, idToken, typ)
      expect(await exchange(usher, token, byWeb)).toMatchObject(INVALID)
    }
  })

  test('if its may_act names another client', async () => {
    const { id_token } = await tokens(usher, { scope: 'openid acting' })
    expect(decodeJwt(id_token).may_act).toEqual({ sub: 'another' })
    const byWeb = { client_id: 'web', subject_token_type: ID_TOKEN }
    const answer = await exchange(usher, id_token, byWeb)
    expect(answer).toMatchObject(INVALID)
    expect(answer.body.error_description).toContain('may_act')
  })

  test('if it is a token of a client without a user', async () => {
    const { body } = await post(usher, TOKEN, { grant_type: 'client_credentials' })
    const answer = await exchange(usher, body.access_token ?? 'none')
    expect(answer).toMatchObject(INVALID)
  })
})

test('openid-client and oauth4webapi exchange with their generic requests', async () => {
  const config = await configurationOf(usher, 'shop-api')
  const { access_token } = await shopTokens(usher)
  const { grant_type, ...parameters } = form(access_token, { scope: 'files:read' })
  const given = await openid.genericGrantRequest(config, grant_type, parameters)
  expect(given).toMatchObject({ scope: 'files:read', issued_token_type: ACCESS_TOKEN })
  expect(await introspect(usher, given.access_token)).toMatchObject({ act: { sub: 'shop-api' } })

  const client = { client_id: 'shop-api' }
  const server = config.serverMetadata() as oauth.AuthorizationServer
  const method = oauth.ClientSecretBasic(SECRET)
  const options = { [oauth.allowInsecureRequests]: true }
  const args = [server, client, method, grant_type, parameters, options] as const
  const response = await oauth.genericTokenEndpointRequest(...args)
  const other = await oauth.processGenericTokenEndpointResponse(server, client, response)
  expect(await introspect(usher, other.access_token)).toMatchObject({ active: true, sub: ada })
})
