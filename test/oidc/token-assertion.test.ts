import { CompactSign, type CryptoKey, generateKeyPair } from 'jose'
import { describe, expect } from 'vitest'
import { moveClock, usher, usherTest } from '../support/fixtures.ts'
import { ASSERTION, assertionClaims, KEYED, privateKey, signAssertion } from '../support/keyed.ts'
import { type Reply, send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'

const otherKey = await generateKeyPair('ES256')

const test = usherTest({ clients: { keyed: KEYED } })

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
  const again = await use(assertion)
  expect(again).toMatchObject(REFUSED)
  expect(again.json.error_description).toMatch(/^client_assertion was used before/)
  expect(await use(await sign())).toMatchObject(LET_IN)
})

test('only one of many concurrent requests with one assertion succeeds', async () => {
  for (let round = 0; round < 3; round++) {
    const assertion = await sign()
    const answers = await Promise.all(Array.from({ length: 20 }, () => use(assertion)))
    const errors = answers.map(({ json }) => json.error)
    expect(errors.filter(error => error === 'invalid_grant')).toHaveLength(1)
    expect(errors.filter(error => error === 'invalid_client')).toHaveLength(19)
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

// Each description names the claim and its rule. An unknown client gets the same: only the assertion is described.
// biome-ignore format: a table
const WRONG: [what: string, change: () => Record<string, unknown>, description: RegExp][] = [
  ['another endpoint as audience', () => ({ aud: `${usher.issuer}/api/oauth/revoke` }), /^client_assertion: aud must be one of http.*token/],
  ['a list of audiences', () => ({ aud: [usher.issuer] }), /^client_assertion: aud must be a single string: http/],
  ['a list with a stranger in it', () => ({ aud: [usher.issuer, 'https://evil.example'] }), /aud must be a single string/],
  ['an audience with a slash more', () => ({ aud: `${usher.issuer}/` }), /aud must be one of/],
  ['another audience', () => ({ aud: 'https://evil.example' }), /aud must be one of/],
  ['no audience', () => ({ aud: undefined }), /aud must be a single string/],
  ['another issuer', () => ({ iss: 'web' }), /^client_assertion: iss and sub must both be the client_id$/],
  ['no issuer', () => ({ iss: undefined }), /iss and sub must both be/],
  ['no subject', () => ({ sub: undefined }), /iss and sub must both be/],
  ['another subject', () => ({ sub: 'web' }), /^client_id must be the same in/],
  ['no jti', () => ({ jti: undefined }), /^client_assertion: jti is required/],
  ['no exp', () => ({ exp: undefined }), /^client_assertion: exp is required, at most ten minutes \(600 s\) ahead/],
  ['an end in the past', () => ({ exp: now() - 15 }), /exp must not be in the past/],
  ['an end in more than ten minutes', () => ({ exp: now() + 601 }), /exp is required, at most ten minutes/],
  ['an end in an hour, as Authlib sends it', () => ({ exp: now() + 3600 }), /exp is required, at most ten minutes/],
  ['an end that never comes', () => ({ exp: 1e300 }), /exp is required, at most ten minutes/],
  ['an end that is no number', () => ({ exp: '9999999999' }), /exp is required, at most ten minutes/],
  ['a beginning in the future', () => ({ nbf: now() + 16 }), /^client_assertion: nbf must not be in the future: over 15 s ahead/],
  ['an issue in the future', () => ({ iat: now() + 16 }), /^client_assertion: iat must not be in the future/],
]

test.each(WRONG)(
  'an assertion with %s is refused, and the description names the claim',
  async (_, change, description) => {
    moveClock(0)
    const answer = await use(await sign(change()))
    expect([400, 401]).toContain(answer.status)
    expect(answer.json.error).toMatch(/^invalid_(client|request)$/)
    expect(answer.json.error_description).toMatch(description)
  },
)

test.each([
  ['is late', () => ({ exp: now() - 14 })],
  ['is early', () => ({ nbf: now() + 15, iat: now() + 15, exp: now() + 600 })],
])('an assertion of a clock that %s is accepted', async (_, change) => {
  moveClock(0)
  expect(await use(await sign(change()))).toMatchObject(LET_IN)
})

test('the description of an assertion does not depend on whether the client exists', async () => {
  const unknown = await sign({ iss: 'nobody', sub: 'nobody', exp: now() + 3600 })
  const { status, json } = await use(unknown, { client_id: 'nobody' })
  expect([status, json.error]).toEqual([401, 'invalid_client'])
  expect(json.error_description).toMatch(/^client_assertion: exp is required/)
  const forged = await use(await sign({}, otherKey.privateKey))
  const other = await sign({ iss: 'nobody', sub: 'nobody' })
  const stranger = await use(other, { client_id: 'nobody' })
  expect(forged.json.error_description).toMatch(/^check client_id, its secret or assertion/)
  expect(stranger.json.error_description).toBe(forged.json.error_description)
})

describe('an assertion is refused with', () => {
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
