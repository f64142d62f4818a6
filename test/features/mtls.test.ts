// mTLS (RFC 8705) behind a proxy that forwards the certificate: clients authenticate with it, and tokens
// are bound to it.

import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import { checkSettings } from '../../src/commands/config.ts'
import { jwkOf, type Made, makeCertificate } from '../support/certificates.ts'
import { type Files, PRODUCTION, read } from '../support/config-folder.ts'
import { startAnother, usher, usherTest } from '../support/fixtures.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorize } from '../support/journey.ts'
import { ADA, CLIENTS } from '../support/usher.ts'
import { send, talk } from '../support/wire.ts'

const folder = temporaryFolder()
const authority = ['basicConstraints=critical,CA:TRUE']
const make = (name: string, wishes?: Parameters<typeof makeCertificate>[2]) =>
  makeCertificate(folder, name, wishes)

const ca = make('ca', { extensions: authority })
const stranger = make('stranger', { extensions: authority })
const subject = '/C=GB/O=Example, Ltd/CN=service'
const names =
  'subjectAltName=DNS:service.example.org,URI:spiffe://example.org/service,IP:192.0.2.7,email:service@example.org'
const service = make('service', { subject, issuer: ca, extensions: [names] })
const own = make('own', { extensions: [names] })
const foreign = make('foreign', { subject, issuer: stranger, extensions: [names] })
const server = make('server', { subject, issuer: ca, extensions: ['extendedKeyUsage=serverAuth'] })
const child = make('child', { subject, issuer: service })
const other = make('other', { issuer: ca, extensions: ['subjectAltName=DNS:other.example.org'] })

const BOUND = { tls_client_certificate_bound_access_tokens: true }
const alone = { client_name: 'A service', grant_types: ['client_credentials'], ...BOUND }
const issued = (client_id: string, name: object) => ({
  ...alone,
  client_id,
  token_endpoint_auth_method: 'tls_client_auth',
  ...name,
})
const SERVICES = {
  dn: issued('dn', { tls_client_auth_subject_dn: 'CN=service,O=Example\\, Ltd,C=GB' }),
  dns: issued('dns', { tls_client_auth_san_dns: 'service.example.org' }),
  uri: issued('uri', { tls_client_auth_san_uri: 'spiffe://example.org/service' }),
  ip: issued('ip', { tls_client_auth_san_ip: '192.0.2.7' }),
  email: issued('email', { tls_client_auth_san_email: 'service@example.org' }),
}
const OWN = {
  ...alone,
  client_id: 'own',
  token_endpoint_auth_method: 'self_signed_tls_client_auth',
  jwks: { keys: [jwkOf(own)] },
}
const HEADER = 'x-client-cert'
const usherYaml = {
  features: { mtls: true },
  proxy: ['127.0.0.1'],
  client_certificates: { header: 'X-Client-Cert', ca: ca.cert },
}
const clients = { ...CLIENTS, spa: { ...CLIENTS.spa, ...BOUND }, ...SERVICES, own: OWN }

const test = usherTest({ clients, usher: usherYaml })

type Headers = Record<string, string>
const withCertificate = ({ pem }: Made): Headers => ({ [HEADER]: encodeURIComponent(pem) })
function ask(client_id: string, headers: Headers, place = usher) {
  const body = { grant_type: 'client_credentials', client_id }
  return send(place, '/api/oauth/token', { body, headers })
}
const REFUSED = { status: 401, json: { error: 'invalid_client' } }

test.each([...Object.keys(SERVICES), 'own'])('a client is authenticated by %s', async id => {
  const right = id === 'own' ? own : service
  expect(await ask(id, withCertificate(right))).toMatchObject({ status: 200 })
  expect(await ask(id, withCertificate(id === 'own' ? service : own))).toMatchObject(REFUSED)
  expect(await ask(id, {})).toMatchObject(REFUSED)
})

describe('a certificate is refused', () => {
  test.each<[string, Made]>([
    ['of an unknown authority', foreign],
    ['that is signed by itself', own],
    ['that was issued for servers', server],
    ['that a client has issued', child],
    ['of another subject', other],
  ])('%s', async (_, certificate) => {
    for (const id of ['dn', 'dns']) {
      expect(await ask(id, withCertificate(certificate))).toMatchObject(REFUSED)
    }
  })
})

test.each<[string, (made: Made) => string]>([
  ['PEM in one line', ({ pem }) => pem.replaceAll('\n', ' ').trim()],
  ['base64 of DER', ({ certificate }) => certificate.raw.toString('base64')],
  ['RFC 9440', ({ certificate }) => `:${certificate.raw.toString('base64')}:`],
])('a proxy may send the certificate as %s', async (_, write) => {
  expect((await ask('own', { [HEADER]: write(own) })).status).toBe(200)
})

const FORM = 'grant_type=client_credentials&client_id=own'

