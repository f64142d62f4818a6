// Clients whose client_id is the address of a document about them (draft-ietf-oauth-client-id-metadata-document).

import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { decodeProtectedHeader } from 'jose'
import { errors } from 'oidc-provider'
import * as openid from 'openid-client'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, vi } from 'vitest'
import { clientDocuments } from '../../src/features/registration/documents.ts'
import { BOUNDS } from '../../src/oidc/bounds.ts'
import { PeerUnavailable } from '../../src/store/reasons.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { configurationOf } from '../support/client-library.ts'
import { BANKING, detailsRequest, PAYMENT } from '../support/details.ts'
import { startDocumentSite } from '../support/document-site.ts'
import { explanationOf, moveClock, startAnother, usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest, authorize, codeForm, signInAndAllow } from '../support/journey.ts'
import { ASSERTION } from '../support/keyed.ts'
import { credentials, open, textOf, words } from '../support/people.ts'
import { assertion, PUBLIC_JWKS } from '../support/signers.ts'
import { someOf } from '../support/some-of.ts'
import { ADA, CLIENTS, startUsher, type Usher, type UsherOptions } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const documentSite = await startDocumentSite()
const { origin: site, documents, asked, folder } = documentSite
const { host } = new URL(site)
const CALLBACK = 'https://assistant.example.net/callback'
const usher_yaml = {
  features: {
    client_id_metadata_documents: true,
    pairwise_subjects: true,
    rich_authorization_requests: true,
  },
  egress: { allow: ['localhost'] },
}
const withFeatures = (features: object) => ({
  ...usher_yaml,
  features: { ...usher_yaml.features, ...features },
})
const PROXIED = { ...usher_yaml, proxy: ['127.0.0.1/32'] }

const test = usherTest(() => {
  const { resources, files, clients } = BANKING
  return { clients: { api: clients['files-api'] }, resources, files, usher: usher_yaml }
})
test.afterAll(() => documentSite.close())
// Each test begins a minute of the quotas of fetches.
const clock = performance.now.bind(performance)
let begun = 0
beforeEach(() => {
  begun += 3 * 60_000
  vi.spyOn(performance, 'now').mockImplementation(() => clock() + begun)
  documents['/assistant'] = ASSISTANT
  asked.length = 0
})

/** Starts another Usher, for one test. */
const start = (yaml: object = usher_yaml, options: UsherOptions = {}) =>
  startAnother({ clients: {}, ...options, usher: yaml })
const ASSISTANT = {
  client_name: 'Assistant',
  redirect_uris: [CALLBACK],
  token_endpoint_auth_method: 'none',
}
const KEYED = { token_endpoint_auth_method: 'private_key_jwt', jwks: PUBLIC_JWKS }

const begin = (client_id: string, at = usher, headers = {}) =>
  send(at, authorizationRequest(at, { client_id, redirect_uri: CALLBACK }).url, { headers })

/** The error of a token request with an unknown code, and a signature by the keys of the document. */
async function authenticate(client_id: string, at = usher, headers = {}, aud = at.issuer) {
  const client_assertion = await assertion('ES256', client_id, aud)
  const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
  const body = { ...form, client_assertion, client_assertion_type: ASSERTION }
  return (await send(at, '/api/oauth/token', { body, headers })).json.error
}

/** Signs Ada in, and returns the token response of a public client. */
async function tokensOf(client_id: string, scope = 'openid') {
  const { code, request } = await authorize(usher, { client_id, redirect_uri: CALLBACK, scope })
  const body = { ...codeForm(code, request), client_id }
  return (await send(usher, '/api/oauth/token', { body })).json
}

/** A browser at the consent page of a client. */
async function atConsent(at: Usher, client_id: string, params: Record<string, string> = {}) {
  const { browser, request } = await open(at, { client_id, redirect_uri: CALLBACK, ...params })
  await browser.submit(credentials())
  expect(browser.heading).toBe(words('consent.title'))
  return { browser, request, shown: textOf(browser.page.text) }
}

