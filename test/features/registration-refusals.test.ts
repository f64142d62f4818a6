// Dynamic registration refuses metadata that would be invalid in a client file, and metadata that only
// the operator may set. A refused registration writes nothing.

import { join } from 'node:path'
import { expect } from 'vitest'
import { createInvitations } from '../../src/features/registration/invitations.ts'
import { registrationSchema } from '../../src/features/registration/metadata.ts'
import { USHER_METADATA } from '../../src/oidc/clients.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import {
  CALLBACK,
  invite,
  METADATA,
  ON,
  OPERATORS,
  REGISTER,
  register,
  registered,
} from '../support/registration.ts'
import { PUBLIC_JWKS } from '../support/signers.ts'
import { send } from '../support/wire.ts'

const uris = (...redirect_uris: unknown[]) => ({ redirect_uris })
const JWK = { kty: 'EC', crv: 'P-256', x: 'a', y: 'b', d: 'c' }

let token: string
const folder = temporaryFolder()
const test = usherTest(() => {
  const issuer = 'https://id.example.org'
  const proxy = ['127.0.0.1/32']
  const compatibility = { implicit: true, hybrid: true }
  const env = { USHER_SECRET: 'x'.repeat(43) }
  const store = `sqlite:${join(folder, 'usher.db')}`
  const usher = { ...ON.usher, issuer, proxy, compatibility }
  return { usher, clients: {}, store, env, accounts: [] }
})
test.beforeAll(async () => {
  token = await invite(usher)
})

const PROXY = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' }

function post(body: string, headers: Record<string, string> = {}) {
  const authorization = `Bearer ${token}`
  const type = { 'content-type': 'application/json' }
  return send(usher, REGISTER, { body, headers: { ...PROXY, authorization, ...type, ...headers } })
}

/** The number of registered clients, and of the uses of each initial access token. */
async function used() {
  const invitations = await createInvitations(usher.records).list()
  const { length } = await registered(usher).list()
  return [length, ...invitations.map(({ used }) => used)]
}

