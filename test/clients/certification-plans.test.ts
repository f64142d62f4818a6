// The plans of docs/certification except basic and form-post, and the script that starts a plan.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeJwt, exportJWK, generateKeyPair, type JSONWebKeySet } from 'jose'
import * as openid from 'openid-client'
import { expect, onTestFinished, test } from 'vitest'
import { PLANS } from '../../docs/certification/plans.ts'
import { Browser } from '../support/browser.ts'
import { CALLBACK, SUITE, secretOf, startPlan, USER } from '../support/certification.ts'
import { newRequest } from '../support/client-library.ts'
import { authorizationRequest, signInAndAllow } from '../support/journey.ts'
import { opened } from '../support/people.ts'
import { freePort } from '../support/ports.ts'
import { invite, manage } from '../support/registration.ts'
import type { Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const ROOT = join(import.meta.dirname, '../..')
const PLACE = join(ROOT, 'docs/certification')
const DISCOVERY = '/.well-known/openid-configuration'
const RETURN = `${SUITE}/post_logout_redirect`

async function plan(name: string): Promise<Usher> {
  const usher = await startPlan(name)
  onTestFinished(() => usher.close())
  return usher
}

/** Signs the user in at the client. Returns the browser and the ID token. */
async function signIn(usher: Usher) {
  const browser = new Browser(usher.issuer)
  const params = { code_challenge: undefined, code_challenge_method: undefined }
  const redirect = { client_id: 'client', redirect_uri: CALLBACK, scope: 'openid' }
  await browser.open(authorizationRequest(usher, { ...redirect, ...params }).url)
  const page = await signInAndAllow(browser, USER.username, USER.password)
  const code = page.params.get('code') ?? ''
  const body = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK }
  const headers = basic('client', secretOf('client'))
  const { json } = await send(usher, '/api/oauth/token', { body, headers })
  return { browser, id_token_hint: String(json.id_token) }
}

test('config: discovery has the required metadata, and the JWKS has no private key', async () => {
  const usher = await plan('config')
  const { json } = await send(usher, DISCOVERY)
  const required =
    'issuer authorization_endpoint token_endpoint userinfo_endpoint jwks_uri scopes_supported response_types_supported grant_types_supported subject_types_supported id_token_signing_alg_values_supported claims_supported'
  expect(Object.keys(json)).toEqual(expect.arrayContaining(required.split(' ')))
  expect(json.id_token_signing_alg_values_supported).toContain('RS256')
  const jwks = await send<JSONWebKeySet>(usher, '/api/oauth/jwks')
  for (const key of jwks.json.keys) expect(key).not.toHaveProperty('d')
})

test('rp-initiated-logout: with hint, redirect URI and state, the user returns with the state', async () => {
  const usher = await plan('rp-initiated-logout')
  const { browser, id_token_hint } = await signIn(usher)
  const params = { id_token_hint, post_logout_redirect_uri: RETURN, state: 'of-the-suite' }
  await browser.open(`/api/oauth/logout?${new URLSearchParams(params)}`)
  expect(browser.heading).toBe('Sign out')
  const { url } = await browser.submit({ logout: 'yes' })
  expect(url.href).toBe(`${RETURN}?state=of-the-suite`)
})

test('back-channel-logout: discovery advertises it, and the ID token has a sid', async () => {
  const usher = await plan('back-channel-logout')
  const { json } = await send(usher, DISCOVERY)
  expect(json).toMatchObject({
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
  })
  const { id_token_hint } = await signIn(usher)
  expect(decodeJwt(id_token_hint).sid).toEqual(expect.any(String))
})

test('dynamic: a client with keys registers, signs a user in without PKCE, and deletes itself', async () => {
  const usher = await plan('dynamic')
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  const metadata = {
    client_name: 'Certification suite 8f2Kx0bTq1LzVwA',
    grant_types: ['authorization_code'],
    response_types: ['code'],
    redirect_uris: [CALLBACK],
    contacts: ['certification@example.org'],
    jwks: { keys: [{ ...(await exportJWK(publicKey)), use: 'sig', alg: 'RS256' }] },
    token_endpoint_auth_method: 'private_key_jwt',
  }
  const config = await openid.dynamicClientRegistration(
    new URL(usher.issuer),
    metadata,
    openid.PrivateKeyJwt(privateKey),
    {
      initialAccessToken: await invite(usher, 1, 'without-pkce'),
      execute: [openid.allowInsecureRequests],
    },
  )
  const browser = new Browser(usher.issuer)
  const request = { redirect_uri: CALLBACK, scope: 'openid', state: 'of-the-suite' }
  await browser.open(openid.buildAuthorizationUrl(config, request))
  const { url } = await signInAndAllow(browser, USER.username, USER.password)
  const checks = { expectedState: request.state }
  const tokens = await openid.authorizationCodeGrant(config, url, checks)
  const { client_id, registration_access_token } = config.clientMetadata()
  expect(tokens.claims()?.aud).toBe(client_id)
  const client = { client_id, registration_access_token: String(registration_access_token) }
  expect((await manage(usher, client, undefined, 'DELETE')).status).toBe(204)
})

