// Standard client libraries against the issuer: the whole flow of a confidential and a public client.

import * as oauth from 'oauth4webapi'
import * as client from 'openid-client'
import { describe, expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { test, usher } from '../support/fixtures.ts'
import { signInAndAllow } from '../support/journey.ts'
import { SECRET, WEB } from '../support/usher.ts'

const SCOPE = 'openid profile email offline_access'
const INFO = {
  preferred_username: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.org',
  email_verified: true,
}

/** Acts as the user, from the authorization request to the redirect back to the client. */
async function visit(url: URL): Promise<URL> {
  const browser = new Browser(usher.issuer)
  await browser.open(url)
  return (await signInAndAllow(browser, 'ada')).url
}

describe.each([
  ['confidential', 'web', WEB, SECRET],
  ['confidential, secret in the body', 'post', 'https://post.example.org/callback', SECRET],
  ['public', 'spa', 'https://spa.example.org/callback', undefined],
] as const)('openid-client, %s', (_kind, client_id, redirect_uri, secret) => {
  const authentication = () => {
    if (!secret) return client.None()
    return client_id === 'post' ? client.ClientSecretPost(secret) : client.ClientSecretBasic(secret)
  }

  test('discovery, sign-in, UserInfo, refresh, introspection, revocation and sign-out work', async () => {
    const config = await client.discovery(
      new URL(usher.issuer),
      client_id,
      secret,
      authentication(),
      { execute: [client.allowInsecureRequests] },
    )
    const code_verifier = client.randomPKCECodeVerifier()
    const state = client.randomState()
    const nonce = client.randomNonce()
    const url = client.buildAuthorizationUrl(config, {
      redirect_uri,
      scope: SCOPE,
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(code_verifier),
      code_challenge_method: 'S256',
    })
    const tokens = await client.authorizationCodeGrant(config, await visit(url), {
      pkceCodeVerifier: code_verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    })
    const claims = tokens.claims()
    expect(claims).toMatchObject({ iss: usher.issuer, aud: client_id, ...INFO })
    const sub = claims?.sub ?? ''
    const info = await client.fetchUserInfo(config, tokens.access_token, sub)
    expect(info).toEqual({ sub, ...INFO })

    const renewed = await client.refreshTokenGrant(config, tokens.refresh_token ?? '')
    expect(renewed.refresh_token).not.toBe(tokens.refresh_token)
    expect(renewed.claims()?.sub).toBe(sub)

    if (secret) {
      const known = await client.tokenIntrospection(config, renewed.access_token)
      expect(known).toMatchObject({ active: true, client_id, sub })
    }
    await client.tokenRevocation(config, renewed.refresh_token ?? '')
    const dead = client.fetchUserInfo(config, renewed.access_token, sub)
    await expect(dead).rejects.toMatchObject({ status: 401 })

    const end = client.buildEndSessionUrl(config, { id_token_hint: tokens.id_token ?? '' })
    expect(end.href).toMatch(/\/api\/oauth\/logout\?/)
  })

  test('a pushed authorization request works', async () => {
    const config = await client.discovery(
      new URL(usher.issuer),
      client_id,
      secret,
      authentication(),
      { execute: [client.allowInsecureRequests] },
    )
    const code_verifier = client.randomPKCECodeVerifier()
    const url = await client.buildAuthorizationUrlWithPAR(config, {
      redirect_uri,
      scope: 'openid',
      code_challenge: await client.calculatePKCECodeChallenge(code_verifier),
      code_challenge_method: 'S256',
    })
    const checks = { pkceCodeVerifier: code_verifier }
    const tokens = await client.authorizationCodeGrant(config, await visit(url), checks)
    expect(tokens.access_token).toBeTruthy()
  })
})

describe.each([
  ['confidential', 'web', WEB, oauth.ClientSecretBasic(SECRET)],
  ['public', 'spa', 'https://spa.example.org/callback', oauth.None()],
] as const)('oauth4webapi, %s', (_kind, client_id, redirect_uri, authentication) => {
  test('the whole flow, with every response validated', async () => {
    const insecure = { [oauth.allowInsecureRequests]: true }
    const issuer = new URL(usher.issuer)
    const discovery = await oauth.discoveryRequest(issuer, insecure)
    const as = await oauth.processDiscoveryResponse(issuer, discovery)
    const app: oauth.Client = { client_id }

    const code_verifier = oauth.generateRandomCodeVerifier()
    const nonce = oauth.generateRandomNonce()
    const state = oauth.generateRandomState()
    const url = new URL(as.authorization_endpoint ?? '')
    url.search = new URLSearchParams({
      client_id,
      redirect_uri,
      response_type: 'code',
      scope: SCOPE,
      state,
      nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(code_verifier),
      code_challenge_method: 'S256',
    }).toString()

    const params = oauth.validateAuthResponse(as, app, await visit(url), state)
    const answer = await oauth.authorizationCodeGrantRequest(
      as,
      app,
      authentication,
      params,
      redirect_uri,
      code_verifier,
      insecure,
    )
    const tokens = await oauth.processAuthorizationCodeResponse(as, app, answer, {
      expectedNonce: nonce,
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
})
