// The validation of DPoP proofs, and bound refresh tokens on several nodes.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../support/browser.ts'
import { authorizationRequest, authorize, codeForm, pushedUrl } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { boundTokens, createProver, type ProofChange, type Prover } from '../support/proofs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { ADA, SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const PAR = '/api/oauth/par'
const TOKEN = '/api/oauth/token'
const USHER_SECRET = Buffer.alloc(32, 'dpop').toString('base64url')
const NEXT_SECRET = Buffer.alloc(32, 'next').toString('base64url')

let server: RedisServer
let nodes: Usher[]
let key: Prover
let other: Prover
beforeAll(async () => {
  const port = await freePort()
  server = await startRedis({ port })
  // USHER_SECRET during a change: each node knows both secrets, in a different order.
  const [one, another] = [`${USHER_SECRET},${NEXT_SECRET}`, `${NEXT_SECRET},${USHER_SECRET}`]
  const first = await startUsher({ store: server.url, env: { USHER_SECRET: one } })
  const env = { USHER_SECRET: another, USHER_ISSUER: first.issuer }
  nodes = [first, await startUsher({ store: server.url, env })]
  await node(0).addAccount(ADA)
  key = await createProver()
  other = await createProver()
})
afterAll(async () => {
  await Promise.all(nodes.map(node => node.close()))
  await server.stop()
})

const node = (i: number): Usher => nodes[i % nodes.length] as Usher
const now = () => Math.floor(Date.now() / 1000)
const atToken = (by: Prover, change?: ProofChange) =>
  by.prove('POST', `${node(0).issuer}${TOKEN}`, change)

function ask(place: Usher, body: Record<string, string>, proof?: string) {
  const headers: Record<string, string> = proof === undefined ? {} : { dpop: proof }
  return send(place, TOKEN, { body: { client_id: 'spa', ...body }, headers })
}
const refreshForm = (refresh_token: string) => ({ grant_type: 'refresh_token', refresh_token })
/** The proof is validated before the unknown token, so that `invalid_grant` means a valid proof. */
const present = (proof: string, place = node(0)) => ask(place, refreshForm('unknown'), proof)

const boundToken = async () => (await boundTokens(node(0), key)).refresh_token

describe('a proof is refused with', () => {
  test.each<[string, () => ProofChange]>([
    ['another method', () => ({ claims: { htm: 'GET' } })],
    ['no method', () => ({ claims: { htm: undefined } })],
    ['another endpoint', () => ({ claims: { htu: `${node(0).issuer}/api/oauth/par` } })],
    ['another host', () => ({ claims: { htu: `https://evil.example${TOKEN}` } })],
    ['a list of endpoints', () => ({ claims: { htu: [`${node(0).issuer}${TOKEN}`] } })],
    ['no endpoint', () => ({ claims: { htu: undefined } })],
    ['no time', () => ({ claims: { iat: undefined } })],
    ['a time that is not a number', () => ({ claims: { iat: String(now()) } })],
    ['no id', () => ({ claims: { jti: undefined } })],
    ['an id that is not a string', () => ({ claims: { jti: 1 } })],
    ['another type', () => ({ header: { typ: 'jwt' } })],
    ['no type', () => ({ header: { typ: undefined } })],
    ['no key', () => ({ header: { jwk: undefined } })],
    ['a shared secret for a key', () => ({ header: { jwk: { kty: 'oct', k: 'c2VjcmV0' } } })],
    ['the key of another', () => ({ header: { jwk: { ...other.privateJwk, d: undefined } } })],
    ['its private key', () => ({ header: { jwk: key.privateJwk } })],
  ])('%s', async (_, change) => {
    const answer = await present(await atToken(key, change()))
    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_dpop_proof' } })
  })

  test.each(['x', 'a.b.c', '..', 'e30.e30.', `${'a'.repeat(4000)}.b.c`])(
    'the text "%s"',
    async text => {
      const answer = await present(text)
      expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_dpop_proof' } })
    },
  )

  test('an algorithm that is weaker than those in discovery', async () => {
    const weak = await createProver('RS256')
    expect((await present(await atToken(weak))).json.error).toBe('invalid_dpop_proof')
    for (const alg of ['ES256', 'PS256', 'EdDSA']) {
      const strong = await createProver(alg)
      expect((await present(await atToken(strong))).json.error).toBe('invalid_grant')
    }
  })
})