test('fapi2: pushed requests, private_key_jwt and DPoP; a request_uri opens twice and completes once', async () => {
  const usher = await plan('fapi2')
  const file = readFileSync(join(ROOT, 'docs/certification/suite/fapi2.json'), 'utf8')
  const [jwk] = JSON.parse(file).client.jwks.keys
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
  const key = await crypto.subtle.importKey('jwk', jwk, algorithm, false, ['sign'])
  const authentication = openid.PrivateKeyJwt({ key, kid: jwk.kid })
  const issuer = new URL(usher.issuer)
  const execute = [openid.allowInsecureRequests]
  const config = await openid.discovery(issuer, 'client', undefined, authentication, { execute })

  const { params, checks } = await newRequest({ redirect_uri: CALLBACK, scope: 'openid' })
  const direct = await send(usher, openid.buildAuthorizationUrl(config, params))
  expect(direct.location?.searchParams.get('error')).toBe('invalid_request')

  const url = await openid.buildAuthorizationUrlWithPAR(config, params)
  await new Browser(usher.issuer).open(url)
  const browser = await opened(usher, url)
  const { url: response } = await signInAndAllow(browser, USER.username, USER.password)
  expect(response.searchParams.get('iss')).toBe(usher.issuer)
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('ES256'))
  const tokens = await openid.authorizationCodeGrant(config, response, checks, undefined, { DPoP })
  expect(tokens.token_type).toBe('dpop')
  expect(tokens.claims()?.aud).toBe('client')
  const again = await send(usher, url)
  expect(again.location?.searchParams.has('code') ?? false).toBe(false)
})

test.each(Object.entries(PLANS))(
  '%s: Usher has the clients and keys of the suite',
  (name, plan) => {
    const { folder = name, config = name } = plan
    const { client, client2 } = JSON.parse(
      readFileSync(join(PLACE, `suite/${config}.json`), 'utf8'),
    )
    const cwd = join(PLACE, folder, 'clients')
    const files = globSync('*.yaml', { cwd }).map(file => readFileSync(join(cwd, file), 'utf8'))
    for (const { client_id, jwks } of [client ?? {}, client2 ?? {}]) {
      // The dynamic plan registers its clients.
      if (!client_id) continue
      const file = files.find(text => text.includes(`\nclient_id: ${client_id}\n`))
      expect(file).toBeDefined()
      for (const { n, x } of jwks?.keys ?? []) expect(file).toContain(n ?? x)
    }
  },
)

test('npm run certification starts a plan for the address of the suite in SUITE', async () => {
  const port = await freePort()
  const ISSUER = `http://localhost:${port}`
  const env = { ...process.env, ISSUER, SUITE: 'https://suite.example.org/test/a/usher/' }
  const child = spawn(process.execPath, ['docs/certification/start.ts', 'basic'], {
    cwd: ROOT,
    env,
  })
  onTestFinished(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  })
  let output = ''
  for await (const chunk of child.stderr) {
    output += chunk
    if (/is ready at/.test(output)) break
  }
  expect(output).toContain(`is ready at ${ISSUER}`)
  const redirect_uri = 'https://suite.example.org/test/a/usher/callback'
  const query = new URLSearchParams({
    client_id: 'client',
    redirect_uri,
    response_type: 'code',
    scope: 'openid',
  })
  const browser = new Browser(ISSUER)
  await browser.open(`/api/oauth/authorize?${query}`)
  const { url } = await signInAndAllow(browser, USER.username, USER.password)
  expect(url.href).toMatch(/^https:\/\/suite\.example\.org\/test\/a\/usher\/callback\?code=/)
})
