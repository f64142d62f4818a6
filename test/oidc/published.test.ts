// Discovery and JWKS are the same for all clients, and up to date after a reload.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JSONWebKeySet } from 'jose'
import { pino } from 'pino'
import { describe, expect, vi } from 'vitest'
import { readSettings } from '../../src/config/load.ts'
import { createMetrics } from '../../src/operation/metrics.ts'
import { openSigningKeys } from '../../src/operation/signing-keys.ts'
import { run } from '../../src/reload.ts'
import { openInstallation } from '../../src/store/open.ts'
import { test, usher } from '../support/fixtures.ts'
import { startUsher, writeConfig } from '../support/usher.ts'
import { type Reply, send } from '../support/wire.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const JWKS = '/api/oauth/jwks'
const PUBLISHED = [DISCOVERY, '/.well-known/oauth-authorization-server', JWKS]

/** The headers without those that differ in each response. */
const headersOf = ({ headers }: Reply) =>
  Object.fromEntries([...headers].filter(([name]) => !/^(date|x-request-id)$/.test(name)))

describe.each(PUBLISHED)('%s', path => {
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    send(usher, path, { headers, method })

  test('the first response equals later ones, except for the allowed origin', async () => {
    const first = await get({ origin: 'https://one.example' })
    const others = [await get({ origin: 'https://two.example' }), await get(), await get()]
    const origins = [first, ...others].map(({ headers }) =>
      headers.get('access-control-allow-origin'),
    )
    expect(origins).toEqual(['https://one.example', 'https://two.example', '*', '*'])
    for (const other of others) {
      expect(other.text).toBe(first.text)
      expect({ ...headersOf(other), 'access-control-allow-origin': '' }).toEqual({
        ...headersOf(first),
        'access-control-allow-origin': '',
      })
    }
    expect(headersOf(first)).toMatchObject({
      'content-type': expect.stringMatching(/^application\/(jwk-set\+)?json; charset=utf-8$/),
      'content-length': String(Buffer.byteLength(first.text)),
      'cache-control': 'public, max-age=3600',
      vary: 'Origin',
      'x-content-type-options': 'nosniff',
    })
  })

  test('no request header changes the response for other clients', async () => {
    const fresh = await startUsher()
    const claims = {
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'https',
      'x-forwarded-prefix': '/evil',
      forwarded: 'host=evil.example',
    }
    const headers = { ...claims, host: 'evil.example', origin: 'https://evil.example' }
    expect((await send(fresh, path, { headers })).status).toBe(421)
    const { status } = await send(fresh, `${path}?host=evil.example`, { headers: claims })
    const { text, headers: responseHeaders } = await send(fresh, path)
    await fresh.close()
    expect(status).toBe(200)
    expect(text + JSON.stringify([...responseHeaders])).not.toContain('evil')
  })

  test('other methods are refused, and a preflight request is answered', async () => {
    expect(await get({}, 'POST')).toMatchObject({
      status: 405,
      json: { error: 'method_not_allowed' },
    })
    const asking = { origin: 'https://one.example', 'access-control-request-method': 'GET' }
    const { status, headers } = await get(asking, 'OPTIONS')
    expect([status, headers.get('access-control-allow-methods')]).toEqual([204, 'GET'])
  })

  test('the request is logged with its route', async () => {
    const before = usher.output.length
    await get()
    const line = () => usher.output.slice(before).find(text => text.includes(`"route":"${path}"`))
    await expect.poll(line).toContain('"status":200')
  })
})

test('after a reload, or with another key, the response changes at once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-published-'))
  writeConfig(folder, {})
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const port = String((server.address() as AddressInfo).port)
  const settings = await readSettings({ USHER_CONFIG: folder, PORT: port })
  const { store, ...installation } = await openInstallation('sqlite::memory:', settings.secrets)
  const log = pino({ enabled: false })
  const environment = { ...installation, log, audit: log, metrics: createMetrics() }
  const probe = async () => true
  const { handle, reload } = await run(settings, environment, { state: 'ready', probe, checks: [] })
  server.on('request', handle)
  const place = { issuer: settings.issuer, address: `http://127.0.0.1:${port}` }
  try {
    const [document, keys] = [await send(place, DISCOVERY), await send<JSONWebKeySet>(place, JWKS)]
    writeFileSync(join(folder, 'usher.yaml'), '{ features: { claims_parameter: false } }')
    vi.stubEnv('USHER_CONFIG', folder)
    vi.stubEnv('PORT', port)
    await reload()
    const changed = await send(place, DISCOVERY)
    expect(document.json.claims_parameter_supported).toBe(true)
    expect([changed.status, changed.json.claims_parameter_supported]).toEqual([200, false])

    await (await openSigningKeys(installation.records, settings)).rotate()
    writeFileSync(join(folder, 'usher.yaml'), '{}')
    await reload()
    const kids = ({ json }: Reply<JSONWebKeySet>) => json.keys.map(({ kid }) => kid)
    expect(kids(await send(place, JWKS)).length).toBeGreaterThan(kids(keys).length)
    expect(kids(await send(place, JWKS))).toEqual(expect.arrayContaining(kids(keys)))
  } finally {
    vi.unstubAllEnvs()
    server.closeAllConnections()
    server.close()
    await store.close()
    rmSync(folder, { recursive: true })
  }
})
