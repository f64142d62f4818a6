// Access tokens for one API: which clients get them, and their content.

import { createRemoteJWKSet, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import { describe, expect } from 'vitest'
import {
  APIS,
  CALENDAR,
  FILES,
  PAYROLL,
  refreshFor,
  requestScopes,
  tokensFor,
} from '../support/apis.ts'
import { configurationOf } from '../support/client-library.ts'
import { ada, browser, usher, usherTest } from '../support/fixtures.ts'
import {
  authorizationRequest,
  post,
  push,
  redeem,
  signInAndAllow,
  userinfo,
} from '../support/journey.ts'
import { signedIn } from '../support/people.ts'
import { CLIENTS, SECRET, WEB } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const SCOPE = 'openid profile offline_access files:read calendar:read'
const BOTH = { scope: SCOPE, resources: [FILES, CALENDAR] }

const NOTES = 'https://notes.example.org/mcp'
const notes = {
  resource: NOTES,
  resource_name: 'Notes',
  scopes: {
    'notes:read': { description: 'Read notes' },
    'notes:write': { description: 'Change notes' },
  },
  default_scopes: ['notes:read'],
}
const { web } = CLIENTS
const clients = {
  ...APIS.clients,
  reader: { ...web, client_id: 'reader', scope: 'openid files:read' },
  'api-only': { ...web, client_id: 'api-only', scope: 'files:read' },
}
const test = usherTest({
  ...APIS,
  resources: { ...APIS.resources, notes },
  clients,
  browser: signedIn,
})

const introspect = (token: string, client_id: string) =>
  post(usher, '/api/oauth/introspect', { token, client_id })

test('after one consent a client gets a token for each API, with the scopes of that API only', async () => {
  const first = await tokensFor(usher, { browser, ...BOTH }, FILES)
  expect(first.scope).toBe('files:read')
  const { body: files } = await introspect(first.access_token, 'files-api')
  expect(files).toMatchObject({ active: true, aud: FILES, scope: 'files:read', sub: ada })
  expect(files).toMatchObject({ client_id: 'web', iss: usher.issuer, token_type: 'Bearer' })
  const { refresh_token } = first
  const second = (await refreshFor(usher, { refresh_token, resource: CALENDAR })).body
  expect(second.scope).toBe('calendar:read')
  const third = (await refreshFor(usher, { refresh_token: second.refresh_token })).body
  expect(String(third.scope).split(' ').sort()).toEqual(['offline_access', 'openid', 'profile'])
  expect((await userinfo(usher, third.access_token)).body).toMatchObject({ sub: ada })
})

test('a client file may name scopes of APIs, and the client gets no others', async () => {
  const ask = async (client_id: string, scope: string, resource?: string) => {
    const asked = { client_id, redirect_uri: WEB, scope, nonce: undefined, resource }
    await browser.open(authorizationRequest(usher, asked).url)
    return browser.page.params.get('error') ?? browser.heading
  }
  for (const client_id of ['reader', 'api-only']) {
    expect(await ask(client_id, 'files:read', FILES)).toBe('Allow access')
    expect(await ask(client_id, 'files:read files:write', FILES)).toBe('invalid_scope')
    expect(await ask(client_id, 'calendar:read', CALENDAR)).toBe('invalid_target')
    expect(await ask(client_id, 'files:read profile', FILES)).toBe('invalid_scope')
    expect(await ask(client_id, 'files:read offline_access', FILES)).toBe('invalid_scope')
  }
  expect(await ask('reader', 'openid files:read', FILES)).toBe('Allow access')
  expect(await ask('api-only', 'openid files:read', FILES)).toBe('invalid_scope')
  expect(await ask('api-only', 'openid')).toBe('invalid_scope')
})

test('a request that names an API and none of its scopes gets its default scopes, or a refusal', async () => {
  const ask = async (scope: string | undefined, ...resources: string[]) => {
    const asked = authorizationRequest(usher, { scope, nonce: undefined })
    for (const resource of resources) asked.url.searchParams.append('resource', resource)
    await browser.open(asked.url)
    const page = await signInAndAllow(browser, 'ada')
    const code = page.params.get('code')
    if (!code) return page.params.get('error_description') ?? ''
    return (await redeem(usher, code, asked, resources[0])).body.scope
  }
  expect(await ask(undefined, NOTES)).toBe('notes:read')
  expect(await ask('offline_access', NOTES)).toBe('notes:read')
  expect(await ask('openid', NOTES)).toBe('notes:read')
  expect(await ask('notes:write', NOTES)).toBe('notes:write')
  expect(await ask('files:read', NOTES, FILES)).toBe('notes:read')
  expect(await ask(undefined, FILES)).toBe(
    'scope must have a scope of the resource: files:read files:write share',
  )
  expect(await ask('notes:read', NOTES, FILES)).toMatch(/^scope must have a scope of the resource/)
  const body = { grant_type: 'client_credentials', resource: NOTES }
  const { json } = await send(usher, '/api/oauth/token', {
    body,
    headers: basic('service', SECRET),
  })
  expect(json.scope).toBe('notes:read')
})

test('a JWT access token has sub, aud and client_id, and lasts ten minutes at most', async () => {
  const { access_token, expires_in } = await tokensFor(usher, { browser, ...BOTH }, CALENDAR)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const { payload, protectedHeader } = await jwtVerify(access_token, jwks, {
    issuer: usher.issuer,
    audience: 'calendar',
    typ: 'at+jwt',
  })
  expect(protectedHeader.alg).toBe('ES256')
  expect(payload).toEqual({
    iss: usher.issuer,
    aud: 'calendar',
    sub: ada,
    client_id: 'web',
    scope: 'calendar:read',
    jti: expect.stringMatching(/^[\w-]{22}\.[\w-]{20,}$/),
    iat: expect.any(Number),
    exp: Number(payload.iat) + 300,
  })
  expect(expires_in).toBe(300)
})

test('a JWT access token cannot be revoked or introspected', async () => {
  const { access_token: token } = await tokensFor(usher, { browser, ...BOTH }, CALENDAR)
  const refused = await post(usher, '/api/oauth/revoke', { token })
  expect([refused.status, refused.body.error]).toEqual([400, 'unsupported_token_type'])
  expect(String(refused.body.error_uri)).toContain('#unsupported_token_type')
  for (const client_id of ['web', 'files-api']) {
    const { status, body } = await introspect(token, client_id)
    expect([status, body]).toEqual([200, { active: false }])
  }
})

test('an unknown resource, or one that this client may not use, is refused at the endpoint', async () => {
  const scope = 'openid pay files:read'
  for (const resource of [`${CALENDAR}/`, 'https://evil.example', 'files', `${FILES}#x`, PAYROLL]) {
    await requestScopes(usher, { browser, scope, resources: [resource] })
    expect([resource, browser.page.params.get('error')]).toEqual([resource, 'invalid_target'])
  }
  const body = { grant_type: 'client_credentials', resource: 'https://evil.example', scope }
  const headers = basic('service', SECRET)
  const { status, json } = await send(usher, '/api/oauth/token', { body, headers })
  expect([status, json.error]).toEqual([400, 'invalid_target'])
  expect(String(json.error_uri)).toContain('#invalid_target')
})

test('a resource without a requested scope is not on the consent page', async () => {
  await requestScopes(usher, {
    browser,
    scope: 'openid calendar:read',
    resources: [CALENDAR, FILES],
  })
  expect(browser.page.params.get('error')).toBe('invalid_scope')
})

test('an API is known by every spelling of its URL, and its tokens have the spelling of its file', async () => {
  const spellings = [`${FILES}/`, 'HTTPS://Files.Example.org', `${FILES}:443`, FILES]
  const scope = 'openid offline_access files:read'
  const code = (resource: string) => requestScopes(usher, { browser, scope, resources: [resource] })
  for (const [i, resource] of spellings.entries()) {
    const request = await code(resource)
    const page = await signInAndAllow(browser, 'ada')
    const other = spellings[(i + 1) % spellings.length] ?? ''
    const { body } = await redeem(usher, page.params.get('code') ?? '', request, other)
    const again = await refreshFor(usher, { refresh_token: body.refresh_token, resource })
    for (const { access_token } of [body, again.body]) {
      expect((await introspect(access_token, 'files-api')).body.aud).toBe(FILES)
    }
  }
  const allowed = (await usher.consents.find(ada, 'web'))?.scopes ?? []
  expect(allowed.filter(key => key.endsWith('files:read'))).toEqual([`${FILES} files:read`])
  const body = { grant_type: 'client_credentials', resource: `${FILES}/`, scope: 'files:read' }
  const headers = basic('service', SECRET)
  expect((await send(usher, '/api/oauth/token', { body, headers })).json.scope).toBe('files:read')
  const twice = { browser, scope, resources: [FILES, `${FILES}/`] }
  expect((await tokensFor(usher, twice, FILES)).scope).toBe('files:read')
})

test('a code and a refresh token give no access to a resource that was not in the request', async () => {
  const asked = { browser, scope: 'openid offline_access calendar:read', resources: [CALENDAR] }
  const request = await requestScopes(usher, asked)
  const code = (await signInAndAllow(browser, 'ada')).params.get('code') ?? ''
  const escaped = await redeem(usher, code, request, FILES)
  expect([escaped.status, escaped.body.error]).toEqual([400, 'invalid_target'])

  // The user has allowed files:read in an earlier request.
  expect((await usher.consents.find(ada, 'web'))?.scopes).toContain(`${FILES} files:read`)
  const { refresh_token } = await tokensFor(usher, asked, CALENDAR)
  for (const resource of [FILES, PAYROLL, 'https://evil.example']) {
    const refused = await refreshFor(usher, { refresh_token, resource })
    expect([refused.status, refused.body.error]).toEqual([400, 'invalid_target'])
    const scoped = await refreshFor(usher, { refresh_token, resource, scope: 'files:read' })
    expect(scoped.status).toBe(400)
  }
  // These refusals did not use up the refresh token.
  const renewed = await refreshFor(usher, { refresh_token, resource: CALENDAR })
  expect([renewed.status, renewed.body.scope]).toEqual([200, 'calendar:read'])
  expect(usher.output.join('')).not.toMatch(/refresh_(reuse|replay)/)
})

test.each([
  '',
  '__proto__',
  'constructor',
  'https://',
  '%',
  'a:b',
  'javascript:x',
  'x'.repeat(5000),
])('the resource "%.20s" is answered without a 5xx', async resource => {
  await requestScopes(usher, { browser, scope: 'openid', resources: [resource] })
  expect(browser.page.status).toBeLessThan(500)
  for (const times of [1, 50]) {
    const body: [string, string][] = [
      ['grant_type', 'client_credentials'],
      ['scope', 'files:read'],
      ...Array.from({ length: times }, (): [string, string] => ['resource', resource]),
    ]
    const headers = basic('service', SECRET)
    const { status } = await send(usher, '/api/oauth/token', { body, headers })
    expect([200, 400, 413]).toContain(status)
  }
})

test('a token request with two resources is refused', async () => {
  const { refresh_token } = await tokensFor(usher, { browser, ...BOTH }, FILES)
  const body = [
    ['grant_type', 'refresh_token'],
    ['refresh_token', refresh_token],
    ['resource', FILES],
    ['resource', CALENDAR],
  ] as [string, string][]
  const { status, json } = await send(usher, '/api/oauth/token', {
    body,
    headers: basic('web', SECRET),
  })
  expect([status, json.error]).toEqual([400, 'invalid_target'])
  expect((await refreshFor(usher, { refresh_token })).status).toBe(200)
})

test('a pushed request has only its own resources', async () => {
  const scope = 'openid offline_access files:read calendar:read'
  const request = await push(usher, { scope, resource: FILES })
  // Parameters beside a request_uri are ignored (RFC 9126 §4).
  request.url.searchParams.append('resource', CALENDAR)
  await browser.open(request.url)
  const page = await signInAndAllow(browser, 'ada')
  const { body } = await redeem(usher, page.params.get('code') ?? '', request, FILES)
  expect(body).toMatchObject({ scope: 'files:read', id_token: expect.any(String) })
  const { refresh_token } = body
  const escaping = await refreshFor(usher, { refresh_token, resource: CALENDAR })
  expect(escaping.body.error).toBe('invalid_target')
})

test('UserInfo refuses a token for an API, whatever its format', async () => {
  for (const resource of [FILES, CALENDAR]) {
    const { access_token } = await tokensFor(usher, { browser, ...BOTH }, resource)
    const { status, headers, body } = await userinfo(usher, access_token)
    expect([status, body.error]).toEqual([401, 'invalid_token'])
    // A JWT is not stored.
    const isKnown = resource === FILES
    expect(/^the access token is for an API/.test(body.error_description ?? '')).toBe(isKnown)
    expect(headers.get('www-authenticate')).toContain('error="invalid_token"')
  }
})

test('an API sees the access tokens for it, and nothing else', async () => {
  const { access_token, refresh_token } = await tokensFor(usher, { browser, ...BOTH }, FILES)
  const { access_token: other } = await tokensFor(usher, { browser, ...BOTH })
  const seen = [
    [access_token, 'files-api', true],
    [access_token, 'web', true],
    [access_token, 'payroll-api', false],
    [access_token, 'post', false],
    [refresh_token, 'files-api', false],
    [refresh_token, 'web', true],
    [other, 'files-api', false],
  ] as const
  for (const [token, client_id, active] of seen) {
    const { status, body } = await introspect(token, client_id)
    expect([client_id, status, body.active]).toEqual([client_id, 200, active])
    if (!active) expect(body).toEqual({ active: false })
  }
})

test('client_credentials: a service gets tokens for the APIs that it may use', async () => {
  const config = await configurationOf(usher, 'service')
  const paid = await openid.clientCredentialsGrant(config, { resource: PAYROLL, scope: 'pay' })
  expect(paid).toMatchObject({ scope: 'pay', expires_in: 600 })
  const payroll = await configurationOf(usher, 'payroll-api')
  const about = await openid.tokenIntrospection(payroll, paid.access_token)
  expect(about).toMatchObject({ active: true, aud: PAYROLL, client_id: 'service', scope: 'pay' })
  expect(about).not.toHaveProperty('sub')
  const asked = { resource: CALENDAR, scope: 'calendar:read' }
  const { access_token } = await openid.clientCredentialsGrant(config, asked)
  const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
  const { payload } = await jwtVerify(access_token, jwks, { audience: 'calendar', typ: 'at+jwt' })
  expect(payload).toMatchObject({ sub: 'service', client_id: 'service', scope: 'calendar:read' })
  for (const scope of ['', 'files:read', 'profile']) {
    const body = { grant_type: 'client_credentials', resource: PAYROLL, scope }
    const headers = basic('service', SECRET)
    const { status, json } = await send(usher, '/api/oauth/token', { body, headers })
    expect([scope, status, json.error]).toEqual([scope, 400, 'invalid_scope'])
  }
})

describe('consent to the scopes of APIs', () => {
  const SHARED = { scope: 'openid share', resources: [FILES, CALENDAR] }
  const READ = { scope: 'openid files:read', resources: [FILES] }
  test.beforeEach(() => usher.consents.withdraw(ada, 'web'))

  /** Each scope on the page with the note beside it. */
  const asked = () =>
    browser.page.html
      .querySelectorAll('fieldset .signs li')
      .map(({ text }) => text.trim().replaceAll(/\s+/g, ' '))

  async function allow(
    scope: string[],
    request: Awaited<ReturnType<typeof requestScopes>>,
    resource: string,
  ) {
    expect(browser.heading).toBe('Allow access')
    await browser.submit({ decision: 'allow', scope })
    return redeem(usher, browser.page.params.get('code') ?? '', request, resource)
  }

  test('the page describes the requested scopes, and names the API', async () => {
    await requestScopes(usher, {
      browser,
      scope: 'openid files:read share',
      resources: [FILES, CALENDAR],
    })
    expect(asked().slice(1)).toEqual([
      'Read your files Files',
      'Share your files with others Files',
      'Share your appointments with others Calendar',
    ])
    for (const box of browser.page.html.querySelectorAll('.choice input')) {
      const { id = '', 'aria-describedby': note = '' } = box.attributes
      expect(id).not.toMatch(/\s/)
      expect(browser.page.html.querySelector(`label[for="${id}"]`)).not.toBe(null)
      expect(browser.page.html.querySelector(`[id="${note}"]`)?.text).toMatch(/^(Files|Calendar)$/)
    }
  })

  test('a scope can be allowed for one API and declined for another', async () => {
    const request = await requestScopes(usher, { browser, ...SHARED })
    const given = await allow([`${FILES} share`], request, FILES)
    expect([given.status, given.body.scope]).toEqual([200, 'share'])
    expect(await usher.consents.find(ada, 'web')).toMatchObject({
      scopes: ['openid', `${FILES} share`],
      declined: [`${CALENDAR} share`],
    })

    const again = await requestScopes(usher, { browser, ...SHARED })
    const code = browser.page.params.get('code') ?? ''
    const refused = await redeem(usher, code, again, CALENDAR)
    expect([refused.status, refused.body.error]).toEqual([400, 'invalid_scope'])
  })

  test('allowed scopes need no new consent, a new scope does', async () => {
    await tokensFor(usher, { browser, ...READ }, FILES)
    await requestScopes(usher, { browser, ...READ })
    expect(browser.page.params.get('code')).toBeTruthy()
    const more = { scope: 'openid files:read files:write', resources: [FILES] }
    await requestScopes(usher, { browser, ...more })
    expect(asked()).toContain('Change your files Files')
    const { scope } = await tokensFor(usher, { browser, ...more }, FILES)
    expect(scope).toBe('files:read files:write')
    const { scope: less } = await tokensFor(usher, { browser, ...READ }, FILES)
    expect(less).toBe('files:read')
  })

  test('a scope of the same name at another API needs its own consent', async () => {
    await tokensFor(usher, { browser, scope: 'openid share', resources: [FILES] }, FILES)
    await requestScopes(usher, { browser, scope: 'openid share', resources: [CALENDAR] })
    expect(asked().slice(1)).toEqual(['Share your appointments with others Calendar'])
  })

  test('Connected applications describes the scopes, and a removal ends the tokens', async () => {
    const { access_token: token } = await tokensFor(usher, { browser, ...READ }, FILES)
    const about = () => post(usher, '/api/oauth/introspect', { token, client_id: 'files-api' })
    expect((await about()).body.active).toBe(true)
    const { text } = await browser.open('/account/applications')
    expect(text).toContain('<span>Read your files (Files)</span></li>')
    const removal = await browser.open('/account/applications/remove?client_id=web')
    expect(removal.text).not.toContain('Calendar')
    await browser.submit()
    expect((await about()).body).toEqual({ active: false })
    await requestScopes(usher, { browser, ...READ })
    expect(browser.heading).toBe('Allow access')
  })

  test('the removal page shows how long JWT access tokens stay valid', async () => {
    const asked = { browser, scope: 'openid calendar:read', resources: [CALENDAR] }
    await tokensFor(usher, asked, CALENDAR)
    const { text } = await browser.open('/account/applications/remove?client_id=web')
    expect(text).toContain('At Calendar, its access can last up to 5 min longer')
  })

  test('an API that was removed from the config folder is listed by its identifier', async () => {
    const { version } = await usher.consents.read(ada, 'web')
    const decision = { scopes: ['urn:gone see'], declined: [], version }
    await usher.consents.decide(ada, 'web', decision)
    const { text } = await browser.open('/account/applications')
    expect(text).toContain('<span>see (urn:gone)</span></li>')
  })
})
