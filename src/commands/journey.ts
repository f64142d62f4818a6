// The whole way of a person and a client through the running service, as both see it from outside:
// through the proxy, if there is one. Client and account live for as long as that takes.

import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:tls'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { createDirectory } from '../accounts/directory.ts'
import { hashSecret } from '../config/client-secret.ts'
import { DISCOVERY } from '../oidc/routes.ts'
import type { Records } from '../store/records.ts'
import type { Check } from '../store/store.ts'

/** Nothing is ever sent there: the code is read from the redirect. */
const REDIRECT_URI = 'https://doctor.invalid/callback'
/** Milliseconds for an answer. */
const PATIENCE = 5_000
/** Seconds: what a doctor that was killed leaves behind is gone by then. */
const LEFT_BEHIND = 300
/** Seconds by which clocks may differ. */
const SKEW = 5
const DAY = 24 * 3600
/** Days before its end at which a certificate is worth a word. */
const RENEWAL = 14
const PROXY =
  'the reverse proxy has to pass Host, set X-Forwarded-Proto, and be listed under `proxy` in usher.yaml'

/** What a step of the way was held up by; the rest of the way is not gone. */
class Obstacle extends Error {
  readonly check: Check

  constructor(check: Check) {
    super(check.found)
    this.check = check
  }
}

/** `isOurs`: people are in our own directory, and one can be added for this. */
export async function walk(issuer: string, records: Records, isOurs: boolean): Promise<Check[]> {
  const done: Check[] = []
  try {
    const service = await reach(issuer, done)
    if (isOurs) await signInAndOut(issuer, records, service, done)
    else done.push(warning('journey', 'is not walked: nobody can be added to your directory'))
  } catch (error) {
    done.push(error instanceof Obstacle ? error.check : wrong('journey', String(error)))
  }
  return done
}

/** The discovery document, after what can be learned on the way to it. */
async function reach(issuer: string, done: Check[]): Promise<Record<string, string>> {
  const response = await get(`${issuer}${DISCOVERY[0]}`).catch(error => {
    const reason = String(error.cause?.code ?? error.cause?.message ?? error.message)
    const found = `${issuer} does not answer here: ${reason}`
    // It may not have been started yet.
    const isDown = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/.test(reason)
    throw new Obstacle(isDown ? warning('service', found) : wrong('service', found))
  })
  const body = Object(await response.json().catch(() => ({})))
  if (response.status === 421) throw new Obstacle(wrong('proxy', body.error_description, PROXY))
  if (body.issuer !== issuer) {
    const found = `${issuer} answers ${response.status}, and not as this issuer: something else is there`
    throw new Obstacle(wrong('service', found, 'look where the name and the proxy lead to'))
  }
  done.push(ok('service', `answers at ${issuer}`))

  const skew = Math.abs(Date.now() - Date.parse(response.headers.get('date') ?? '')) / 1000
  done.push(
    skew > SKEW
      ? warning(
          'clock',
          `differs by ${Math.round(skew)} s between here and there`,
          'run NTP on both',
        )
      : ok('clock', 'the same here and there'),
  )
  if (issuer.startsWith('https:')) done.push(await examineCertificate(new URL(issuer)))
  return body
}

async function examineCertificate({ hostname, port }: URL): Promise<Check> {
  const until = await new Promise<string>((resolve, reject) => {
    const options = { host: hostname, port: Number(port || 443), servername: hostname }
    const socket = connect(options, () => {
      resolve(socket.getPeerCertificate().valid_to)
      socket.end()
    })
    socket.setTimeout(PATIENCE, () => socket.destroy(new Error('no answer in time')))
    socket.on('error', reject)
  })
  const days = Math.floor((Date.parse(until) - Date.now()) / 1000 / DAY)
  const found = `the certificate counts until ${until}`
  return days < RENEWAL ? warning('tls', found, `renew it within ${days} days`) : ok('tls', found)
}