test('an invalid certificate, or two certificates, are refused', async () => {
  const good = encodeURIComponent(own.pem)
  const { raw: der } = own.certificate
  const twice = Buffer.concat([der, der]).toString('base64')
  const bad = [
    '',
    'x',
    '%',
    '%%%',
    ':::',
    'A'.repeat(8000),
    `${good},${good}`,
    `${good}${good}`,
    twice,
  ]
  for (const value of bad) {
    expect(await ask('own', { [HEADER]: value })).toMatchObject(REFUSED)
  }
  const raw = (lines: string[]) =>
    [
      'POST /api/oauth/token HTTP/1.1',
      `Host: ${new URL(usher.issuer).host}`,
      'Content-Type: application/x-www-form-urlencoded',
      `Content-Length: ${FORM.length}`,
      ...lines,
      'Connection: close\r\n',
      FORM,
    ].join('\r\n')
  const header = `X-Client-Cert: ${good}`
  expect(await talk(usher, raw([header]))).toContain('200 OK')
  expect(await talk(usher, raw([header, header]))).toContain('401 Unauthorized')
})

test('the certificate is read from one header only, and from a trusted proxy only', async () => {
  for (const changes of [
    { proxy: ['192.0.2.1'] },
    { client_certificates: { ca: ca.cert, header: 'x-other-cert' } },
  ]) {
    const place = await startAnother({ clients, usher: { ...usherYaml, ...changes } })
    expect(await ask('own', withCertificate(own), place)).toMatchObject(REFUSED)
    expect(await ask('dn', withCertificate(service), place)).toMatchObject(REFUSED)
  }
})

test('openid-client signs in, and its bound tokens are refused without the certificate', async () => {
  const config = await openid.discovery(new URL(usher.issuer), 'spa', undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
    [openid.customFetch]: (url, { headers, body, ...options }) =>
      fetch(url, {
        ...options,
        body: body as string,
        headers: { ...headers, ...withCertificate(own) },
      }),
  })
  expect(config.serverMetadata().tls_client_certificate_bound_access_tokens).toBe(true)
  const scope = 'openid email offline_access'
  const { page, request } = await authorize(usher, { client_id: 'spa', scope })
  const given = await openid.authorizationCodeGrant(config, page.url, {
    pkceCodeVerifier: request.code_verifier,
    expectedState: request.state,
    expectedNonce: request.nonce,
  })
  const info = await openid.fetchUserInfo(config, given.access_token, given.claims()?.sub ?? '')
  expect(info.email).toBe(ADA.email)

  const authorization = `Bearer ${given.access_token}`
  for (const headers of [{}, withCertificate(service)]) {
    const stolen = await send(usher, '/api/oauth/userinfo', {
      headers: { authorization, ...headers },
    })
    expect(stolen).toMatchObject({ status: 401, json: { error: 'invalid_token' } })
    const { refresh_token = '' } = given
    const body = { grant_type: 'refresh_token', client_id: 'spa', refresh_token }
    const renewed = await send(usher, '/api/oauth/token', { body, headers })
    expect(renewed).toMatchObject({ status: 400, json: { error: 'invalid_grant' } })
  }
  const renewed = await openid.refreshTokenGrant(config, given.refresh_token ?? '')
  expect(renewed.access_token).toBeTruthy()
})

test('a client with the profile fapi2 may use a certificate in place of assertions and DPoP proofs', async () => {
  const fapi = { ...OWN, profile: 'fapi2' }
  const { findings } = await read({ 'usher.yaml': usherYaml, 'clients/own.yaml': fapi })
  expect(findings).toEqual([])
  const place = await startAnother({ clients: { own: fapi }, usher: usherYaml })
  const { status, json } = await ask('own', withCertificate(own), place)
  expect([status, json.token_type]).toEqual([200, 'Bearer'])
})

test.each<[string, object, object]>([
  ['features.mtls', { features: { mtls: true } }, {}],
  ['client_certificates.header', { client_certificates: { header: 'x-client-cert' } }, {}],
  ['client_certificates.header', { ...usherYaml, client_certificates: { header: 'cookie' } }, {}],
  ['client_certificates.ca', { client_certificates: { ca: '/nowhere' } }, {}],
  ['client_certificates.ca', { client_certificates: { ca: service.cert } }, {}],
  ['client_certificates.ca', { client_certificates: { ca: service.key } }, {}],
  [
    'token_endpoint_auth_method',
    { ...usherYaml, client_certificates: { header: HEADER } },
    SERVICES.dn,
  ],
  ['jwks', usherYaml, { ...OWN, jwks: { keys: [{ ...jwkOf(own), x5c: undefined }] } }],
])('an invalid setting is a finding, at %s', async (key, usher, client) => {
  const files: Files = Object.keys(client).length ? { 'clients/own.yaml': client } : {}
  const { findings } = await read({ 'usher.yaml': usher, ...files })
  expect(findings.map(finding => finding.key)).toEqual([key])
})