test('a client with a wrong clock gets a nonce, which every node accepts in place of the time', async () => {
  for (const iat of [now() - 3600, now() + 3600]) {
    const late = await present(await atToken(key, { claims: { iat } }))
    expect(late).toMatchObject({ status: 400, json: { error: 'use_dpop_nonce' } })
    const nonce = late.headers.get('dpop-nonce') ?? ''
    expect(nonce).toMatch(/^[\w-]{43}$/)
    for (const place of nodes) {
      const answer = await present(await atToken(key, { claims: { iat, nonce } }), place)
      expect(answer.json.error).toBe('invalid_grant')
    }
  }
})

test('an unknown nonce is refused, and the response has a valid one', async () => {
  const nonce = Buffer.alloc(32, 'mine').toString('base64url')
  const answer = await present(await atToken(key, { claims: { nonce } }))
  expect(answer).toMatchObject({ status: 400, json: { error: 'use_dpop_nonce' } })
  expect(answer.headers.get('dpop-nonce')).toMatch(/^[\w-]{43}$/)
})

test('only one of many concurrent requests with one proof at two nodes succeeds', async () => {
  for (let round = 0; round < 3; round++) {
    const token = await boundToken()
    const proof = await atToken(key)
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => ask(node(i), refreshForm(token), proof)),
    )
    const errors = answers.map(({ json }) => json.error)
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(errors.filter(error => error === 'invalid_dpop_proof')).toHaveLength(29)
  }
})

test('a proof with a time in the future is remembered for as long as it could be used', async () => {
  const jti = 'a-proof-of-a-clock-that-is-ahead'
  const token = await boundToken()
  const iat = now() + 290
  await ask(node(0), refreshForm(token), await atToken(key, { claims: { iat, jti } }))
  const kept = await remembered()
  expect(Math.max(...kept)).toBeGreaterThanOrEqual(iat + 300)
})

/** The expiry times of the keys in Redis that expire within minutes. */
async function remembered(): Promise<number[]> {
  const operator = new Redis(server.url)
  const until: number[] = []
  for (const name of await operator.keys('*')) {
    const seconds = await operator.ttl(name)
    if (seconds > 0 && seconds < 700) until.push(now() + seconds)
  }
  await operator.quit()
  return until
}

test('a refresh token of a public client is refused without its key, and an attempt revokes nothing', async () => {
  const first = await boundToken()
  const stolen = async (token: string) => {
    for (const proof of [undefined, await atToken(other)]) {
      const refused = await ask(node(1), refreshForm(token), proof)
      expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
    }
  }
  await stolen(first)
  const { json } = await ask(node(0), refreshForm(first), await atToken(key))
  const second = String(json.refresh_token)
  // Within the grace period a retry with the used token gets the same response, with its key only.
  await stolen(first)
  const replayed = await ask(node(1), refreshForm(first), await atToken(key))
  expect([replayed.status, replayed.json.refresh_token]).toEqual([200, second])
  expect(replayed.json.token_type).toBe('DPoP')
  await stolen(second)
  expect((await ask(node(1), refreshForm(second), await atToken(key))).status).toBe(200)
  // After the use of the successor, the first token is reuse even with its key, and ends the family.
  expect((await ask(node(0), refreshForm(first), await atToken(key))).status).toBe(400)
  expect((await ask(node(0), refreshForm(second), await atToken(key))).status).toBe(400)
})

test('only the key of the pushed request can redeem its code', async () => {
  const { issuer } = node(0)
  const browser = new Browser(issuer)
  await authorize(node(0), { browser, client_id: 'web' })
  const { url, ...request } = authorizationRequest(node(0), { client_id: 'web' })
  const push = async (proof: string) => {
    const body = [...url.searchParams] as [string, string][]
    return send(node(0), PAR, { body, headers: { dpop: proof, ...basic('web', SECRET) } })
  }
  const pushed = await push(await key.prove('POST', `${issuer}${PAR}`))
  const page = await browser.open(pushedUrl(node(0), 'web', pushed))
  const code = page.params.get('code') ?? ''
  const body = codeForm(code, request)
  const headers = { dpop: await atToken(other), ...basic('web', SECRET) }
  expect((await send(node(0), TOKEN, { body, headers })).json.error).toBe('invalid_grant')
  const named = await push(await other.prove('POST', `${issuer}${PAR}`, { claims: { htm: 'GET' } }))
  expect(named).toMatchObject({ status: 400, json: { error: 'invalid_dpop_proof' } })
})
