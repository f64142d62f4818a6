// Text of strangers (parameters, user agents, names) in responses, pages and the log: no character that acts
// on a terminal, hides, or reorders a line, and no line that is endless.

import { expect } from 'vitest'
import { Browser } from '../support/browser.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { invite } from '../support/registration.ts'
import { CLIENTS, SECRET } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const TV_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const test = usherTest({
  clients: { ...CLIENTS, tv: { ...CLIENTS.spa, client_id: 'tv', grant_types: [TV_GRANT] } },
  usher: { features: { dynamic_registration: true, device_flow: true } },
})

/** A terminal sequence in C1 and in ASCII, a line break, a right-to-left override, invisible and private letters. */
const STRANGE = 'a\u009b31mb\u001b[2Jc\r\nd\u2028e\u202ef\u2066g\u200bh\u{E0041}i\uE000j'
const LONG = STRANGE + 'x'.repeat(900)
// A line break in JSON or HTML is the server's own.
const UNPRINTABLE = /[^\P{C}\n]|[\u2028\u2029]/u
const NAMES =
  'response_type response_mode scope state nonce prompt max_age ui_locales login_hint acr_values display ' +
  'claims resource audience code_challenge code_challenge_method redirect_uri client_id request request_uri ' +
  'registration id_token_hint dpop_jkt authorization_details'
const FORM =
  'grant_type code redirect_uri code_verifier scope resource refresh_token device_code client_id client_secret ' +
  'client_assertion client_assertion_type token token_type_hint audience'

const basic = { authorization: `Basic ${btoa(`web:${SECRET}`)}` }
const HTML = { headers: { accept: 'text/html' } }

/** Sends a form, or opens a page, with one more parameter. */
type Ask = (name: string, value: string) => ReturnType<typeof send>

const form =
  (path: string, base: Record<string, string> = {}): Ask =>
  (name, value) =>
    send(usher, `/api/oauth/${path}`, { headers: basic, body: { ...base, [name]: value } })

const page =
  (path: string): Ask =>
  (name, value) =>
    send(usher, `${path}?${new URLSearchParams({ [name]: value })}`, HTML)

async function register(body: string) {
  const headers = {
    authorization: `Bearer ${await invite(usher)}`,
    'content-type': 'application/json',
  }
  return send(usher, '/api/oauth/register', { headers, body })
}
const redirect_uris = ['https://a.example.org/']
const METADATA =
  'client_name client_uri scope redirect_uris grant_types contacts jwks software_statement logo_uri'

/** The requests in which a value can stand. Sends each, and returns the response. */
const PLACES: [place: string, names: string, ask: Ask][] = [
  [
    'authorization',
    NAMES,
    (name, value) => send(usher, authorizationRequest(usher, { [name]: value }).url, HTML),
  ],
  ['pushed authorization', NAMES, form('par', { response_type: 'code' })],
  ['token', FORM, form('token', { grant_type: 'authorization_code' })],
  ['refresh', FORM, form('token', { grant_type: 'refresh_token' })],
  ['introspection', FORM, form('introspect')],
  ['revocation', FORM, form('revoke')],
  [
    'device authorization',
    NAMES,
    (name, value) =>
      send(usher, '/api/oauth/device_authorization', { body: { client_id: 'tv', [name]: value } }),
  ],
  [
    'sign-out',
    'id_token_hint client_id post_logout_redirect_uri state ui_locales logout_hint',
    page('/api/oauth/logout'),
  ],
  ['user code', 'user_code xsrf', page('/device')],
  ['return', 'state error error_description', page('/account/signed-in')],
  ['error page', 'client_id error error_description', page('/interaction/x')],
  [
    'registration',
    METADATA,
    (name, value) => register(JSON.stringify({ redirect_uris, [name]: value })),
  ],
  [
    'registration, as the name of a member of a key',
    'key',
    (_, value) => {
      const jwks = { keys: [{ kty: 'RSA', [value]: value }] }
      return register(JSON.stringify({ redirect_uris, jwks }))
    },
  ],
  ['registration that is no JSON', 'json', (_, value) => register(`{"a": ${value}`)],
]

test.each(PLACES)(
  '%s: no response and no log line has characters that act on a reader',
  async (_, names, ask) => {
    const from = usher.output.length
    const found: string[] = []
    for (const name of names.split(' ')) {
      for (const value of [STRANGE, LONG]) {
        const { status, text, location } = await ask(name, value)
        expect(status, name).toBeLessThan(500)
        if (UNPRINTABLE.test(text)) found.push(`${name}: ${text.slice(0, 300)}`)
        const description = location?.searchParams.get('error_description') ?? ''
        if (UNPRINTABLE.test(description)) found.push(`${name}: ${description}`)
      }
    }
    expect(found).toEqual([])
    checkLog(usher.output.slice(from))
  },
)

test('user agents are logged without such characters', async () => {
  const from = usher.output.length
  const user_agent = 'a\u009b31mb\u0085c\u00adx'.padEnd(3000, 'x')
  const browser = new Browser(usher.issuer, (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('user-agent', user_agent)
    return fetch(url, { ...init, headers })
  })
  await browser.open(authorizationRequest(usher).url)
  await browser.submit({ username: STRANGE, password: 'x', decision: 'continue' })
  expect(usher.output.slice(from).join()).toContain('"user_agent":"a 31mb c x')
  checkLog(usher.output.slice(from))
})

test('the sign-in page shows a login_hint only if it can be read', async () => {
  for (const [login_hint, shown] of [
    ['ada@example.org', 'ada@example.org'],
    ['Ренé 名', 'Ренé 名'],
    [STRANGE, ''],
    ['bank\u202egro.example', ''],
    ['x'.repeat(300), ''],
  ]) {
    const browser = new Browser(usher.issuer)
    const { html, text } = await browser.open(authorizationRequest(usher, { login_hint }).url)
    expect(html.querySelector('input[name=username]')?.getAttribute('value') ?? '').toBe(shown)
    expect(text).not.toMatch(UNPRINTABLE)
  }
})

function checkLog(lines: string[]) {
  for (const line of lines) {
    expect(line).not.toMatch(UNPRINTABLE)
    for (const value of Object.values(JSON.parse(line))) {
      if (typeof value !== 'string') continue
      expect(value).not.toMatch(/[\p{C}\u2028\u2029]/u)
      expect(value.length).toBeLessThanOrEqual(1000)
    }
  }
}
