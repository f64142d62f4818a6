// The authorization code flow of a user and a client, in separate steps.

import { createHash, randomBytes } from 'node:crypto'
import { Browser, type Page } from './browser.ts'
import { CLIENTS, PASSWORD, SECRET, type Usher } from './usher.ts'
import { basic, send } from './wire.ts'

export interface Request {
  url: URL
  code_verifier: string
  state: string
  nonce: string
  redirect_uri: string
  client_id: string
}

/** Returns an authorization request of a client; `undefined` leaves a parameter out. */
export function authorizationRequest(
  { issuer }: { issuer: string },
  params: Record<string, string | undefined> = {},
): Request {
  const client_id = params.client_id ?? 'web'
  const redirect_uri = params.redirect_uri ?? CLIENTS[client_id]?.redirect_uris[0] ?? ''
  const code_verifier = randomBytes(32).toString('base64url')
  const state = randomBytes(8).toString('base64url')
  const nonce = randomBytes(8).toString('base64url')
  const all: Record<string, string | undefined> = {
    client_id,
    redirect_uri,
    response_type: 'code',
    scope: 'openid profile email',
    state,
    nonce,
    code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...params,
  }
  const url = new URL('/api/oauth/authorize', issuer)
  for (const [name, value] of Object.entries(all)) {
    if (value !== undefined) url.searchParams.set(name, value)
  }
  return { url, code_verifier, state, nonce, redirect_uri, client_id }
}

/** Signs in and allows every request, until the browser reaches the client or an error. */
export async function signInAndAllow(
  browser: Browser,
  username: string,
  password = PASSWORD,
): Promise<Page> {
  for (let page = 0; page < 4 && browser.page.ours; page++) {
    if (browser.heading === 'Sign in')
      await browser.submit({ username, password, decision: 'continue' })
    else if (browser.heading === 'Allow access') await browser.submit({ decision: 'allow' })
    else break
  }
  return browser.page
}

/** Runs the flow up to the code. */
export async function authorize(
  usher: Usher,
  {
    browser = new Browser(usher.issuer),
    username = 'ada',
    ...params
  }: {
    browser?: Browser
    username?: string
    [param: string]: string | undefined | Browser
  } = {},
) {
  const request = authorizationRequest(usher, params as Record<string, string | undefined>)
  await browser.open(request.url)
  const page = await signInAndAllow(browser, username)
  const code = page.params.get('code')
  if (!code)
    throw new Error(`no code: ${page.url} "${browser.heading}" ${page.text.slice(0, 2000)}`)
  return { code, request, browser, page }
}

export interface Answer {
  status: number
  headers: Headers
  /** The body as JSON; for another content type an object with its `text`. */
  body: Record<string, unknown> & {
    access_token: string
    refresh_token: string
    id_token: string
    error?: string
    error_description?: string
  }
}

/** POSTs a form to an endpoint as a client. Public clients send their id, others their secret. */
export async function post(
  { issuer }: { issuer: string },
  path: string,
  { client_id = 'web', secret = SECRET, ...form }: Record<string, string> & { client_id?: string },
): Promise<Answer> {
  const method = CLIENTS[client_id]?.token_endpoint_auth_method ?? 'client_secret_basic'
  const body = new URLSearchParams(form)
  const headers: Record<string, string> = {}
  if (method === 'client_secret_basic') {
    headers.authorization = `Basic ${Buffer.from(`${client_id}:${secret}`).toString('base64')}`
  } else {
    body.set('client_id', client_id)
    if (method === 'client_secret_post') body.set('client_secret', secret)
  }
  const response = await fetch(new URL(path, issuer), { method: 'POST', body, headers })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  return {
    status: response.status,
    headers: response.headers,
    body: isJson ? JSON.parse(text) : { text },
  }
}

/** The form of a token request for a code, without the client. */
export function codeForm(code: string, asked: Pick<Request, 'redirect_uri' | 'code_verifier'>) {
  const { redirect_uri, code_verifier } = asked
  return { grant_type: 'authorization_code', code, redirect_uri, code_verifier }
}

/** Pushes an authorization request of a client (RFC 9126). `url` is the URL for the browser. */
export async function push(usher: Usher, params: Record<string, string | undefined> = {}) {
  const request = authorizationRequest(usher, params)
  const { client_id } = request
  const isPublic = CLIENTS[client_id]?.token_endpoint_auth_method === 'none'
  const headers = isPublic ? {} : basic(client_id, SECRET)
  const body = [...request.url.searchParams]
  const answer = await send(usher, '/api/oauth/par', { body, headers })
  return { ...request, url: pushedUrl(usher, client_id, answer), answer }
}

/** The URL of an authorization request that was pushed (RFC 9126 §4). */
export function pushedUrl(
  usher: { issuer: string },
  client_id: string,
  { json }: { json: Record<string, unknown> },
): URL {
  const url = new URL('/api/oauth/authorize', usher.issuer)
  url.search = String(new URLSearchParams({ client_id, request_uri: String(json.request_uri) }))
  return url
}

/** `resource`: the API that the access token is for (RFC 8707). */
export function redeem(
  usher: { issuer: string },
  code: string,
  request: Request,
  resource?: string,
): Promise<Answer> {
  const form = { ...codeForm(code, request), client_id: request.client_id }
  return post(usher, '/api/oauth/token', { ...form, ...(resource && { resource }) })
}

export function refresh(usher: { issuer: string }, refresh_token: string, client_id = 'web') {
  return post(usher, '/api/oauth/token', { grant_type: 'refresh_token', refresh_token, client_id })
}

export async function userinfo({ issuer }: { issuer: string }, token: string): Promise<Answer> {
  const response = await fetch(new URL('/api/oauth/userinfo', issuer), {
    headers: { authorization: `Bearer ${token}` },
  })
  const body = (await response.json()) as Answer['body']
  return { status: response.status, headers: response.headers, body }
}

/** Runs the flow for Ada, with offline access, and returns the tokens. */
export async function tokens(usher: Usher, params: Parameters<typeof authorize>[1] = {}) {
  const scope = 'openid profile email offline_access'
  const { code, request, browser } = await authorize(usher, { scope, ...params })
  const { status, body } = await redeem(usher, code, request)
  if (status !== 200) throw new Error(`no tokens: ${JSON.stringify(body)}`)
  return { ...body, request, browser, code }
}