test('a client with a metadata document signs users in, and the pages show that it is unchecked', async () => {
  const client_id = `${site}/assistant`
  const config = await configurationOf(usher, client_id, undefined, openid.None())
  expect(config.serverMetadata().client_id_metadata_document_supported).toBe(true)
  const scope = 'openid profile offline_access'
  const { browser, request, shown } = await atConsent(usher, client_id, { scope })
  expect(shown).toContain('Assistant')
  expect(shown).toContain('assistant.example.net')
  expect(shown).toContain(words('consent.published', { host, brand: 'Usher' }))
  expect(shown).not.toContain(words('consent.local'))
  const page = await signInAndAllow(browser, 'ada')
  const tokens = await openid.authorizationCodeGrant(config, page.url, {
    pkceCodeVerifier: request.code_verifier,
    expectedState: request.state,
    expectedNonce: request.nonce,
  })
  const sub = tokens.claims()?.sub ?? ''
  const claims = await openid.fetchUserInfo(config, tokens.access_token, sub)
  expect(claims).toMatchObject({ name: ADA.name })
  const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '')
  const applications = await browser.open('/account/applications')
  expect(applications.text).toContain('Assistant')
  expect(asked).toEqual(['/assistant'])
  await openid.tokenRevocation(config, renewed.refresh_token ?? '')
  const after = openid.fetchUserInfo(config, renewed.access_token, sub)
  await expect(after).rejects.toMatchObject({ status: 401 })
})

test('the consent page warns of a document with redirect URIs on loopback alone', async () => {
  const local = 'http://127.0.0.1/callback'
  documents['/local'] = { ...ASSISTANT, redirect_uris: [local, 'http://localhost/callback'] }
  documents['/mixed'] = { ...ASSISTANT, redirect_uris: [local, CALLBACK] }
  const redirect_uri = 'http://127.0.0.1:4321/callback'
  for (const [path, isWarned] of [['/local', true] as const, ['/mixed', false] as const]) {
    const { shown } = await atConsent(usher, site + path, { redirect_uri })
    expect(shown.includes(words('consent.local'))).toBe(isWarned)
  }
})

test('a client authenticates with the keys in its metadata document', async () => {
  documents['/keyed'] = { ...ASSISTANT, ...KEYED }
  expect(await authenticate(`${site}/keyed`)).toBe('invalid_grant')
  const other = 'https://other.example.org'
  expect(await authenticate(`${site}/keyed`, usher, {}, other)).toBe('invalid_client')
})

test('a document has the values that its client can use, and one of them is chosen', async () => {
  const lists = { id_token_signing_alg_values_supported: ['HS256', 'ES256'] }
  documents['/choosing'] = { ...ASSISTANT, ...lists }
  const { id_token } = await tokensOf(`${site}/choosing`)
  expect(decodeProtectedHeader(String(id_token)).alg).toBe('ES256')
})

test('egress.allow is for documents of listed hosts, and for their keys, unless the issuer is on loopback', async () => {
  documents['/strange'] = { ...ASSISTANT, ...KEYED, jwks: undefined, jwks_uri: `${site}/keys` }
  documents['/keys'] = JSON.stringify(PUBLIC_JWKS)
  const issuer = 'https://id.example.org'
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' }
  const startAt = (client_id_metadata_documents: true | { hosts: string[] }, name: string) =>
    start(
      { ...withFeatures({ client_id_metadata_documents }), issuer, proxy: ['127.0.0.1/32'] },
      { store: `sqlite:${join(folder, name)}`, env: { USHER_SECRET: 'x'.repeat(43) } },
    )
  const authenticateAt = (at: Usher) => authenticate(`${site}/strange`, at, headers, issuer)
  const open = await startAt(true, 'open.db')
  expect([await authenticateAt(open), asked]).toEqual(['invalid_client', []])
  expect(open.output.join('')).toContain('egress.allow is for documents at features.client_id')
  const listed = await startAt({ hosts: [host] }, 'listed.db')
  expect(await authenticateAt(listed)).toBe('invalid_grant')
  expect(asked).toEqual(['/strange', '/keys'])
})

