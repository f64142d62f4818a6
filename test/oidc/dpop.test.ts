// DPoP (RFC 9449): tokens are bound to a key of the client, and cannot be used after a theft.

import { expect } from 'vitest'
import { APIS } from '../support/apis.ts'
import { browser, usher, usherTest } from '../support/fixtures.ts'
import { authorize, codeForm } from '../support/journey.ts'
import { boundTokens, createProver, type ProofChange, type Prover } from '../support/proofs.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'
const USERINFO = '/api/oauth/userinfo'
const SCOPE = 'openid profile email offline_access'
const BOUND = { ...CLIENTS.web, client_id: 'bound', dpop_bound_access_tokens: true }

let key: Prover
let other: Prover
const test = usherTest({
  clients: { ...CLIENTS, bound: BOUND, service: APIS.clients.service },
})
test.beforeAll(async () => {
  key = await createProver()
  other = await createProver()
})

/** Sends a token request with this proof. */
async function ask(body: Record<string, string>, proof?: string, client_id = 'spa') {
  const dpop: Record<string, string> = proof === undefined ? {} : { dpop: proof }
  const isPublic = client_id === 'spa'
  const headers = { ...dpop, ...(!isPublic && basic(client_id, SECRET)) }
  return send(usher, TOKEN, { body: isPublic ? { ...body, client_id } : body, headers })
}
const atToken = (by: Prover, change?: ProofChange) =>
  by.prove('POST', `${usher.issuer}${TOKEN}`, change)

async function formOf(client_id: string, params: Record<string, string> = {}) {
  const [redirect_uri = ''] =
    usher.settings.clients.find(client => client.client_id === client_id)?.redirect_uris ?? []
  const all = { browser, scope: SCOPE, client_id, redirect_uri, ...params }
  const { code, request } = await authorize(usher, all)
  return codeForm(code, request)
}

const refreshForm = (refresh_token: string) => ({ grant_type: 'refresh_token', refresh_token })

function readInfo(token: string, proof?: string, scheme = 'DPoP') {
  const headers = {
    authorization: `${scheme} ${token}`,
    ...(proof !== undefined && { dpop: proof }),
  }
  return send(usher, USERINFO, { headers })
}
const atUserinfo = (by: Prover, token: string, change?: ProofChange) =>
  by.prove('GET', `${usher.issuer}${USERINFO}`, { token, ...change })

test('a replayed proof does not use up the code that is sent with it', async () => {
  const proof = await atToken(key)
  expect((await ask(await formOf('spa'), proof)).status).toBe(200)
  const form = await formOf('spa')
  expect((await ask(form, proof)).json.error).toBe('invalid_dpop_proof')
  expect((await ask(form, await atToken(key))).status).toBe(200)
})

test('a service gets a bound token by client credentials, and introspection returns its key', async () => {
  const form = { grant_type: 'client_credentials' }
  const { json } = await ask(form, await atToken(key), 'service')
  const about = { body: { token: String(json.access_token) }, headers: basic('service', SECRET) }
  expect((await send(usher, '/api/oauth/introspect', about)).json).toMatchObject({
    active: true,
    token_type: 'DPoP',
    cnf: { jkt: key.jkt },
  })
})

test.each<[string, (token: string) => Promise<[string?, string?]>]>([
  ['as a bearer token', async () => [undefined, 'Bearer']],
  ['without a proof', async () => []],
  ['with the proof of another key', async token => [await atUserinfo(other, token)]],
  ['with a proof of another token', async () => [await atUserinfo(key, 'another')]],
  ['with a proof of no token', async () => [await key.prove('GET', `${usher.issuer}${USERINFO}`)]],
])('a stolen access token is refused %s', async (_, steal) => {
  const { access_token, token_type } = await boundTokens(usher, key, { browser })
  expect(token_type).toBe('DPoP')
  const { status, json } = await readInfo(access_token, ...(await steal(access_token)))
  expect([400, 401]).toContain(status)
  expect(json).not.toHaveProperty('sub')
  expect((await readInfo(access_token, await atUserinfo(key, access_token))).status).toBe(200)
})

test('an access token without a bound key is refused with a proof', async () => {
  const { json } = await ask(await formOf('spa'))
  const token = String(json.access_token)
  expect(json.token_type).toBe('Bearer')
  const { status, json: refusal } = await readInfo(token, await atUserinfo(key, token))
  expect([status, refusal.error]).toEqual([401, 'invalid_token'])
})

test('a proof is valid once, and a replay does not revoke the tokens', async () => {
  const { access_token, refresh_token } = await boundTokens(usher, key, { browser })
  const proof = await atUserinfo(key, access_token)
  expect((await readInfo(access_token, proof)).status).toBe(200)
  const again = await readInfo(access_token, proof)
  expect(again).toMatchObject({ status: 401, json: { error: 'invalid_dpop_proof' } })
  const used = await atToken(key)
  const { json } = await ask(refreshForm(refresh_token), used)
  const repeated = await ask(refreshForm(refresh_token), used)
  expect(repeated).toMatchObject({ status: 400, json: { error: 'invalid_dpop_proof' } })
  expect((await ask(refreshForm(String(json.refresh_token)), await atToken(key))).status).toBe(200)
})

test('a code from a request with dpop_jkt can only be redeemed with that key', async () => {
  for (const by of [undefined, other]) {
    const form = await formOf('spa', { dpop_jkt: key.jkt })
    const refused = await ask(form, by && (await atToken(by)))
    expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
  }
  const form = await formOf('spa', { dpop_jkt: key.jkt })
  expect((await ask(form, await atToken(key))).json.token_type).toBe('DPoP')
})

test('a client that is registered for bound tokens gets no other tokens', async () => {
  const form = await formOf('bound')
  const refused = await ask(form, undefined, 'bound')
  expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
  expect((await ask(form, await atToken(key), 'bound')).json.token_type).toBe('DPoP')
})

test('a browser application can send proofs and read the nonce of the response', async () => {
  const origin = 'https://spa.example.org'
  const asked = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'dpop',
  }
  const preflight = await send(usher, TOKEN, { method: 'OPTIONS', headers: asked })
  expect(preflight.headers.get('access-control-allow-headers')).toBe('dpop')
  const headers = { origin, dpop: await atToken(key, { claims: { iat: 1 } }) }
  const body = { ...refreshForm('unknown'), client_id: 'spa' }
  const answer = await send(usher, TOKEN, { body, headers })
  expect(answer.json.error).toBe('use_dpop_nonce')
  expect(answer.headers.get('dpop-nonce')).toBeTruthy()
  expect(answer.headers.get('access-control-expose-headers')).toMatch(/DPoP-Nonce/i)
})
