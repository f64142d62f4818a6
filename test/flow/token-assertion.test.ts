import {
  CompactSign,
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  SignJWT,
  UnsecuredJWT,
} from 'jose'
import { describe, expect } from 'vitest'
import { usher, usherTest } from '../support/fixtures.ts'
import {
  ASSERTION,
  assertionClaims,
  jwk,
  KEYED,
  privateKey,
  signAssertion,
} from '../support/keyed.ts'
import { type Reply, send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'

const otherKey = await generateKeyPair('ES256')
const edKey = await generateKeyPair('Ed25519', { extractable: true })
const ED = {
  ...KEYED,
  client_id: 'ed',
  jwks: { keys: [{ ...(await exportJWK(edKey.publicKey)), kid: 'ed' }] },
}

const test = usherTest({
  clients: { keyed: KEYED, ed: ED },
})

const now = () => Math.floor(Date.now() / 1000)
const claims = () => assertionClaims(usher.issuer)
const sign = (claims: Record<string, unknown> = {}, key?: CryptoKey, kid?: string) =>
  signAssertion(usher.issuer, { claims, key, kid })

/** Refreshes with an unknown token: `invalid_grant` means that the client is authenticated. */
function use(
  client_assertion: string,
  more: Record<string, string> = {},
  path = TOKEN,
): Promise<Reply> {
  const form = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'keyed' }
  const body = { ...form, client_assertion_type: ASSERTION, client_assertion, ...more }
  return send(usher, path, { body })
}

const LET_IN = { status: 400, json: { error: 'invalid_grant' } }
const REFUSED = { status: 401, json: { error: 'invalid_client' } }

test('an assertion for the issuer authenticates the client once', async () => {
  const assertion = await sign()
  expect(await use(assertion)).toMatchObject(LET_IN)
  expect(await use(assertion)).toMatchObject(REFUSED)
  expect(await use(await sign())).toMatchObject(LET_IN)
})

test.each(['EdDSA', 'Ed25519'])('an Ed25519 key signs as %s', async alg => {
  const assertion = await new SignJWT({ ...claims(), iss: 'ed', sub: 'ed' })
    .setProtectedHeader({ alg, kid: 'ed' })
    .sign(edKey.privateKey)
  expect(await use(assertion, { client_id: 'ed' })).toMatchObject(LET_IN)
})

test('only one of many concurrent requests with one assertion succeeds', async () => {
  for (let round = 0; round < 5; round++) {
    const assertion = await sign()
    const answers = await Promise.all(Array.from({ length: 50 }, () => use(assertion)))
    const errors = answers.map(({ json }) => json.error)
    expect(errors.filter(error => error === 'invalid_grant')).toHaveLength(1)
    expect(errors.filter(error => error === 'invalid_client')).toHaveLength(49)
  }
})

test('an assertion that was used at one endpoint is refused at another', async () => {
  const assertion = await sign()
  expect(await use(assertion)).toMatchObject(LET_IN)
  const body = { token: 'x', client_assertion_type: ASSERTION, client_assertion: assertion }
  expect(await send(usher, '/api/oauth/introspect', { body })).toMatchObject(REFUSED)
})

test.each([
  ['the issuer', TOKEN, ''],
  ['the token endpoint, as Spring sends it', TOKEN, TOKEN],
  ['the token endpoint, at another endpoint, as .NET sends it', '/api/oauth/par', TOKEN],
  ['the pushed authorization request endpoint', '/api/oauth/par', '/api/oauth/par'],
  ['the introspection endpoint', '/api/oauth/introspect', '/api/oauth/introspect'],
])('an assertion is accepted with the audience: %s', async (_, path, audience) => {
  const more = { token: 'x', response_type: 'code', redirect_uri: 'https://elsewhere.example/' }
  const answer = await use(await sign({ aud: usher.issuer + audience }), more, path)
  expect(answer.json.error).not.toBe('invalid_client')
  expect(answer.status).not.toBe(401)
})