test('key sets of documents use up the quota of one network, not that of others and of client files', async () => {
  const method = { token_endpoint_auth_method: 'private_key_jwt' }
  const web = { ...CLIENTS.web, client_secret_hashes: undefined }
  const filed = { ...web, ...method, client_id: 'filed', jwks_uri: `${site}/jwks` }
  const at = await start(PROXIED, { clients: { filed } })
  const { max } = BOUNDS.keySetsOfNetwork
  const paths = Array.from({ length: max + 1 }, (_, i) => `/flood/${i}`)
  documents['/jwks'] = JSON.stringify(PUBLIC_JWKS)
  for (const path of paths) {
    documents[`/keys${path}`] = JSON.stringify(PUBLIC_JWKS)
    documents[path] = { ...ASSISTANT, ...method, jwks_uri: `${site}/keys${path}` }
  }
  const ask = (client_id: string, address: string) =>
    authenticate(client_id, at, { 'x-forwarded-for': address })
  // The documents are fetched from several networks, and cached for longer than the key sets.
  for (const [i, path] of paths.entries()) await ask(site + path, `203.0.${i % 4}.1`)
  moveClock(40)
  const errors = []
  for (const path of paths) errors.push(await ask(site + path, '198.51.100.1'))
  expect(errors.filter(error => error === 'invalid_grant')).toHaveLength(max)
  expect(errors.at(-1)).toBe('temporarily_unavailable')
  expect(await ask('filed', '198.51.100.1')).toBe('invalid_grant')
  expect(await ask(site + paths.at(-1), '192.0.2.1')).toBe('invalid_grant')
})

/** Metadata documents, and the reason for which each is refused. */
const REFUSED: [what: string, document: object | string, why: RegExp][] = [
  ['is no JSON', '<html>', /fetch failed/],
  ['is a list', '[]', /not a JSON object/],
  ['has another client_id', { client_id: 'https://other.example' }, /does not match/],
  ['has a secret', { client_secret: 's'.repeat(40) }, /client_secret/],
  ['has a key of the operator', { consent: 'implicit' }, /consent is for the operator/],
  ['has a sector_identifier_uri', { sector_identifier_uri: 'https://localhost/s' }, /sector/],
  ['is notified', { backchannel_logout_uri: 'https://localhost/b' }, /backchannel/],
  ['is on plain http', { redirect_uris: ['http://app.example.net/'] }, /https/],
  ['is pairwise elsewhere', { subject_type: 'pairwise' }, /redirect_uris of a pairwise/],
  ['has the name of the provider', { client_name: 'U S H E R' }, /client_name is the name/],
]

test.each(REFUSED)('a document that %s is refused', async (what, document, why) => {
  const path = `/${what.replaceAll(' ', '-')}`
  documents[path] = typeof document === 'string' ? document : { ...ASSISTANT, ...document }
  const { status, text } = await begin(site + path)
  expect(status).toBe(400)
  expect(text).toMatch(why)
  expect(asked).toEqual([path])
})

test('a document of 5 KiB is accepted, and one of a byte more is refused', async () => {
  const { max } = BOUNDS.documents
  const serve = (path: string, bytes: number) => {
    const document = JSON.stringify({ client_id: site + path, ...ASSISTANT })
    documents[path] = document.padEnd(bytes)
  }
  serve('/full', max)
  serve('/fuller', max + 1)
  expect(await begin(`${site}/full`)).toMatchObject({ status: 303 })
  const { status, text } = await begin(`${site}/fuller`)
  expect([status, text]).toEqual([400, expect.stringContaining('fetch failed')])
})

