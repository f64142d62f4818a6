// `usher doctor`: checks the folder, the store, and the service at the issuer,
// through the reverse proxy if there is one. It writes nothing to the store. It
// signs in only with `--client` and `--account`.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import type { Settings } from '../config/load.ts'
import { formatReport, placeOf } from '../config/report/finding.ts'
import type { ClientMetadata } from '../config/schema/client.ts'
import { hasPasskeys, type Upstream } from '../config/schema/upstream.ts'
import { checkMail } from '../features/mail/smtp.ts'
import { DISCOVERY } from '../oidc/endpoints.ts'
import { ACCOUNT_CLIENT } from '../oidc/vocabulary.ts'
import { createPlainFetch } from '../operation/egress.ts'
import { DOCTOR_ORIGIN } from '../operation/failures.ts'
import { publishedKids } from '../operation/signing-keys.ts'
import { storeExists, storeFile, unlock } from '../store/open.ts'
import { reasonOf } from '../store/reasons.ts'
import { type Check, ok, warning, wrong } from '../store/store.ts'
import { mapOf, readJson } from '../store/values.ts'
import { Failure, type Invocation, readStdin, type Values } from './command.ts'
import { summaryOf, validate } from './config.ts'
import FIXES from './doctor-fixes.json' with { type: 'json' }
import { folderNotes } from './folder-notes.ts'
import { hasInstallation, openAt } from './open-store.ts'
import { print } from './output.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }
const REQUEST_TIMEOUT_MS = 5_000
const MAX_CLOCK_DIFFERENCE_SECONDS = 5

/** The discovery document, or another JSON object. */
type Document = Record<string, unknown>

/**
 * `doctor [--client CLIENT_ID --account USERNAME]`: fails when a check is
 * wrong.
 */
export async function doctor({ values, flags }: Invocation): Promise<void> {
  const checks = await Array.fromAsync(runChecks(values))
  const lines = checks.flatMap(({ name, state, found, fix }) => {
    const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
    return fix ? [line, `  ${''.padEnd(12)} → ${fix}`] : [line]
  })
  print(flags, { checks }, lines)
  const failed = checks
    .filter(({ state }) => state === 'wrong')
    .map(({ name }) => name)
  if (failed.length) throw new Failure(`Failed checks: ${failed.join(', ')}.`)
}

/** Ends after the folder or the store if something is wrong there. */
async function* runChecks(values: Values): AsyncGenerator<Check> {
  const { settings, findings, warnings } = await validate()
  const notes = await folderNotes()
  const reported = notes.map(note => warning('config', note, FIXES.folder))
  if (!settings) {
    yield* reported
    const report = formatReport(findings, 'problem').trim()
    yield wrong('config', report, FIXES.config)
    return
  }
  const signIn = readSignIn(values, settings)
  yield ok('config', summaryOf(settings))
  yield* reported
  for (const { key, message, ...place } of warnings) {
    yield warning('config', `${placeOf(place)} ${key}: ${message}`)
  }
  yield* checkPeers(settings)
  const kids = yield* checkStore(settings, reported)
  if (!kids) return
  const endpoints = yield* checkService(settings.issuer, kids, reported)
  if (signIn && endpoints)
    yield checkSignIn(endpoints, signIn.client, signIn.account)
}

/** Reads `--client` and `--account`; undefined without both. */
function readSignIn({ client: id, account }: Values, { clients }: Settings) {
  if (id === undefined && account === undefined) return undefined
  const client = clients.find(({ client_id }) => client_id === id)
  if (client && account) return { client, account }
  throw new Failure(
    'Name a client of the folder and an account: --client, --account.',
  )
}

/** Checks what the settings name outside: upstream issuers and the mail server. */
async function* checkPeers(settings: Settings) {
  const { issuer, egress, upstreams, mail, sign_in } = settings
  for (const upstream of Object.values(upstreams))
    yield checkDiscovery(upstream, egress)
  if (mail) yield checkMail(mail, FIXES.mail)
  if (hasPasskeys(sign_in))
    yield ok('passkeys', `RP ID ${new URL(issuer).hostname}`)
}

/**
 * Returns whether the service may read the discovery document of an issuer, and
 * can.
 */
