// Identity Assertion JWT Authorization Grant (ID-JAG): the provider says to another authorization server who its
// user is.

import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import { expect } from 'vitest'
import {
  ACCESS_TOKEN,
  CHAT,
  CHAT_SERVER,
  EXCHANGING,
  exchange,
  ID_JAG,
  ID_TOKEN,
  REFRESH_TOKEN,
  SHOP,
  shopTokens,
} from '../support/exchange.ts'
import { ada, usher, usherTest } from '../support/fixtures.ts'
import { authorize, redeem, refresh, tokens } from '../support/journey.ts'
import { removalOf } from '../support/people.ts'
import { createProver } from '../support/proofs.ts'
import { ADA, SECRET } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const { clients, resources } = EXCHANGING
const WIKI = 'https://wiki.example.org/callback'
const wiki = { ...clients.web, client_id: 'wiki', redirect_uris: [WIKI], subject_type: 'pairwise' }
const rule = { client: 'wiki', scopes: ['chat:read'] }
const test = usherTest({
  clients: { ...clients, wiki },
  resources: {
    ...resources,
    // Access tokens would have the claim; an assertion does not.
    chat: { ...resources.chat, claims: ['name'], exchange: [...resources.chat.exchange, rule] },
  },
  usher: { features: { pairwise_subjects: true } },
})

const request = {
  client_id: 'web',
  requested_token_type: ID_JAG,
  subject_token_type: ID_TOKEN,
  audience: CHAT_SERVER,
  resource: CHAT,
}

test('an ID token and a refresh token are exchanged for an assertion', async () => {
  const { id_token, refresh_token } = await tokens(usher)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  for (const [token, subject_token_type] of [
    [id_token, ID_TOKEN],
    [refresh_token, REFRESH_TOKEN],
  ] as const) {
    const form = { ...request, subject_token_type, scope: 'chat:read' }
    const { status, body } = await exchange(usher, token, form)
    expect([status, body]).toEqual([
      200,
      {
        access_token: expect.any(String),
        issued_token_type: ID_JAG,
        token_type: 'N_A',
        expires_in: 300,
        scope: 'chat:read',
      },
    ])
    const expected = { issuer: usher.issuer, audience: CHAT_SERVER, typ: 'oauth-id-jag+jwt' }
    const { payload } = await jwtVerify(body.access_token, jwks, expected)
    expect(payload).toMatchObject({
      sub: ada,
      client_id: 'web-at-chat',
      resource: CHAT,
      scope: 'chat:read',
      jti: expect.any(String),
    })
    expect(payload).not.toHaveProperty('name')
    expect(Number(payload.exp) - Number(payload.iat)).toBe(300)
    if (subject_token_type === ID_TOKEN) expect(payload.email).toBe(ADA.email)
  }
})

/** An ID token of a sign-in with `web`. */
let id_token: string
test.beforeAll(async () => {
  id_token = (await tokens(usher)).id_token
})

test('without resource and scope, the assertion has those of the rule', async () => {
  const { resource: _, ...form } = request
  const { body } = await exchange(usher, id_token, form)
  expect(decodeJwt(body.access_token)).toMatchObject({
    resource: CHAT,
    scope: 'chat:read chat:write',
  })
})

test('an assertion is bound to the key that the client proves', async () => {
  const key = await createProver()
  const { client_id, ...form } = request
  const dpop = await key.prove('POST', `${usher.issuer}/api/oauth/token`)
  const body = {
    ...form,
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: id_token,
  }
  const headers = { ...basic(client_id, SECRET), dpop }
  const { json } = await send(usher, '/api/oauth/token', { body, headers })
  expect(decodeJwt(String(json.access_token)).cnf).toEqual({ jkt: key.jkt })
})

