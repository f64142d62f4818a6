// `usher doctor`: checks the folder, the store, and the service at the issuer, through the reverse proxy if
// there is one. It writes nothing to the store. It signs in only with `--client` and `--account`.

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readSettings, type Settings } from '../config/load.ts'
import { ConfigError, placeOf } from '../config/report/finding.ts'
import { ACCOUNT_CLIENT } from '../config/schema/client.ts'
import { mapOf } from '../config/schema/values.ts'
import { publishedKids } from '../keys/signing-keys.ts'
import { DISCOVERY } from '../provider/routes.ts'
import { NAMING_KEY } from '../storage/identity.ts'
import { openStore, readSecret, secretFile, storeFile } from '../storage/open.ts'
import { openRecords } from '../storage/records.ts'
import { type Check, ok, reasonOf, type Store, warning, wrong } from '../storage/store.ts'
import { Failure, type Invocation, print, readStdin } from './command.ts'
import { checkSettings } from './config.ts'

const MARKS = { ok: '✓', warning: '!', wrong: '✗' }
const REQUEST_TIMEOUT_MS = 5_000
const MAX_CLOCK_DIFFERENCE_SECONDS = 5

/** The remedy for each check that fails. */
// biome-ignore format: a table
const FIXES = {
  config:  'npm run usher -- config check',
  store:   'start what `store` in usher.yaml (or USHER_STORE) names, and let this user open it',
  secret:  'set USHER_SECRET to the value that this store was made or resealed with',
  tls:     'the certificate must be trusted; for an authority of your own: NODE_EXTRA_CA_CERTS=FILE',
  proxy:   'the proxy must pass Host, set X-Forwarded-Proto, and be in `proxy` of usher.yaml',
  service: 'check which host the name and the reverse proxy lead to',
  jwks:    'doctor and the service must use the same store: USHER_STORE',
  cookies: 'the reverse proxy must not rewrite Set-Cookie',
  cors:    'the reverse proxy must neither set nor remove Access-Control headers',
}

type Endpoints = Record<string, string>

/** `doctor [--client CLIENT_ID --account USERNAME]`: fails when a check is wrong. */
export async function doctor({ values }: Invocation): Promise<void> {
  const checks = await runChecks(values)
  print(values, { checks }, checks.flatMap(describe))
  const failed = checks.filter(({ state }) => state === 'wrong').map(({ name }) => name)
  if (failed.length) throw new Failure(`Failed checks: ${failed.join(', ')}.`)
}

function describe({ name, state, found, fix }: Check): string[] {
  const line = `${MARKS[state]} ${name.padEnd(12)} ${found}`
  return fix ? [line, `  ${''.padEnd(12)} → ${fix}`] : [line]
}

/** Stops after the folder or the store if something is wrong there. */
async function runChecks({ client, account }: Invocation['values']): Promise<Check[]> {
  try {
    const settings = readSettings()
    await checkSettings(settings)
    const { checks: found, kids } = await checkStore(settings)
    const checks = [...describeSettings(settings), ...found]
    if (found.some(({ state }) => state === 'wrong')) return checks
    const service = await checkService(settings.issuer, kids)
    checks.push(...service.checks)
    if (client === undefined && account === undefined) return checks
    const own = settings.clients.find(({ client_id }) => client_id === client)
    if (!own || !account) {
      throw new Failure('Name a client of the folder and an account: --client, --account.')
    }
    if (!service.endpoints) return checks
    const { client_id, redirect_uris: [redirect_uri = ''] = [] } = own
    const credentials = { username: String(account), password: await readStdin() }
    const request = authorizationRequest(service.endpoints, client_id, redirect_uri)
    return [...checks, await checkSignIn(settings.issuer, request, client_id, credentials)]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [wrong('config', error.message.trim(), FIXES.config)]
  }
}

