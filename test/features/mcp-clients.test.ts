// MCP clients connect by themselves: their recorded metadata documents and registrations, each through
// authorization, token, refresh and step-up.

import { join } from 'node:path'
import { expect } from 'vitest'
import { APIS, FILES } from '../support/apis.ts'
import { Browser } from '../support/browser.ts'
import { startDocumentSite } from '../support/document-site.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, codeForm } from '../support/journey.ts'
import { ASSERTION } from '../support/keyed.ts'
import { DOCUMENTS, REGISTRATIONS } from '../support/mcp-clients.ts'
import { invite, REGISTER } from '../support/registration.ts'
import { assertion, PUBLIC_JWKS } from '../support/signers.ts'
import { ADA, CLIENTS, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const TOKEN = '/api/oauth/token'

const { origin: site, documents, folder, close } = await startDocumentSite()
documents['/oauth/jwks.json'] = JSON.stringify(PUBLIC_JWKS)
for (const { path, document } of Object.values(DOCUMENTS)) {
  const isKeyed = 'jwks_uri' in document
  documents[path] = { ...document, ...(isKeyed && { jwks_uri: `${site}/oauth/jwks.json` }) }
}
const options = (client_id_metadata_documents: true | object = true) => ({
  usher: {
    features: {
      client_id_metadata_documents,
      dynamic_registration: true,
      device_flow: true,
    },
    egress: { allow: ['localhost'] },
  },
  clients: { ...CLIENTS, ...APIS.clients },
  resources: {
    ...APIS.resources,
    files: {
      ...APIS.resources.files,
      default_scopes: ['files:read'],
      clients: [`${site}/oauth/*`, `${site}/cursor.json`, `${site}/minimal.json`, 'app_*'],
    },
  },
})
/** The laxer rules of a loopback http issuer, and those of production. */
const test = usherTest(() => options())
let production: Usher
test.beforeAll(async () => {
  // Elsewhere than on a loopback issuer, `egress.allow` is for documents of these hosts.
  const { usher: yaml, ...rest } = options({ hosts: [new URL(site).host] })
  production = await startUsher({
    ...rest,
    usher: { ...yaml, issuer: 'https://id.example.org', proxy: ['127.0.0.1/32'] },
    store: `sqlite:${join(folder, 'usher.db')}`,
    env: { USHER_SECRET: 'x'.repeat(43) },
  })
})
test.afterAll(async () => {
  await production.close()
  await close()
})

const PROXIED = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' }

/** An authorization request and token requests, as the SDK sends them. */
function clientOf(client_id: string, redirect_uri: string, isKeyed: boolean, at = usher) {
  const browser = new Browser(at.issuer)
  async function post(form: Record<string, string>) {
    const client_assertion = isKeyed && (await assertion('RS256', client_id, at.issuer))
    const proof = { client_assertion, client_assertion_type: ASSERTION }
    const body = { client_id, resource: FILES, ...form, ...(client_assertion && proof) }
    return send(at, TOKEN, { body: body as Record<string, string> })
  }
  return {
    post,
    async authorize(scope?: string) {
      const params = { client_id, redirect_uri, scope, nonce: undefined, resource: FILES }
      const { code, request } = await authorize(at, { ...params, browser })
      return post(codeForm(code, request))
    },
  }
}

/** Authorization without a scope. */
async function connectAs(client_id: string, callback: string, isKeyed = false) {
  const client = clientOf(client_id, callback, isKeyed)
  const first = await client.authorize()
  expect(first).toMatchObject({ status: 200, json: { scope: 'files:read' } })
  return client
}

/** Authorization with a scope, refresh, and step-up. */
async function continueAs(client: ReturnType<typeof clientOf>) {
  const second = await client.authorize('files:read offline_access')
  const refresh_token = String(second.json.refresh_token)
  const renewed = await client.post({ grant_type: 'refresh_token', refresh_token })
  expect(renewed).toMatchObject({ status: 200, json: { scope: 'files:read' } })
  const third = await client.authorize('files:read files:write offline_access')
  expect(String(third.json.scope).split(' ').toSorted()).toEqual(['files:read', 'files:write'])
}

/** Documents that differ in what follows the first authorization. */
const CONTINUED = ['Claude Code', 'ChatGPT', 'A document with a redirect URI alone']

test.each(Object.entries(DOCUMENTS))('%s connects', async (name, { path, document, callback }) => {
  const client_id = site + path
  const client = await connectAs(client_id, callback, 'jwks_uri' in document)
  if (CONTINUED.includes(name)) await continueAs(client)
  const params = { client_id, redirect_uri: callback, scope: 'files:read', resource: FILES }
  const { url } = authorizationRequest(production, { ...params, nonce: undefined })
  const begun = await send(production, url.pathname + url.search, { headers: PROXIED })
  expect([begun.text, begun.location?.pathname]).toEqual([
    begun.text,
    expect.stringMatching(/^\/interaction\//),
  ])
})

test('refresh_tokens: always gives a refresh token to a client that does not ask for one', async () => {
  const { path, callback } = DOCUMENTS.Codex
  const always = await startAnother(options({ refresh_tokens: 'always' }))
  await always.addAccount(ADA)
  const tokensAt = async (at: Usher, scope?: string) => {
    const { json } = await clientOf(site + path, callback, false, at).authorize(scope)
    return [json.scope, typeof json.refresh_token]
  }
  expect(await tokensAt(always)).toEqual(['files:read', 'string'])
  expect(await tokensAt(always, 'files:read files:write')).toEqual([
    'files:read files:write',
    'string',
  ])
  expect(await tokensAt(always, 'openid files:read')).toEqual(['files:read', 'undefined'])
  expect(await tokensAt(usher, 'files:read')).toEqual(['files:read', 'undefined'])
})

test('a redirect URI of a document that cannot be used is refused when it is used', async () => {
  const client_id = site + DOCUMENTS.Cursor.path
  const redirect_uri = 'cursor://anysphere.cursor-mcp/oauth/callback'
  const { status, text } = await send(
    usher,
    authorizationRequest(usher, { client_id, redirect_uri }).url,
  )
  expect([status, text]).toEqual([400, expect.stringContaining('redirect_uri')])
})

test.each(Object.entries(REGISTRATIONS))('%s registers and connects', async (name, metadata) => {
  let client_id = ''
  for (const at of [usher, production]) {
    const authorization = `Bearer ${await invite(at)}`
    const { status, json } = await send(at, REGISTER, {
      body: JSON.stringify(metadata),
      headers: { ...PROXIED, authorization, 'content-type': 'application/json' },
    })
    expect([status, json]).toEqual([
      201,
      expect.objectContaining({
        client_name: metadata.client_name,
        application_type: 'native',
        redirect_uris: metadata.redirect_uris.filter(uri => !uri.startsWith('cursor:')),
        grant_types: ['authorization_code', 'refresh_token'],
      }),
    ])
    expect(json).not.toHaveProperty('scope')
    if (at === usher) client_id = String(json.client_id)
  }
  const callback = metadata.redirect_uris.find(uri => uri.startsWith('http://')) ?? ''
  const client = await connectAs(client_id, callback.replace(/:\d+/, ':41234'))
  if (name === 'Gemini CLI') await continueAs(client)
})
