// A small relying party that uses only `openid-client`. It shows sign-in, claims, refresh, revocation and
// sign-out with any provider. Sessions are in memory.
//
//   ISSUER         http://localhost:3000
//   CLIENT_ID      demo
//   CLIENT_SECRET  demo-secret-that-everybody-knows
//   DEMO_PORT      4000

import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import * as client from 'openid-client'

const { ISSUER = 'http://localhost:3000', CLIENT_ID = 'demo' } = process.env
const { CLIENT_SECRET = 'demo-secret-that-everybody-knows', DEMO_PORT = '4000' } = process.env
const HERE = `http://localhost:${DEMO_PORT}`
const SCOPE = 'openid profile email offline_access'

interface Session {
  code_verifier?: string
  state?: string
  nonce?: string
  tokens?: client.TokenEndpointResponse & client.TokenEndpointResponseHelpers
  refresh_token?: string
  id_token?: string
  /** The result of the last button. */
  came_back?: { what: string; answer: unknown }
}

const sessions = new Map<string, Session>()
const issuer = new URL(ISSUER)
const insecure = issuer.protocol === 'http:' ? { execute: [client.allowInsecureRequests] } : {}
let discovered: Promise<client.Configuration> | undefined

/** Reads discovery at the first request, and again until the provider answers. */
function configuration(): Promise<client.Configuration> {
  discovered ??= client
    .discovery(issuer, CLIENT_ID, CLIENT_SECRET, client.ClientSecretBasic(CLIENT_SECRET), insecure)
    .catch(error => {
      discovered = undefined
      throw error
    })
  return discovered
}

type Route = (session: Session, url: URL) => Promise<Page>
type Page = { html: string } | { location: string }

const routes: Record<string, Route> = {
  'GET /': async session => ({ html: home(session, await userInfo(session)) }),

  'GET /signed-out': async (session, { searchParams }) =>
    cameBack(session, 'Sign out', Object.fromEntries(searchParams)),

  'POST /sign-in': async session => {
    const config = await configuration()
    session.code_verifier = client.randomPKCECodeVerifier()
    session.state = client.randomState()
    session.nonce = client.randomNonce()
    const location = client.buildAuthorizationUrl(config, {
      redirect_uri: `${HERE}/callback`,
      scope: SCOPE,
      state: session.state,
      nonce: session.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(session.code_verifier),
      code_challenge_method: 'S256',
    })
    return { location: location.href }
  },

  'GET /callback': async (session, url) => {
    const tokens = await client.authorizationCodeGrant(await configuration(), url, {
      pkceCodeVerifier: session.code_verifier,
      expectedState: session.state,
      expectedNonce: session.nonce,
    })
    session.refresh_token = undefined
    session.came_back = undefined
    remember(session, tokens)
    return { location: '/' }
  },

  'POST /refresh': async session => {
    const config = await configuration()
    const tokens = await client.refreshTokenGrant(config, session.refresh_token ?? '')
    remember(session, tokens)
    return cameBack(session, 'Refresh', tokens)
  },

  'POST /revoke': async session => {
    await client.tokenRevocation(await configuration(), session.refresh_token ?? '')
    return cameBack(session, 'Revoke', 'HTTP 200: the refresh token and its family are revoked')
  },

  'POST /sign-out': async session => {
    const location = client.buildEndSessionUrl(await configuration(), {
      post_logout_redirect_uri: `${HERE}/signed-out`,
      state: client.randomState(),
      ...(session.id_token && { id_token_hint: session.id_token }),
    })
    for (const key of Object.keys(session)) delete session[key as keyof Session]
    return { location: location.href }
  },
}

function remember(session: Session, tokens: NonNullable<Session['tokens']>) {
  session.tokens = tokens
  session.refresh_token = tokens.refresh_token ?? session.refresh_token
  session.id_token = tokens.id_token ?? session.id_token
}

function cameBack(session: Session, what: string, answer: unknown): Page {
  session.came_back = { what, answer }
  return { location: '/' }
}

/** Requests UserInfo for every page, so that a revoked access is visible at once. */
async function userInfo({ tokens }: Session): Promise<unknown> {
  if (!tokens) return undefined
  const sub = tokens.claims()?.sub ?? client.skipSubjectCheck
  return client.fetchUserInfo(await configuration(), tokens.access_token, sub).catch(describe)
}

/** Returns what a page shows of an error: the answer of the provider, if there was one. */
function describe(thrown: unknown): object {
  if (thrown instanceof client.ResponseBodyError) {
    const { name, code, status, error, error_description } = thrown
    return { failed: name, code, status, error, error_description }
  }
  if (thrown instanceof client.AuthorizationResponseError) {
    const { name, code, error, error_description } = thrown
    return { failed: name, code, error, error_description }
  }
  if (thrown instanceof client.WWWAuthenticateChallengeError) {
    const { name, code, status, cause } = thrown
    return { failed: name, code, status, ...cause[0]?.parameters }
  }
  const { name, code } = thrown as client.ClientError
  return { failed: name, code }
}

