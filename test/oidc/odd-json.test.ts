// JSON values of the wrong type, in each place where a client sends JSON, also values that JavaScript cannot
// turn into text. The response is never a 5xx.

import { randomUUID, sign } from 'node:crypto'
import { exportPKCS8 } from 'jose'
import { expect } from 'vitest'
import { BANKING, PAYMENT, push } from '../support/details.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, codeForm } from '../support/journey.ts'
import {
  ASSERTION,
  assertionClaims,
  jwk,
  KEYED,
  privateKey,
  signAssertion,
} from '../support/keyed.ts'
import {
  invite,
  METADATA,
  manage,
  ON,
  type Registration,
  register,
  registerNew,
} from '../support/registration.ts'
import { someOf } from '../support/some-of.ts'
import { type Reply, send } from '../support/wire.ts'

type Json = Record<string, unknown>

const VALUES: unknown[] = [
  { toString: 1 },
  { toString: 1, valueOf: 1 },
  [{ toString: 1, valueOf: 1 }],
  { toJSON: 1 },
  { length: 1e9 },
  [],
  [[]],
  [null],
  {},
  null,
  true,
  -1,
  1e300,
  '',
  '\0',
  '\ud800',
]

const CLIENT = {
  ...KEYED,
  grant_types: ['authorization_code', 'refresh_token', 'urn:openid:params:grant-type:ciba'],
  backchannel_token_delivery_mode: 'poll',
}
const test = usherTest({
  ...BANKING,
  clients: { ...BANKING.clients, keyed: CLIENT },
  usher: { features: { ...BANKING.usher.features, ...ON.usher.features, ciba: true } },
})

const PEM = await exportPKCS8(privateKey)
const partOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = () => Math.floor(Date.now() / 1000)

/** Signs anything, also what libraries refuse to sign. */
function jwt(claims: Json, header: Json = {}): string {
  const input = `${partOf({ alg: 'ES256', kid: 'one', ...header })}.${partOf(claims)}`
  const key = { key: PEM, dsaEncoding: 'ieee-p1363' } as const
  return `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}`
}

const post = (path: string, body: Record<string, string>, headers = {}) =>
  send(usher, `/api/oauth/${path}`, { body, headers })

const get = (path: string, query: Record<string, string>) =>
  send(usher, `/api/oauth/${path}?${new URLSearchParams(query)}`)

/** Sends a form with a valid client assertion. */
async function postAs(path: string, body: Record<string, string>) {
  const client_assertion = await signAssertion(usher.issuer)
  return post(path, { ...body, client_assertion_type: ASSERTION, client_assertion })
}

function requestObject(claims: Json, header?: Json): string {
  const params = { client_id: 'keyed', redirect_uri: KEYED.redirect_uris[0] }
  const { url } = authorizationRequest(usher, params)
  const times = { exp: now() + 60, nbf: now(), iat: now(), jti: randomUUID() }
  const parties = { iss: 'keyed', aud: usher.issuer }
  return jwt({ ...Object.fromEntries(url.searchParams), ...times, ...parties, ...claims }, header)
}

function authenticate(claims: Json, header?: Json) {
  const client_assertion = jwt({ ...assertionClaims(usher.issuer), ...claims }, header)
  const form = { grant_type: 'client_credentials', client_assertion_type: ASSERTION }
  return post('token', { ...form, client_assertion })
}

function prove(claims: Json, header?: Json) {
  const subject = { jti: randomUUID(), htm: 'POST', htu: `${usher.issuer}/api/oauth/token` }
  const dpop = jwt({ ...subject, iat: now(), ...claims }, { typ: 'dpop+jwt', jwk, ...header })
  const form = { client_id: 'spa', grant_type: 'refresh_token', refresh_token: 'x' }
  return post('token', form, { dpop })
}

function hint(claims: Json, header?: Json) {
  const id_token = { iss: usher.issuer, sub: 'x', aud: 'keyed', exp: now() + 60 }
  return get('logout', { id_token_hint: jwt({ ...id_token, ...claims }, header) })
}

const request = (claims: Json) =>
  send(usher, authorizationRequest(usher, { scope: 'openid', claims: JSON.stringify(claims) }).url)

const names = (text: string) => text.split(' ')
const HEADERS = names('alg kid typ crit b64 cty jwk jku x5c x5t')
const CLAIMS = names('iss sub aud exp iat nbf jti sid htm htu ath nonce')
const PARAMETERS = names(
  'client_id redirect_uri response_type response_mode scope state nonce prompt max_age acr_values claims ' +
    'code_challenge code_challenge_method resource authorization_details login_hint id_token_hint display ' +
    'ui_locales claims_locales dpop_jkt audience request request_uri registration binding_message ' +
    'requested_expiry user_code client_notification_token login_hint_token',
)
const METADATA_NAMES = names(
  'client_name client_name#de client_uri logo_uri policy_uri tos_uri contacts redirect_uris ' +
    'post_logout_redirect_uris response_types response_modes grant_types token_endpoint_auth_method ' +
    'token_endpoint_auth_signing_alg jwks jwks_uri scope subject_type sector_identifier_uri ' +
    'id_token_signed_response_alg userinfo_signed_response_alg application_type default_max_age ' +
    'require_auth_time default_acr_values initiate_login_uri request_uris request_object_signing_alg ' +
    'backchannel_logout_uri backchannel_logout_session_required software_id software_version ' +
    'software_statement client_id client_secret tls_client_auth_subject_dn authorization_details_types ' +
    'unknown toString',
)
/** The library reads them before they are validated. */
const ALGORITHMS = METADATA_NAMES.filter(name => name.endsWith('_alg'))

