// Unauthenticated requests made from a grammar. A seed always gives the same requests, so that a
// harmful request can be repeated.

import { PLACES } from '../../src/pages/page-data.ts'
import type { WireOptions } from './wire.ts'

export interface Attempt extends WireOptions {
  path: string
}

const words = (text: string) => text.trim().split(/\s+/)

const PATHS = [
  '/api/oauth/authorize',
  '/api/oauth/authorize/x',
  `/api/oauth/authorize/${'x'.repeat(43)}`,
  '/api/oauth/token',
  '/api/oauth/userinfo',
  '/api/oauth/revoke',
  '/api/oauth/introspect',
  '/api/oauth/jwks',
  '/api/oauth/par',
  '/api/oauth/backchannel_authentication',
  '/api/oauth/logout',
  '/api/oauth/logout/confirm',
  '/api/oauth/logout/success',
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
  '/.well-known/change-password',
  '/interaction/x',
  `/interaction/${'x'.repeat(43)}`,
  '/interaction/%ff',
  '/account/signed-in',
  '/welcome/x',
  `/welcome/${'x'.repeat(65)}`,
  '/api/oauth/register',
  '/api/oauth/register/app_000000000000000000000000',
  '/errors',
  '/livez',
  '/readyz',
  '/',
  '/%',
  '/%c0%ae/%00',
  '/__proto__',
  ...Object.values(PLACES),
]

const METHODS = ['GET', 'GET', 'GET', 'POST', 'POST', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']

const NAMES = [
  ...words(`
  client_id client_secret client_assertion client_assertion_type redirect_uri response_type
  response_mode scope state nonce code code_challenge code_challenge_method code_verifier
  grant_type refresh_token token token_type_hint access_token prompt max_age id_token_hint
  login_hint ui_locales claims acr_values request request_uri registration resource dpop_jkt
  authorization_details post_logout_redirect_uri logout_hint logout xsrf csrf decision username
  password user_code auth_req_id binding_message login_hint_token requested_expiry request_context
  subject_token subject_token_type requested_token_type actor_token audience assertion device_code
  client_notification_token removed email repeat recovery nonce add remove codes __proto__ constructor a[b] a[]
  `),
  '',
]

const VALUES = [
  ...words(`
  x web spa keyed native usher-account code token none login consent query fragment form_post
  openid S256 plain 0 -1 1e400 NaN authorization_code refresh_token password
  urn:ietf:params:oauth:grant-type:token-exchange urn:ietf:params:oauth:grant-type:jwt-bearer
  urn:ietf:params:oauth:token-type:access_token urn:ietf:params:oauth:token-type:id-jag create
  urn:ietf:params:oauth:client-assertion-type:jwt-bearer urn:ietf:params:oauth:request_uri:x
  https://app.example.org/callback https://spa.example.org/callback com.example.app:/callback
  javascript:alert(1) http://[::1 // a.b.c e30.e30.e30
  eyJhbGciOiJub25lIn0.eyJzdWIiOiJ3ZWIiLCJpc3MiOiJ3ZWIifQ. eyJhbGciOiJSUzI1NiJ9.bnVsbA.x
  eyJhbGciOiJFUzI1NiIsImtpZCI6e319.eyJzdWIiOiJrZXllZCIsImp0aSI6e319.x {} [] null
  {"userinfo":{"x":null},"id_token":[1]} {"__proto__":{"x":1}} % <script>alert(1)</script>
  __proto__ toString E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM
  `),
  '',
  'openid profile offline_access',
  '\0',
  '\r\nX-Injected: yes',
  '\u{1f600}',
  '\ud800',
  `${'['.repeat(500)}${']'.repeat(500)}`,
  'x'.repeat(300),
  'x'.repeat(3000),
  'x'.repeat(9000),
]

const HEADERS: [string, string[]][] = [
  ['accept', ['text/html', 'application/json', '*/*', '', 'x', ';;;', 'text/html;q=x']],
  [
    'authorization',
    [
      'Basic',
      'Basic d2ViOng=',
      'Basic JTAwOiUwMA==',
      'Basic %',
      'Bearer x',
      'Bearer',
      'DPoP x',
      '',
    ],
  ],
  [
    'cookie',
    [
      'usher_session=x',
      'usher_session=x; usher_session.sig=x',
      'usher_interaction=x; usher_interaction.sig=x; usher_resume=x; usher_resume.sig=x',
      '=;=;;;',
      `a=${'x'.repeat(3000)}`,
      'usher_session="\\"',
    ],
  ],
  ['origin', ['null', 'https://spa.example.org', 'https://evil.example', 'x', '']],
  ['sec-fetch-site', ['same-origin', 'cross-site', 'x']],
  ['dpop', ['x', 'a.b.c']],
  ['accept-language', ['de', '*', 'x'.repeat(500), ';q=']],
  ['accept-encoding', ['gzip', 'x', '']],
  ['if-none-match', ['*', 'x']],
  ['range', ['bytes=0-1', 'x']],
  ['expect', ['100-continue']],
  ['transfer-encoding', ['chunked']],
  ['x-forwarded-for', ['x', '::1, x', ',,,']],
  ['x-forwarded-proto', ['https', 'x']],
  ['user-agent', ['\u00ff\u00fe', 'x'.repeat(2000)]],
  ['oauth-client-attestation', ['x', 'a.b.c']],
]

const TYPES = [
  'application/x-www-form-urlencoded',
  'application/x-www-form-urlencoded',
  'application/x-www-form-urlencoded; charset=utf-16',
  'application/x-www-form-urlencoded; charset=nonsense',
  'application/json',
  'multipart/form-data; boundary=x',
  'text/plain',
  'nonsense',
  '',
]

/** Returns pseudo-random numbers in [0, 1); a seed always gives the same ones (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

export function anonymousRequest(random: () => number): Attempt {
  const below = (limit: number) => Math.floor(random() * limit)
  const one = <T>(list: readonly T[]): T => {
    const chosen = list[below(list.length)]
    if (chosen === undefined) throw new Error('the list is empty')
    return chosen
  }
  const form = () => Array.from({ length: below(8) }, () => `${write(NAMES)}=${write(VALUES)}`)
  const write = (list: string[]) => {
    const text = one(list)
    if (random() < 0.05) return text.replaceAll(/[^!-~]|[#\s]/g, '')
    return encodeURIComponent(text.toWellFormed()).replaceAll('%20', '+')
  }

  const query = form().join('&')
  const path = one(PATHS) + (query ? `?${query}` : '')
  const method = one(METHODS)
  const headers: Record<string, string> = {}
  for (let i = below(4); i > 0; i--) {
    const [name, values] = one(HEADERS)
    headers[name] = one(values)
  }
  if (method === 'GET' || method === 'HEAD') return { path, method, headers: without(headers) }
  const type = one(TYPES)
  if (type) headers['content-type'] = type
  const body = random() < 0.1 ? one(VALUES) : form().join('&')
  return { path, method, headers, body }
}

/** Removes the headers that describe a body: a GET or HEAD request has none. */
function without({ expect, 'transfer-encoding': _, ...rest }: Record<string, string>) {
  return rest
}