function home({ tokens, refresh_token, came_back }: Session, info: unknown): string {
  const answer = came_back ? section(`${came_back.what} came back with`, came_back.answer) : ''
  if (!tokens) {
    return `<div class="hero">
      <h1>Welcome to the demo application</h1>
      <p>You are not signed in here. Your account is at <strong>${issuer.host}</strong>.</p>
      ${button('sign-in', `Sign in with ${issuer.host}`)}
    </div>${answer}`
  }
  const { name, preferred_username, email, sub = '' } = Object.assign({}, tokens.claims(), info)
  const person = String(name ?? preferred_username ?? sub)
  const buttons = refresh_token
    ? [button('refresh', 'Refresh the tokens', 'plain'), button('revoke', 'Revoke them', 'plain')]
    : []
  return `<div class="person">
      <span class="initials" aria-hidden="true">${escapeHtml(initials(person))}</span>
      <div><h1>Hello, ${escapeHtml(person)}</h1><p>${escapeHtml(String(email ?? sub))}</p></div>
    </div>
    <div class="actions">${buttons.join('')}${button('sign-out', 'Sign out', 'plain')}</div>
    ${answer}
    ${section('Claims of the ID token', tokens.claims())}
    ${section('UserInfo', info)}
    <p><a href="${ISSUER}/account/applications">Connected applications of your account</a></p>`
}

const initials = (name: string) =>
  name
    .split(' ')
    .map(word => [...word][0] ?? '')
    .slice(0, 2)
    .join('')
    .toUpperCase()

const button = (action: string, words: string, kind = '') =>
  `<form method="post" action="/${action}"><button class="${kind}">${words}</button></form>`

const section = (title: string, value: unknown) =>
  `<section><h2>${title}</h2><pre>${escapeHtml(JSON.stringify(value, null, 2) ?? '')}</pre></section>`

const escapeHtml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

const page = (content: string) => `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Demo application</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --ground: #f6f5f2; --paper: #fff; --ink: #1c1b19; --soft: #5f5b53;
    --line: #e4e0d8; --accent: #0f766e; --on-accent: #fff }
  @media (prefers-color-scheme: dark) { :root { --ground: #14130f; --paper: #1e1d19; --ink: #f0eee9;
    --soft: #b5b0a5; --line: #37342d; --accent: #5eead4; --on-accent: #06231f } }
  * { box-sizing: border-box }
  body { margin: 0; background: var(--ground); color: var(--ink); font: .9375rem/1.55 system-ui, sans-serif }
  body > header { padding: .9rem 1.5rem; border-bottom: 1px solid var(--line); background: var(--paper); font-weight: 650 }
  main { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1.25rem }
  h1 { margin: 0; font-size: 1.6rem; letter-spacing: -.01em } h2 { margin: 0 0 .6rem; font-size: 1rem }
  .hero { padding: 3rem 1.5rem; border: 1px solid var(--line); border-radius: 1rem; background: var(--paper); text-align: center }
  .hero p, .person p { margin: .4rem 0 1.4rem; color: var(--soft) }
  .person { display: flex; gap: 1rem; align-items: center } .person p { margin: 0 }
  .initials { display: grid; place-items: center; width: 3.5rem; height: 3.5rem; border-radius: 50%;
    background: var(--accent); color: var(--on-accent); font-weight: 650 }
  .actions { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.5rem 0 }
  button { padding: .6rem 1.2rem; border: 1px solid var(--accent); border-radius: .5rem; background: var(--accent);
    color: var(--on-accent); font: inherit; font-weight: 600; cursor: pointer }
  button.plain { border-color: var(--line); background: var(--paper); color: var(--ink) }
  section { margin: 1rem 0; padding: 1.1rem 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--paper) }
  pre { margin: 0; overflow: auto; font-size: .8125rem } a { color: var(--accent) }
  :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
</style></head>
<body><header>Demo application</header><main>${content}</main></body></html>`

async function handle(req: IncomingMessage, res: ServerResponse) {
  const url = URL.parse(req.url ?? '/', HERE)
  const session = sessionOf(req, res)
  const route = routes[`${req.method} ${url?.pathname}`]
  if (!url || !route)
    return send(res, 404, '<p>There is nothing here. <a href="/">Start again</a></p>')
  const answer = await route(session, url).catch(error => ({
    html: `${section('Something went wrong', describe(error))}<p><a href="/">Start again</a></p>`,
  }))
  if ('location' in answer) res.writeHead(303, { location: answer.location }).end()
  else send(res, 200, answer.html)
}

function send(res: ServerResponse, status: number, content: string) {
  res.writeHead(status, { 'content-type': 'text/html; charset=utf-8' }).end(page(content))
}

function sessionOf(req: IncomingMessage, res: ServerResponse): Session {
  const id = /demo_session=([\w-]+)/.exec(req.headers.cookie ?? '')?.[1]
  const known = id && sessions.get(id)
  if (known) return known
  const made = randomUUID()
  const session: Session = {}
  sessions.set(made, session)
  res.setHeader('set-cookie', `demo_session=${made}; HttpOnly; SameSite=Lax; Path=/`)
  return session
}

createServer(handle)
  .listen(Number(DEMO_PORT), 'localhost', () => {
    process.stderr.write(`\n  The demo application is at ${HERE}, for ${ISSUER}\n\n`)
  })
  .once('error', ({ message }) => {
    process.stderr.write(`${message}. DEMO_PORT is another port: add its URLs to the client file\n`)
    process.exitCode = 1
  })
