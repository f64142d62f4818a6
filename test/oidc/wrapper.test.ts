// The wrapper alone: `oidc/` on `store/`, with one user, one client, and a sign-in without pages. This is the shortest
// description of the product: what it needs from everything around it, and what it does for a client.

import Koa from 'koa'
import mount from 'koa-mount'
import * as openid from 'openid-client'
import { expect, test } from 'vitest'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { Consents } from '../../src/oidc/consents.ts'
import { canonicalPaths, finishAnswers, routesOf } from '../../src/oidc/endpoints.ts'
import { createInteractions } from '../../src/oidc/interactions.ts'
import { createProvider } from '../../src/oidc/provider.ts'
import { Browser } from '../support/browser.ts'
import { settingsOf } from './settings.ts'
import {
  ADA,
  CLAIMS,
  makeKey,
  openRecords,
  openSocket,
  PAGES,
  SECRET,
  signInAtOnce,
  startRedisLocation,
  USERS,
} from './stand-ins.ts'

const REDIRECT_URI = 'https://app.example.org/callback'

async function startWrapper(location: string) {
  const { server, issuer } = await openSocket()
  const settings = settingsOf(issuer, {
    client_id: 'app',
    redirect_uris: [REDIRECT_URI],
    token_endpoint_auth_method: 'none',
  })
  const records = await openRecords(location)
  const consents = new Consents(records)
  const dependencies = {
    settings,
    secrets: [SECRET],
    keys: [await makeKey()],
    records,
    sessions: createSessions(records),
    consents,
    users: USERS,
    fetch,
  }
  const pages = { ...PAGES, prompts: {}, tags: ['en'] }
  const provider = await createProvider(dependencies, [], {}, pages)
  const routes = routesOf(settings.features)

  const app = new Koa({ proxy: true })
  app.keys = provider.keys
  app.use(signInAtOnce(createInteractions(provider, settings)))
  app.use(canonicalPaths(routes))
  app.use(finishAnswers(PAGES, routes, dependencies, []))
  app.use(mount(provider))
  server.on('request', app.callback())
  return { issuer, consents }
}

test.each([
  ['SQLite', () => 'sqlite::memory:'],
  ['Redis', startRedisLocation],
])('a client gets, refreshes and loses its tokens: %s', async (_name, locate) => {
  const { issuer, consents } = await startWrapper(await locate())
  const client = await openid.discovery(new URL(issuer), 'app', undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
  })
  const browser = new Browser(issuer)
  const userInfo = ({ access_token }: { access_token: string }) =>
    openid.fetchUserInfo(client, access_token, ADA.id)

  async function signIn(scope: string) {
    const pkceCodeVerifier = openid.randomPKCECodeVerifier()
    const code_challenge = await openid.calculatePKCECodeChallenge(pkceCodeVerifier)
    const pkce = { code_challenge, code_challenge_method: 'S256' }
    const url = openid.buildAuthorizationUrl(client, { scope, redirect_uri: REDIRECT_URI, ...pkce })
    expect(url.pathname).toBe('/api/oauth/authorize')
    const answer = await browser.open(url)
    return openid.authorizationCodeGrant(client, answer.url, { pkceCodeVerifier })
  }

  // The scopes decide which claims a client gets.
  expect(await userInfo(await signIn('openid email'))).toEqual({
    sub: ADA.id,
    email: CLAIMS.email,
  })

  // A refresh token works once. Its use gives the next one.
  const tokens = await signIn('openid profile offline_access')
  const refreshed = await openid.refreshTokenGrant(client, String(tokens.refresh_token))
  expect(await userInfo(refreshed)).toEqual({ sub: ADA.id, name: CLAIMS.name })
  expect(refreshed.refresh_token).not.toBe(tokens.refresh_token)

  // A revoked access token ends alone, a revoked refresh token with its grant.
  await openid.tokenRevocation(client, tokens.access_token)
  await expect(userInfo(tokens)).rejects.toThrow()
  await userInfo(refreshed)
  await openid.tokenRevocation(client, String(refreshed.refresh_token))
  await expect(userInfo(refreshed)).rejects.toThrow()

  // A withdrawal ends every token of the user and the client.
  const last = await signIn('openid offline_access')
  await userInfo(last)
  await consents.withdraw(ADA.id, 'app')
  await expect(userInfo(last)).rejects.toThrow()
  const refresh = openid.refreshTokenGrant(client, String(last.refresh_token))
  await expect(refresh).rejects.toMatchObject({ error: 'invalid_grant' })
})