test('config explain reports that the document could not be fetched', async () => {
  documents['/text'] = 'a text'
  documents['/large'] = { ...ASSISTANT, client_name: 'x'.repeat(6000) }
  const addresses = ['/nowhere', '/text', '/large', '/elsewhere'].map(path => site + path)
  const unreachable = [
    'https://127.0.0.1:1/x',
    'https://nowhere.invalid/x',
    'https://localhost:1/x',
  ]
  for (const client_id of [...addresses, ...unreachable]) {
    const { headers } = await begin(client_id)
    const id = headers.get('x-request-id') ?? ''
    const { wrong } = await explanationOf(usher, id)
    expect(wrong).toContain(`there is no document at ${client_id}`)
  }
})

test('a document that cannot be fetched now is a 503, on every page and at the token endpoint', async () => {
  documents['/down'] = ASSISTANT
  const client_id = `${site}/down`
  const at = await start()
  await at.addAccount(ADA)
  const { browser, request } = await atConsent(at, client_id)
  const page = await signInAndAllow(browser, 'ada')
  const code = page.url.searchParams.get('code') ?? ''
  const body = { ...codeForm(code, request), client_id }
  const redeem = () => send(at, '/api/oauth/token', { body })
  // The cached document has expired.
  moveClock(61)
  const unavailable = { status: 503, json: { error: 'temporarily_unavailable' } }
  for (const fault of [503, 429, 'reset'] as const) {
    documentSite.fault = fault
    expect((await begin(client_id, at)).status).toBe(503)
    expect(await redeem()).toMatchObject(unavailable)
    await browser.open('/account/applications')
    expect([browser.page.status, browser.page.text.includes(client_id)]).toEqual([200, true])
  }
  documentSite.fault = undefined
  vi.useRealTimers()
  expect((await redeem()).json.error).not.toBe('invalid_client')
})

test('an unavailable store is not a client without a document', async () => {
  const { settings, provider } = usher
  const { describeClient } = clientDocuments({ settings, log: pino({ enabled: false }) })
  const { find } = provider.Client
  const describeWith = async (error: Error) => {
    provider.Client.find = () => Promise.reject(error)
    return describeClient?.(provider, site, { ip: '192.0.2.1' })
  }
  const away = new StoreUnavailable('away')
  const gone = (cause: Error) => Object.assign(new errors.InvalidClient('fetch failed'), { cause })
  await expect(describeWith(away)).rejects.toBe(away)
  await expect(describeWith(gone(away))).rejects.toBe(away)
  expect(await describeWith(gone(new PeerUnavailable('x')))).toMatchObject({ client_name: site })
  expect(await describeWith(gone(new Error('is no JSON')))).toBeUndefined()
  provider.Client.find = find
})

test('a client cannot allow itself authorization details in its document', async () => {
  documents['/payer'] = { ...ASSISTANT, authorization_details_types: ['payment'] }
  const client_id = `${site}/payer`
  const { url } = detailsRequest(usher, [PAYMENT], { client_id, redirect_uri: CALLBACK })
  const { status, location, text } = await send(usher, url)
  expect([status, location]).toEqual([400, undefined])
  expect(text).toContain('invalid_authorization_details')
})