function describeSettings({ issuer, clients, warnings }: Settings): Check[] {
  const names = clients.map(({ client_id }) => client_id).join(', ') || 'none'
  return [
    ok('config', `${issuer}, clients: ${names}`),
    ...warnings.map(({ key, message, ...place }) =>
      warning('config', `${placeOf(place)} ${key}: ${message}`),
    ),
  ]
}

/** The checks of the store, and the ids of the keys in it. */
async function checkStore({ store: location, secrets, redis }: Settings) {
  const file = storeFile(location)
  if (file && !existsSync(file)) {
    const first = `${file} is made by the first start`
    const found = file === ':memory:' ? 'is inside the service' : first
    return { checks: [warning('store', found)], kids: [] }
  }
  let fix = FIXES.store
  let store: Store | undefined
  try {
    store = await openStore(location, redis)
    const checks = await store.check()
    if (checks.some(({ state }) => state === 'wrong')) return { checks, kids: [] }
    if (!(await store.get(NAMING_KEY))?.value) {
      return { checks: [warning('store', 'is empty until the first start'), ...checks], kids: [] }
    }
    fix = FIXES.secret
    const known = file && !secrets.length ? [readSecret(secretFile(file))] : secrets
    const kids = await publishedKids(await openRecords(store, known))
    return { checks: [ok('store', 'found; USHER_SECRET decrypts it'), ...checks], kids }
  } catch (error) {
    return { checks: [wrong('store', reasonOf(error), fix)], kids: [] }
  } finally {
    await store?.close()
  }
}

/** `kids`: the ids of the keys in the store. `endpoints` is absent when the service cannot be used. */
async function checkService(issuer: string, kids: string[]) {
  try {
    const response = await send(`${issuer}${DISCOVERY[0]}`)
    const endpoints = await jsonOf(response)
    const found = endpoints.error_description ?? `${issuer} is another service`
    if (response.status === 421) return { checks: [wrong('proxy', found, FIXES.proxy)] }
    if (endpoints.issuer !== issuer) return { checks: [wrong('service', found, FIXES.service)] }
    const checks = [
      ok('service', `answers at ${issuer}`),
      checkClock(response),
      await checkKeys(endpoints, kids),
      await checkPages(endpoints),
      await checkToken(endpoints),
    ]
    return { checks, endpoints }
  } catch (error) {
    const { message, cause } = error as Error & { cause?: NodeJS.ErrnoException }
    const reason = cause?.code ?? cause?.message ?? message
    const found = `${issuer} does not answer: ${reason}`
    // A service that was not started yet is no error.
    const isDown = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/.test(reason)
    return { checks: [isDown ? warning('service', found) : wrong('service', found, FIXES.tls)] }
  }
}

function checkClock({ headers }: Response): Check {
  const skew = Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) / 1000
  if (skew <= MAX_CLOCK_DIFFERENCE_SECONDS) return ok('clock', 'the service and this machine agree')
  return warning('clock', `differs by ${Math.round(skew)} s from this machine: run NTP on both`)
}

async function checkKeys({ jwks_uri = '' }: Endpoints, kids: string[]): Promise<Check> {
  const { keys } = (await (await send(jwks_uri)).json()) as { keys: { kid: string }[] }
  if (!keys.some(({ kid }) => !kids.length || kids.includes(kid))) {
    return wrong('jwks', 'publishes none of the keys that are in this store', FIXES.jwks)
  }
  return ok('jwks', `publishes ${keys.length} keys`)
}

/** A request with `prompt=none` ends at a page of the service, and is not stored. */
async function checkPages(endpoints: Endpoints): Promise<Check> {
  const { issuer = '' } = endpoints
  const request = authorizationRequest(endpoints, ACCOUNT_CLIENT, `${issuer}/account/signed-in`)
  request.searchParams.set('prompt', 'none')
  const browser = createBrowser(issuer)
  const { url } = await browser.go(request)
  if (url.searchParams.get('error') !== 'login_required') {
    const found = `the authorization endpoint does not require a sign-in: ${url.pathname}`
    return wrong('sign-in', found, FIXES.service)
  }
  const missing = browser.missingAttributes()
  if (missing) return wrong('cookies', `arrive without ${missing}`, FIXES.cookies)
  return ok('sign-in', 'the authorization endpoint, the sign-in page and its cookies are correct')
}

