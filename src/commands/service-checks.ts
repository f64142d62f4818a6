// Checks of the running service over HTTP, through the reverse proxy if there is one. None of these
// requests makes the service write to its store; only `checkSignIn` signs in.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:tls'
import { ACCOUNT_CLIENT, type ClientMetadata } from '../config/schema/client.ts'
import { DISCOVERY } from '../provider/routes.ts'
import type { Check } from '../storage/store.ts'

const REQUEST_TIMEOUT_MS = 5_000
const MAX_CLOCK_DIFFERENCE_SECONDS = 5
const DAY_MS = 24 * 3600 * 1000
/** A certificate that expires sooner is a warning. */
const RENEWAL_DAYS = 14

const TRUST =
  'the name has to lead here, and its certificate to be trusted: NODE_EXTRA_CA_CERTS=FILE for an authority of your own'
const PROXY =
  'the reverse proxy has to pass Host, set X-Forwarded-Proto, and be listed under `proxy` in usher.yaml'
const WAY = 'look where the name and the reverse proxy lead to'
const OTHER_STORE = 'doctor and the service have to use the same store: USHER_STORE'
const COOKIES = 'the reverse proxy must not rewrite Set-Cookie'
const CORS = 'the reverse proxy must neither set nor remove Access-Control headers'

type Endpoints = Record<string, string>

const ok = (name: string, found: string): Check => ({ name, state: 'ok', found })
const warning = (name: string, found: string): Check => ({ name, state: 'warning', found })
const wrong = (name: string, found: string, fix?: string): Check => {
  return { name, state: 'wrong', found, ...(fix && { fix }) }
}

/** `kids`: the ids of the keys in the store. `endpoint` is absent when the service cannot be used. */
export async function checkService(issuer: string, kids: string[]) {
  try {
    const response = await get(`${issuer}${DISCOVERY[0]}`)
    const endpoint = await jsonOf(response)
    const found = endpoint.error_description ?? `${issuer} is another service`
    if (response.status === 421) return { checks: [wrong('proxy', found, PROXY)] }
    if (endpoint.issuer !== issuer) return { checks: [wrong('service', found, WAY)] }
    const checks = [
      ok('service', `answers at ${issuer}`),
      clockCheck(response),
      ...(issuer.startsWith('https:') ? [await certificateCheck(new URL(issuer))] : []),
      await checkKeys(endpoint, kids),
      await checkPages(endpoint),
      await checkToken(endpoint),
    ]
    return { checks, endpoint }
  } catch (error) {
    const { message, cause } = error as Error & { cause?: NodeJS.ErrnoException }
    const reason = cause?.code ?? cause?.message ?? message
    const found = `${issuer} does not answer here: ${reason}`
    // It may not have been started yet.
    const isDown = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/.test(reason)
    return { checks: [isDown ? warning('service', found) : wrong('service', found, TRUST)] }
  }
}

function clockCheck({ headers }: Response): Check {
  const skew = Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) / 1000
  if (skew <= MAX_CLOCK_DIFFERENCE_SECONDS) return ok('clock', 'the same here and there')
  return warning('clock', `differs by ${Math.round(skew)} s from this machine: run NTP on both`)
}

async function certificateCheck({ hostname, port }: URL): Promise<Check> {
  const socket = connect({ host: hostname, port: Number(port || 443), servername: hostname })
  await once(socket, 'secureConnect', { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
  const until = socket.getPeerCertificate().valid_to
  socket.destroy()
  const found = `the certificate expires on ${until}`
  const isLate = Date.parse(until) - Date.now() < RENEWAL_DAYS * DAY_MS
  return isLate ? warning('tls', `${found}: renew it`) : ok('tls', found)
}

async function checkKeys({ jwks_uri = '' }: Endpoints, kids: string[]): Promise<Check> {
  const { keys } = (await (await get(jwks_uri)).json()) as { keys: { kid: string }[] }
  if (!keys.length) return wrong('jwks', 'publishes no key', WAY)
  if (kids.length && !keys.some(({ kid }) => kids.includes(kid))) {
    return wrong('jwks', 'publishes none of the keys that are in this store', OTHER_STORE)
  }
  return ok('jwks', `publishes ${keys.length} keys`)
}

/** A request with `prompt=none` ends at a page of the service, and leaves nothing in the store. */
async function checkPages(endpoint: Endpoints): Promise<Check> {
  const { issuer = '' } = endpoint
  const redirect_uri = `${issuer}/account/signed-in`
  const request = authorizationRequest(endpoint, ACCOUNT_CLIENT, redirect_uri)
  request.searchParams.set('prompt', 'none')
  const browser = createBrowser(issuer)
  const { url, page } = await browser.go(request)
  if (url.searchParams.get('error') !== 'login_required') {
    return wrong(
      'sign-in',
      `the authorization endpoint does not ask to sign in: ${url.pathname}`,
      WAY,
    )
  }
  const [, stylesheet = ''] = /<link rel="stylesheet" href="([^"]+)"/.exec(page) ?? []
  const { status } = await get(new URL(stylesheet, issuer))
  if (!stylesheet || status !== 200) return wrong('sign-in', 'a page lacks its stylesheet', WAY)
  const lacks = browser.lackingAttributes()
  if (lacks.length) return wrong('cookies', `arrive without ${lacks.join(', ')}`, COOKIES)
  return ok(
    'sign-in',
    'the authorization endpoint, the pages and their cookies are as they should be',
  )
}