describe('an assertion is refused with', () => {
  test.each<[string, () => Record<string, unknown>]>([
    ['another endpoint as audience', () => ({ aud: `${usher.issuer}/api/oauth/revoke` })],
    ['a list of audiences', () => ({ aud: [usher.issuer] })],
    ['a list with a stranger in it', () => ({ aud: [usher.issuer, 'https://evil.example'] })],
    ['an audience with a slash more', () => ({ aud: `${usher.issuer}/` })],
    ['another audience', () => ({ aud: 'https://evil.example' })],
    ['no audience', () => ({ aud: undefined })],
    ['another issuer', () => ({ iss: 'web' })],
    ['another subject', () => ({ sub: 'web' })],
    ['no jti', () => ({ jti: undefined })],
    ['no exp', () => ({ exp: undefined })],
    ['an end in the past', () => ({ exp: now() - 60 })],
    ['an end in more than ten minutes', () => ({ exp: now() + 660 })],
    ['an end that never comes', () => ({ exp: 1e300 })],
    ['an end that is no number', () => ({ exp: '9999999999' })],
    ['a beginning in the future', () => ({ nbf: now() + 300 })],
  ])('%s', async (_, change) => {
    const answer = await use(await sign(change()))
    expect([400, 401]).toContain(answer.status)
    expect(answer.json.error).toMatch(/^invalid_(client|request)$/)
  })

  test('the key of another client', async () => {
    expect(await use(await sign({}, otherKey.privateKey))).toMatchObject(REFUSED)
  })

  test('no signature', async () => {
    const payload = claims()
    expect(await use(new UnsecuredJWT(payload).encode())).toMatchObject(REFUSED)
    const [header, body] = (await sign()).split('.')
    expect((await use(`${header}.${body}.`)).json.error).toMatch(/^invalid_(client|request)$/)
  })

  test('the public key as an HMAC secret', async () => {
    const secret = new TextEncoder().encode(JSON.stringify(jwk))
    const forged = await new SignJWT(claims()).setProtectedHeader({ alg: 'HS256' }).sign(secret)
    expect(await use(forged)).toMatchObject(REFUSED)
  })

  test('another key in its header', async () => {
    const own = await exportJWK(otherKey.publicKey)
    const forged = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'ES256', jwk: own, kid: 'one' })
      .sign(otherKey.privateKey)
    expect(await use(forged)).toMatchObject(REFUSED)
  })

  test.each(['', 'x', 'a.b.c', '..', '{}', 'e30.e30.'])('the text "%s"', async assertion => {
    const { status, json } = await use(assertion)
    expect([400, 401]).toContain(status)
    expect(json.error).toMatch(/^invalid_(client|request)$/)
  })

  test('a claim ten thousand levels deep', async () => {
    const levels = 10_000
    const nested = `${'['.repeat(levels)}${']'.repeat(levels)}`
    const payload = JSON.stringify(claims()).replace('{', `{"deep":${nested},`)
    const assertion = await new CompactSign(Buffer.from(payload))
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .sign(privateKey)
    for (const path of [TOKEN, '/api/oauth/introspect', '/api/oauth/revoke']) {
      expect(await use(assertion, { token: 'x' }, path), path).toMatchObject(REFUSED)
    }
  })

  test('another type of assertion', async () => {
    const type = 'urn:ietf:params:oauth:client-assertion-type:saml2-bearer'
    const answer = await use(await sign(), { client_assertion_type: type })
    expect(answer.status).toBe(400)
  })
})

test('a client secret, or no authentication, is refused', async () => {
  const form = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'keyed' }
  const secret = 'a-secret-of-at-least-thirty-two-characters'
  for (const body of [form, { ...form, client_secret: secret }]) {
    expect(await send(usher, TOKEN, { body })).toMatchObject(REFUSED)
  }
})