/** An empty request is refused, and is not stored. */
async function checkToken({ token_endpoint = '', issuer }: Endpoints): Promise<Check> {
  const headers = { origin: 'https://doctor.invalid' }
  const body = new URLSearchParams()
  const response = await send(token_endpoint, { method: 'POST', headers, body })
  const { error = '' } = await jsonOf(response)
  if (!/^invalid_(request|client)$/.test(error)) {
    const found = `an empty request is answered with ${response.status} ${error}`.trim()
    return wrong('token', found, FIXES.service)
  }
  const allowed = response.headers.get('access-control-allow-origin')
  if (allowed !== '*') return ok('token', 'the token endpoint refuses an empty request')
  return wrong('cors', `the answer of ${issuer} allows every origin (*)`, FIXES.cors)
}

/** Signs in without redeeming the code. The session lasts for `lifetimes.session_idle`. */
async function checkSignIn(
  issuer: string,
  request: URL,
  client_id: string,
  { username, password }: { username: string; password: string },
): Promise<Check> {
  const browser = createBrowser(issuer)
  const failed = (found: string) => wrong('account', found, 'npm run usher -- accounts why ACCOUNT')
  const csrfIn = (page: string) => /name="csrf" value="([^"]*)"/.exec(page)?.[1]
  const signIn = await browser.go(request)
  const csrf = csrfIn(signIn.page)
  if (!csrf) return failed(`${client_id}: no sign-in page, ${errorOf(signIn)}`)
  const after = await browser.go(signIn.url, { csrf, username, password, decision: 'continue' })
  if (/name="password"/.test(after.page)) {
    return failed(`${username}: the sign-in page does not accept this password`)
  }
  if (after.url.searchParams.has('code')) return ok('account', `${client_id} receives a code`)
  if (csrfIn(after.page)) return ok('account', `${username} is asked to consent to ${client_id}`)
  return failed(`${client_id}: no code, ${errorOf(after)}`)
}

function errorOf({ url, page }: { url: URL; page: string }): string {
  const [, code] = /\/errors#(\w+)/.exec(page) ?? []
  return url.searchParams.get('error') ?? code ?? `it ends at ${url.pathname}`
}

function authorizationRequest(endpoints: Endpoints, client_id: string, redirect_uri: string): URL {
  const url = new URL(endpoints.authorization_endpoint ?? '')
  const pkce = {
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
  }
  const request = { client_id, redirect_uri, response_type: 'code', scope: 'openid', ...pkce }
  url.search = new URLSearchParams(request).toString()
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
      lines.push(line.toLowerCase())
      cookies.set(name, value)
    }
    const page = await response.text()
    const [, refresh] = /content="0;url=([^"]*)"/.exec(page) ?? []
    const next = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (!next) return { url, page }
    const target = new URL(next, url)
    return target.origin === issuer ? go(target) : { url: target, page }
  }

  /** Attributes that some cookie should have and arrives without. */
  function missingAttributes(): string {
    const wanted = ['HttpOnly', 'SameSite=Lax', ...(issuer.startsWith('https:') ? ['Secure'] : [])]
    const isMissing = (flag: string) => !lines.every(line => line.includes(flag.toLowerCase()))
    return wanted.filter(isMissing).join(', ')
  }
  return { go, missingAttributes }
}

const send = (url: string | URL, init: RequestInit = {}) =>
  fetch(url, { ...init, redirect: 'manual', signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })

/** The strings of a JSON object. */
async function jsonOf(response: Response): Promise<Record<string, string>> {
  const body = Object.entries(mapOf(await response.json().catch(() => undefined)))
  return Object.fromEntries(
    body.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
