// mTLS at its own origin (RFC 8705 §5): discovery names it, and browsers get no certificate request.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as openid from 'openid-client'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { jwkOf, makeCertificate } from '../support/certificates.ts'
import { PRODUCTION, read } from '../support/config-folder.ts'
import { freePort, startService } from '../support/service.ts'
import { startUsher, writeConfig } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-mtls-origin-'))
afterAll(() => rmSync(folder, { recursive: true }))
const own = makeCertificate(folder, 'own')
const localhost = makeCertificate(folder, 'localhost', {
  extensions: ['subjectAltName=DNS:localhost'],
})

const OWN = {
  client_id: 'own',
  client_name: 'A service',
  grant_types: ['client_credentials', 'urn:ietf:params:oauth:grant-type:device_code'],
  token_endpoint_auth_method: 'self_signed_tls_client_auth',
  jwks: { keys: [jwkOf(own)] },
}
const ORIGIN = 'http://mtls.example.org'
const features = { mtls: true, device_flow: true }
const PROXY = {
  features,
  proxy: ['127.0.0.1'],
  client_certificates: { header: 'x-client-cert', origin: ORIGIN },
}
const DISCOVERY = '/.well-known/openid-configuration'

test('behind a proxy, a client finds the mTLS endpoints in discovery, and its DPoP proofs are valid there', async () => {
  const usher = await startUsher({ clients: { own: OWN }, usher: PROXY })
  onTestFinished(() => usher.close())
  const certificate = { 'x-client-cert': encodeURIComponent(own.pem) }
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
  const config = await openid.discovery(
    new URL(usher.issuer),
    'own',
    metadata,
    openid.TlsClientAuth(),
    { execute: [openid.allowInsecureRequests], [openid.customFetch]: proxied },
  )
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
  const usher = await startUsher({ clients: { own: OWN }, usher: PROXY })
  onTestFinished(() => usher.close())
  const { json } = await send(usher, DISCOVERY)
  const aliases = Object.values(json.mtls_endpoint_aliases as Record<string, string>)
  expect(aliases.length).toBeGreaterThan(4)
  for (const url of aliases) expect(url.startsWith(`${ORIGIN}/api/oauth/`)).toBe(true)
  const headers = { 'x-forwarded-host': 'mtls.example.org' }
  const at = (path: string, place = usher) => send(place, path, { headers })
  const userPages = ['/', '/account', '/device', '/api/oauth/authorize', '/api/oauth/logout']
  for (const path of [...userPages, DISCOVERY, '/api/oauth/jwks', '/api/oauth/token/']) {
    expect([path, (await at(path)).status]).toEqual([path, 421])
  }
  expect((await at('/api/oauth/userinfo')).status).toBe(401)

  const off = await startUsher({ clients: {}, usher: { ...PROXY, features: {} } })
  onTestFinished(() => off.close())
  expect((await send(off, DISCOVERY)).json).not.toHaveProperty('mtls_endpoint_aliases')
  expect((await at('/api/oauth/userinfo', off)).status).toBe(421)
})

test('with its own TLS, Usher listens at the mTLS origin, too, and requests certificates only there', async () => {
  const port = await freePort()
  const config = join(folder, 'config')
  mkdirSync(config)
  const usher = {
    listen: { tls: { cert: localhost.cert, key: localhost.key } },
    features,
    client_certificates: { origin: `https://localhost:${port}` },
  }
  writeConfig(config, { clients: { own: OWN }, usher })
  writeFileSync(join(folder, 'secret'), Buffer.alloc(32, 'mtls').toString('base64url'))
  const service = await startService(port => ({
    USHER_CONFIG: config,
    USHER_SECRET_FILE: join(folder, 'secret'),
    USHER_ISSUER: `https://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    HOST: '127.0.0.1',
  }))
  onTestFinished(async () => void (await service.stop()))
  const statuses = [`https://localhost:${port}`, service.issuer.replace('http:', 'https:')].map(ask)
  expect(await Promise.all(statuses)).toEqual([200, 401])
  expect(await service.stop()).toBe(0)
})

/** The status for a service that sends its certificate whenever a server requests one. */
function ask(origin: string): Promise<number | undefined> {
  const certificate = { cert: own.pem, key: readFileSync(own.key, 'utf8') }
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const options = { method: 'POST', agent: false, ca: localhost.pem, headers, ...certificate }
  return new Promise((resolve, reject) => {
    const outgoing = request(`${origin}/api/oauth/token`, options, answer => {
      answer.resume()
      resolve(answer.statusCode)
    })
    outgoing.on('error', reject)
    outgoing.end('grant_type=client_credentials&client_id=own')
  })
}

const TLS = { listen: { port: 3000, tls: { cert: localhost.cert, key: localhost.key } }, features }
test.each<[string, string, object]>([
  ['an address with a path', 'https://mtls.example.org/', TLS],
  ['plain http', 'http://mtls.example.org', TLS],
  ['the issuer', 'https://id.example.org', TLS],
  ['the port that browsers come to', 'https://id.example.org:3000', TLS],
])('%s is a finding', async (_, origin, usher) => {
  const file = { ...usher, client_certificates: { origin } }
  const { findings } = await read({ 'usher.yaml': file }, PRODUCTION)
  expect(findings.map(({ key }) => key)).toEqual(['client_certificates.origin'])
})
