// Usher's own TLS: an https issuer without a proxy.

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { getCiphers, connect as tlsConnect } from 'node:tls'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createListener } from '../../src/operation/listener.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/ports.ts'
import { type Service, startService } from '../support/service.ts'

const folder = temporaryFolder()
const config = join(folder, 'config')
const USHER_SECRET = Buffer.alloc(32, 'tls').toString('base64url')
let service: Service

/** Creates a self-signed certificate for localhost. */
function makeCertificate(name: string, newkey = ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']) {
  const files = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.pem`)]
  const kind = ['-newkey', ...newkey, '-nodes', '-days', '2']
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, ...files], { stdio: 'ignore' })
}

beforeAll(async () => {
  execFileSync('mkdir', [config])
  for (const name of ['first', 'second']) makeCertificate(name)
  for (const end of ['pem', 'key']) {
    copyFileSync(join(folder, `first.${end}`), join(folder, `current.${end}`))
  }
  const tls = { cert: join(folder, 'current.pem'), key: join(folder, 'current.key') }
  writeFileSync(join(config, 'usher.yaml'), JSON.stringify({ listen: { tls } }))
  service = await startService(port => ({
    USHER_CONFIG: config,
    USHER_SECRET,
    USHER_ISSUER: `https://localhost:${port}`,
    USHER_STORE: `sqlite:${join(folder, 'usher.db')}`,
    HOST: '127.0.0.1',
  }))
})
afterAll(() => service.stop())

/** Reads discovery as a client that trusts only this certificate. */
function discovery(trusted: string): Promise<{ issuer: string }> {
  const url = `${service.issuer.replace('http:', 'https:')}/.well-known/openid-configuration`
  const ca = readFileSync(join(folder, `${trusted}.pem`))
  return new Promise((resolve, reject) => {
    const request = get(url, { ca, agent: false }, async response => {
      let text = ''
      for await (const chunk of response) text += chunk
      resolve(JSON.parse(text))
    })
    request.on('error', reject)
  })
}

test('a connection that never begins TLS ends after ten seconds', async () => {
  const socket = connect(Number(new URL(service.issuer).port), '127.0.0.1')
  const began = performance.now()
  socket.resume()
  await once(socket, 'close')
  const seconds = (performance.now() - began) / 1000
  expect(seconds).toBeGreaterThan(9)
  expect(seconds).toBeLessThan(20)
})

test('an https issuer answers over its own TLS', async () => {
  const { issuer } = await discovery('first')
  expect(issuer).toMatch(/^https:\/\/localhost:\d+$/)
  expect(service.stdout()).not.toContain('will be refused')
})

test('an idle connection stays open for 75 s by default', async () => {
  const { hostname, port, host } = new URL(service.issuer.replace('http:', 'https:'))
  const ca = readFileSync(join(folder, 'first.pem'))
  const socket = tlsConnect({ host: hostname, port: Number(port), ca })
  socket.write(`GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  const [head] = await once(socket, 'data')
  expect(String(head)).toContain('Keep-Alive: timeout=75')
  socket.destroy()
})

test.each([
  ['EC', 'ECDSA', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']],
  ['RSA', 'RSA', ['rsa:2048']],
])(
  'with an %s certificate, TLS 1.2 offers only the cipher suites of BCP 195',
  async (_, kind, newkey) => {
    makeCertificate(kind, newkey)
    const tls = { cert: join(folder, `${kind}.pem`), key: join(folder, `${kind}.key`) }
    const log = pino({ enabled: false })
    const server = createListener(() => {}, { keep_alive: 75, tls }, log)
    const port = await listen(server)
    const agree = (options: object) => {
      const { promise, resolve } = Promise.withResolvers<string | undefined>()
      try {
        const socket = tlsConnect({
          port,
          host: '127.0.0.1',
          rejectUnauthorized: false,
          ...options,
        })
        socket.on('secureConnect', () => resolve(socket.getCipher().name))
        socket.on('secureConnect', () => socket.destroy())
        socket.on('error', () => resolve(undefined))
      } catch {
        resolve(undefined)
      }
      return promise
    }
    const accepted: string[] = []
    const names = getCiphers().filter(name => !name.startsWith('tls_'))
    expect(names.length).toBeGreaterThan(30)
    for (const name of names) {
      const ciphers = `${name.toUpperCase()}@SECLEVEL=0`
      const agreed = await agree({ ciphers, maxVersion: 'TLSv1.2', minVersion: 'TLSv1.2' })
      if (agreed) accepted.push(agreed)
    }
    expect(accepted.toSorted()).toEqual([
      `ECDHE-${kind}-AES128-GCM-SHA256`,
      `ECDHE-${kind}-AES256-GCM-SHA384`,
    ])
    expect(await agree({ minVersion: 'TLSv1.3' })).toMatch(/^TLS_/)
    expect(await agree({ maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' })).toBeUndefined()
    server.close()
  },
)

test('a new certificate is used without a restart; an incomplete one changes nothing', async () => {
  writeFileSync(join(folder, 'current.pem'), 'half a certificate')
  await expect.poll(() => service.stdout()).toContain('certificate kept as it was')
  await discovery('first')
  for (const end of ['pem', 'key']) {
    copyFileSync(join(folder, `second.${end}`), join(folder, `current.${end}`))
  }
  await expect.poll(() => discovery('second').catch(String)).toHaveProperty('issuer')
})
