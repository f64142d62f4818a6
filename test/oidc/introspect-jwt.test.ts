// Introspection responses as signed JWTs (RFC 9701), and introspection at another node.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import { expect } from 'vitest'
import { APIS, configOf, FILES, tokensFor } from '../support/apis.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { signedIn } from '../support/people.ts'
import { ADA, SECRET, startUsher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const ACCEPT = 'application/token-introspection+jwt'
const ASKED = { scope: 'openid files:read', resources: [FILES] }
const SIGNED = { introspection_signed_response_alg: 'ES256' }

const folder = mkdtempSync(join(tmpdir(), 'usher-nodes-'))
const test = usherTest(() => {
  const api = { ...APIS.clients['files-api'], ...SIGNED }
  return {
    clients: { ...APIS.clients, 'files-api': api },
    resources: APIS.resources,
    usher: { features: { jwt_introspection: true } },
  }
})
test.afterAll(async () => {
  rmSync(folder, { recursive: true })
})

test('a signed introspection response is for the calling API only', async () => {
  const browser = await signedIn(usher)
  const { access_token: token } = await tokensFor(usher, { browser, ...ASKED }, FILES)
  const { json } = await send(usher, DISCOVERY)
  expect(json.introspection_signing_alg_values_supported).toEqual(['RS256', 'ES256', 'EdDSA'])

  const config = await configOf(usher, 'files-api', SIGNED)
  const about = await openid.tokenIntrospection(config, token)
  expect(about).toMatchObject({ active: true, aud: FILES, scope: 'files:read' })
  const answer = await introspect(token, 'files-api')
  expect(answer.headers.get('content-type')).toContain(ACCEPT)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const { payload } = await jwtVerify(answer.text, jwks, {
    issuer: usher.issuer,
    audience: 'files-api',
    typ: 'token-introspection+jwt',
  })
  expect(payload.token_introspection).toMatchObject({ active: true, client_id: 'web' })
})

test('RS256 is the default, and JSON is the default format', async () => {
  const signed = await introspect('unknown', 'web')
  expect(decodeProtectedHeader(signed.text).alg).toBe('RS256')
  const { headers, json } = await introspect('unknown', 'files-api', '*/*')
  expect(headers.get('content-type')).toContain('application/json')
  expect(json).toEqual({ active: false })
})

const introspect = (token: string, client_id: string, accept = ACCEPT) =>
  send(usher, '/api/oauth/introspect', {
    body: { token },
    headers: { ...basic(client_id, SECRET), accept },
  })

test('every node introspects a token, and its revocation is effective on every node', async () => {
  const store = `sqlite:${join(folder, 'usher.db')}`
  const one = await startUsher({ ...APIS, store })
  const env = { USHER_ISSUER: one.issuer, USHER_SECRET_FILE: join(folder, 'usher.secret') }
  const two = await startUsher({ ...APIS, store, env })
  try {
    const { id } = await one.addAccount(ADA)
    const browser = await signedIn(one)
    const { access_token: token } = await tokensFor(one, { browser, ...ASKED }, FILES)
    const about = async () => {
      const headers = basic('files-api', SECRET)
      return (await send(two, '/api/oauth/introspect', { body: { token }, headers })).json
    }
    expect(await about()).toMatchObject({ active: true, aud: FILES })
    await one.consents.withdraw(id, 'web')
    expect(await about()).toEqual({ active: false })
  } finally {
    await one.close()
    await two.close()
  }
})
