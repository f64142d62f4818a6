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
const post = (path: string, name: string, base: object, value: string) =>
  send(usher, path, { headers: basic, body: { ...base, [name]: value } })

/** The requests in which a value can stand. Sends each, and returns the response. */
const PLACES: [
  place: string,
  names: string,
  ask: (name: string, value: string) => ReturnType<typeof send>,
][] = [
  [
    'authorization',
    NAMES,
    (name, value) =>
      send(usher, authorizationRequest(usher, { [name]: value }).url, {
        headers: { accept: 'text/html' },
      }),
  ],
  [
    'pushed authorization',
    NAMES,
    (name, value) => post('/api/oauth/par', name, { response_type: 'code' }, value),
  ],
  [
    'token',
    FORM,
    (name, value) => post('/api/oauth/token', name, { grant_type: 'authorization_code' }, value),
  ],
  [
    'refresh',
    FORM,
    (name, value) => post('/api/oauth/token', name, { grant_type: 'refresh_token' }, value),
  ],
  ['introspection', FORM, (name, value) => post('/api/oauth/introspect', name, {}, value)],
  ['revocation', FORM, (name, value) => post('/api/oauth/revoke', name, {}, value)],
  [
    'device authorization',
    NAMES,
    (name, value) =>
      send(usher, '/api/oauth/device_authorization', { body: { client_id: 'tv', [name]: value } }),
  ],
  [
    'sign-out',
    'id_token_hint client_id post_logout_redirect_uri state ui_locales logout_hint',
    (name, value) =>
      send(usher, `/api/oauth/logout?${new URLSearchParams({ [name]: value })}`, {
        headers: { accept: 'text/html' },
      }),
  ],
  [
    'user code',
    'user_code xsrf',
    (name, value) =>
      send(usher, `/device?${new URLSearchParams({ [name]: value })}`, {
        headers: { accept: 'text/html' },
      }),
  ],
  [
    'return',
    'state error error_description',
    (name, value) =>
      send(usher, `/account/signed-in?${new URLSearchParams({ [name]: value })}`, {
        headers: { accept: 'text/html' },
      }),
  ],
  [
    'error page',
    'client_id error error_description',
    (name, value) =>
      send(usher, `/interaction/x?${new URLSearchParams({ [name]: value })}`, {
        headers: { accept: 'text/html' },
      }),
  ],
  [
    'registration',
    'client_name client_uri scope redirect_uris grant_types contacts jwks software_statement logo_uri',
    async (name, value) => {
      const headers = {
        authorization: `Bearer ${await invite(usher)}`,
        'content-type': 'application/json',
      }
      const body = JSON.stringify({ redirect_uris: ['https://a.example.org/'], [name]: value })
      return send(usher, '/api/oauth/register', { headers, body })
    },
  ],
  [
    'registration, as a key and as no JSON',
    'key json',
    async (name, value) => {
      const headers = {
        authorization: `Bearer ${await invite(usher)}`,
        'content-type': 'application/json',
      }
      const body =
        name === 'json'
          ? `{"a": ${value}`
          : JSON.stringify({
              redirect_uris: ['https://a.example.org/'],
              jwks: { keys: [{ kty: 'RSA', [value]: value }] },
            })
      return send(usher, '/api/oauth/register', { headers, body })
    },
  ],
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
