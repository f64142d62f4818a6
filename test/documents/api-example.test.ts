// The code of docs/applications/api.md: an API that introspects tokens, and one that validates JWTs.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { hashSecret } from '../../src/oidc/clients.ts'
import { EXCHANGE_GRANT } from '../../src/oidc/vocabulary.ts'
import { APIS, refreshFor, tokensFor } from '../support/apis.ts'
import { configurationOf } from '../support/client-library.ts'
import { temporaryFolder } from '../support/folder.ts'
import { post } from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { ADA, CLIENTS, SECRET, startUsher, type Usher } from '../support/usher.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/applications/api.md'), 'utf8')
const blockOf = (name: string) =>
  new RegExp(`\`\`\`\\w+ ${name}\\n(.*?)\`\`\``, 's').exec(PAGE)?.[1] ?? ''

const files = parse(blockOf('files'))
const FILES: string = files.resource
const api = { ...parse(blockOf('client')), client_secret_hashes: [hashSecret(SECRET)] }
const calendar = parse(blockOf('calendar'))
const OTHER = {
  resource: 'urn:other',
  resource_name: 'Other',
  scopes: { 'files:read': { description: 'Read other files' } },
  introspected_by: ['files-api'],
}

describe.each(['opaque', 'jwt'])('an API with tokens that are %s', token_format => {
  const folder = temporaryFolder()
  let usher: Usher
  let child: ChildProcess
  let address: string

  beforeAll(async () => {
    const other = { ...OTHER, token_format }
    const resources = { files: { ...files, token_format }, other, calendar }
    const exchanging = { ...api, grant_types: [EXCHANGE_GRANT] }
    usher = await startUsher({
      clients: { ...CLIENTS, api: exchanging, service: APIS.clients.service },
      resources,
    })
    await usher.addAccount(ADA)
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(folder, 'token.js'), blockOf(token_format))
    writeFileSync(join(folder, 'server.js'), blockOf('server'))
    writeFileSync(join(folder, 'exchange.js'), blockOf('exchange'))
    child = spawn(process.execPath, ['server.js'], {
      cwd: folder,
      env: { ISSUER: usher.issuer, CLIENT_SECRET: SECRET, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [port] = child.stdout ? await once(child.stdout, 'data') : []
    address = `http://127.0.0.1:${String(port).trim()}/`
  })
  afterAll(async () => {
    child.kill()
    await usher.close()
  })

  const call = async (token?: string) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const response = await fetch(address, { headers })
    const why = response.headers.get('www-authenticate')
    return [response.status, why ?? (await response.json())]
  }

  test('the API accepts only valid tokens for itself with the required scope', async () => {
    const browser = await signedIn(usher)
    const scope = 'openid offline_access files:read'
    const asked = { browser, scope, resources: [FILES, OTHER.resource] }
    const { access_token, refresh_token, id_token } = await tokensFor(usher, asked, FILES)
    expect(await call(access_token)).toEqual([
      200,
      { files: [], of: expect.stringMatching(/^usr_/) },
    ])

    const invalid = [401, 'Bearer error="invalid_token"']
    const other = await refreshFor(usher, { refresh_token, resource: OTHER.resource })
    expect(await call(other.body.access_token)).toEqual(invalid)
    const userinfo = await refreshFor(usher, { refresh_token: other.body.refresh_token })
    const forged = access_token.replace(/.{5}$/, 'AAAAA')
    for (const token of [
      userinfo.body.access_token,
      id_token,
      refresh_token,
      forged,
      'x',
      'a.b.c',
    ]) {
      expect(await call(token)).toEqual(invalid)
    }
    expect(await call()).toEqual([401, 'Bearer'])

    await post(usher, '/api/oauth/revoke', { token: userinfo.body.refresh_token })
    const isJwt = token_format === 'jwt'
    expect((await call(access_token))[0]).toBe(isJwt ? 200 : 401)
  })

  test('the API exchanges the token of a user for one of the next API', async () => {
    const browser = await signedIn(usher)
    const asked = { browser, scope: 'openid files:read', resources: [FILES] }
    const { access_token } = await tokensFor(usher, asked, FILES)
    const call = `import { exchange } from './exchange.js'; console.log(await exchange('${access_token}'))`
    const env = { ISSUER: usher.issuer, CLIENT_SECRET: SECRET }
    const args = ['--input-type=module', '-e', call]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env })
    const keys = createRemoteJWKSet(new URL('/api/oauth/jwks', usher.issuer))
    const expected = { issuer: usher.issuer, audience: calendar.resource, typ: 'at+jwt' }
    const { payload } = await jwtVerify(stdout.trim(), keys, expected)
    expect(payload).toMatchObject({ scope: 'calendar:read', act: { sub: 'files-api' } })
  })

  test('the API refuses a token that is bound to a key without a DPoP proof', async () => {
    const keys = await openid.randomDPoPKeyPair()
    const tokens = async (DPoP?: openid.DPoPHandle) => {
      const parameters = { scope: 'files:read', resource: FILES }
      return openid.clientCredentialsGrant(config, parameters, DPoP && { DPoP })
    }
    const config = await configurationOf(usher, 'service')
    const plain = await tokens()
    expect(await call(plain.access_token)).toEqual([200, { files: [], of: 'service' }])
    const bound = await tokens(openid.getDPoPHandle(config, keys))
    expect(bound.token_type).toBe('dpop')
    expect(await call(bound.access_token)).toEqual([401, 'Bearer error="invalid_token"'])
  })
})
