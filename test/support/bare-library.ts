// oidc-provider without Usher, with an adapter as plain as its own in-memory adapter.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Adapter, type AdapterPayload, type Configuration, Provider } from 'oidc-provider'
import type { SigningKey } from '../../src/oidc/dependencies.ts'
import { Browser } from './browser.ts'
import { authorizationRequest, type Request } from './journey.ts'
import { SECRET } from './usher.ts'

const CLIENT = {
  client_id: 'web',
  client_secret: SECRET,
  redirect_uris: ['https://app.example.org/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
}
const COOKIES = ['keys-of-the-bare-library']

export interface Call {
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
export async function startBareLibrary({ keys, before = () => {}, configuration }: BareOptions) {
  const calls: Call[] = []
  const note = (call: Call) => {
    calls.push(call)
    return before(call)
  }
  const server = createServer((req, res) => handler?.(req, res))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
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
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export type BareLibrary = Awaited<ReturnType<typeof startBareLibrary>>

/** Sends an authorization request, and follows its redirects to the code. */
export async function bareCode(
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