// biome-ignore format: a table
const REFUSED: [metadata: object, error: string, description: RegExp][] = [
  [uris('http://stranger.example.net/callback'), 'invalid_redirect_uri', /^redirect_uris\.0 must be https/],
  [uris('https://*.example.net/callback'),       'invalid_redirect_uri', /no wildcards/],
  [uris('https://stranger.example.net/?iss=x'),  'invalid_redirect_uri', /^redirect_uris\.0 the query must not have iss/],
  [uris('javascript:alert(1)'),                  'invalid_redirect_uri', /cannot receive a redirect safely/],
  [uris('https://a@stranger.example.net/'),      'invalid_redirect_uri', /no user name/],
  [{ ...uris('com.example.app:/callback'), application_type: 'web' }, 'invalid_redirect_uri', /application_type: native/],
  [uris('data:x', 'https://stranger.example.net/a/../b'), 'invalid_redirect_uri', /^redirect_uris\.0 data: cannot/],
  [uris('callback'),                             'invalid_redirect_uri', /absolute URL/],
  [uris(),                                       'invalid_redirect_uri', /redirect_uris must have at least one/],
  [uris(7),                                      'invalid_redirect_uri', /^redirect_uris/],
  [{ redirect_uris: undefined },                 'invalid_redirect_uri', /^redirect_uris/],
  [{ redirect_uris: CALLBACK },                  'invalid_redirect_uri', /^redirect_uris/],
  [{ post_logout_redirect_uris: ['http://stranger.example.net/'] }, 'invalid_client_metadata', /^post_logout_redirect_uris\.0 must be https/],
  [{ client_name: 'x'.repeat(81) },              'invalid_client_metadata', /^client_name is at most 80/],
  [{ client_name: 'Wiki\u202Eikiw' },            'invalid_client_metadata', /^client_name .*control characters/],
  [{ client_name: '\u3164' },                    'invalid_client_metadata', /^client_name .*invisible/],
  [{ client_name: '\u00A0' },                    'invalid_client_metadata', /^client_name .*no space at its beginning/],
  [{ client_name: 'Red \u00A0Cross' },           'invalid_client_metadata', /^client_name .*two spaces/],
  [{ client_name: 'W\u0301\u0302\u0303\u0304iki' }, 'invalid_client_metadata', /^client_name .*combining marks/],
  [{ client_name: { toString: 1 } },             'invalid_client_metadata', /^client_name/],
  [{ client_uri: 'javascript:alert(1)' },        'invalid_client_metadata', /^client_uri/],
  [{ policy_uri: 'https://id.example.org@evil.example/' }, 'invalid_client_metadata', /^policy_uri has no user name/],
  [{ client_uri: ' https://www.bank.example@evil.example/' }, 'invalid_client_metadata', /^client_uri has no user name/],
  [{ tos_uri: 'https://bank.example\\evil/' },       'invalid_client_metadata', /^tos_uri has no user name/],
  [{ initiate_login_uri: 'http://stranger.example.net/' }, 'invalid_client_metadata', /^initiate_login_uri must be https/],
  [{ grant_types: ['client_credentials'] },      'invalid_client_metadata', /^grant_types/],
  [{ grant_types: [] },                          'invalid_client_metadata', /^grant_types/],
  [{ grant_types: 'authorization_code' },        'invalid_client_metadata', /^grant_types/],
  [{ response_types: ['code id_token'] },        'invalid_client_metadata', /^response_types/],
  [{ response_modes: ['fragment'] },             'invalid_client_metadata', /^response_modes/],
  [{ token_endpoint_auth_method: 'tls_client_auth' },   'invalid_client_metadata', /^token_endpoint_auth_method must be/],
  [{ token_endpoint_auth_method: 'private_key_jwt' },   'invalid_client_metadata', /^jwks or jwks_uri is mandatory/],
  [{ token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [JWK] } }, 'invalid_client_metadata', /^jwks/],
  [{ jwks_uri: 'http://169.254.169.254/' },      'invalid_client_metadata', /^jwks_uri must be https/],
  [{ jwks_uri: 'file:///etc/passwd' },           'invalid_client_metadata', /^jwks_uri/],
  [{ jwks_uri: 'https://a@stranger.example.net/' }, 'invalid_client_metadata', /^jwks_uri has no/],
  [{ jwks_uri: 'https://stranger.example.net/', jwks: PUBLIC_JWKS }, 'invalid_client_metadata', /^jwks and jwks_uri must not be used/],
  [{ sector_identifier_uri: 'https://localhost/' }, 'invalid_client_metadata', /^sector_identifier_uri is not fetched/],
  [{ backchannel_logout_uri: 'https://localhost/' }, 'invalid_client_metadata', /^backchannel_logout_uri/],
  [{ software_statement: 'e30.e30.' },           'invalid_client_metadata', /^software_statement/],
  [{ subject_type: 'pairwise' },                 'invalid_client_metadata', /^subject_type needs a setting that is off/],
  [{ id_token_signed_response_alg: 'HS256' },    'invalid_client_metadata', /^id_token_signed_response_alg/],
  ...OPERATORS.map((metadata): [object, string, RegExp] =>
    [metadata, 'invalid_client_metadata', new RegExp(`^${Object.keys(metadata)[0]} is for the operator`)]),
]

test('every key leads to a registration or a refusal, without a 5xx', async () => {
  const hollow = { toString: 1, length: 'x' }
  const key = { kty: 'RSA', n: hollow, e: 5 }
  const junk = [hollow, [hollow], -1, true, null, '\uD800', { keys: [key] }]
  // This request comes first, because only the first failures of a minute are stored.
  const names = ['client_id', 'scope', 'resource', 'prompt', 'client_secret', 'token']
  const hollows = Object.fromEntries(names.map(name => [name, [hollow]]))
  const first = await post(JSON.stringify({ ...hollows, state: hollow, consent: 1 }))
  expect([first.status, first.json.error]).toEqual([400, 'invalid_client_metadata'])
  const keys = [
    ...Object.keys(registrationSchema.shape),
    ...Object.keys(REFUSED[0]?.[0] ?? {}),
    'response_types',
    'client_id',
    '__proto__',
  ]
  const all = await invite(usher, 9999)
  const statuses = new Set<number>()
  for (const key of keys) {
    const answers = await Promise.all(
      junk.map(value =>
        post(`{"redirect_uris":["${CALLBACK}"],"${key}":${JSON.stringify(value)}}`, {
          authorization: `Bearer ${all}`,
        }),
      ),
    )
    for (const { status, json } of answers) {
      statuses.add(status)
      if (status !== 201)
        expect([key, json.error]).toEqual([key, expect.stringMatching(/^invalid_/)])
    }
  }
  expect([...statuses].toSorted()).toEqual([201, 400])
})