async function checkDiscovery(
  { name, issuer }: Upstream,
  egress: Settings['egress'],
) {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const response = await createPlainFetch(egress)(url, { signal })
    const { issuer: found, end_session_endpoint } = mapOf(await response.json())
    if (found !== issuer)
      return wrong(
        name,
        `${url} is of the issuer ${found ?? 'none'}`,
        FIXES.upstream,
      )
    const signOut = end_session_endpoint
      ? ''
      : '; no end_session_endpoint to sign out there'
    return ok(name, `${issuer} has a discovery document${signOut}`)
  } catch (error) {
    return wrong(name, `${url}: ${reasonOf(error)}`, FIXES.upstream)
  }
}

/**
 * Returns the ids of the keys in the store; undefined when something is wrong.
 * Adds its checks to `reported`.
 */
async function* checkStore(
  { store: location, secrets }: Settings,
  reported: Check[],
) {
  const file = storeFile(location)
  if (!storeExists(location)) {
    const first = `${file} is made by the first start`
    yield warning(
      'store',
      file === ':memory:' ? 'is inside the service' : first,
    )
    return []
  }
  let fix = FIXES.store
  try {
    const store = await openAt('USHER_STORE', location)
    const checks = await store.check()
    yield* checks
    reported.push(...checks)
    if (checks.some(({ state }) => state === 'wrong')) return undefined
    if (!(await hasInstallation(store))) {
      yield warning('store', 'is empty until the first start')
      return []
    }
    fix = FIXES.secret
    const { records } = await unlock(store, location, secrets)
    yield ok('store', 'found; USHER_SECRET decrypts it')
    return await publishedKids(records)
  } catch (error) {
    yield wrong('store', reasonOf(error), fix)
  }
}

/**
 * `kids`: the ids of the keys in the store. `reported`: the checks so far.
 * Returns the discovery document of a usable service.
 */
async function* checkService(
  issuer: string,
  kids: string[],
  reported: Check[],
) {
  try {
    const response = await send(`${issuer}${DISCOVERY[0]}`)
    const endpoints = await jsonOf(response)
    // A proxy that reaches no node. An error of the service itself has a name.
    if (response.status > 501 && !endpoints.error)
      throw new Error(`${response.status}, the proxy reaches no node`)
    if (endpoints.issuer !== issuer) {
      yield describeOther(issuer, response, endpoints)
      return undefined
    }
    yield* checkReadiness(issuer, reported)
    yield checkClock(response)
    yield checkKeys(endpoints, kids)
    yield checkPages(endpoints)
    yield checkToken(endpoints)
    return endpoints
  } catch (error) {
    yield describeSilence(issuer, error)
  }
}

/** The issuer answers, and is not the one of the folder. */
function describeOther(
  issuer: string,
  { status }: Response,
  { error_description }: Document,
): Check {
  const name = status === 421 ? 'proxy' : 'service'
  const found = error_description ?? `${issuer} is another service`
  return wrong(name, String(found), FIXES[name])
}

/** Reasons of a service that was not started yet, which is no error. */
const IS_DOWN = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|50[234], .*)$/

/** The issuer does not answer. */
async function describeSilence(issuer: string, error: unknown): Promise<Check> {
  const { message, cause } = error as Error & { cause?: NodeJS.ErrnoException }
  const reason = cause?.code ?? cause?.message ?? message
  const found = `${issuer} does not answer: ${reason}`
  if (IS_DOWN.test(reason)) return warning('service', found, FIXES.start)
  const expiry = await expiryAt(issuer, reason)
  return wrong('service', `${found}${expiry}`, fixFor(reason))
}

/** The fix for an error of a TLS connection, by its code. */
function fixFor(code: string): string {
  if (code === 'CERT_HAS_EXPIRED') return FIXES.expired
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return FIXES.name
  return FIXES.tls
}

/**
 * Returns when the certificate of an issuer expired, as the end of a sentence;
 * empty for another error.
 */
async function expiryAt(issuer: string, code: string): Promise<string> {
  if (code !== 'CERT_HAS_EXPIRED') return ''
  const end = await certificateEnd(issuer)
  if (!end) return ''
  return `; its certificate expired on ${end.toISOString().slice(0, 10)}`
}

/**
 * Returns when the certificate of an https issuer expires, valid or not;
 * undefined if there is none.
 */