let token: string
let client: Registration
test.beforeAll(async () => {
  token = await invite(usher, 1000)
  client = await registerNew(usher, { ...METADATA, token_endpoint_auth_method: 'none' })
})

type Send = (member: Json) => Promise<Reply>

const authorizeWith = (claims: Json, header?: Json) =>
  get('authorize', { client_id: 'keyed', request: requestObject(claims, header) })
const registerWith = (metadata: Json) => register(usher, token, { ...METADATA, ...metadata })
const PUBLIC = { token_endpoint_auth_method: 'none' }
const OBJECT_MEMBERS = [...PARAMETERS, ...CLAIMS]
const DETAIL_MEMBERS = names('type amount creditor reference monthly limit memo locations toString')
const KEY_MEMBERS = names('kty crv x y n e kid alg use key_ops x5c d')

/** `right`: part of the response to the request without a wrong member. */
const PLACES: Record<string, [right: string, members: string[], send: Send]> = {
  'a request object': ['/interaction/', OBJECT_MEMBERS, authorizeWith],
  'the header of a request object': ['/interaction/', HEADERS, member => authorizeWith({}, member)],
  'a pushed request object': [
    'request_uri',
    OBJECT_MEMBERS,
    member => postAs('par', { request: requestObject(member) }),
  ],
  'a request object of CIBA': [
    'auth_req_id',
    OBJECT_MEMBERS,
    member => {
      const request = requestObject({ login_hint: 'ada', ...member })
      return postAs('backchannel_authentication', { request })
    },
  ],
  'a client assertion': ['grant_type must be', CLAIMS, authenticate],
  'the header of a client assertion': [
    'grant_type must be',
    HEADERS,
    member => authenticate({}, member),
  ],
  'a DPoP proof': ['refresh_token is unknown', CLAIMS, prove],
  'the header of a DPoP proof': ['refresh_token is unknown', HEADERS, member => prove({}, member)],
  'an id_token_hint': ['must be an ID token', CLAIMS, hint],
  'the header of an id_token_hint': ['must be an ID token', HEADERS, member => hint({}, member)],
  claims: [
    '/interaction/',
    names('id_token userinfo unknown'),
    member => request({ id_token: {}, ...member }),
  ],
  'the claims of the ID token': [
    '/interaction/',
    names('acr sub auth_time'),
    id_token => request({ id_token }),
  ],
  'the claims of UserInfo': ['/interaction/', ['email', 'sub'], userinfo => request({ userinfo })],
  'an essential acr': [
    '/interaction/',
    names('essential value values'),
    member => request({ id_token: { acr: { essential: true, ...member } } }),
  ],
  'authorization details': [
    'request_uri',
    DETAIL_MEMBERS,
    async member => (await push(usher, [{ ...PAYMENT, ...member }])).answer,
  ],
  'client metadata': ['client_id', METADATA_NAMES, registerWith],
  'metadata of a public client': [
    'client_id',
    ALGORITHMS,
    member => registerWith({ ...PUBLIC, ...member }),
  ],
  'metadata of an update': [
    'client_id',
    [...ALGORITHMS, 'redirect_uris', 'subject_type'],
    member => manage(usher, client, { ...METADATA, ...PUBLIC, ...idOf(client), ...member }),
  ],
  'a key in client metadata': [
    'client_id',
    KEY_MEMBERS,
    member => {
      const jwks = { keys: [{ ...jwk, ...member }] }
      return registerWith({ token_endpoint_auth_method: 'private_key_jwt', jwks })
    },
  ],
}
const idOf = ({ client_id }: Registration) => ({ client_id })

test.each(Object.entries(PLACES))('no value in %s causes a 5xx', async (_, place) => {
  const [right, members, send] = place
  expect((await send({})).text).toContain(right)
  const failed: string[] = []
  const wrong: Json[] = members.flatMap(name => VALUES.map(value => ({ [name]: value })))
  for (const member of someOf(wrong)) {
    const { status } = await send(member)
    if (status >= 500) failed.push(`${status}: ${JSON.stringify(member)}`)
  }
  expect(failed).toEqual([])
})

const NO_JWTS = ['x', 'x.y.z', 'e30.W10.', 'e30.bnVsbA.']

test.each(NO_JWTS)('request=%s in the query of a pushed request is ignored', async request => {
  const { url } = authorizationRequest(usher, { client_id: 'spa' })
  const form = Object.fromEntries(url.searchParams)
  const { status, text } = await post(`par?${new URLSearchParams({ request })}`, form)
  expect([status, text]).toEqual([201, expect.stringContaining('request_uri')])
})

test.each(NO_JWTS)('request=%s in a token request does not cost the code', async request => {
  const { code, request: sent } = await authorize(usher, { client_id: 'spa', scope: 'openid' })
  const form = { ...codeForm(code, sent), client_id: 'spa' }
  const { status } = await post('token', { ...form, request })
  expect(status).toBe(200)
})