test.for<[string, Record<string, string>, string]>([
  ['for a server that no rule has', { audience: 'https://x.example.org' }, 'invalid_target'],
  ['for another API of this server', { resource: SHOP }, 'invalid_target'],
  ['for the API alone', { audience: CHAT }, 'invalid_target'],
  ['as an access token', { requested_token_type: ACCESS_TOKEN }, 'invalid_target'],
  ['by a client without a rule', { client_id: 'shop-api' }, 'invalid_target'],
  ['with an access token', { subject_token_type: ACCESS_TOKEN }, 'invalid_request'],
  ['with a scope beyond the rule', { scope: 'chat:delete' }, 'invalid_scope'],
])('an assertion is refused %s', async ([, changes, error]) => {
  const answer = await exchange(usher, id_token, { ...request, ...changes })
  expect(answer).toMatchObject({ status: 400, body: { error } })
})

/** Refreshes the tokens of a sign-in. Returns the refresh token of before, and that of after. */
async function rotated() {
  const { refresh_token: former } = await tokens(usher)
  return { former, latest: await next(former) }
}
const next = async (token: string) => (await refresh(usher, token)).body.refresh_token
const byRefreshToken = { ...request, subject_token_type: REFRESH_TOKEN }

test('a refresh token of before a rotation is no subject token, also in the grace period', async () => {
  const { former, latest } = await rotated()
  expect((await exchange(usher, former, byRefreshToken)).body.error).toBe('invalid_request')
  // The client may have refreshed at the same time: nothing has ended.
  expect((await exchange(usher, latest, byRefreshToken)).status).toBe(200)
  expect(await next(former)).toBe(latest)
})

test('a subject token that was used long ago ends its family, as a refresh with it does', async () => {
  const { former, latest } = await rotated()
  const newest = await next(latest)
  expect((await exchange(usher, former, byRefreshToken)).body.error).toBe('invalid_request')
  expect((await exchange(usher, newest, byRefreshToken)).status).toBe(400)
  expect(await next(newest)).toBeUndefined()
  expect(usher.output.join('')).toContain('"event":"refresh_reuse"')
})

test('a used refresh token of another client ends nothing', async () => {
  const { former, latest } = await rotated()
  const newest = await next(latest)
  const foreign = { ...byRefreshToken, client_id: 'wiki' }
  expect((await exchange(usher, former, foreign)).status).toBe(400)
  expect((await exchange(usher, newest, byRefreshToken)).status).toBe(200)
})

test('an access token is no refresh token, opaque or as a JWT', async () => {
  for (const resource of [SHOP, 'https://till.example.org']) {
    const { access_token } = await shopTokens(usher, { resource })
    const form = { ...request, subject_token_type: REFRESH_TOKEN }
    const answer = await exchange(usher, access_token, form)
    expect(answer).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  }
})

test('a pairwise client gets no assertion, whose sub it must not know', async () => {
  const { code, request: sent } = await authorize(usher, { client_id: 'wiki', redirect_uri: WIKI })
  const { body } = await redeem(usher, code, sent)
  const answer = await exchange(usher, body.id_token, { ...request, client_id: 'wiki' })
  expect(answer).toMatchObject({ status: 400, body: { error: 'unauthorized_client' } })
})

test('no assertion is issued once the user has removed the application', async () => {
  const { id_token, browser } = await tokens(usher)
  await browser.open(removalOf('web'))
  await browser.submit()
  const answer = await exchange(usher, id_token, request)
  expect(answer).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
})

test('no token is issued for an API that has another authorization server', async () => {
  const { refresh_token } = await tokens(usher)
  const body = { grant_type: 'refresh_token', refresh_token, resource: CHAT }
  const headers = basic('web', SECRET)
  const { json } = await send(usher, '/api/oauth/token', { body, headers })
  expect(json.error).toBe('invalid_target')
})

test('discovery lists the assertion', async () => {
  const { json } = await send(usher, '/.well-known/oauth-authorization-server')
  expect(json.identity_chaining_requested_token_types_supported).toEqual([ID_JAG])
})
