// mTLS with Usher's own TLS: the certificate is that of the connection, and the header is ignored.

import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { jwkOf, type Made, makeCertificate } from '../support/certificates.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

const folder = temporaryFolder()
const make = (name: string, wishes?: Parameters<typeof makeCertificate>[2]) =>
  makeCertificate(folder, name, wishes)
const localhost = make('localhost', { extensions: ['subjectAltName=DNS:localhost'] })
const ca = make('ca', { extensions: ['basicConstraints=critical,CA:TRUE'] })
const issued = make('issued', {
  issuer: ca,
  extensions: ['subjectAltName=DNS:service.example.org'],
})
const own = make('own')
const stranger = make('stranger')

const alone = {
  client_name: 'A service',
  grant_types: ['client_credentials'],
  tls_client_certificate_bound_access_tokens: true,
}
const CLIENTS = {
  issued: {
    ...alone,
    client_id: 'issued',
    token_endpoint_auth_method: 'tls_client_auth',
    tls_client_auth_san_dns: 'service.example.org',
  },
  own: {
    ...alone,
    client_id: 'own',
    token_endpoint_auth_method: 'self_signed_tls_client_auth',
    jwks: { keys: [jwkOf(own)] },
  },
}

/** Starts Usher with its own TLS. Returns its issuer. */
async function start(name: string, usher: object): Promise<{ service: Service; issuer: string }> {
  const config = join(folder, name)
  mkdirSync(config)
  const tls = { cert: localhost.cert, key: localhost.key }
  writeConfig(config, { clients: CLIENTS, usher: { listen: { tls }, ...usher } })
  const service = await startService(port => ({
    USHER_CONFIG: config,
    USHER_SECRET: Buffer.alloc(32, 'mtls').toString('base64url'),
    USHER_ISSUER: `https://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, `${name}.db`)}`,
    HOST: '127.0.0.1',
  }))
  return { service, issuer: service.issuer.replace('http:', 'https:') }
}

let service: Service
let issuer: string
beforeAll(async () => {
  const client_certificates = { ca: ca.cert, header: 'x-client-cert' }
  const proxy = ['192.0.2.1']
  const started = await start('one', { features: { mtls: true }, proxy, client_certificates })
  ;({ service, issuer } = started)
})
afterAll(() => service.stop())

interface Wire {
  certificate?: Made
  headers?: Record<string, string>
  agent?: Agent
  origin?: string
}

/** Sends a token request on a new connection, or on one of `agent`. */
async function ask(
  client_id: string,
  { certificate, headers = {}, agent = new Agent(), origin = issuer }: Wire = {},
) {
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  const options = { method: 'POST', ca: localhost.pem, agent, ...keyOf(certificate) }
  const outgoing = request(new URL('/api/oauth/token', origin), {
    ...options,
    headers: { ...type, ...headers },
  })
  outgoing.end(new URLSearchParams({ grant_type: 'client_credentials', client_id }).toString())
  const [answer] = await once(outgoing, 'response')
  const json = JSON.parse(await text(answer)) as Record<string, unknown>
  return { status: answer.statusCode as number, json }
}
const keyOf = (made: Made | undefined) =>
  made && { cert: made.pem, key: readFileSync(made.key, 'utf8') }

const REFUSED = { status: 401, json: { error: 'invalid_client' } }

test('a client is authenticated by the certificate of the connection, also when the TLS session is resumed', async () => {
  for (const [id, certificate] of Object.entries({ issued, own })) {
    const agent = new Agent({ maxCachedSessions: 10 })
    for (let i = 0; i < 3; i++) {
      const { status, json } = await ask(id, { certificate, agent })
      expect([status, json.token_type]).toEqual([200, 'Bearer'])
    }
  }
})

test('a client is refused with another certificate, without one, and with a certificate in the header', async () => {
  const headers = { 'x-client-cert': encodeURIComponent(own.pem) }
  for (const id of ['issued', 'own']) {
    expect(await ask(id)).toMatchObject(REFUSED)
    expect(await ask(id, { certificate: stranger })).toMatchObject(REFUSED)
  }
  expect(await ask('own', { headers })).toMatchObject(REFUSED)
  expect(await ask('own', { certificate: stranger, headers })).toMatchObject(REFUSED)
  expect(await ask('own', { certificate: issued })).toMatchObject(REFUSED)
  expect(await ask('issued', { certificate: own })).toMatchObject(REFUSED)
})

test('with an origin for mTLS, Usher listens there, too, and requests certificates only there', async () => {
  const origin = `https://localhost:${await freePort()}`
  const client_certificates = { ca: ca.cert, origin }
  const two = await start('two', { features: { mtls: true }, client_certificates })
  onTestFinished(async () => void (await two.service.stop()))
  expect((await ask('own', { certificate: own, origin })).status).toBe(200)
  expect(await ask('own', { certificate: own, origin: two.issuer })).toMatchObject(REFUSED)
  expect(await two.service.stop()).toBe(0)
})

test('behind a proxy, the origin for certificates has no listener here', async () => {
  const port = await freePort()
  const client_certificates = {
    ca: ca.cert,
    header: 'x-client-cert',
    origin: `https://localhost:${port}`,
  }
  const proxied = {
    features: { mtls: true },
    proxy: ['127.0.0.1'],
    client_certificates,
    listen: {},
  }
  const { service } = await start('proxied', proxied)
  onTestFinished(async () => {
    await service.stop()
  })
  const socket = connect(port, '127.0.0.1')
  const [error] = await once(socket, 'error')
  expect(error.code).toBe('ECONNREFUSED')
})
