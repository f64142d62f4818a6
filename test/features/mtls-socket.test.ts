// mTLS with Usher's own TLS: the certificate is that of the connection, and the header is ignored.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { jwkOf, type Made, makeCertificate } from '../support/certificates.ts'
import { type Service, startService } from '../support/service.ts'
import { writeConfig } from '../support/usher.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-mtls-socket-'))
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

let service: Service
let issuer: string
beforeAll(async () => {
  const config = join(folder, 'config')
  mkdirSync(config)
  const usher = {
    listen: { tls: { cert: localhost.cert, key: localhost.key } },
    features: { mtls: true },
    proxy: ['192.0.2.1'],
    client_certificates: { ca: ca.cert, header: 'x-client-cert' },
  }
  writeConfig(config, { clients: CLIENTS, usher })
  writeFileSync(join(folder, 'secret'), Buffer.alloc(32, 'mtls').toString('base64url'))
  service = await startService(port => ({
    USHER_CONFIG: config,
    USHER_SECRET_FILE: join(folder, 'secret'),
    USHER_ISSUER: `https://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    HOST: '127.0.0.1',
  }))
  issuer = service.issuer.replace('http:', 'https:')
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

interface Answer {
  status?: number
  json: Record<string, unknown>
}

/** Sends a token request on a new connection, or on one of `agent`. */
function ask(
  client_id: string,
  { certificate, headers = {}, agent = new Agent() }: Wire = {},
): Promise<Answer> {
  const url = new URL('/api/oauth/token', issuer)
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  const options = { method: 'POST', ca: localhost.pem, agent, ...keyOf(certificate) }
  return new Promise((resolve, reject) => {
    const outgoing = request(
      url,
      { ...options, headers: { ...type, ...headers } },
      async answer => {
        let text = ''
        for await (const chunk of answer) text += chunk
        resolve({ status: answer.statusCode, json: JSON.parse(text) })
      },
    )
    outgoing.on('error', reject)
    outgoing.end(new URLSearchParams({ grant_type: 'client_credentials', client_id }).toString())
  })
}
interface Wire {
  certificate?: Made
  headers?: Record<string, string>
  agent?: Agent
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
