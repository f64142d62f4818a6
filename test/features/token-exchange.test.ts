// Token exchange (RFC 8693): an API calls another API for the user.

import { readFileSync } from 'node:fs'
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify, UnsecuredJWT } from 'jose'
import { describe, expect } from 'vitest'
import REFUSALS from '../../src/commands/exchange-refusals.json' with { type: 'json' }
import { CALENDAR, FILES, tokensFor } from '../support/apis.ts'
import {
  ACCESS_TOKEN,
  EXCHANGING,
  exchange,
  ID_TOKEN,
  introspect,
  JWT,
  SHOP,
  shopTokens,
  TILL,
} from '../support/exchange.ts'
import { ada, explanationOf, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { post, refresh, tokens, userinfo } from '../support/journey.ts'
import { removalOf, signedIn, signOut } from '../support/people.ts'
import { ADA } from '../support/usher.ts'

const revoke = (token: string) => post(usher, '/api/oauth/revoke', { token })

const refused = (description: RegExp | string, error = 'invalid_request') => ({
  status: 400,
  body: { error, error_description: expect.stringMatching(description) },
})

const STAFF = { groups: ['staff'] }
const { web, ...others } = EXCHANGING.clients
const test = usherTest({ ...EXCHANGING, clients: { ...others, web: { ...web, allow: STAFF } } })
test.beforeAll(() => usher.directory.change(ada, account => ({ ...account, attributes: STAFF })))

// First: a process records 60 failures in a minute.
test('the command config explain says why an exchange was refused', async () => {
  const { access_token } = await shopTokens(usher)
  const explain = async (changes: Record<string, string>) => {
    const { body } = await exchange(usher, access_token, changes)
    return explanationOf(usher, String(body.request_id))
  }
  const asStranger = await explain({ client_id: 'stranger', resource: '', audience: FILES })
  expect(asStranger?.wrong).toBe(
    'no rule in `exchange` of this API names stranger, or there is no such API',
  )
  const byFiles = await explain({ client_id: 'files-api', resource: CALENDAR })
  expect(byFiles?.wrong).toContain('no rule in `exchange` lets files-api exchange a token')
  const more = await explain({ scope: 'files:delete' })
  expect(more?.wrong).toContain('shop-api asks for more than the rule')
  const dead = await explain({ subject_token: 'x' })
  expect(dead?.wrong).toContain('subject_token has expired, was revoked')
  const kind = await explain({ subject_token_type: ID_TOKEN })
  expect(kind?.wrong).toContain('no JWT that this provider has signed')
  const acting = await explain({ actor_token: access_token })
  expect(acting?.change).toBe('the request, without actor_token')
  expect((await explain({ client_id: 'spa' }))?.wrong).toContain('spa has no secret and no key')
})

test('every refusal of an exchange has a reason in config explain', () => {
  const files = [
    'features/token-exchange/feature',
    'features/token-exchange/subject-tokens',
    'features/upstream/assertions',
    'oidc/dpop',
  ].map(name => readFileSync(`src/${name}.ts`, 'utf8'))
  const details = Object.values(REFUSALS).flatMap(rows => rows.map(({ detail }) => detail))
  const known = details.filter(detail => detail !== 'assertion ')
  const ownText = (detail: string) => detail.replace(/^(subject_token|assertion) /, '')
  expect(known.filter(detail => !files.join().includes(ownText(detail)))).toEqual([])
})

test('an exchanged token has the claims of the user that its API wants', async () => {
  const { files, calendar, ...apis } = EXCHANGING.resources
  const at = await startAnother({
    ...EXCHANGING,
    resources: {
      ...apis,
      files: { ...files, claims: ['email'] },
      calendar: { ...calendar, claims: ['name'] },
    },
  })
  await at.addAccount(ADA)
  const { access_token } = await shopTokens(at)
  const { body: first } = await exchange(at, access_token)
  const about = await introspect(at, first.access_token)
  expect([about.email, about.name]).toEqual([ADA.email, undefined])
  const target = { client_id: 'files-api', audience: 'calendar' }
  const { body: second } = await exchange(at, first.access_token, target)
  const claims = decodeJwt(second.access_token)
  expect([claims.email, claims.name]).toEqual([undefined, ADA.name])
})

describe.each([
  ['opaque', 'shop', SHOP],
  ['JWTs', 'till', TILL],
])('with subject tokens that are %s', (format, shop, resource) => {
  let latest: Awaited<ReturnType<typeof shopTokens>>

  test('an API exchanges the token of a user for one of the next API', async () => {
    const { access_token } = await shopTokens(usher, { resource })
    const { status, body } = await exchange(usher, access_token, { scope: 'files:read' })
    expect([status, body]).toEqual([
      200,
      {
        access_token: expect.any(String),
        issued_token_type: ACCESS_TOKEN,
        token_type: 'Bearer',
        expires_in: expect.any(Number),
        scope: 'files:read',
      },
    ])
    expect(await introspect(usher, body.access_token)).toMatchObject({
      active: true,
      sub: ada,
      aud: FILES,
      client_id: 'shop-api',
      scope: 'files:read',
      act: { sub: 'shop-api' },
    })
    expect((await userinfo(usher, body.access_token)).status).toBe(401)
  })

  test('each exchange adds its client to act, the API verifies a JWT, and the lifetime never grows', async () => {
    const { access_token } = await shopTokens(usher, { resource })
    const { body: first } = await exchange(usher, access_token)
    const target = { client_id: 'files-api', audience: 'calendar' }
    const { body: second } = await exchange(usher, first.access_token, target)
    const jwks = createRemoteJWKSet(new URL(`${usher.issuer}/api/oauth/jwks`))
    const expected = { issuer: usher.issuer, audience: 'calendar', typ: 'at+jwt' }
    const { payload } = await jwtVerify(second.access_token, jwks, expected)
    expect(payload).toMatchObject({
      sub: ada,
      client_id: 'files-api',
      scope: 'calendar:read',
      act: { sub: 'files-api', act: { sub: 'shop-api' } },
    })
    const exp = format === 'JWTs' ? decodeJwt(access_token).exp : undefined
    const { exp: limit = exp } = await introspect(usher, access_token, 'shop-api')
    expect(limit).toBeTypeOf('number')
    expect((await introspect(usher, first.access_token)).exp).toBeLessThanOrEqual(Number(limit))
    expect(second.expires_in).toBeLessThanOrEqual(Number(first.expires_in))
    // Impersonation needs its word in the rule: the token then has no act.
    const { body } = await exchange(usher, access_token, { audience: 'calendar' })
    expect(decodeJwt(body.access_token)).toMatchObject({ sub: ada, client_id: 'shop-api' })
    expect(decodeJwt(body.access_token)).not.toHaveProperty('act')
  })

  test('a chain of exchanges has at most four clients', async () => {
    let { access_token } = await shopTokens(usher, { resource })
    for (let i = 0; i < 4; i++) {
      const { status, body } = await exchange(usher, access_token, { audience: shop })
      expect([i, status, body.scope]).toEqual([i, 200, 'shop:read'])
      access_token = body.access_token
    }
    const fifth = await exchange(usher, access_token, { audience: shop })
    expect(fifth).toMatchObject(refused('was exchanged 4 times before'))
  })

  test('scopes never grow, on no way around', async () => {
    const { access_token } = await shopTokens(usher, { resource, scope: 'openid shop:read' })
    const more = 'files:read files:delete'
    expect(await exchange(usher, access_token, { scope: more })).toMatchObject(
      refused('scope has more', 'invalid_scope'),
    )
    const { body: files } = await exchange(usher, access_token, { scope: 'files:read' })
    const back = { client_id: 'files-api', audience: shop }
    expect((await exchange(usher, files.access_token, back)).body.scope).toBe('shop:read')
    const { body } = await exchange(usher, files.access_token, { ...back, scope: 'shop:write' })
    expect(body.error).toBe('invalid_scope')
    const narrow = await exchange(usher, access_token, { audience: shop, scope: 'shop:write' })
    expect(narrow.body.error).toBe('invalid_scope')
  })

  test.for<[string, () => Promise<unknown>]>([
    ['the revocation of the refresh token', () => revoke(latest.refresh_token)],
    [
      'the removal of the application',
      async () => {
        await latest.browser.open(removalOf('web'))
        await latest.browser.submit()
      },
    ],
    ['the end of all access', () => usher.directory.endAccess(ada)],
    [
      'a disabled account',
      () => usher.directory.change(ada, account => ({ ...account, enabled: false })),
    ],
    [
      'a group that the account has no longer, and the application of the sign-in needs',
      () => usher.directory.change(ada, account => ({ ...account, attributes: {} })),
    ],
  ])('%s ends every exchanged token, and no token can be exchanged any more', async ([, end]) => {
    latest = await shopTokens(usher, { resource })
    const { body: first } = await exchange(usher, latest.access_token)
    const back = { client_id: 'files-api', audience: shop }
    const { body: second } = await exchange(usher, first.access_token, back)
    expect(await introspect(usher, first.access_token)).toMatchObject({ active: true })
    await end()
    expect(await introspect(usher, first.access_token)).toEqual({ active: false })
    const isOpaque = format === 'opaque'
    if (isOpaque) {
      const seen = await introspect(usher, second.access_token, 'shop-api')
      expect(seen).toEqual({ active: false })
    }
    for (const token of [latest.access_token, first.access_token, second.access_token]) {
      const by = token === first.access_token ? back : {}
      expect((await exchange(usher, token, by)).status).toBe(400)
    }
    await usher.directory.change(ada, account => ({ ...account, enabled: true, attributes: STAFF }))
  })

  test('a sign-out ends an exchanged token that depends on its session', async () => {
    const { browser, access_token } = await shopTokens(usher, {
      resource,
      scope: 'openid shop:read',
    })
    const { body } = await exchange(usher, access_token)
    await signOut(browser)
    expect(await introspect(usher, body.access_token)).toEqual({ active: false })
    expect(await exchange(usher, access_token)).toMatchObject(refused('subject_token'))
  })
})

test('a revoked access token ends the tokens that were exchanged for it, and no others', async () => {
  const { access_token, refresh_token } = await shopTokens(usher)
  const { body: first } = await exchange(usher, access_token)
  const back = { client_id: 'files-api', audience: 'shop' }
  const { body: second } = await exchange(usher, first.access_token, back)
  const again = await refresh(usher, refresh_token)
  await post(usher, '/api/oauth/revoke', { token: access_token })
  for (const [token, api] of [
    [first.access_token, 'files-api'],
    [second.access_token, 'shop-api'],
  ] as const) {
    expect(await introspect(usher, token, api)).toEqual({ active: false })
  }
  expect((await userinfo(usher, again.body.access_token)).status).toBe(200)
})

test('a client exchanges its own access token, and its ID token', async () => {
  const { access_token, id_token } = await tokens(usher)
  for (const [token, subject_token_type] of [
    [access_token, ACCESS_TOKEN],
    [id_token, ID_TOKEN],
  ] as const) {
    const { status, body } = await exchange(usher, token, { client_id: 'web', subject_token_type })
    expect([status, body.scope]).toEqual([200, 'files:read'])
    const about = { active: true, sub: ada, act: { sub: 'web' } }
    expect(await introspect(usher, body.access_token)).toMatchObject(about)
  }
})

test('subject_token_type may name the format of a JWT, and requested_token_type too', async () => {
  const { id_token } = await tokens(usher)
  const { access_token } = await shopTokens(usher, { scope: 'openid shop:read', resource: TILL })
  const answers = [
    await exchange(usher, id_token, { client_id: 'web', subject_token_type: JWT }),
    await exchange(usher, access_token, { subject_token_type: JWT }),
    await exchange(usher, access_token, {
      subject_token_type: JWT,
      requested_token_type: JWT,
      resource: CALENDAR,
    }),
  ]
  expect(answers.map(({ status, body }) => [status, body.issued_token_type])).toEqual([
    [200, ACCESS_TOKEN],
    [200, ACCESS_TOKEN],
    [200, JWT],
  ])
  expect(decodeProtectedHeader(answers.at(-1)?.body.access_token ?? '').typ).toBe('at+jwt')
})

describe('an exchange is refused', () => {
  const DEAD = 'is unknown, has expired, or was revoked'
  const TARGET = /no API|must be an API/
  const FOREIGN = new UnsecuredJWT({ sub: 'x' }).encode()
  type Changes = Record<string, string>

  let shop: Awaited<ReturnType<typeof shopTokens>>
  test.beforeAll(async () => {
    shop = await shopTokens(usher)
  })

  test.for<[string, Changes, RegExp | string, string?]>([
    ['without subject_token', { subject_token: '' }, 'subject_token is required'],
    ['without subject_token_type', { subject_token_type: '' }, 'subject_token_type is required'],
    ['with an actor_token', { actor_token: 'x' }, 'actor_token must be absent'],
    ['with another type', { requested_token_type: ID_TOKEN }, 'requested_token_type must be'],
    ['with a JWT of an API without JWTs', { requested_token_type: JWT }, 'are no JWTs'],
    ['of an opaque token as a JWT', { subject_token_type: JWT }, 'is not a JWT'],
    ['of a foreign JWT', { subject_token_type: JWT, subject_token: FOREIGN }, 'not a valid token'],
    ['of a token of another type', { subject_token_type: 'urn:x' }, 'subject_token_type must be'],
    ['of an access token as an ID token', { subject_token_type: ID_TOKEN }, 'not a valid token'],
    ['of a token that was never issued', { subject_token: 'x' }, DEAD],
    ['for an unknown API', { resource: 'https://other.example.org' }, TARGET, 'invalid_target'],
    ['for no API', { resource: '' }, TARGET, 'invalid_target'],
    ['for two APIs', { audience: 'calendar', resource: FILES }, TARGET, 'invalid_target'],
    ['by a client without a rule', { client_id: 'stranger' }, TARGET, 'invalid_target'],
    ['of another API', { client_id: 'files-api', resource: CALENDAR }, 'must be of the client'],
    ['without any scope that is allowed', { scope: 'calendar:read' }, 'more', 'invalid_scope'],
    ['by a public client', { client_id: 'spa' }, 'public', 'unauthorized_client'],
  ])('%s', async ([, changes, description, error]) => {
    const answer = await exchange(usher, shop.access_token, changes)
    expect(answer).toMatchObject(refused(description, error))
  })

  test('of an ID token that was issued to another client', async () => {
    const { id_token } = await tokens(usher, { client_id: 'post' })
    const form = { client_id: 'web', subject_token_type: ID_TOKEN }
    const answer = await exchange(usher, id_token, form)
    expect(answer).toMatchObject(refused('must have the client as aud and azp'))
  })

  test('of a refresh token, and of an exchanged token by another client than its holder', async () => {
    expect(await exchange(usher, shop.refresh_token)).toMatchObject(refused(DEAD))
    const { body } = await exchange(usher, shop.access_token)
    for (const client_id of ['web', 'shop-api']) {
      const answer = await exchange(usher, body.access_token, { client_id })
      expect(answer).toMatchObject(refused('must be of the client'))
    }
  })
})

test('the audit event and Connected applications name the clients that act through an application', async () => {
  const { browser, access_token } = await shopTokens(usher)
  await exchange(usher, access_token, { scope: 'files:read' })
  const event = {
    event: 'token_exchanged',
    account: ada,
    client_id: 'shop-api',
    of_client: 'web',
    actors: ['shop-api'],
    api: FILES,
    scope: 'files:read',
  }
  expect(usher.auditEvents()).toContainEqual(expect.objectContaining(event))
  expect(usher.output.filter(line => line.includes('"ignored"'))).toEqual([])
  const { text } = await browser.open('/account/applications')
  expect(text).toMatch(/Through it, these applications act for you, too: .*The shop-api/)
  await browser.open(removalOf('web'))
  await browser.submit()
  expect(browser.page.text).not.toContain('The shop-api')
})

test('an exchange uses no scope that the user declined for the application', async () => {
  const browser = await signedIn(usher)
  const scope = 'openid shop:read files:read'
  const { access_token } = await tokensFor(
    usher,
    { browser, scope, resources: [SHOP, FILES] },
    SHOP,
  )
  expect((await exchange(usher, access_token)).body.scope).toBe('files:read')
})
