// The wrapper alone: `oidc/` on `store/`, with one user, one client, and a sign-in without pages. This is the shortest
// description of the product: what it needs from everything around it, and what it does for a client.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Koa from 'koa'
import mount from 'koa-mount'
import * as openid from 'openid-client'
import { expect, onTestFinished, test } from 'vitest'
import { currentRequest } from '../../src/oidc/adapter/request.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { createConsents } from '../../src/oidc/consents.ts'
import { canonicalPaths, finishAnswers } from '../../src/oidc/endpoints.ts'
import { createGrants } from '../../src/oidc/grants.ts'
import { createInteractions } from '../../src/oidc/interactions.ts'
import { routesOf } from '../../src/oidc/paths.ts'
import { createProvider } from '../../src/oidc/provider.ts'
import { openStore, unlock } from '../../src/store/open.ts'
import { now } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { startRedis } from '../support/redis.ts'
import { settingsOf } from './settings.ts'

const SECRET = Buffer.alloc(32, 1)
const ADA = { id: 'usr_0123456789abcdefghijklmnop', attributes: {} }
const CLAIMS = { name: 'Ada Lovelace', email: 'ada@example.org' }
const REDIRECT_URI = 'https://app.example.org/callback'

async function startWrapper(location: string) {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const settings = settingsOf(`http://localhost:${(server.address() as AddressInfo).port}`, {
    client_id: 'app',
    redirect_uris: [REDIRECT_URI],
    token_endpoint_auth_method: 'none',
  })
  const { store, records } = await unlock(
    await openStore(location),
    location,
    [SECRET],
    currentRequest,
  )
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(privateKey)), kid: 'k', alg: 'RS256', use: 'sig' as const }
  const users = {
    findEnabled: async (id: string) => (id === ADA.id ? ADA : undefined),
    claimsOf: () => CLAIMS,
  }
  const consents = createConsents(records)
  const sessions = createSessions(records)
  const around = {
    settings,
    secrets: [SECRET],
    keys: [key],
    records,
    sessions,
    consents,
    users,
    fetch,
  }
  const dependencies = { ...around, grants: createGrants(around) }
  const pages = {
    showError: (ctx: Koa.Context, out: object) => {
      ctx.body = out
    },
    handOver: () => {},
    navigate: (ctx: Koa.Context, url: string) => ctx.redirect(url),
  }
  const provider = await createProvider(
    dependencies,
    [],
    {},
    { ...pages, prompts: {}, tags: ['en'] },
  )
  const interactions = createInteractions(provider, settings)
  const routes = routesOf(settings.features)

  const app = new Koa({ proxy: true })
  app.keys = provider.keys
  app.use(async (ctx, next) => {
    Object.assign(ctx.state, { log: {}, auditEvents: [] })
    const [, uid] = /^\/interaction\/([\w-]+)/.exec(ctx.path) ?? []
    if (!uid) return next()
    // Ada signs in without a password, and allows everything.
    ctx.params = { uid }
    const { prompt, accountId } = await interactions.read(ctx)
    const login = { accountId: ADA.id, ts: now(), amr: ['pwd'] }
    const decision = { ...prompt.details, declined: [] } as never
    const outcome = prompt.name === 'login' ? { login } : { consent: { decision, accountId } }
    ctx.redirect(await interactions.finish(ctx, outcome))
  })
  app.use(canonicalPaths(routes))
  app.use(finishAnswers(pages, routes, dependencies, []))
  app.use(mount(provider))
  server.on('request', app.callback())
  onTestFinished(() => {
    server.close()
    return store.close()
  })
  return { issuer: settings.issuer, consents }
}

const startRedisLocation = async () => {
  const { url, stop } = await startRedis()
  onTestFinished(stop)
  return url
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
