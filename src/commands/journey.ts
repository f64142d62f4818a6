// The whole way of a person and a client through the running service, as both see it from outside:
// through the proxy, if there is one. Client and account live for as long as that takes.

import { randomBytes } from 'node:crypto'
import { connect } from 'node:tls'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { createDirectory } from '../accounts/directory.ts'
import { hashSecret } from '../config/client-secret.ts'
import { clientSchema } from '../config/schema/client.ts'
import { createRegisteredClients } from '../features/registration/registered-clients.ts'
import { DISCOVERY } from '../provider/routes.ts'
import type { Records } from '../storage/records.ts'
import type { Check } from '../storage/store.ts'
import {
  authorize,
  createBrowser,
  examineCookies,
  PATIENCE,
  REDIRECT_URI,
} from './journey-browser.ts'
import { Obstacle, ok, warning, wrong } from './verdicts.ts'

/** Seconds: what a doctor that was killed leaves behind is gone by then. */
const LEFT_BEHIND = 300
/** Seconds by which clocks may differ. */
const SKEW = 5
const DAY = 24 * 3600
/** Days before its end at which a certificate is worth a word. */
const RENEWAL = 14
const WAY =
  'the name has to lead here, and its certificate to be trusted: NODE_EXTRA_CA_CERTS=FILE for an authority of your own'
const PROXY =
  'the reverse proxy has to pass Host, set X-Forwarded-Proto, and be listed under `proxy` in usher.yaml'

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
    throw new Obstacle(isDown ? warning('service', found) : wrong('service', found, WAY))
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
  const clients = createRegisteredClients(records)
  await clients.visit(clientOf(name, secret), LEFT_BEHIND)
  try {
    const browser = createBrowser(issuer)
    const { code, code_verifier } = await authorize(browser, service, name, password)
    done.push(ok('sign-in', 'a page asks, and a code comes of it'), examineCookies(browser, issuer))
    const authorization = `Basic ${Buffer.from(`${name}:${secret}`).toString('base64')}`
    const post = (endpoint: string, form: Record<string, string>) =>
      postForm(service[endpoint] ?? '', form, authorization)
    await exchange(issuer, service, { post, code, code_verifier, subject: account.id }, done)
  } finally {
    await clients.remove(name)
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
const clientOf = (client_id: string, secret: string) =>
  clientSchema.parse({
    client_id,
    client_name: 'usher doctor',
    client_secret_hashes: [hashSecret(secret)],
    redirect_uris: [REDIRECT_URI],
    consent: 'implicit',
  })

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
