// A relying party on a port of its own, written with openid-client. It starts before the provider,
// because the client file needs its redirect URI. Call `connect` when the provider runs.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import * as client from 'openid-client'
import { hashSecret } from '../../src/oidc/clients.ts'
import { configurationOf, newRequest } from './client-library.ts'
import { end, listen } from './ports.ts'
import { SECRET } from './usher.ts'

export interface RelyingPartyOptions {
  client_id?: string
  scope?: string
  response_mode?: 'query' | 'form_post'
  /** The page after a successful callback; absent: the page with the claims. */
  landing?: string
}

interface Session {
  claims: client.IDToken
  tokens: client.TokenEndpointResponse
}

export type RelyingParty = Awaited<ReturnType<typeof startRelyingParty>>

export async function startRelyingParty({
  client_id = 'relying-party',
  scope = 'openid profile email offline_access',
  response_mode = 'query',
  landing = '/',
}: RelyingPartyOptions = {}) {
  const pending = new Map<string, client.AuthorizationCodeGrantChecks>()
  let config: client.Configuration | undefined
  let session: Session | undefined
  let failure: string | undefined

  const connected = () => {
    if (!config) throw new Error('connect first')
    return config
  }
  const signedIn = () => {
    if (!session) throw new Error('no user is signed in at the relying party')
    return session
  }

  async function signInUrl(more: Record<string, string>): Promise<URL> {
    const { params, checks } = await newRequest({
      redirect_uri: `${origin}/callback`,
      scope,
      ...(response_mode === 'form_post' && { response_mode }),
      ...more,
    })
    pending.set(checks.expectedState, checks)
    return client.buildAuthorizationUrl(connected(), params)
  }

  async function callback(url: URL, req: IncomingMessage): Promise<void> {
    const params = req.method === 'POST' ? new URLSearchParams(await text(req)) : url.searchParams
    const state = params.get('state') ?? ''
    const checks = pending.get(state)
    pending.delete(state)
    if (!checks) throw new Error('the state belongs to no authorization request')
    // openid-client accepts a form_post response as a Request.
    const answer = req.method === 'POST' ? new Request(url, { method: 'POST', body: params }) : url
    const tokens = await client.authorizationCodeGrant(connected(), answer, checks)
    const claims = tokens.claims()
    if (!claims) throw new Error('no ID token')
    session = { claims, tokens }
  }

  function signOutUrl(): URL {
    const id_token_hint = signedIn().tokens.id_token ?? ''
    session = undefined
    return client.buildEndSessionUrl(connected(), {
      id_token_hint,
      post_logout_redirect_uri: `${origin}/signed-out`,
    })
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '', origin)
    // Further parameters of the authorization request, for example prompt.
    const more = Object.fromEntries(url.searchParams)
    if (url.pathname === '/sign-in') return redirect(res, await signInUrl(more))
    if (url.pathname === '/sign-out') return redirect(res, signOutUrl())
    if (url.pathname === '/callback') {
      failure = await callback(url, req).then(
        () => undefined,
        error => String(error.error ?? error),
      )
      return redirect(res, failure ? '/' : landing)
    }
    if (url.pathname === '/signed-out') return page(res, 'Good-bye', '')
    showHome(res)
  }

  function showHome(res: ServerResponse) {
    const links = '<a href="/sign-in">Sign in</a> <a href="/sign-out">Sign out</a>'
    const claims = session && `<pre>${escapeHtml(JSON.stringify(session.claims))}</pre>`
    const title = session ? 'Welcome' : 'Hello'
    page(res, failure ?? title, (claims ?? '') + links)
  }

  const server = createServer((req, res) => {
    answer(req, res).catch(error => res.writeHead(500).end(String(error)))
  })
  const port = await listen(server)
  const origin = `http://localhost:${port}`

  return {
    origin,
    /** This server under another origin and site. */
    elsewhere: `http://127.0.0.1:${port}`,
    /** The client's file in config/clients/. */
    metadata: {
      client_id,
      client_name: 'Relying party',
      client_uri: `${origin}/`,
      redirect_uris: [`${origin}/callback`],
      post_logout_redirect_uris: [`${origin}/signed-out`],
      client_secret_hashes: [hashSecret(SECRET)],
    },
    async connect(issuer: string): Promise<void> {
      config = await configurationOf({ issuer }, client_id)
    },
    session: signedIn,
    userinfo: ({ claims, tokens }: Session) =>
      client.fetchUserInfo(connected(), tokens.access_token, claims.sub),
    refresh: ({ tokens }: Session) =>
      client.refreshTokenGrant(connected(), tokens.refresh_token ?? ''),
    close: () => end(server),
  }
}

function redirect(res: ServerResponse, location: URL | string) {
  res.writeHead(303, { location: String(location) }).end()
}

function page(res: ServerResponse, title: string, body: string) {
  res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
  res.end(`<!DOCTYPE html><html lang="en"><title>${title}</title><h1>${title}</h1>${body}`)
}

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
