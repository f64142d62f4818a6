// Identity Assertion JWT Authorization Grant (ID-JAG) between two Ushers: one is the identity provider, the other the
// authorization server of an API.

import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { decodeJwt, decodeProtectedHeader, generateKeyPair, importJWK, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ASSERTION_GRANT } from '../../src/oidc/vocabulary.ts'
import { startCrossApp } from '../support/cross-app.ts'
import { exchange, ID_JAG, ID_TOKEN, introspect, signingKey } from '../support/exchange.ts'
import { post, tokens, userinfo } from '../support/journey.ts'
import { withFaultAt } from '../support/people.ts'
import { placesOf, someOf } from '../support/some-of.ts'
import { send } from '../support/wire.ts'

const API = 'https://mcp.example.org/api'
const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } }

let both: Awaited<ReturnType<typeof startCrossApp>>
beforeAll(async () => {
  both = await startCrossApp(API)
})
afterAll(() => both.close())

/** An ID token of each user at the identity provider. */
const idTokens: Record<string, string> = {}

/** Claims of an assertion with changes, signed by the key of the identity provider. */
async function assertionWith(changes: object = {}, header: object = {}, username = 'ada') {
  const { upstream } = both
  idTokens[username] ??= (await tokens(upstream, { username })).id_token
  const { body } = await exchange(upstream, idTokens[username], {
    client_id: 'web',
    requested_token_type: ID_JAG,
    subject_token_type: ID_TOKEN,
    audience: both.server,
    resource: API,
  })
  const { alg = '', kid = '' } = decodeProtectedHeader(body.access_token)
  const key = await importJWK(await signingKey(upstream, kid), alg)
  const claims = { ...decodeJwt(body.access_token), ...changes }
  return new SignJWT(JSON.parse(JSON.stringify(claims)))
    .setProtectedHeader({ alg, kid, typ: 'oauth-id-jag+jwt', ...header })
    .sign(key)
}
const redeem = (assertion: string, more: Record<string, string> = {}) =>
  post(both.usher, '/api/oauth/token', {
    client_id: 'agent',
    grant_type: ASSERTION_GRANT,
    assertion,
    ...more,
  })

test('an assertion becomes an access token, once, and no refresh token', async () => {
  const { usher } = both
  const assertion = await assertionWith()
  const { status, body } = await redeem(assertion, { scope: 'files:read' })
  expect([status, body]).toEqual([
    200,
    {
      access_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 600,
      scope: 'files:read',
    },
  ])
  const about = await introspect(usher, body.access_token)
  const { sub } = decodeJwt(assertion)
  const account = await usher.directory.findByLink({
    issuer: both.upstream.issuer,
    subject: String(sub),
  })
  expect(about).toMatchObject({ active: true, client_id: 'agent', aud: API, sub: account?.id })
  expect(about.preferred_username).toBe(account?.username)
  expect((await userinfo(usher, body.access_token)).status).toBe(401)
  const again = await redeem(assertion)
  expect(again).toMatchObject(INVALID_GRANT)
})

test('of several requests with one assertion, exactly one gets a token', async () => {
  const assertion = await assertionWith()
  const answers = await Promise.all(Array.from({ length: 8 }, () => redeem(assertion)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(400)])
})

/** Signs a user in with an assertion, and removes the application. `assertion` was not used, `used` was. */
async function removed(sub: string) {
  const { usher } = both
  const used = await assertionWith({ sub, jti: randomUUID() })
  const assertion = await assertionWith({ sub, jti: randomUUID() })
  const { body } = await redeem(used)
  const account = String((await introspect(usher, body.access_token)).sub)
  await usher.consents.withdraw(account, 'agent')
  expect(await introspect(usher, body.access_token)).toEqual({ active: false })
  const isListed = async () => (await usher.consents.find(account, 'agent')) !== undefined
  return { used, assertion, account, isListed }
}

test('after the user has removed the application, no assertion from before restores the consent; a later one does', async () => {
  const { used, assertion, account, isListed } = await removed('of-removal')
  for (const former of [used, assertion]) {
    expect(await redeem(former)).toMatchObject(INVALID_GRANT)
    expect(await isListed()).toBe(false)
  }
  const { value, tombstone } = await both.usher.consents.read(account, 'agent')
  expect([value, tombstone]).toEqual([undefined, expect.any(Number)])
  const iat = Math.floor(Date.now() / 1000)
  const later = () => assertionWith({ sub: 'of-removal', jti: randomUUID() })
  const earlier = await assertionWith({ sub: 'of-removal', jti: randomUUID(), iat: iat - 5 })
  const restored = await redeemAfter(iat, later)
  expect([restored.status, await isListed()]).toEqual([200, true])
  for (const former of [assertion, earlier]) {
    expect(await redeem(former)).toMatchObject(INVALID_GRANT)
  }
})