export async function certificateEnd(
  issuer: string,
): Promise<Date | undefined> {
  const { hostname, port } = new URL(issuer)
  const host = hostname.replace(/^\[|\]$/g, '')
  // Nothing is sent, and the date alone is read.
  const socket = connect({
    host,
    port: Number(port || 443),
    servername: isIP(host) ? undefined : host,
    rejectUnauthorized: false,
    timeout: REQUEST_TIMEOUT_MS,
  })
  try {
    await once(socket, 'secureConnect', {
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    return new Date(socket.getPeerCertificate().valid_to)
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}

/**
 * `/readyz` answers 503 while load balancers must send no requests to the
 * service. It also names the checks that the service has found something by:
 * those that are not `reported` already.
 */
async function* checkReadiness(
  issuer: string,
  reported: Check[],
): AsyncGenerator<Check> {
  const response = await send(`${issuer}/readyz`)
  const body = await response.text()
  const { checks } = mapOf(readJson(body))
  if (response.status === 503) {
    yield wrong('service', `/readyz answers 503: ${body}`, FIXES.ready)
  } else {
    yield ok('service', `answers at ${issuer}`)
  }
  for (const [name, state] of Object.entries(mapOf(checks))) {
    const isReported = reported.some(
      check => check.name === name && check.state === state,
    )
    if (isReported) continue
    const isFolder = name === 'config'
    const found = isFolder
      ? OTHER_FOLDER
      : `the service reports ${name}: ${state}`
    const fix = isFolder ? FIXES.folder : FIXES.ready
    const describe = state === 'wrong' ? wrong : warning
    yield describe(name, found, fix)
  }
}

const OTHER_FOLDER =
  'the running service does not use the folder as it is: it refused the latest edit'

function checkClock({ headers }: Response): Check {
  const skew =
    Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) / 1000
  if (skew <= MAX_CLOCK_DIFFERENCE_SECONDS)
    return ok('clock', 'the service and this machine agree')
  return warning(
    'clock',
    `differs by ${Math.round(skew)} s from this machine: run NTP on both`,
  )
}

async function checkKeys(
  { jwks_uri }: Document,
  kids: string[],
): Promise<Check> {
  const { keys } = await jsonOf(await send(String(jwks_uri)))
  const published = Array.isArray(keys)
    ? keys.map(key => String(mapOf(key).kid))
    : []
  if (!published.some(kid => !kids.length || kids.includes(kid))) {
    return wrong(
      'jwks',
      'publishes none of the keys that are in this store',
      FIXES.jwks,
    )
  }
  return ok('jwks', `publishes ${published.length} keys`)
}

/**
 * A request with `prompt=none` ends at a page of the service, and is not
 * stored.
 */
async function checkPages(endpoints: Document): Promise<Check> {
  const issuer = String(endpoints.issuer)
  const redirect_uri = `${issuer}/account/signed-in`
  const request = { client_id: ACCOUNT_CLIENT, redirect_uri, prompt: 'none' }
  const browser = createBrowser()
  const { url } = await browser.open(authorizationRequest(endpoints, request))
  if (url.searchParams.get('error') !== 'login_required') {
    const found = `the authorization endpoint does not require a sign-in: ${url.pathname}`
    return wrong('sign-in', found, FIXES.service)
  }
  const missing = missingFlags(browser.setCookieLines(), issuer)
  if (missing.length) {
    const found = `arrive without ${missing.join(', ')}`
    return wrong('cookies', found, FIXES.cookies)
  }
  return ok(
    'sign-in',
    'the authorization endpoint, the sign-in page and its cookies are correct',
  )
}

/** Returns the flags that one of the cookies does not have. */
function missingFlags(setCookieLines: string[], issuer: string): string[] {
  const wanted = ['HttpOnly', 'SameSite=Lax']
  if (issuer.startsWith('https:')) wanted.push('Secure')
  const lines = setCookieLines.map(line => line.toLowerCase())
  return wanted.filter(flag =>
    lines.some(line => !line.includes(flag.toLowerCase())),
  )
}

/** Sends an empty token request, which is refused, and is not stored. */
async function checkToken({
  token_endpoint,
  issuer,
}: Document): Promise<Check> {
  const headers = { origin: DOCTOR_ORIGIN }
  const body = new URLSearchParams()
  const response = await send(String(token_endpoint), {
    method: 'POST',
    headers,
    body,
  })
  const { error } = await jsonOf(response)
  if (error !== 'invalid_request' && error !== 'invalid_client') {
    const found =
      `an empty request is answered with ${response.status} ${error ?? ''}`.trim()
    return wrong('token', found, FIXES.service)
  }
  const allowed = response.headers.get('access-control-allow-origin')
  if (allowed !== '*')
    return ok('token', 'the token endpoint refuses an empty request')
  return wrong(
    'cors',
    `the answer of ${issuer} allows every origin (*)`,
    FIXES.cors,
  )
}

/**
 * Signs in with the password on standard input, without redeeming the code. The
 * session lasts for `lifetimes.session_idle`.
 */
async function checkSignIn(
  endpoints: Document,
  client: ClientMetadata,
  username: string,
) {
  const { client_id, redirect_uris: [redirect_uri = ''] = [] } = client
  const browser = createBrowser()
  const form = await browser.open(
    authorizationRequest(endpoints, { client_id, redirect_uri }),
  )
  const [, csrf] = /name="csrf" value="([^"]*)"/.exec(form.page) ?? []
  if (!csrf) return describeSignIn(form, client_id, username)
  const password = await readStdin()
  const filled = new URLSearchParams({
    csrf,
    username,
    password,
    decision: 'continue',
  })
  const answer = await browser.submit(form.url, filled)
  return describeSignIn(answer, client_id, username)
}