test('every key of the metadata that Usher adds to RFC 7591 is for the operator', () => {
  const keys = OPERATORS.flatMap(metadata => Object.keys(metadata))
  expect(keys.toSorted()).toEqual(USHER_METADATA.toSorted())
})

test('invalid metadata, and metadata for the operator, are refused by name, and nothing is written', async () => {
  const before = await used()
  for (const [metadata, error, description] of REFUSED) {
    const { status, json } = await post(JSON.stringify({ ...METADATA, ...metadata }))
    expect([metadata, status, json.error, json.error_description]).toEqual([
      metadata,
      400,
      error,
      expect.stringMatching(description),
    ])
  }
  expect(await used()).toEqual(before)
})

test('metadata of more than 16 KiB, and requests of more than 56 KiB, are refused', async () => {
  const uris = (length: number) =>
    Array.from({ length }, (_, i) => `https://stranger.example.net/${i}/${'x'.repeat(1000)}`)
  const request = (length: number) => JSON.stringify({ ...METADATA, redirect_uris: uris(length) })
  expect((await post(request(10))).status).toBe(201)
  expect((await post(request(17))).json.error_description).toContain('at most 16384')
  expect((await post(request(60))).json.error).toBe('invalid_request')
})

/** A value that is nested so deeply that a recursive function overflows the stack. */
const DEPTH = 9000
const deep = (open: string, close: string) => open.repeat(DEPTH) + close.repeat(DEPTH)

test.each([
  ['lists', deep('[', ']')],
  ['objects', `${'{"a":'.repeat(DEPTH)}1${'}'.repeat(DEPTH)}`],
])('%s that are nested 5,000 levels deep are ignored or refused everywhere', async (_, value) => {
  const all = await invite(usher, 9999)
  const jwk = JSON.stringify(PUBLIC_JWKS.keys[0]).slice(1, -1)
  const bodies = [
    ...Object.keys(registrationSchema.shape).map(key => `"${key}":${value}`),
    `"unknown":${value}`,
    `"jwks":{"keys":[{${jwk},"unknown":${value}}]}`,
    `"jwks":{"keys":[{${jwk},"x5c":${value}}]}`,
    `"jwks":{"keys":[{${jwk},"kid":${value}}]}`,
    `"jwks":{"keys":[{"kty":${value}}]}`,
  ]
  for (const body of bodies) {
    const { status, json } = await post(`{"redirect_uris":["${CALLBACK}"],${body}}`, {
      authorization: `Bearer ${all}`,
    })
    expect([body.slice(0, 60), [201, 400]]).toEqual([
      body.slice(0, 60),
      expect.arrayContaining([status]),
    ])
    expect(status === 201 || String(json.error).startsWith('invalid_')).toBe(true)
  }
})

test('a body that is not a JSON object, or has another type, is refused', async () => {
  for (const body of ['', '{', '[]', 'null', '"text"', '7']) {
    const { status, json } = await post(body)
    expect([body, status, json.error]).toEqual([body, 400, expect.stringMatching(/^invalid_/)])
  }
  const form = await post('a=b', { 'content-type': 'application/x-www-form-urlencoded' })
  expect([form.status, form.json.error]).toEqual([400, 'invalid_request'])
})

test('without an initial access token, or with another token, there is no registration', async () => {
  const body = JSON.stringify(METADATA)
  const none = await send(usher, REGISTER, {
    body,
    headers: { ...PROXY, 'content-type': 'application/json' },
  })
  expect([none.status, none.headers.get('www-authenticate')]).toEqual([
    401,
    expect.stringContaining('Bearer'),
  ])
  const wrong = await post(body, { authorization: `Bearer ${'x'.repeat(43)}` })
  expect([wrong.status, wrong.json.error]).toEqual([401, 'invalid_token'])
  const made = await post(body)
  const { registration_access_token: theirs } = made.json
  expect((await post(body, { authorization: `Bearer ${theirs}` })).status).toBe(401)
  expect((await register({ ...usher }, token)).status).toBe(421)
})
