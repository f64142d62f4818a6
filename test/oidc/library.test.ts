// Behaviour of the library on which Usher relies, or which it corrects. If an upgrade changes one of these,
// a decision of Usher has lost its reason, or a vulnerability has appeared.

import { globSync, readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import type { Context } from 'koa'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SigningKey } from '../../src/oidc/dependencies.ts'
import { described } from '../../src/oidc/error-descriptions.ts'
import { ALGORITHMS, makeKey } from '../../src/operation/signing-keys.ts'
import { type BareLibrary, bareCode, type Call, startBareLibrary } from '../support/bare-library.ts'
import { post, redeem } from '../support/journey.ts'

const ROOT = `${import.meta.dirname}/../../`
const VERSION = '9.13.3'
const AT_ONCE = 20

let library: BareLibrary
let keys: SigningKey[]
/** Delays all reads of a code until all requests have arrived. Undefined: no delay. */
let gate: { waiting: number; opened: Promise<void>; open: () => void } | undefined

async function waitForAll({ model, method }: Call) {
  if (!gate || model !== 'AuthorizationCode' || method !== 'find') return
  gate.waiting += 1
  if (gate.waiting === AT_ONCE) gate.open()
  await gate.opened
}

beforeAll(async () => {
  keys = await Promise.all(ALGORITHMS.map(makeKey))
  library = await startBareLibrary({ keys, before: waitForAll })
})
afterAll(() => library.close())

test('the library has exactly the version for which these tests were written', () => {
  const json = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
  expect(json('package.json').dependencies['oidc-provider']).toBe(VERSION)
  expect(json('node_modules/oidc-provider/package.json').version).toBe(VERSION)
  expect(json('package-lock.json').packages['node_modules/oidc-provider'].version).toBe(VERSION)
})

test('without prompt=consent the library drops offline_access, so Usher adds it again', async () => {
  const { code, request } = await bareCode(library)
  const { status, body } = await redeem(library, code, request)
  expect(status).toBe(200)
  expect(body.scope).toBe('openid')
  expect(body).not.toHaveProperty('refresh_token')
})

test('with prompt=consent the library keeps offline_access and issues a refresh token', async () => {
  const { code, request } = await bareCode(library, { prompt: 'consent' })
  const { body } = await redeem(library, code, request)
  expect(body.scope).toBe('openid offline_access')
  expect(body.refresh_token).toEqual(expect.any(String))
})

test('the revocation of one access token makes the library revoke its grant, which Usher prevents', async () => {
  const { code, request } = await bareCode(library, { prompt: 'consent' })
  const { body } = await redeem(library, code, request)
  const before = library.calls.length
  const { status } = await post(library, '/token/revocation', { token: body.access_token })
  expect(status).toBe(200)

  const revoked = library.calls.slice(before).filter(({ method }) => method === 'revokeByGrantId')
  const models = revoked.map(({ model }) => model)
  expect(models).toEqual(
    expect.arrayContaining(['AccessToken', 'RefreshToken', 'AuthorizationCode']),
  )
  expect(new Set(revoked.map(({ argument }) => argument)).size).toBe(1)
  const form = { grant_type: 'refresh_token', refresh_token: body.refresh_token }
  expect((await post(library, '/api/oauth/token', form)).body.error).toBe('invalid_grant')
})

test('with a plain adapter all concurrent redemptions of one code succeed, so the adapter of Usher allows one', async () => {
  const { code, request } = await bareCode(library)
  const { promise, resolve } = Promise.withResolvers<void>()
  gate = { waiting: 0, opened: promise, open: resolve }
  const answers = await Promise.all(
    Array.from({ length: AT_ONCE }, () => redeem(library, code, request)),
  )
  gate = undefined
  expect(answers.map(({ status }) => status)).toEqual(Array(AT_ONCE).fill(200))
})