/** Redeems the first assertion that was made after a time (epoch seconds). */
async function redeemAfter(time: number, make: () => Promise<string>) {
  for (let i = 0; i < 100; i++) {
    const assertion = await make()
    if (Number(decodeJwt(assertion).iat) > time) return redeem(assertion)
    await setTimeout(100)
  }
  throw new Error('the clock stands still')
}

test('a used assertion does not link the account again, nor add one', async () => {
  const { usher, upstream } = both
  const assertion = await assertionWith({ sub: 'of-unlinked' })
  await redeem(assertion)
  const link = { issuer: upstream.issuer, subject: 'of-unlinked' }
  const { id = '' } = (await usher.directory.findByLink(link)) ?? {}
  await usher.directory.change(id, account => ({ ...account, links: [] }))
  expect((await redeem(assertion)).status).toBe(400)
  expect(await usher.directory.findByLink(link)).toBeUndefined()
})

test('a used assertion records no scope that the user was not asked for', async () => {
  const { usher } = both
  const narrow = await assertionWith({ sub: 'of-scopes', scope: 'files:read' })
  const { jti } = decodeJwt(narrow)
  await redeem(narrow)
  const wide = await assertionWith({ sub: 'of-scopes', jti })
  expect((await redeem(wide)).status).toBe(400)
  const { id = '' } = (await accountOf(wide)) ?? {}
  expect((await usher.consents.find(id, 'agent'))?.scopes).toEqual([`${API} files:read`])
})

test('an assertion with a cnf that is not understood is refused', async () => {
  const wrong: unknown[] = [
    { jwk: { kty: 'EC' } },
    { jkt: 'x', kid: 'x' },
    { jkt: {} },
    { 'x5t#S256': 1 },
    {},
    'text',
    ['jkt'],
    null,
    false,
    { toString: 1 },
  ]
  for (const cnf of wrong) {
    const answer = await redeem(await assertionWith({ cnf, jti: randomUUID() }))
    expect(answer, JSON.stringify(cnf)).toMatchObject(INVALID_GRANT)
    expect(answer.body.detail).toContain('cnf')
  }
})

test('a disabled account gets no token', async () => {
  const { usher } = both
  const first = await redeem(await assertionWith({}, {}, 'grace'))
  const { sub } = await introspect(usher, first.body.access_token)
  await usher.directory.change(String(sub), account => ({ ...account, enabled: false }))
  expect(await introspect(usher, first.body.access_token)).toEqual({ active: false })
  const second = await redeem(await assertionWith({}, {}, 'grace'))
  expect(second).toMatchObject(INVALID_GRANT)
})

describe('an assertion is refused', () => {
  test.for<[string, object, error?: string, header?: object]>([
    ['for another server', { aud: 'https://other.example.org' }],
    ['for two servers', { aud: ['http://localhost', 'x'] }],
    ['of another issuer', { iss: 'https://other.example.org' }],
    ['for another client', { client_id: 'other' }],
    ['without a client', { client_id: undefined }],
    ['with a sub that is no text', { sub: 1 }],
    ['without jti', { jti: undefined }],
    ['that has expired', { exp: 1 }],
    ['without an end', { exp: undefined }],
    ['of an earlier time', { iat: 1 }],
    ['of another type', {}, 'invalid_grant', { typ: 'JWT' }],
    ['for no API', { resource: undefined }, 'invalid_target'],
    ['for an API of another server', { resource: 'urn:elsewhere' }, 'invalid_target'],
    ['for an API that is not for the client', { resource: 'urn:closed' }, 'invalid_scope'],
    ['without a scope of the API', { scope: 'chat' }, 'invalid_scope'],
  ])('%s', async ([, changes, error = 'invalid_grant', header]) => {
    const answer = await redeem(await assertionWith(changes, header))
    expect(answer).toMatchObject({ status: 400, body: { error } })
  })

  test('that another key signed, or that is none', async () => {
    const assertion = await assertionWith()
    const { alg = '', ...header } = decodeProtectedHeader(assertion)
    const { privateKey } = await generateKeyPair(alg)
    const forged = new SignJWT(decodeJwt(assertion)).setProtectedHeader({ ...header, alg })
    for (const text of [await forged.sign(privateKey), 'x', 'a.b.c', '', '{}']) {
      expect((await redeem(text)).status).toBe(400)
    }
  })

  test('with more scope, or another resource, than it has', async () => {
    const narrow = { scope: 'files:read' }
    const more = await redeem(await assertionWith(narrow), { scope: 'files:write' })
    expect(more.body.error).toBe('invalid_scope')
    const other = await redeem(await assertionWith(), { resource: 'urn:closed' })
    expect(other.body.error).toBe('invalid_target')
  })
})

