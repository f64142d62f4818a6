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
import { read } from '../support/config-folder.ts'
import { addApp } from '../support/factors.ts'
import { startAnother } from '../support/fixtures.ts'
import { authorizationRequest, tokens } from '../support/journey.ts'
import { credentials, opened, signedIn } from '../support/people.ts'
import { PUBLIC_JWKS, requestObject } from '../support/signers.ts'
import { ADA, CLIENTS, GRACE, SECRET, startUsher, type Usher, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const SERVICE = {
  client_id: 'service',
  client_name: 'A service',
  grant_types: ['client_credentials'],
  client_secret_hashes: [hashSecret(SECRET)],
}

/** Members of discovery that go with a feature that is on by default. advertised-features.test.ts has the others. */
const MEMBERS = {
  introspection: ['introspection_endpoint'],
  revocation: ['revocation_endpoint'],
  rp_initiated_logout: ['end_session_endpoint'],
  pushed_authorization_requests: ['pushed_authorization_request_endpoint'],
  backchannel_logout: ['backchannel_logout_supported', 'backchannel_logout_session_supported'],
  dpop: ['dpop_signing_alg_values_supported'],
  request_objects: ['request_parameter_supported', 'request_object_signing_alg_values_supported'],
  jwt_response_modes: ['authorization_signing_alg_values_supported'],
  signed_userinfo: ['userinfo_signing_alg_values_supported'],
}
/** Metadata of client files that need a feature. */
const NEEDS: Record<string, object> = {
  client_credentials: { grant_types: ['client_credentials'] },
  device_flow: { grant_types: ['urn:ietf:params:oauth:grant-type:device_code'] },
  ciba: { grant_types: ['urn:openid:params:grant-type:ciba'] },
  backchannel_logout: { ...CLIENTS.web, backchannel_logout_uri: 'https://app.example.org/out' },
  mtls: { token_endpoint_auth_method: 'self_signed_tls_client_auth' },
  dpop: { ...CLIENTS.web, dpop_bound_access_tokens: true },
  request_objects: { ...CLIENTS.web, jwks: PUBLIC_JWKS, require_signed_request_object: true },
  jwt_response_modes: { ...CLIENTS.web, response_modes: ['jwt'] },
  signed_userinfo: { ...CLIENTS.web, userinfo_signed_response_alg: 'ES256' },
  pairwise_subjects: { ...CLIENTS.web, subject_type: 'pairwise' },
}

const names = [...Object.keys(MEMBERS), ...Object.keys(NEEDS), 'claims_parameter']
const OFF = Object.fromEntries(names.map(name => [name, false]))

let on: Usher
let off: Usher
beforeAll(async () => {
  on = await startUsher({ clients: { ...CLIENTS, service: SERVICE } })
  off = await startUsher({ usher: { features: OFF } })
  await off.addAccount(ADA)
})
afterAll(() => Promise.all([on.close(), off.close()]))

test('a feature that is off has no endpoint, and no members in discovery', async () => {
  const [with_, without] = await Promise.all([on, off].map(at => send(at, DISCOVERY)))
  for (const member of Object.values(MEMBERS).flat()) {
    expect(with_?.json).toHaveProperty(member)
    expect(without?.json).not.toHaveProperty(member)
    if (!member.endsWith('_endpoint')) continue
    const { pathname } = new URL(String(with_?.json[member]))
    const body = pathname.endsWith('logout') ? undefined : { token: 'x' }
    expect((await send(on, pathname, { body })).status).not.toBe(404)
    const absent = { status: 404, json: { error: 'not_found' } }
    expect(await send(off, pathname, { body })).toMatchObject(absent)
  }
  expect(without?.json).toMatchObject({
    claims_parameter_supported: false,
    response_modes_supported: ['query', 'form_post'],
    subject_types_supported: ['public'],
  })
  expect(without?.text).not.toMatch(/device|ciba|backchannel|tls_client_auth|encryption/)
})

test('client_credentials: off, its grant type is refused', async () => {
  const grant_type = 'client_credentials'
  expect((await send(on, DISCOVERY)).json.grant_types_supported).toContain(grant_type)
  expect((await send(off, DISCOVERY)).json.grant_types_supported).not.toContain(grant_type)
  const headers = basic('web', SECRET)
  const answer = await send(off, '/api/oauth/token', { body: { grant_type }, headers })
  expect(answer).toMatchObject({ status: 400, json: { error: 'unsupported_grant_type' } })
})

test('no client file may use a feature that is off', async () => {
  const files = Object.entries(NEEDS).map(([feature, metadata]) => [
    `clients/${feature}.yaml`,
    { ...SERVICE, ...metadata, client_id: feature },
  ])
  const usher = { 'usher.yaml': JSON.stringify({ features: OFF }) }
  const { findings } = await read({ ...usher, ...Object.fromEntries(files) })
  for (const feature of Object.keys(NEEDS)) {
    const own = findings.filter(({ file }) => file === `clients/${feature}.yaml`)
    const messages = own.map(({ message }) => message).join()
    expect(messages).toContain(`needs a setting that is off: \`features.${feature}\``)
  }
})

test('request objects that are off are refused, and a claims parameter that is off is ignored', async () => {
  const request = await requestObject('ES256', 'web', off.issuer)
  const refused = await send(off, authorizationRequest(off, { request }).url)
  expect(refused.text + refused.location).toContain('request_not_supported')
  const browser = await signedIn(off)
  const claims = '{"userinfo":{"email":null}}'
  await browser.open(authorizationRequest(off, { scope: 'openid', claims }).url)
  expect(browser.heading).toBe('Allow access')
  expect(browser.page.html.querySelectorAll('input[name=scope]')).toEqual([])
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
  const browser = await opened(usher, CAVE)
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