test('a later second redemption is refused and revokes the grant', async () => {
  const { code, request } = await bareCode(library)
  expect((await redeem(library, code, request)).status).toBe(200)
  const before = library.calls.length
  expect((await redeem(library, code, request)).body.error).toBe('invalid_grant')
  const methods = library.calls.slice(before).map(({ method }) => method)
  expect(methods).toContain('revokeByGrantId')
})

test('the Host header appears in discovery, so Usher validates it first', async () => {
  const text = await new Promise<string>((resolve, reject) => {
    const url = new URL('/.well-known/openid-configuration', library.issuer)
    const request = httpRequest(url, { headers: { host: 'evil.example' } }, async response => {
      resolve((await response.toArray()).join(''))
    })
    request.on('error', reject).end()
  })
  expect(JSON.parse(text)).toMatchObject({
    issuer: library.issuer,
    token_endpoint: 'http://evil.example/api/oauth/token',
  })
})

test('a path in capitals or with a slash is the same endpoint, so Usher refuses other spellings', async () => {
  const { status, body } = await post(library, '/API/OAUTH/TOKEN/', {})
  expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_request' })
})

test('the library ignores unknown configuration keys, so Usher checks its keys', () => {
  const configuration = {
    adapter: class {},
    jwks: { keys },
    cookies: { keys: [] },
    features: { devInteractions: { enabled: false } },
    nonsense: true,
    routes: { nonsense: '/nonsense' },
  }
  expect(() => Reflect.construct(Provider, [library.issuer, configuration])).not.toThrow()
})

test('an invalid client is reported at its first use only, so Usher loads each client at the start', async () => {
  const wrong = { client_id: 'wrong', redirect_uris: ['nowhere'], client_secret: 'x' }
  const lazy = await startBareLibrary({ keys, configuration: { clients: [wrong] } })
  await expect(lazy.provider.Client.find('wrong')).rejects.toMatchObject({
    error_description: expect.stringContaining('redirect_uris'),
  })
  await lazy.close()
})

test('the library refuses a key without its private members, so Usher publishes public keys itself', () => {
  const { kty, n, e } = keys.find(({ alg }) => alg === 'RS256') ?? {}
  const jwks = { keys: [{ kty: 'RSA', n, e, kid: 'public', use: 'sig' as const }] }
  expect(kty).toBe('RSA')
  expect(() => new Provider('http://localhost:3000', { jwks })).toThrow('jwks.keys[0].d')
})

// The library says only "grant request is invalid" or "invalid token provided" to the client, and keeps the reason for
// the log.
const LIBRARY = join(ROOT, 'node_modules/oidc-provider/lib')
/** Endpoints and grants of the library that Usher does not have. */
const UNUSED = /credential|pre_authorized_code/
/** Reasons that only a damaged record can have, and one that would tell of another client. */
const WITHOUT = /^(accountId|clientId|client) mismatch$/
/** The reasons in the library's source. Its labels of codes become that of an authorization code. */
const REASON = /new (InvalidGrant|InvalidToken|ErrorClass)\(\s*['`]([^'`]+)['`]/g
const reasons = globSync('**/*.js', { cwd: LIBRARY })
  .filter(path => !UNUSED.test(path))
  .flatMap(path => [...readFileSync(join(LIBRARY, path), 'utf8').matchAll(REASON)])
  .map(([, type, text = '']): [error: string, reason: string] => [
    type === 'InvalidToken' ? 'invalid_token' : 'invalid_grant',
    text.replace(/\$\{\w+\}/, 'authorization code'),
  ])
  .filter(([, reason]) => !WITHOUT.test(reason))

test('the reasons are found in the source of the library', () => {
  expect(reasons.length).toBeGreaterThan(30)
})

test.each(reasons)('%s with the reason "%s" gets a description of its own', (error, detail) => {
  const params = { grant_type: 'authorization_code' }
  const ctx = { state: { log: { detail } }, oidc: { params } } as unknown as Context
  const { error_description } = described(ctx, { error, error_description: 'invalid' })
  expect(error_description).not.toBe('invalid')
})