test('no JSON value as a claim causes a 5xx', async () => {
  const names = 'iss sub client_id resource scope jti acr email'.split(' ')
  const values = [{ toString: 1 }, [{ toString: 1, valueOf: 1 }], null, '__proto__']
  const failed: string[] = []
  const wrong = names.flatMap(name => values.map(value => ({ [name]: value })))
  for (const claim of someOf(wrong, 4)) {
    const claims = { jti: randomUUID(), client_id: 'strict', ...claim }
    const { status } = await redeem(await assertionWith(claims), { client_id: 'strict' })
    if (status >= 500) failed.push(`${status}: ${JSON.stringify(claim)}`)
  }
  expect(failed).toEqual([])
})

test('after a fault of the store at any operation, the same assertion works', async () => {
  let isDone = false
  const { first, step } = placesOf(3)
  for (let k = first; !isDone; k += step) {
    const assertion = await assertionWith({ sub: `of-fault-${k}` })
    const { result, isFailed } = await withFaultAt(both.usher, k, () => redeem(assertion))
    isDone = !isFailed
    expect(result.status, `operation ${k}`).toBe(isFailed ? 503 : 200)
    if (isFailed) expect((await redeem(assertion)).status, `operation ${k}`).toBe(200)
  }
})

const accountOf = async (assertion: string) => {
  const subject = String(decodeJwt(assertion).sub)
  return both.usher.directory.findByLink({ issuer: both.upstream.issuer, subject })
}

test('an assertion changes no account, and a scope that the user declined stays declined', async () => {
  const { usher } = both
  const first = await assertionWith({ department: 'finance' })
  await redeem(first)
  const { id = '' } = (await accountOf(first)) ?? {}
  await usher.directory.change(id, account => ({
    ...account,
    attributes: { department: 'finance' },
  }))
  const before = await usher.directory.find(id)
  const { value, version } = await usher.consents.read(id, 'agent')
  const [read = '', write = ''] = value?.scopes ?? []
  await usher.consents.decide(id, 'agent', { scopes: [read], declined: [write], version })
  const { body } = await redeem(await assertionWith())
  expect(body.scope).toBe('files:read')
  expect(await usher.directory.find(id)).toEqual(before)
  expect((await usher.consents.find(id, 'agent'))?.declined).toEqual([write])
})

test.for(['strict', 'elsewhere', 'limited', 'nonced'])(
  'a client that needs more than an assertion gets no token: %s',
  async client_id => {
    const { usher } = both
    const first = await assertionWith()
    const { id = '' } = (await accountOf(first)) ?? {}
    await usher.directory.change(id, account => ({ ...account, attributes: {} }))
    const answer = await redeem(await assertionWith({ client_id }), { client_id })
    expect([client_id, answer.status]).toEqual([client_id, 400])
    expect(await usher.consents.find(id, client_id)).toBeUndefined()
  },
)

test('the scope of a client file counts with its scopes of APIs', async () => {
  const client_id = 'scoped'
  const { body } = await redeem(await assertionWith({ client_id }), { client_id })
  expect(body.scope).toBe('files:read')
})

test('an assertion that was made before access ended brings no access back', async () => {
  const { usher } = both
  const { body } = await redeem(await assertionWith())
  const { sub } = await introspect(usher, body.access_token)
  const earlier = await assertionWith()
  await usher.directory.endAccess(String(sub))
  expect(await redeem(earlier)).toMatchObject(INVALID_GRANT)
})

test('discovery lists the grant type and the profile', async () => {
  const { json } = await send(both.usher, '/.well-known/oauth-authorization-server')
  expect(json.authorization_grant_profiles_supported).toEqual([
    'urn:ietf:params:oauth:grant-profile:id-jag',
  ])
  expect(json.grant_types_supported).toContain(ASSERTION_GRANT)
})
