// `features:` switches features on and off: their endpoints, their keys in discovery, and client files.

import * as openid from 'openid-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hashSecret } from '../../src/oidc/clients.ts'
import { Browser } from '../support/browser.ts'
import { tokens } from '../support/journey.ts'
import { ADA, CLIENTS, SECRET, startUsher, type Usher } from '../support/usher.ts'
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
]

let on: Usher
let off: Usher
beforeAll(async () => {
  const clients = { ...CLIENTS, service: SERVICE }
  on = await startUsher({ clients, usher: { features: { dynamic_registration: true } } })
  const features = Object.fromEntries(ENDPOINTS.map(([feature]) => [feature, false]))
  off = await startUsher({
    usher: { features: { ...features, client_credentials: false } },
  })
  await off.addAccount(ADA)
})
afterAll(() => Promise.all([on.close(), off.close()]))

test.each(ENDPOINTS)(
  '%s: while it is off, it has no endpoint and is not in discovery',
  async (_feature, key, path, method) => {
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
  },
)

test('client_credentials: a service gets an access token without a user', async () => {
  const config = await configOf(on, 'service')
  expect(config.serverMetadata().grant_types_supported).toContain('client_credentials')
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

test('client_credentials: refused for a client without this grant type, and for all while it is off', async () => {
  const body = { grant_type: 'client_credentials' }
  const refused = await send(on, '/api/oauth/token', { body, headers: basic('web', SECRET) })
  expect(refused).toMatchObject({ status: 400, json: { error: 'invalid_request' } })
  expect(refused.json.error_description).toContain('grant_type must be one of the grant_types')
  const { json } = await send(off, DISCOVERY)
  expect(json.grant_types_supported).not.toContain('client_credentials')
  const unknown = await send(off, '/api/oauth/token', { body, headers: basic('web', SECRET) })
  expect(unknown).toMatchObject({ status: 400, json: { error: 'unsupported_grant_type' } })
  const clients = { ...CLIENTS, service: SERVICE }
  const features = { client_credentials: false }
  const start = startUsher({ clients, usher: { features } })
  await expect(start).rejects.toThrow(
    'grant_types: needs a setting that is off: `features.client_credentials`',
  )
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
  const usher = await startUsher({ usher: { features: { resource_indicators: false } } })
  try {
    const resource = 'https://files.example.org'
    const errors = [usher, on].map(async ({ issuer }) => {
      const url = openid.buildAuthorizationUrl(await configOf(on, 'web'), {
        ...(await request()),
        resource,
      })
      const answer = await fetch(new URL(url.pathname + url.search, issuer), { redirect: 'manual' })
      const location = new URL(answer.headers.get('location') ?? '', issuer)
      return location.searchParams.get('error')
    })
    expect(await Promise.all(errors)).toEqual([null, 'invalid_target'])
  } finally {
    await usher.close()
  }
})

test('pushed_authorization_requests: if required, only pushed requests are accepted', async () => {
  const usher = await startUsher({
    usher: { features: { pushed_authorization_requests: 'required' } },
  })
  try {
    const { json } = await send(usher, DISCOVERY)
    expect(json.require_pushed_authorization_requests).toBe(true)
    const config = await configOf(usher, 'web')
    const direct = openid.buildAuthorizationUrl(config, await request())
    const refused = await fetch(direct, { redirect: 'manual' })
    expect(refused.headers.get('location')).toContain('error=invalid_request')
    const pushed = await openid.buildAuthorizationUrlWithPAR(config, await request())
    const taken = await fetch(pushed, { redirect: 'manual' })
    expect(taken.headers.get('location')).toContain('/interaction/')
  } finally {
    await usher.close()
  }
})

const request = async () => ({
  redirect_uri: 'https://app.example.org/callback',
  scope: 'openid',
  code_challenge: await openid.calculatePKCECodeChallenge(openid.randomPKCECodeVerifier()),
  code_challenge_method: 'S256',
})

const configOf = (usher: Usher, client_id: string) =>
  openid.discovery(new URL(usher.issuer), client_id, undefined, openid.ClientSecretBasic(SECRET), {
    execute: [openid.allowInsecureRequests],
  })