/** Returns what the page shows to which a sign-in led. */
function describeSignIn(
  { url, page }: Page,
  clientId: string,
  username: string,
): Check {
  const fix = `npm run usher -- accounts why ${username}`
  if (url.searchParams.has('code'))
    return ok('account', `${clientId} receives a code`)
  if (page.includes('name="password"')) {
    const refused = `${username}: the sign-in page does not accept this password, or it is temporary`
    return wrong('account', refused, fix)
  }
  if (page.includes('name="csrf"')) {
    return ok('account', `${username} is asked to consent to ${clientId}`)
  }
  const [, code] = /\/errors#(\w+)/.exec(page) ?? []
  const error =
    url.searchParams.get('error') ?? code ?? `it ends at ${url.pathname}`
  return wrong('account', `${clientId}: no code, ${error}`, fix)
}

function authorizationRequest(
  endpoints: Document,
  parameters: Record<string, string>,
): URL {
  const url = new URL(String(endpoints.authorization_endpoint))
  const query = new URLSearchParams({
    response_type: 'code',
    scope: 'openid',
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
    ...parameters,
  })
  url.search = query.toString()
  return url
}

/**
 * A page, and the URL at which the redirects end. That of another origin is not
 * requested.
 */
type Page = { url: URL; page: string }

/**
 * A browser without scripts: it keeps cookies, and follows redirects of the
 * same origin.
 */
function createBrowser() {
  /** The latest `Set-Cookie` of each name. */
  const cookies = new Map<string, string>()

  async function open(url: URL): Promise<Page> {
    return follow(url, await request(url, 'GET', { origin: DOCTOR_ORIGIN }))
  }

  async function submit(url: URL, form: URLSearchParams): Promise<Page> {
    return follow(url, await request(url, 'POST', {}, form))
  }

  function request(
    url: URL,
    method: string,
    headers: object,
    body?: URLSearchParams,
  ) {
    const cookie = [...cookies.values()]
      .map(line => line.replace(/;.*/, ''))
      .join('; ')
    return send(url, {
      method,
      headers: { accept: 'text/html', cookie, ...headers },
      body,
    })
  }

  async function follow(url: URL, response: Response): Promise<Page> {
    for (const line of response.headers.getSetCookie())
      cookies.set(line.replace(/=.*/, ''), line)
    const page = await response.text()
    const [, refresh] = /content="0;url=([^"]*)"/.exec(page) ?? []
    const next =
      response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (!next) return { url, page }
    const target = new URL(next, url)
    return target.origin === url.origin ? open(target) : { url: target, page }
  }

  return { open, submit, setCookieLines: () => [...cookies.values()] }
}

const send = (url: string | URL, init: RequestInit = {}) =>
  fetch(url, {
    ...init,
    redirect: 'manual',
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  })

const jsonOf = async (response: Response): Promise<Document> =>
  mapOf(await response.json().catch(() => undefined))
