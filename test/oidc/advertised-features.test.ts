// Discovery against the behaviour, with every optional feature switched on. Each value beyond the
// defaults works, and no other value does. advertised.test.ts checks the defaults. A feature that adds a
// key to discovery needs a row here.

import { decodeProtectedHeader, exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { featuresSchema } from '../../src/config/schema/features.ts'
import { hashSecret } from '../../src/oidc/clients.ts'
import type { Browser } from '../support/browser.ts'
import { jwkOf, makeCertificate } from '../support/certificates.ts'
import { cibaClient, ENDPOINT } from '../support/ciba.ts'
import { read } from '../support/config-folder.ts'
import { BANKING, PAYMENT, pushOutcome, STATEMENT } from '../support/details.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, post, tokens } from '../support/journey.ts'
import { ALGORITHMS, attestation, backchannelRequest, PUBLIC_JWKS } from '../support/signers.ts'
import { ADA, CLIENTS, SECRET, startUsher, type Usher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const folder = temporaryFolder()
const ca = makeCertificate(folder, 'ca', { extensions: ['basicConstraints=critical,CA:TRUE'] })
const names = ['subjectAltName=DNS:service.example.org']
const issued = makeCertificate(folder, 'issued', { issuer: ca, extensions: names })
const own = makeCertificate(folder, 'own')

const OFF = Object.entries(featuresSchema.parse({})).filter(([, value]) => value === false)
const { resources, files } = BANKING
const { 'files-api': api } = BANKING.clients
const usher_yaml = {
  features: Object.fromEntries(OFF.map(([name]) => [name, true])),
  compatibility: { implicit: true, hybrid: true },
  proxy: ['127.0.0.1'],
  client_certificates: { header: 'x-client-cert', ca: ca.cert },
}

const rsa = await generateKeyPair('RSA-OAEP-256', { extractable: true })
const ec = await generateKeyPair('ECDH-ES', { extractable: true })
const jwks = { keys: await Promise.all([rsa, ec].map(keyOf)) }
async function keyOf({ publicKey }: typeof rsa, i: number) {
  return { ...(await exportJWK(publicKey)), kid: `key-${i}`, use: 'enc' }
}
const KEY_ENCRYPTION = [
  ...['RSA1_5', 'RSA-OAEP', 'RSA-OAEP-256', 'RSA-OAEP-384', 'RSA-OAEP-512', 'ECDH-ES'],
  ...['ECDH-ES+A128KW', 'ECDH-ES+A256KW', 'A128KW', 'A256KW', 'A256GCMKW', 'dir'],
]
const CONTENT_ENCRYPTION = [
  ...['A128CBC-HS256', 'A192CBC-HS384', 'A256CBC-HS512', 'A128GCM', 'A192GCM', 'A256GCM'],
]
const ACCEPT = { accept: 'application/token-introspection+jwt' }

type Answer = (client_id: string) => Promise<string>
const idToken: Answer = async client_id => (await signIn(client_id)).id_token
const userinfo: Answer = async client_id => {
  const { access_token } = await signIn(client_id)
  const headers = { authorization: `Bearer ${access_token}` }
  return (await send(usher, '/api/oauth/userinfo', { headers })).text
}
const introspection: Answer = async client_id => {
  const headers = { ...basic(client_id, SECRET), ...ACCEPT }
  return (await send(usher, '/api/oauth/introspect', { body: { token: 'x' }, headers })).text
}
const authorization: Answer = async client_id => {
  const params = { client_id, redirect_uri: REDIRECT, scope: 'openid', response_mode: 'jwt' }
  await browser.open(authorizationRequest(usher, params).url)
  return browser.page.params.get('response') ?? ''
}
const signIn = (client_id: string) =>
  tokens(usher, { client_id, browser, redirect_uri: REDIRECT, scope: 'openid email' })

const encrypted = (what: string, part: string) => (value: string) => ({
  [`${what}_encrypted_response_alg`]: 'ECDH-ES',
  [`${what}_encrypted_response_${part}`]: value,
  [`${what}_signed_response_alg`]: 'RS256',
  jwks,
})

const inJwt = (part: string) => (value: string) => ({
  ...encrypted('authorization', part)(value),
  response_modes: ['query', 'jwt'],
})

/** For each key: all values, the client metadata, the response that uses it, and its header parameter. */
// biome-ignore format: a table
const BY_CLIENT: Record<string, [all: string[], metadata: (value: string) => object, answer: Answer, part: string]> = {
  id_token_encryption_alg_values_supported: [KEY_ENCRYPTION, encrypted('id_token', 'alg'), idToken, 'alg'],
  id_token_encryption_enc_values_supported: [CONTENT_ENCRYPTION, encrypted('id_token', 'enc'), idToken, 'enc'],
  userinfo_encryption_alg_values_supported: [KEY_ENCRYPTION, encrypted('userinfo', 'alg'), userinfo, 'alg'],
  userinfo_encryption_enc_values_supported: [CONTENT_ENCRYPTION, encrypted('userinfo', 'enc'), userinfo, 'enc'],
  introspection_encryption_alg_values_supported: [KEY_ENCRYPTION, encrypted('introspection', 'alg'), introspection, 'alg'],
  introspection_encryption_enc_values_supported: [CONTENT_ENCRYPTION, encrypted('introspection', 'enc'), introspection, 'enc'],
  authorization_encryption_alg_values_supported: [KEY_ENCRYPTION, inJwt('alg'), authorization, 'alg'],
  authorization_encryption_enc_values_supported: [CONTENT_ENCRYPTION, inJwt('enc'), authorization, 'enc'],
  introspection_signing_alg_values_supported: [ALGORITHMS, alg => ({ introspection_signed_response_alg: alg }), introspection, 'alg'],
}

const REDIRECT = 'https://app.example.org/callback'
const base = {
  client_name: 'Application',
  redirect_uris: [REDIRECT],
  client_secret_hashes: [hashSecret(SECRET)],
  consent: 'implicit',
}
const certified = (token_endpoint_auth_method: string, more: object) => ({
  client_name: 'Service',
  grant_types: ['client_credentials'],
  token_endpoint_auth_method,
  tls_client_certificate_bound_access_tokens: true,
  ...more,
})
const isAllowed = async (metadata: object) => {
  const file = { ...base, client_id: 'x', ...metadata }
  return !(await read({ 'usher.yaml': usher_yaml, 'clients/x.yaml': file })).findings.length
}
/** One client for each value that the configuration accepts. */
const byValue: { key: string; value: string }[] = []
for (const [key, [all, metadata]] of Object.entries(BY_CLIENT)) {
  for (const value of all) {
    if (await isAllowed(metadata(value))) byValue.push({ key, value, ...metadata(value) })
  }
}
const idOf = (key: string, value: string) =>
  byValue.findIndex(client => client.key === key && client.value === value)
const clients: Record<string, object> = {
  ...Object.fromEntries(
    byValue.map(({ key: _, value: __, ...metadata }, i) => {
      return [`client-${i}`, { ...base, client_id: `client-${i}`, ...metadata }]
    }),
  ),
  issued: certified('tls_client_auth', {
    client_id: 'issued',
    tls_client_auth_san_dns: 'service.example.org',
  }),
  wallet: {
    client_id: 'wallet',
    client_name: 'Wallet',
    grant_types: ['client_credentials'],
    token_endpoint_auth_method: 'attest_jwt_client_auth',
    jwks: PUBLIC_JWKS,
  },
  till: cibaClient('till', { jwks: PUBLIC_JWKS }),
  own: certified('self_signed_tls_client_auth', {
    client_id: 'own',
    jwks: { keys: [jwkOf(own)] },
  }),
}

const authorization_details_types = ['payment', 'statement']

let byDefault: Usher
let usher: Usher
let browser: Browser
let before: Record<string, unknown>
let metadata: Record<string, unknown>
beforeAll(async () => {
  const discovery = '/.well-known/openid-configuration'
  // PS256 has a key and is advertised because a client uses it.
  const ps256 = { ...CLIENTS.spa, client_id: 'ps256', id_token_signed_response_alg: 'PS256' }
  byDefault = await startUsher({ clients: { ps256 } })
  before = (await send(byDefault, discovery)).json
  usher = await startUsher({
    clients: { ...clients, api, web: { ...base, client_id: 'web', authorization_details_types } },
    resources,
    files,
    usher: usher_yaml,
  })
  await usher.addAccount(ADA)
  metadata = (await send(usher, discovery)).json
  browser = (await tokens(usher)).browser
})
afterAll(() => Promise.all([usher.close(), byDefault.close()]))

const RESPONSE_TYPES = [
  'id_token',
  'id_token token',
  'code id_token',
  'code token',
  'code id_token token',
]
const isResponseType = (type: string) => isAllowed({ response_types: [type] })
// `implicit` is no grant type of the token endpoint: in RFC 7591 §2.1 it stands for response types.
const isGrantType = async (grant_type: string) =>
  (grant_type === 'implicit' && (await isResponseType('id_token'))) ||
  (await post(usher, '/api/oauth/token', { grant_type })).body.error !== 'unsupported_grant_type'

async function withCertificate(client_id: string): Promise<Record<string, unknown>> {
  const headers = { 'x-client-cert': encodeURIComponent((client_id === 'own' ? own : issued).pem) }
  const body = { grant_type: 'client_credentials', client_id }
  return (await send(usher, '/api/oauth/token', { body, headers })).json
}
const isCertified = async (client_id: string) =>
  'access_token' in (await withCertificate(client_id))
async function isAttested(algs: { alg?: string; proofAlg?: string } = {}): Promise<boolean> {
  const { json } = await send(usher, '/api/oauth/challenge', { method: 'POST' })
  const challenge = json.attestation_challenge
  const { issuer } = usher
  const headers = await attestation(algs, { client_id: 'wallet', issuer, challenge })
  const body = { grant_type: 'client_credentials' }
  return (await send(usher, '/api/oauth/token', { body, headers })).status === 200
}
const METHODS: Record<string, () => Promise<boolean>> = {
  tls_client_auth: () => isCertified('issued'),
  self_signed_tls_client_auth: () => isCertified('own'),
  attest_jwt_client_auth: isAttested,
}
const isMethod = async (method: string) => (await METHODS[method]?.()) ?? false

const URNS = ['device_code', 'token-exchange', 'jwt-bearer', 'saml2-bearer']

/** Lists that are longer than by default: other existing values, and whether a value works. */
// biome-ignore format: a table
const LONGER: Record<string, [others: string[], works: (value: string) => Promise<boolean> | boolean]> = {
  grant_types_supported: [['password', 'implicit', 'urn:openid:params:grant-type:ciba', ...URNS.map(name => `urn:ietf:params:oauth:grant-type:${name}`)], isGrantType],
  response_types_supported: [[...RESPONSE_TYPES, 'token', 'none'], isResponseType],
  response_modes_supported: [['fragment', 'fragment.jwt', 'web_message'], mode => isAllowed({ response_types: ['id_token'], response_modes: [mode] })],
  token_endpoint_auth_methods_supported: [['client_secret_jwt', 'attest_jwt_client_auth_dpop', ...Object.keys(METHODS)], isMethod],
  client_attestation_signing_alg_values_supported: [ALGORITHMS, alg => isAttested({ alg })],
  client_attestation_pop_signing_alg_values_supported: [ALGORITHMS, proofAlg => isAttested({ proofAlg })],
  subject_types_supported: [['pairwise', 'ephemeral'], subject_type => isAllowed({ subject_type })],
}

test.each(Object.entries(BY_CLIENT))(
  'exactly the advertised values of %s work',
  async (key, row) => {
    const [all, , answer, part] = row
    const working: string[] = []
    for (const value of all) {
      const id = idOf(key, value)
      if (id === -1) continue
      const header: Record<string, unknown> = decodeProtectedHeader(await answer(`client-${id}`))
      if (header[part] === value) working.push(value)
    }
    expect(working.toSorted()).toEqual((metadata[key] as string[]).toSorted())
    expect(before).not.toHaveProperty(key)
  },
)

test.each(Object.entries(LONGER))(
  'exactly the values that features add to %s work',
  async (key, row) => {
    const [others, works] = row
    const old = (before[key] ?? []) as string[]
    const added = (metadata[key] as string[]).filter(value => !old.includes(value))
    const working: string[] = []
    for (const value of new Set([...others, ...added])) if (await works(value)) working.push(value)
    expect(working.toSorted()).toEqual(added.toSorted())
  },
)

test('tls_client_certificate_bound_access_tokens is true, and access tokens are bound to the certificate', async () => {
  expect(metadata.tls_client_certificate_bound_access_tokens).toBe(true)
  const { access_token } = await withCertificate('own')
  const asked = { body: { token: String(access_token) }, headers: basic('web', SECRET) }
  expect((await send(usher, '/api/oauth/introspect', asked)).json).toEqual({ active: false })
  const headers = { 'x-client-cert': encodeURIComponent(own.pem) }
  const body = { token: String(access_token), client_id: 'own' }
  const { json } = await send(usher, '/api/oauth/introspect', { body, headers })
  expect(json.cnf).toHaveProperty(['x5t#S256'])
})

test('authorization_details_types_supported lists exactly the types that clients can request', async () => {
  expect(metadata.authorization_details_types_supported).toEqual(authorization_details_types)
  for (const detail of [PAYMENT, STATEMENT])
    expect(await pushOutcome(usher, [detail])).toMatch(/^201/)
  expect(await pushOutcome(usher, [{ type: 'gift' }])).toContain('invalid_authorization_details')
})

const DELIVERY = 'backchannel_token_delivery_modes_supported'
const REQUEST_SIGNING = 'backchannel_authentication_request_signing_alg_values_supported'
test('exactly the advertised delivery modes of CIBA work', async () => {
  const ofMode = (backchannel_token_delivery_mode: string) =>
    cibaClient('x', {
      backchannel_token_delivery_mode,
      backchannel_client_notification_endpoint:
        backchannel_token_delivery_mode === 'poll' ? undefined : REDIRECT,
      redirect_uris: undefined,
      consent: undefined,
    })
  const modes: string[] = []
  for (const mode of ['poll', 'ping', 'push']) {
    if (await isAllowed(ofMode(mode))) modes.push(mode)
  }
  expect(modes).toEqual(metadata[DELIVERY])
  const working: string[] = []
  for (const alg of ALGORITHMS) {
    const request = await backchannelRequest(alg, 'till', usher.issuer)
    const asked = { body: { request }, headers: basic('till', SECRET) }
    // After three open requests the answer to a valid request is access_denied.
    const { json } = await send(usher, ENDPOINT, asked)
    if ('auth_req_id' in json || json.error === 'access_denied') working.push(alg)
  }
  expect(working.toSorted()).toEqual((metadata[REQUEST_SIGNING] as string[]).toSorted())
})

const differing = () =>
  Object.keys(metadata).filter(key => {
    const [was, is] = [before, metadata].map(document => JSON.stringify(document[key]))
    return was?.replaceAll(byDefault.issuer, usher.issuer) !== is
  })

test('every additional endpoint answers, and is a 404 by default', async () => {
  const addresses = differing().filter(key => key.endsWith('_endpoint'))
  expect(addresses).toContain('device_authorization_endpoint')
  for (const key of addresses) {
    const { pathname } = new URL(String(metadata[key]))
    const [on, off] = [usher, byDefault].map(at => send(at, pathname, { method: 'POST' }))
    expect([key, (await on)?.status]).not.toEqual([key, 404])
    expect([key, (await off)?.status]).toEqual([key, 404])
  }
})

test('every key of discovery that differs from the defaults is tested here', () => {
  const bound = 'tls_client_certificate_bound_access_tokens'
  // client-documents.test.ts tests this one.
  const documents = 'client_id_metadata_document_supported'
  const types = 'authorization_details_types_supported'
  const others = [bound, documents, types, DELIVERY, REQUEST_SIGNING]
  const walked = new Set([...Object.keys(BY_CLIENT), ...Object.keys(LONGER), ...others])
  const unknown = differing().filter(key => !walked.has(key) && !key.endsWith('_endpoint'))
  expect(unknown).toEqual([])
})