test('the library refuses a client with two subject names for its certificate', async () => {
  const both = { ...SERVICES.dn, ...SERVICES.dns }
  const { settings } = await read({ 'usher.yaml': usherYaml, 'clients/own.yaml': both })
  if (!settings) throw new Error('the folder is valid')
  await expect(checkSettings(settings)).rejects.toThrow(/own\.yaml.* only one tls_client_auth/)
})

const ORIGIN = 'http://mtls.example.org'
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const WITH_DEVICE = {
  ...OWN,
  grant_types: ['client_credentials', DEVICE_GRANT],
  // Its tokens are bound to its DPoP key.
  tls_client_certificate_bound_access_tokens: false,
}

/** Starts an Usher whose mTLS has an origin of its own (RFC 8705 §5), behind a proxy. */
async function startAtOrigin(
  changes: object = {},
  clients: Record<string, object> = { own: WITH_DEVICE },
) {
  const client_certificates = { header: HEADER, origin: ORIGIN }
  const features = { mtls: true, device_flow: true }
  const yaml = { ...usherYaml, features, client_certificates, ...changes }
  return startAnother({ clients, usher: yaml })
}

test('behind a proxy, a client finds the mTLS endpoints in discovery, and its DPoP proofs are valid there', async () => {
  const usher = await startAtOrigin()
  const certificate = withCertificate(own)
  const asked: string[] = []
  /** A proxy that requests certificates at one of its two hosts. */
  const proxied: openid.CustomFetch = (url, { headers, body, ...options }) => {
    const { origin, host, pathname } = new URL(url)
    asked.push(`${origin}${pathname}`)
    const passed = { 'x-forwarded-host': host, ...(origin === ORIGIN && certificate) }
    const address = url.replace(origin, usher.address)
    return fetch(address, { ...options, body: body as string, headers: { ...headers, ...passed } })
  }
  const metadata = { use_mtls_endpoint_aliases: true }
  const execute = [openid.allowInsecureRequests]
  const options = { execute, [openid.customFetch]: proxied }
  const issuer = new URL(usher.issuer)
  const config = await openid.discovery(issuer, 'own', metadata, openid.TlsClientAuth(), options)
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
  const given = await openid.clientCredentialsGrant(config, {}, { DPoP })
  expect(given.token_type).toBe('dpop')
  expect(await openid.tokenIntrospection(config, given.access_token)).toMatchObject({
    active: true,
  })
  const device = await openid.initiateDeviceAuthorization(config, { scope: 'openid' })
  expect(device.verification_uri).toBe(`${usher.issuer}/device`)
  expect(device.verification_uri_complete).toContain(`${usher.issuer}/device?user_code=`)
  const paths = ['token', 'introspect', 'device_authorization'].map(name => `/api/oauth/${name}`)
  expect(new Set(asked.slice(1))).toEqual(new Set(paths.map(path => ORIGIN + path)))
})

test('the mTLS origin has no other endpoints, and none at all while mTLS is off', async () => {
  const usher = await startAtOrigin()
  const { json } = await send(usher, '/.well-known/openid-configuration')
  const aliases = Object.values(json.mtls_endpoint_aliases as Record<string, string>)
  expect(aliases.length).toBeGreaterThan(4)
  for (const url of aliases) expect(url.startsWith(`${ORIGIN}/api/oauth/`)).toBe(true)
  const headers = { 'x-forwarded-host': 'mtls.example.org' }
  const at = (path: string, place = usher) => send(place, path, { headers })
  const userPages = ['/', '/account', '/device', '/api/oauth/authorize', '/api/oauth/logout']
  for (const path of [
    ...userPages,
    '/.well-known/openid-configuration',
    '/api/oauth/jwks',
    '/api/oauth/token/',
  ]) {
    expect([path, (await at(path)).status]).toEqual([path, 421])
  }
  expect((await at('/api/oauth/userinfo')).status).toBe(401)

  const off = await startAtOrigin({ features: {} }, {})
  expect((await send(off, '/.well-known/openid-configuration')).json).not.toHaveProperty(
    'mtls_endpoint_aliases',
  )
  expect((await at('/api/oauth/userinfo', off)).status).toBe(421)
})

const TLS = {
  listen: { port: 3000, tls: { cert: server.cert, key: server.key } },
  features: { mtls: true },
}
test.each<[string, string]>([
  ['an address with a path', 'https://mtls.example.org/'],
  ['plain http', 'http://mtls.example.org'],
  ['the issuer', 'https://id.example.org'],
  ['the port that browsers come to', 'https://id.example.org:3000'],
])('%s is a finding as origin', async (_, origin) => {
  const file = { ...TLS, client_certificates: { origin } }
  const { findings } = await read({ 'usher.yaml': file }, PRODUCTION)
  expect(findings.map(({ key }) => key)).toEqual(['client_certificates.origin'])
})
