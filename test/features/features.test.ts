// `features:` switches features on and off: their endpoints, their keys in discovery, and client files.
// A feature adds pages and prompts, and the records of its users end with their accounts.

import { globSync, readFileSync } from 'node:fs'
import type { Context } from 'koa'
import * as openid from 'openid-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PageFeature } from '../../src/account/page-feature.ts'
import { hashSecret } from '../../src/oidc/clients.ts'
import { required } from '../../src/store/values.ts'
import { Browser } from '../support/browser.ts'
import { configurationOf, newRequest } from '../support/client-library.ts'
import { addApp } from '../support/factors.ts'
import { startAnother } from '../support/fixtures.ts'
import { tokens } from '../support/journey.ts'
import { credentials } from '../support/people.ts'
import { ADA, CLIENTS, GRACE, SECRET, startUsher, type Usher, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const SERVICE = {
  client_id: 'service',
  client_name: 'A service',
  grant_types: ['client_credentials'],
  client_secret_hashes: [hashSecret(SECRET)],
}

/** The switch of each feature, its key in discovery, and its endpoint. */
const ENDPOINTS: [feature: string, key: string, path: string, method: string][] = [
  ['introspection', 'introspection_endpoint', '/api/oauth/introspect', 'POST'],
  ['revocation', 'revocation_endpoint', '/api/oauth/revoke', 'POST'],
  ['rp_initiated_logout', 'end_session_endpoint', '/api/oauth/logout', 'GET'],
  [
    'pushed_authorization_requests',
    'pushed_authorization_request_endpoint',
    '/api/oauth/par',
    'POST',
  ],
  ['dynamic_registration', 'registration_endpoint', '/api/oauth/register', 'POST'],
  ['device_flow', 'device_authorization_endpoint', '/api/oauth/device_authorization', 'POST'],
  ['ciba', 'backchannel_authentication_endpoint', '/api/oauth/backchannel_authentication', 'POST'],
]
/** Further members of discovery that a feature adds. */
const MEMBERS: [feature: string, members: object][] = [
  ['client_id_metadata_documents', { client_id_metadata_document_supported: true }],
  [
    'backchannel_logout',
    { backchannel_logout_supported: true, backchannel_logout_session_supported: true },
  ],
  ['mtls', { tls_client_certificate_bound_access_tokens: true }],
  ['ciba', { backchannel_token_delivery_modes_supported: ['poll', 'ping'] }],
]
/** The grant types that features add. */
const GRANTS: [feature: string, grant_type: string][] = [
  ['client_credentials', 'client_credentials'],
  ['device_flow', 'urn:ietf:params:oauth:grant-type:device_code'],
  ['ciba', 'urn:openid:params:grant-type:ciba'],
]

let on: Usher
let off: Usher
beforeAll(async () => {
  const clients = { ...CLIENTS, service: SERVICE }
  const names = [...ENDPOINTS, ...MEMBERS, ...GRANTS].map(([feature]) => feature)
  const all = (isOn: boolean) => Object.fromEntries(names.map(name => [name, isOn]))
  const client_certificates = { header: 'x-client-cert' }
  const proxy = ['127.0.0.1']
  const usher = { features: all(true), proxy, client_certificates }
  on = await startUsher({ clients, usher })
  off = await startUsher({ usher: { features: all(false) } })
  await off.addAccount(ADA)
})
afterAll(() => Promise.all([on.close(), off.close()]))

test.each(ENDPOINTS)('%s: off, it has no endpoint', async (_feature, key, path, method) => {
  const body = method === 'POST' ? { token: 'x' } : undefined
  const answers = await Promise.all([on, off].map(usher => send(usher, path, { body, method })))
  expect(answers[0]?.status).not.toBe(404)
  expect(answers[1]?.status).toBe(404)
  expect(answers[1]?.json.error).toBe('not_found')
  const documents = await Promise.all(
    [on, off].map(async usher => (await send(usher, DISCOVERY)).json),
  )
  expect(documents[0]?.[key]).toBe(`${on.issuer}${path}`)
  expect(documents[1]).not.toHaveProperty(key)
})

test.each(MEMBERS)('%s: off, discovery lacks its members', async (_, members) => {
  expect((await send(on, DISCOVERY)).json).toMatchObject(members)
  const { json } = await send(off, DISCOVERY)
  for (const key of Object.keys(members)) expect(json).not.toHaveProperty(key)
})

test.each(GRANTS)('%s: while it is off, its grant type is refused', async (_, grant_type) => {
  expect((await send(on, DISCOVERY)).json.grant_types_supported).toContain(grant_type)
  expect((await send(off, DISCOVERY)).json.grant_types_supported).not.toContain(grant_type)
  const body = { grant_type, device_code: 'x', auth_req_id: 'x' }
  const answer = await send(off, '/api/oauth/token', { body, headers: basic('web', SECRET) })
  expect(answer).toMatchObject({ status: 400, json: { error: 'unsupported_grant_type' } })
})

test.each<[string, object]>([
  ...GRANTS.map(([feature, grant]): [string, object] => [feature, { grant_types: [grant] }]),
  ['backchannel_logout', { ...CLIENTS.web, backchannel_logout_uri: 'https://app.example.org/out' }],
  ['mtls', { token_endpoint_auth_method: 'self_signed_tls_client_auth' }],
])('%s: while it is off, no client file may use it', async (feature, metadata) => {
  const clients = { service: { ...SERVICE, ...metadata, client_id: 'service' } }
  const start = startUsher({ clients, usher: { features: { [feature]: false } } })
  await expect(start).rejects.toThrow(`needs a setting that is off: \`features.${feature}\``)
})

test('while their features are off, users have no pages for devices and requests', async () => {
  for (const path of ['/device', '/device/abcdefghijklmnopqrstuvwxyz', '/account/requests']) {
    expect([path, (await send(off, path)).status]).toEqual([path, 404])
  }
  const { text } = await send(off, DISCOVERY)
  expect(text).not.toMatch(/device|ciba|backchannel|tls_client_auth/)
})

test('client_credentials: a service gets an access token without a user', async () => {
  const config = await configurationOf(on, 'service')
  const given = await openid.clientCredentialsGrant(config, { scope: 'profile' })
  expect(given).toMatchObject({ token_type: 'bearer', expires_in: 600, scope: 'profile' })
  expect(given).not.toHaveProperty('refresh_token')
  expect(given).not.toHaveProperty('id_token')
  const about = await openid.tokenIntrospection(config, given.access_token)
  expect(about).toMatchObject({ active: true, client_id: 'service' })
  expect(about).not.toHaveProperty('sub')
  const headers = { authorization: `Bearer ${given.access_token}` }
  expect((await send(on, '/api/oauth/userinfo', { headers })).status).toBe(401)
  await openid.tokenRevocation(config, given.access_token)
  expect(await openid.tokenIntrospection(config, given.access_token)).toEqual({ active: false })
})

test('client_credentials: refused for a client without this grant type', async () => {
  const body = { grant_type: 'client_credentials' }
  const refused = await send(on, '/api/oauth/token', { body, headers: basic('web', SECRET) })
  expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
  expect(refused.json.error_description).toContain('grant_type must be one of the grant_types')
})

test('rp_initiated_logout: while it is off, users sign out on the account page, and clients cannot start it', async () => {
  const browser = new Browser(off.issuer)
  await tokens(off, { browser })
  const account = await browser.open('/account')
  expect(account.text).toContain('href="/account/sign-out"')
  const query = '?post_logout_redirect_uri=https%3A%2F%2Fapp.example.org%2Fbye&client_id=web'
  const page = await browser.open(`/account/sign-out${query}`)
  expect(page.text).not.toContain('Web application')
  const out = await browser.submit({ logout: 'yes' })
  expect(out.url).not.toContain('app.example.org')
  expect((await browser.open('/account')).text).toContain('Sign in')
})

test('resource_indicators: while it is off, resource is ignored; without API files, every resource is unknown', async () => {
  const usher = await startAnother({ usher: { features: { resource_indicators: false } } })
  const { params } = await newRequest({ redirect_uri: WEB, resource: 'https://files.example.org' })
  const errors = [usher, on].map(async at => {
    const url = openid.buildAuthorizationUrl(await configurationOf(at, 'web'), params)
    return (await send(at, url)).location?.searchParams.get('error')
  })
  expect(await Promise.all(errors)).toEqual([null, 'invalid_target'])
})

test('pushed_authorization_requests: if required, only pushed requests are accepted', async () => {
  const features = { pushed_authorization_requests: 'required' }
  const usher = await startAnother({ usher: { features } })
  const config = await configurationOf(usher, 'web')
  expect(config.serverMetadata().require_pushed_authorization_requests).toBe(true)
  const { params } = await newRequest({ redirect_uri: WEB })
  const refused = await send(usher, openid.buildAuthorizationUrl(config, params))
  expect(refused.location?.searchParams.get('error')).toBe('invalid_request')
  const pushed = await openid.buildAuthorizationUrlWithPAR(config, params)
  expect((await send(usher, pushed)).location?.pathname).toMatch(/^\/interaction\//)
})

const CAVE = '/account/cave'
const answer = (ctx: Context): undefined => {
  ctx.body = '<!DOCTYPE html><h1>Cave</h1>'
}
/** A feature with a page and an entry of the account navigation: no file of Usher names it. */
const cave: PageFeature = {
  areas: [{ path: CAVE, icon: 'unlock', label: () => 'Cave' }],
  addPages: (pages, site) => void pages.get(CAVE, site.signedIn(answer)),
}
/** A prompt of a feature, and its page. */
const PROMPT = {
  place: 'before consent' as const,
  page: () => ({ show() {}, submit: async () => undefined }),
}

test('the entry of the navigation leads to the page of the feature, also by sign-in', async () => {
  const usher = await startAnother({ features: [cave] })
  await usher.addAccount(GRACE)
  const browser = new Browser(usher.issuer)
  await browser.open(CAVE)
  await browser.submit(credentials('grace'))
  expect(browser.heading).toBe('Cave')
  await browser.open('/account')
  const links = browser.page.html.querySelectorAll('nav a')
  const entries = links.map(link => [link.getAttribute('href'), link.text.trim()])
  expect(entries).toContainEqual([CAVE, 'Cave'])
})

const revocation = { revocation: { enabled: true } }
test.each<[string, PageFeature, string]>([
  ['prompt', { prompts: { sesame: PROMPT } }, 'have the prompt sesame'],
  ['prompt of the core', { prompts: { login: PROMPT } }, 'have the prompt login'],
  ['account page', { areas: cave.areas }, 'have the account page /account/cave'],
  ['library setting', { settings: { dPoP: { enabled: true } } }, 'have the library feature dPoP'],
  ['setting of the core', { settings: revocation }, 'have the library feature revocation'],
  ['adapter', { adapters: { DeviceCode: () => ({}) } }, 'have the adapter DeviceCode'],
])('two features with one %s: the start fails', async (_, other, message) => {
  const first: PageFeature = { prompts: { sesame: PROMPT } }
  await expect(startUsher({ features: [cave, first, other] })).rejects.toThrow(message)
})

/** The kinds of records that files of `src` declare. */
function kindsOfSource(): string[] {
  const files = globSync('src/**/*.ts').map(path => readFileSync(path, 'utf8'))
  const declared =
    /(?:records\.of|recordsOfAccounts)<[^(]*>\(\s*(?:records, )?(?:'(\w+)'|([A-Z]+)\b)/g
  return files.flatMap(text =>
    [...text.matchAll(declared)].map(([, kind, constant]) => kind ?? constantIn(text, constant)),
  )
}

/** The value of a constant of this file. */
function constantIn(text: string, constant = ''): string {
  const [, value = ''] = new RegExp(`const ${constant} = '(\\w+)'`).exec(text) ?? []
  return value
}

test('no record under the id of an account is left after its removal', async () => {
  const usher = await startAnother({ usher: { sign_in: { second_factor: 'optional' } } })
  const { id } = await usher.addAccount(ADA)
  await addApp(usher)
  /** The records of a kind, with the options of its declaration. */
  const recordsOf = (kind: string) => {
    try {
      return usher.records.of(kind)
    } catch {
      return usher.records.of(kind, { backup: true })
    }
  }
  const kinds = kindsOfSource()
  const kindsKept = async () => {
    const found = await Promise.all(kinds.map(kind => recordsOf(kind).read(id)))
    return kinds.filter((_, i) => found[i]?.value !== undefined)
  }
  expect(await kindsKept()).toEqual(expect.arrayContaining(['Account', 'Activity', 'Factors']))
  await usher.directory.remove(required(await usher.directory.find(id)))
  expect(await kindsKept()).toEqual([])
})