describe('an error of a document that any stranger can publish', () => {
  const WRONG = [
    ['a scope that does not exist', { scope: 'nonsense' }, 'invalid_scope'],
    ['no user', { prompt: 'none' }, 'login_required'],
    ['no user, by form_post', { prompt: 'none', response_mode: 'form_post' }, 'login_required'],
    ['a wrong challenge', { code_challenge: 'x' }, 'invalid_request'],
  ] as const
  const client = { client_id: `${site}/assistant`, redirect_uri: CALLBACK }
  const ask = (params: object, at = usher, headers = {}) =>
    send(at, authorizationRequest(at, { ...client, ...params }).url, { headers })

  test.each(WRONG)('leads nowhere before a user has answered: %s', async (_, params, error) => {
    const { status, location, text } = await ask(params)
    expect([status, location]).toEqual([400, undefined])
    expect(text).toContain(error)
    expect(text).not.toContain(CALLBACK)
  })

  test('is sent to the client after the user has cancelled, and in a frame', async () => {
    const { browser } = await open(usher, client)
    await browser.submit({ decision: 'cancel' })
    expect(browser.page.params.get('error')).toBe('access_denied')
    const frame = { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate' }
    const { location } = await ask({ prompt: 'none' }, usher, frame)
    expect(location?.searchParams.get('error')).toBe('login_required')
  })

  test('is sent to the client if the operator has listed its host', async () => {
    const hosts = { client_id_metadata_documents: { hosts: [host] } }
    const listed = await start(withFeatures(hosts))
    const { location } = await ask({ prompt: 'none' }, listed)
    expect(location?.searchParams.get('error')).toBe('login_required')
  })
})

test('a redirect is not followed, and no internal address is requested', async () => {
  expect((await begin(`${site}/elsewhere`)).status).toBe(400)
  expect(asked).toEqual(['/elsewhere'])
  const { port } = new URL(site)
  const internal = [`https://127.0.0.1:${port}/assistant`, `https://[::1]:${port}/assistant`]
  const wrong = ['http://localhost/', 'https://ada@localhost/', 'https://localhost/../x']
  for (const id of [...internal, ...wrong]) expect((await begin(id)).status).toBe(400)
  expect(asked).toEqual(['/elsewhere'])
})

test('one network fetches at most 30 documents of a host in a minute, and others continue to work', async () => {
  const crowd = await start(PROXIED)
  const ask = async (path: string, ip: string) =>
    (await begin(site + path, crowd, { 'x-forwarded-for': ip })).status
  documents['/other'] = ASSISTANT
  expect(await ask('/assistant', '192.0.2.1')).toBe(303)
  asked.length = 0
  const all = Array.from({ length: 50 }, (_, i) => ask(`/unknown-${i}`, '192.0.2.1'))
  const statuses = await Promise.all(all)
  expect(asked.length).toBe(29)
  expect(statuses.filter(status => status === 503)).toHaveLength(21)
  expect(await ask('/assistant', '192.0.2.1')).toBe(303)
  expect(await ask('/other', '192.0.2.1')).toBe(503)
  expect(await ask('/other', '198.51.100.1')).toBe(303)
})

test('pages of one network use up its quota of documents, and others see the name of an application', async () => {
  const crowd = await start(PROXIED)
  const open = async (path: string, ip: string) => {
    documents[path] = { ...ASSISTANT, client_name: `Named ${path}` }
    const browser = new Browser(crowd.issuer)
    const params = { client_id: site + path, redirect_uri: CALLBACK }
    await browser.open(authorizationRequest(crowd, params).url, { 'x-forwarded-for': ip })
    expect(textOf(browser.page.text)).toContain(`Named ${path}`)
    return browser
  }
  const browsers = []
  for (let i = 0; i < BOUNDS.documentsAtHost.max + 5; i++) {
    browsers.push(await open(`/pages/${i}`, `203.0.${i}.1`))
  }
  const legitimate = await open('/legitimate', '203.0.113.1')
  // The documents are no longer cached.
  moveClock(61)
  const isNamed = async (browser: Browser, ip: string) => {
    const { text } = await browser.open(browser.page.url, { 'x-forwarded-for': ip })
    return textOf(text).includes('Named /')
  }
  const shown = []
  for (const browser of browsers) shown.push(await isNamed(browser, '192.0.2.1'))
  expect(shown.filter(Boolean)).toHaveLength(BOUNDS.documentsAtHost.max)
  expect(await isNamed(legitimate, '198.51.100.1')).toBe(true)
})

/** The endpoints that look for a client, with what else they need. */
const LOOKING: [endpoint: string, parameters: Record<string, string>][] = [
  ['token', { grant_type: 'authorization_code', code: 'x' }],
  ['revoke', { token: 'x' }],
  ['introspect', { token: 'x' }],
  ['par', { response_type: 'code', redirect_uri: CALLBACK }],
  ['device_authorization', { scope: 'openid' }],
  ['backchannel_authentication', { scope: 'openid', login_hint: 'ada' }],
]
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

test.each(someOf(LOOKING, 3))('refused addresses are not kept at %s', async (...row) => {
  const [endpoint, parameters] = row
  const on = { pushed_authorization_requests: true, device_flow: true, ciba: true }
  const crowd = await start(withFeatures(on))
  const chars = 50_000
  const count = 150
  async function ask(from: number, to: number) {
    for (let i = from; i < to; i++) {
      const client_id = `https://h${String(i).padEnd(chars, 'h')}.test/x`
      const body = { ...parameters, client_id }
      const { json } = await send(crowd, `/api/oauth/${endpoint}`, { body })
      expect(json.error).toBe('invalid_client')
    }
  }
  const heap = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  await ask(0, 20)
  const before = heap()
  await ask(20, 20 + count)
  expect(heap() - before).toBeLessThan((count * chars) / 2)
})

test('a client_id has at most 2,048 bytes, and its host 253 characters', async () => {
  const ofBytes = (count: number) => `${site}/`.padEnd(count, 'x')
  const hostOf = (count: number) => `https://${'a.'.repeat(count / 2)}x/`
  for (const client_id of [ofBytes(2048), ofBytes(2049), hostOf(254)]) {
    const body = { grant_type: 'authorization_code', code: 'x', client_id }
    expect((await send(usher, '/api/oauth/token', { body })).json.error).toBe('invalid_client')
  }
  expect(asked).toEqual([new URL(ofBytes(2048)).pathname])
})

describe('a client with a document', () => {
  const MOST = 5
  const PKCE = {
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  }
  const PAR = { response_type: 'code', redirect_uri: CALLBACK, scope: 'openid', ...PKCE }
  /** Requests at each endpoint that takes a client assertion, with their answer. */
  const STORING: [endpoint: string, parameters: Record<string, string>, answer: string][] = [
    ['token', { grant_type: 'authorization_code', code: 'x', redirect_uri: CALLBACK }, '400'],
    ['token', { grant_type: 'unknown' }, '400'],
    ['revoke', { token: 'x' }, '200'],
    ['introspect', { token: 'x' }, '200'],
    ['par', PAR, '201'],
  ]
  const document_id = `${site}/keyed`
  let crowd: Usher
  beforeAll(async () => {
    const known = { ...ASSISTANT, ...KEYED, client_name: 'Known application', client_id: 'keyed' }
    const yaml = withFeatures({ pushed_authorization_requests: true })
    const limits = { anonymous: MOST }
    crowd = await startUsher({
      clients: { keyed: known },
      usher: { ...yaml, proxy: PROXIED.proxy, limits },
    })
  })
  afterAll(() => crowd.close())
  beforeEach(() => {
    documents['/keyed'] = { ...ASSISTANT, ...KEYED }
  })

  const sign = (client_id: string) => assertion('ES256', client_id, crowd.issuer)
  /** The status of a request, with the header Retry-After. */
  async function ask(row: number, client_id: string, ip: string, signature?: string) {
    const [endpoint, parameters] = STORING[row] ?? []
    const client_assertion = signature ?? (await sign(client_id))
    const signed = { client_id, client_assertion, client_assertion_type: ASSERTION }
    const body = { ...parameters, ...signed }
    const headers = { 'x-forwarded-for': ip }
    const answer = await send(crowd, `/api/oauth/${endpoint}`, { headers, body })
    return `${answer.status} ${answer.headers.get('retry-after') ?? ''}`.trim()
  }

  test.each([...STORING.entries()])(
    'has the limit of its network, and uses up none of a client file: %i %j',
    async (row, [, , answer]) => {
      const network = `2001:db8:${row + 1}`
      const all = []
      for (let i = 0; i < MOST; i++) all.push(await ask(row, document_id, `${network}:${i}::1`))
      expect(new Set(all)).toEqual(new Set([answer]))
      const refused = await sign(document_id)
      expect(await ask(row, document_id, `${network}:ffff::1`, refused)).toBe('429 60')
      // Nothing was stored: the assertion was not used.
      expect(await ask(row, document_id, `2001:db8:a${row}::1`, refused)).toBe(answer)
      // Known clients have no limit, also in a network that has used up its own.
      for (let i = 0; i <= MOST; i++) expect(await ask(row, 'keyed', `${network}::1`)).toBe(answer)
    },
  )

  test('does not learn whether a token of another client exists', async () => {
    const token = String((await tokensOf(`${site}/assistant`)).access_token)
    const revoke = async (value: string) => {
      const client_assertion = await assertion('ES256', document_id, usher.issuer)
      const body = { token: value, client_assertion, client_assertion_type: ASSERTION }
      return (await send(usher, '/api/oauth/revoke', { body })).status
    }
    expect([await revoke(token), await revoke('unknown')]).toEqual([200, 200])
    const bearer = { headers: { authorization: `Bearer ${token}` } }
    expect((await send(usher, '/api/oauth/userinfo', bearer)).status).toBe(200)
  })
})

test('with hosts, documents of other hosts are not fetched; a file with the address of one needs none', async () => {
  const pinned = { ...ASSISTANT, client_name: 'Pinned', client_id: `${site}/pinned` }
  const answers = async (hosts: string[]) => {
    const features = { client_id_metadata_documents: { hosts } }
    const at = await start(withFeatures(features), { clients: { pinned } })
    asked.length = 0
    const published = await begin(`${site}/assistant`, at)
    return [published.status, (await begin(pinned.client_id, at)).status, asked]
  }
  expect(await answers([])).toEqual([400, 303, []])
  expect(await answers(['localhost'])).toEqual([400, 303, []])
  expect(await answers([host])).toEqual([303, 303, ['/assistant']])
})

test('a document with the name of a client file needs an address at the host of the file, or a listed host', async () => {
  const files = {
    alone: {},
    redirected: { redirect_uris: [`${site}/callback`] },
    about: { client_uri: `${site}/about` },
    ported: { redirect_uris: ['https://localhost/callback'] },
  }
  const clients: Record<string, object> = {}
  for (const [client_id, own] of Object.entries(files)) {
    clients[client_id] = { ...ASSISTANT, client_name: client_id.toUpperCase(), ...own, client_id }
    documents[`/${client_id}`] = { ...ASSISTANT, client_name: client_id }
  }
  documents['/provider'] = { ...ASSISTANT, client_name: 'Usher' }
  const statusesAt = async (hosts?: string[]) => {
    const features = { client_id_metadata_documents: { hosts } }
    const at = await start(withFeatures(features), { clients })
    const statuses: Record<string, number> = {}
    for (const name of [...Object.keys(files), 'provider']) {
      statuses[name] = (await begin(`${site}/${name}`, at)).status
    }
    return statuses
  }
  const own = { redirected: 303, about: 303, provider: 400 }
  expect(await statusesAt()).toEqual({ ...own, alone: 400, ported: 400 })
  expect(await statusesAt([host])).toEqual({ ...own, alone: 303, ported: 303 })
})

test('while the feature is off, no document is fetched', async () => {
  const off = await start({ egress: usher_yaml.egress })
  expect((await begin(`${site}/assistant`, off)).status).toBe(400)
  expect(asked).toEqual([])
})