async function signInAndOut(
  issuer: string,
  records: Records,
  service: Record<string, string>,
  done: Check[],
) {
  const directory = createDirectory(records)
  const name = `usher-doctor-${randomBytes(6).toString('hex')}`
  const [password, secret] = [randomBytes(24), randomBytes(24)].map(bytes =>
    bytes.toString('base64url'),
  ) as [string, string]
  const account = await directory.add({ username: name }, password)
  await records.save('Client', name, clientOf(name, secret), { ttl: LEFT_BEHIND })
  try {
    const browser = createBrowser(issuer)
    const { code, code_verifier } = await authorize(browser, service, name, password)
    done.push(ok('sign-in', 'a page asks, and a code comes of it'), examineCookies(browser, issuer))
    const authorization = `Basic ${Buffer.from(`${name}:${secret}`).toString('base64')}`
    const post = (endpoint: string, form: Record<string, string>) =>
      postForm(service[endpoint] ?? '', form, authorization)
    await exchange(issuer, service, { post, code, code_verifier, subject: account.id }, done)
  } finally {
    await records.remove('Client', name)
    await directory.remove(account)
  }
}

interface Exchange {
  post(endpoint: string, form: Record<string, string>): Promise<Response>
  code: string
  code_verifier: string
  subject: string
}

async function exchange(
  issuer: string,
  service: Record<string, string>,
  { post, code, code_verifier, subject }: Exchange,
  done: Check[],
) {
  const answer = await post('token_endpoint', {
    grant_type: 'authorization_code',
    code,
    code_verifier,
    redirect_uri: REDIRECT_URI,
  })
  const tokens = await expectJson(answer, 'token', 'the code is redeemed')
  const jwks = (await (await get(service.jwks_uri ?? '')).json()) as JSONWebKeySet
  const { payload } = await jwtVerify(tokens.id_token ?? '', createLocalJWKSet(jwks), { issuer })
  if (payload.sub !== subject) throw new Obstacle(wrong('token', 'the ID token is of another'))
  done.push(ok('token', 'a code is redeemed, and the JWKS verifies the ID token'))
  done.push(examineCors(answer))

  const userinfo = (token = '') =>
    get(service.userinfo_endpoint ?? '', { authorization: `Bearer ${token}` })
  await expectJson(await userinfo(tokens.access_token), 'userinfo', 'UserInfo answers')
  const renewed = await expectJson(
    await post('token_endpoint', {
      grant_type: 'refresh_token',
      refresh_token: tokens.refresh_token ?? '',
    }),
    'refresh',
    'tokens are renewed',
  )
  done.push(ok('refresh', 'UserInfo answers, and tokens are renewed'))
  if (!service.revocation_endpoint) return
  await expectJson(
    await post('revocation_endpoint', { token: renewed.refresh_token ?? '' }),
    'revoke',
    'tokens are revoked',
  )
  const { status } = await userinfo(renewed.access_token)
  if (status !== 401) throw new Obstacle(wrong('revoke', `a revoked token is answered ${status}`))
  done.push(ok('revoke', 'what was revoked is refused'))
}

/** People do not have to agree to it. */
const clientOf = (client_id: string, secret: string) => ({
  client_id,
  client_name: 'usher doctor',
  // Never compared: the hash is.
  client_secret: randomBytes(32).toString('base64url'),
  client_secret_hashes: [hashSecret(secret)],
  redirect_uris: [REDIRECT_URI],
  response_types: ['code'],
  grant_types: ['authorization_code', 'refresh_token'],
  consent: 'implicit',
})

type Browser = ReturnType<typeof createBrowser>

/** Keeps cookies, and follows redirects below the issuer. */
function createBrowser(issuer: string) {
  const cookies = new Map<string, string>()
  const seen: string[] = []

  async function go(url: URL, form?: Record<string, string>): Promise<{ url: URL; page: string }> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      headers: { accept: 'text/html', cookie },
      ...(form && { method: 'POST', body: new URLSearchParams(form) }),
      redirect: 'manual',
      signal: AbortSignal.timeout(PATIENCE),
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      seen.push(line)
      cookies.set(name, value)
    }
    const page = await response.text()
    const [, refresh] = /content="0;url=([^"]*)"/.exec(page) ?? []
    const next = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (!next) return { url, page }
    const target = new URL(next, url)
    return target.origin === issuer ? go(target) : { url: target, page }
  }
  return { go, seen }
}

