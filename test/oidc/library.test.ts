// Behaviour of the library on which Usher relies, or which it corrects. If an upgrade changes one of these,
// a decision of Usher has lost its reason, or a vulnerability has appeared.

import { globSync, readFileSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import type { Context } from 'koa'
import { type Adapter, type AdapterPayload, type Configuration, Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SigningKey } from '../../src/oidc/dependencies.ts'
import { described } from '../../src/oidc/error-descriptions.ts'
import { ALGORITHMS, makeKey } from '../../src/operation/signing-keys.ts'
import { Browser } from '../support/browser.ts'
import { authorizationRequest, post, type Request, redeem } from '../support/journey.ts'
import { end, listen } from '../support/ports.ts'
import { SECRET } from '../support/usher.ts'

const ROOT = `${import.meta.dirname}/../../`
const VERSION = '9.13.3'
const AT_ONCE = 20

// oidc-provider without Usher, with an adapter as plain as its own in-memory adapter.

const CLIENT = {
  client_id: 'web',
  client_secret: SECRET,
  redirect_uris: ['https://app.example.org/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
}
const COOKIES = ['keys-of-the-bare-library']

interface Call {
  model: string
  method: 'find' | 'consume' | 'revokeByGrantId'
  argument: string
}

interface BareOptions {
  keys: SigningKey[]
  /** Awaited at the start of each call of the adapter. */
  before?: (call: Call) => Promise<void> | void
  configuration?: Configuration
}

/** Starts a provider that signs Ada in without a page, and grants every request. */
async function startBareLibrary({ keys, before = () => {}, configuration }: BareOptions) {
  const calls: Call[] = []
  const note = (call: Call) => {
    calls.push(call)
    return before(call)
  }
  const server = createServer((req, res) => handler?.(req, res))
  const issuer = `http://127.0.0.1:${await listen(server)}`
  const provider = new Provider(issuer, {
    adapter: createPlainAdapter(note),
    clients: [CLIENT],
    cookies: { keys: COOKIES },
    jwks: { keys },
    routes: { authorization: '/api/oauth/authorize', token: '/api/oauth/token' },
    pkce: { required: () => true },
    scopes: ['openid', 'offline_access'],
    features: {
      devInteractions: { enabled: false },
      revocation: { enabled: true, allowedPolicy: () => true },
    },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      Grant: 600,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: 600,
      Session: 600,
    },
    findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    loadExistingGrant: async ({ oidc }) => {
      const accountId = oidc.session?.accountId
      const grant = new oidc.provider.Grant({ accountId, clientId: oidc.client?.clientId })
      grant.addOIDCScope('openid offline_access')
      await grant.save()
      return grant
    },
    ...configuration,
  })
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next()
    const result = { login: { accountId: 'ada' }, consent: {} }
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result))
  })
  const handler = provider.callback()

  return {
    issuer,
    provider,
    calls,
    close: () => end(server),
  }
}

type BareLibrary = Awaited<ReturnType<typeof startBareLibrary>>

/** Sends an authorization request, and follows its redirects to the code. */
async function bareCode(
  { issuer }: { issuer: string },
  params: Record<string, string> = {},
): Promise<{ code: string; request: Request }> {
  const request = authorizationRequest({ issuer }, { scope: 'openid offline_access', ...params })
  const page = await new Browser(issuer).open(request.url)
  return { code: page.params.get('code') ?? '', request }
}

/** An adapter without conditional writes, as the library's own is. */
function createPlainAdapter(note: (call: Call) => Promise<void> | void) {
  const records = new Map<string, AdapterPayload>()
  const find = (test: (payload: AdapterPayload) => boolean) =>
    structuredClone([...records.values()].find(test))

  return (model: string): Adapter => ({
    async upsert(id, payload) {
      records.set(`${model} ${id}`, structuredClone(payload))
    },
    async find(id) {
      await note({ model, method: 'find', argument: id })
      return structuredClone(records.get(`${model} ${id}`))
    },
    async findByUid(uid) {
      return find(payload => payload.kind === model && payload.uid === uid)
    },
    async findByUserCode(code) {
      return find(payload => payload.userCode === code)
    },
    async consume(id) {
      await note({ model, method: 'consume', argument: id })
      const record = records.get(`${model} ${id}`)
      if (record) record.consumed = Math.floor(Date.now() / 1000)
    },
    async destroy(id) {
      records.delete(`${model} ${id}`)
    },
    async revokeByGrantId(grantId) {
      await note({ model, method: 'revokeByGrantId', argument: grantId })
      for (const [key, payload] of records) {
        if (payload.grantId === grantId && key.startsWith(`${model} `)) records.delete(key)
      }
    },
  })
}

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
