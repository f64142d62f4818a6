// Standard client libraries against the issuer: the whole flow of a confidential and a public client.

import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { configurationOf, follow, newRequest } from '../support/client-library.ts'
import { test, usher } from '../support/fixtures.ts'
import { SECRET, WEB } from '../support/usher.ts'

const SCOPE = 'openid profile email offline_access'
const INFO = {
  preferred_username: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.org',
  email_verified: true,
}
const POST = 'https://post.example.org/callback'
const SPA = 'https://spa.example.org/callback'

test.each([
  ['a confidential client', 'web', WEB, openid.ClientSecretBasic(SECRET)],
  ['a secret in the body', 'post', POST, openid.ClientSecretPost(SECRET)],
  ['a public client', 'spa', SPA, openid.None()],
])(
  'openid-client, %s: discovery, sign-in, UserInfo, refresh, introspection, revocation and sign-out',
  async (...row) => {
    const [, client_id, redirect_uri, authentication] = row
    const config = await configurationOf(usher, client_id, {}, authentication)
    const { params, checks } = await newRequest({ redirect_uri, scope: SCOPE })
    const answer = await follow(usher, openid.buildAuthorizationUrl(config, params))
    const expected = { ...checks, idTokenExpected: true }
    const tokens = await openid.authorizationCodeGrant(config, answer, expected)
    const claims = tokens.claims()
    expect(claims).toMatchObject({ iss: usher.issuer, aud: client_id, ...INFO })
    const sub = claims?.sub ?? ''
    const info = await openid.fetchUserInfo(config, tokens.access_token, sub)
    expect(info).toEqual({ sub, ...INFO })

    const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
    expect(renewed.refresh_token).not.toBe(tokens.refresh_token)
    expect(renewed.claims()?.sub).toBe(sub)
    if (client_id !== 'spa') {
      const known = await openid.tokenIntrospection(config, renewed.access_token)
      expect(known).toMatchObject({ active: true, client_id, sub })
    }
    await openid.tokenRevocation(config, renewed.refresh_token ?? '')
    const dead = openid.fetchUserInfo(config, renewed.access_token, sub)
    await expect(dead).rejects.toMatchObject({ status: 401 })
    const end = openid.buildEndSessionUrl(config, { id_token_hint: tokens.id_token ?? '' })
    expect(end.href).toMatch(/\/api\/oauth\/logout\?/)
  },
)

test('oauth4webapi: the whole flow, with every response validated', async () => {
  const insecure = { [oauth.allowInsecureRequests]: true }
  const issuer = new URL(usher.issuer)
  const discovery = await oauth.discoveryRequest(issuer, insecure)
  const as = await oauth.processDiscoveryResponse(issuer, discovery)
  const app: oauth.Client = { client_id: 'web' }
  const authentication = oauth.ClientSecretBasic(SECRET)

  const { params, checks } = await newRequest({ redirect_uri: WEB, scope: SCOPE })
  const url = new URL(as.authorization_endpoint ?? '')
  url.search = String(new URLSearchParams({ client_id: 'web', response_type: 'code', ...params }))
  const state = checks.expectedState
  const response = oauth.validateAuthResponse(as, app, await follow(usher, url), state)
  const answer = await oauth.authorizationCodeGrantRequest(
    as,
    app,
    authentication,
    response,
    WEB,
    checks.pkceCodeVerifier,
    insecure,
  )
  const tokens = await oauth.processAuthorizationCodeResponse(as, app, answer, {
    expectedNonce: checks.expectedNonce,
    requireIdToken: true,
  })
  await oauth.validateApplicationLevelSignature(as, answer, insecure)
  const sub = oauth.getValidatedIdTokenClaims(tokens)?.sub ?? ''

  const info = await oauth.userInfoRequest(as, app, tokens.access_token, insecure)
  expect(await oauth.processUserInfoResponse(as, app, sub, info)).toEqual({ sub, ...INFO })

  const refresh = await oauth.refreshTokenGrantRequest(
    as,
    app,
    authentication,
    tokens.refresh_token ?? '',
    insecure,
  )
  const renewed = await oauth.processRefreshTokenResponse(as, app, refresh)
  expect(renewed.refresh_token).toBeTruthy()

  const revocation = await oauth.revocationRequest(
    as,
    app,
    authentication,
    renewed.refresh_token ?? '',
    insecure,
  )
  expect(await oauth.processRevocationResponse(revocation)).toBeUndefined()
  const dead = await oauth.userInfoRequest(as, app, renewed.access_token, insecure)
  expect(dead.status).toBe(401)
  expect(dead.headers.get('www-authenticate')).toContain('error="invalid_token"')
})