async function authorize(
  browser: Browser,
  { authorization_endpoint }: Record<string, string>,
  name: string,
  password: string,
) {
  const code_verifier = randomBytes(32).toString('base64url')
  const url = new URL(authorization_endpoint ?? '')
  url.search = new URLSearchParams({
    client_id: name,
    response_type: 'code',
    redirect_uri: REDIRECT_URI,
    scope: 'openid offline_access',
    code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }).toString()
  const signIn = await browser.go(url)
  const [, csrf = ''] = /name="csrf" value="([^"]*)"/.exec(signIn.page) ?? []
  if (!csrf) {
    const found = `there is no sign-in page at ${signIn.url.pathname}`
    throw new Obstacle(wrong('sign-in', found, 'the service may use another store: USHER_STORE'))
  }
  const form = { csrf, username: name, password, decision: 'continue' }
  const { url: back } = await browser.go(signIn.url, form)
  const code = back.searchParams.get('code')
  if (code) return { code, code_verifier }
  const error = back.searchParams.get('error') ?? `it ends at ${back.pathname}`
  throw new Obstacle(wrong('sign-in', `no code comes of it: ${error}`))
}

/** As they arrive, whatever a proxy has made of them (SE1). */
function examineCookies({ seen }: Browser, issuer: string): Check {
  const wanted = ['HttpOnly', 'SameSite=Lax', ...(issuer.startsWith('https:') ? ['Secure'] : [])]
  const set = seen.filter(line => !/^[^=]+=;/.test(line))
  const lacks = wanted.filter(
    flag => !set.every(line => new RegExp(`;\\s*${flag}`, 'i').test(line)),
  )
  if (!lacks.length) return ok('cookies', wanted.join(', '))
  const mend = 'the reverse proxy must not rewrite Set-Cookie'
  return wrong('cookies', `arrive without ${lacks.join(', ')}`, mend)
}

/** Browser applications read the token answer from where they live (TK16). */
function examineCors({ headers }: Response): Check {
  const { origin } = new URL(REDIRECT_URI)
  const allowed = headers.get('access-control-allow-origin')
  if (allowed === origin) return ok('cors', 'an application is answered at its own origin')
  const mend = 'the reverse proxy must neither set nor take away Access-Control headers'
  return wrong('cors', `the token answer allows ${allowed ?? 'nobody'}, not ${origin}`, mend)
}

async function expectJson(
  response: Response,
  name: string,
  what: string,
): Promise<Record<string, string>> {
  const body = Object(await response.json().catch(() => ({})))
  if (response.ok) return body
  const { error = '', request_id = '' } = body
  const mend = request_id && `npm run usher -- config explain ${request_id}`
  throw new Obstacle(wrong(name, `not so that ${what}: ${response.status} ${error}`, mend))
}

const get = (url: string, headers: Record<string, string> = {}) =>
  fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(PATIENCE) })

function postForm(url: string, form: Record<string, string>, authorization: string) {
  const { origin } = new URL(REDIRECT_URI)
  return fetch(url, {
    method: 'POST',
    headers: { authorization, origin },
    body: new URLSearchParams(form),
    redirect: 'manual',
    signal: AbortSignal.timeout(PATIENCE),
  })
}

const ok = (name: string, found: string): Check => ({ name, state: 'ok', found })
const warning = (name: string, found: string, mend?: string): Check => {
  return { name, state: 'warning', found, ...(mend && { mend }) }
}
const wrong = (name: string, found: string, mend?: string): Check => {
  return { name, state: 'wrong', found, ...(mend && { mend }) }
}