/** An empty request is refused, and is not remembered. */
async function checkToken({ token_endpoint = '', issuer }: Endpoints): Promise<Check> {
  const headers = { origin: 'https://doctor.invalid' }
  const response = await send(token_endpoint, {
    method: 'POST',
    headers,
    body: new URLSearchParams(),
  })
  const { error = '' } = await jsonOf(response)
  if (!/^invalid_(request|client)$/.test(error)) {
    return wrong('token', `an empty request is answered ${response.status} ${error}`.trim(), WAY)
  }
  const allowed = response.headers.get('access-control-allow-origin')
  if (allowed === '*') return wrong('cors', `the answer of ${issuer} allows every origin (*)`, CORS)
  return ok('token', 'the token endpoint refuses an empty request')
}

/** Signs in, and does not redeem the code. The session stays until `lifetimes.session_idle` is over. */
export async function checkSignIn(
  endpoint: Endpoints,
  { client_id, redirect_uris: [redirect_uri = ''] }: ClientMetadata,
  { username, password }: { username: string; password: string },
): Promise<Check> {
  const browser = createBrowser(endpoint.issuer ?? '')
  const csrfIn = (page: string) => /name="csrf" value="([^"]*)"/.exec(page)?.[1]
  const signIn = await browser.go(authorizationRequest(endpoint, client_id, redirect_uri))
  const csrf = csrfIn(signIn.page)
  if (!csrf) return wrong('account', `${client_id}: no sign-in page, ${endOf(signIn)}`)
  const form = { csrf, username, password, decision: 'continue' }
  const after = await browser.go(signIn.url, form)
  if (/name="password"/.test(after.page)) {
    return wrong('account', `${username}: the sign-in page does not accept this password`)
  }
  if (after.url.searchParams.has('code')) return ok('account', `${client_id} is sent a code`)
  if (csrfIn(after.page)) return ok('account', `${username} is asked to consent to ${client_id}`)
  return wrong('account', `${client_id}: no code, ${endOf(after)}`)
}

function endOf({ url, page }: { url: URL; page: string }): string {
  const [, code] = /\/errors#(\w+)/.exec(page) ?? []
  return url.searchParams.get('error') ?? code ?? `it ends at ${url.pathname}`
}

function authorizationRequest(endpoint: Endpoints, client_id: string, redirect_uri: string): URL {
  const url = new URL(endpoint.authorization_endpoint ?? '')
  url.search = new URLSearchParams({
    client_id,
    redirect_uri,
    response_type: 'code',
    scope: 'openid',
    // The code is not redeemed: nobody needs the verifier.
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
  }).toString()
  return url
}

/** Keeps cookies, and follows redirects below the issuer. */
function createBrowser(issuer: string) {
  const cookies = new Map<string, string>()
  const lines: string[] = []

  async function go(url: URL, form?: Record<string, string>): Promise<{ url: URL; page: string }> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const posted = form && { method: 'POST', body: new URLSearchParams(form) }
    const response = await send(url, { headers: { accept: 'text/html', cookie }, ...posted })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      lines.push(line)
      cookies.set(name, value)
    }
    const page = await response.text()
    const [, refresh] = /content="0;url=([^"]*)"/.exec(page) ?? []
    const next = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (!next) return { url, page }
    const target = new URL(next, url)
    return target.origin === issuer ? go(target) : { url: target, page }
  }

  /** The attributes that some cookie should have and arrives without. */
  function lackingAttributes(): string[] {
    const wanted = ['HttpOnly', 'SameSite=Lax', ...(issuer.startsWith('https:') ? ['Secure'] : [])]
    const set = lines.map(line => line.toLowerCase())
    return wanted.filter(flag => !set.every(line => line.includes(flag.toLowerCase())))
  }
  return { go, lackingAttributes }
}

const send = (url: string | URL, init: RequestInit) =>
  fetch(url, { ...init, redirect: 'manual', signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
const get = (url: string | URL) => send(url, {})

/** The texts of a JSON object; empty for everything else. */
async function jsonOf(response: Response): Promise<Record<string, string>> {
  const body: unknown = await response.json().catch(() => undefined)
  const entries = typeof body === 'object' && body !== null ? Object.entries(body) : []
  return Object.fromEntries(entries.filter(([, value]) => typeof value === 'string'))
}
