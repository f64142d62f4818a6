// Clients whose client_id is the address of a document about them (draft-ietf-oauth-client-id-metadata-document).

import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { decodeProtectedHeader } from 'jose'
import { errors } from 'oidc-provider'
import * as openid from 'openid-client'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { explainFailure } from '../../src/commands/failure.ts'
import { clientDocuments } from '../../src/features/registration/documents.ts'
import { BOUNDS } from '../../src/oidc/bounds.ts'
import { findFailure } from '../../src/operation/failures.ts'
import { PeerUnavailable } from '../../src/store/reasons.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { Browser } from '../support/browser.ts'
import { makeCertificate } from '../support/certificates.ts'
import { BANKING, detailsRequest, PAYMENT } from '../support/details.ts'
import { authorizationRequest, authorize, signInAndAllow } from '../support/journey.ts'
import { textOf, words } from '../support/people.ts'
import { OPERATORS } from '../support/registration.ts'
import { assertion, PUBLIC_JWKS } from '../support/signers.ts'
import { someOf } from '../support/some-of.ts'
import { ADA, CLIENTS, PASSWORD, startUsher, type Usher } from '../support/usher.ts'
import { send } from '../support/wire.ts'

const folder = mkdtempSync(join(tmpdir(), 'usher-documents-'))
const certificate = makeCertificate(folder, 'localhost', {
  extensions: ['subjectAltName=DNS:localhost,IP:127.0.0.1'],
})
const trusted = getCACertificates()
const DISCOVERY = '/.well-known/openid-configuration'
const CALLBACK = 'https://assistant.example.net/callback'
const usher_yaml = {
  features: {
    client_id_metadata_documents: true,
    pairwise_subjects: true,
    rich_authorization_requests: true,
  },
  egress: { allow: ['localhost'] },
}

/** Documents by path: the members besides client_id, or the whole response body. */
const documents: Record<string, object | string> = {}
const asked: string[] = []
/** How the server fails. */
let isDown: number | 'reset' | undefined
let server: Server
let site: string
let usher: Usher
// Each test begins a minute of the quotas of fetches.
const clock = performance.now.bind(performance)
let begun = 0
beforeEach(() => {
  begun += 3 * 60_000
  vi.spyOn(performance, 'now').mockImplementation(() => clock() + begun)
})
beforeAll(async () => {
  setDefaultCACertificates([...trusted, certificate.pem])
  const tls = { cert: certificate.pem, key: readFileSync(certificate.key) }
  server = createServer(tls, ({ url = '', headers }, res) => {
    asked.push(url)
    const found = documents[url]
    if (isDown === 'reset') return void res.destroy()
    // Many hosts refuse a request that does not say who asks.
    if (!headers['user-agent']) return void res.writeHead(403).end()
    if (isDown) res.writeHead(isDown)
    else if (url === '/elsewhere') res.writeHead(302, { location: '/assistant' })
    else if (!found) res.writeHead(404)
    const client_id = site + url
    res.end(typeof found === 'string' ? found : JSON.stringify({ client_id, ...found }))
  }).listen(0, 'localhost')
  await once(server, 'listening')
  site = `https://localhost:${(server.address() as AddressInfo).port}`
  const { resources, files, clients } = BANKING
  const api = clients['files-api']
  usher = await startUsher({ clients: { api }, resources, files, usher: usher_yaml })
  await usher.addAccount(ADA)
})
afterAll(async () => {
  setDefaultCACertificates(trusted)
  await usher.close()
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})

const ASSISTANT = {
  client_name: 'Assistant',
  redirect_uris: [CALLBACK],
  token_endpoint_auth_method: 'none',
}
const begin = (client_id: string, at = usher) =>
  send(at, authorizationRequest(at, { client_id, redirect_uri: CALLBACK }).url)

test('a client with a metadata document signs users in, and the pages show that it is unchecked', async () => {
  documents['/assistant'] = ASSISTANT
  const client_id = `${site}/assistant`
  const config = await openid.discovery(
    new URL(usher.issuer),
    client_id,
    undefined,
    openid.None(),
    { execute: [openid.allowInsecureRequests] },
  )
  expect(config.serverMetadata().client_id_metadata_document_supported).toBe(true)
  const scope = 'openid profile offline_access'
  const asking = authorizationRequest(usher, { client_id, redirect_uri: CALLBACK, scope })
  const browser = new Browser(usher.issuer)
  await browser.open(asking.url)
  await browser.submit({
    username: 'ada',
    password: PASSWORD,
    decision: 'continue',
  })
  expect(browser.heading).toBe(words('consent.title'))
  const shown = textOf(browser.page.text)
  expect(shown).toContain('Assistant')
  expect(shown).toContain('assistant.example.net')
  expect(shown).toContain(words('consent.published', { host: new URL(site).host, brand: 'Usher' }))
  expect(shown).not.toContain(words('consent.local'))
  const page = await signInAndAllow(browser, 'ada')
  const tokens = await openid.authorizationCodeGrant(config, page.url, {
    pkceCodeVerifier: asking.code_verifier,
    expectedState: asking.state,
    expectedNonce: asking.nonce,
  })
  const sub = tokens.claims()?.sub ?? ''
  expect(await openid.fetchUserInfo(config, tokens.access_token, sub)).toMatchObject({
    name: ADA.name,
  })
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
  const warnsAt = async (path: string) => {
    const browser = new Browser(usher.issuer)
    const params = { client_id: site + path, redirect_uri: 'http://127.0.0.1:4321/callback' }
    await browser.open(authorizationRequest(usher, params).url)
    await browser.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
    expect(browser.heading).toBe(words('consent.title'))
    return textOf(browser.page.text).includes(words('consent.local'))
  }
  expect([await warnsAt('/local'), await warnsAt('/mixed')]).toEqual([true, false])
})

test('a client authenticates with the keys in its metadata document', async () => {
  const keyed = { token_endpoint_auth_method: 'private_key_jwt', jwks: PUBLIC_JWKS }
  documents['/keyed'] = { ...ASSISTANT, ...keyed }
  const ask = async (aud: string) => {
    const client_assertion = await assertion('ES256', `${site}/keyed`, aud)
    const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
    const body = { ...form, client_assertion, client_assertion_type }
    return (await send(usher, '/api/oauth/token', { body })).json.error
  }
  expect(await ask(usher.issuer)).toBe('invalid_grant')
  expect(await ask('https://other.example.org')).toBe('invalid_client')
})

test('a document has the values that its client can use, and one of them is chosen', async () => {
  const lists = { id_token_signing_alg_values_supported: ['HS256', 'ES256'] }
  documents['/choosing'] = { ...ASSISTANT, ...lists }
  const client_id = `${site}/choosing`
  const asked = { client_id, redirect_uri: CALLBACK, scope: 'openid' }
  const { code, request } = await authorize(usher, asked)
  const { code_verifier } = request
  const form = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, code_verifier }
  const { json } = await send(usher, '/api/oauth/token', { body: { ...form, client_id } })
  expect(decodeProtectedHeader(String(json.id_token)).alg).toBe('ES256')
})

test('egress.allow is for documents of listed hosts, and for their keys, unless the issuer is on loopback', async () => {
  const keyed = { token_endpoint_auth_method: 'private_key_jwt', jwks_uri: `${site}/keys` }
  documents['/strange'] = { ...ASSISTANT, ...keyed }
  documents['/keys'] = JSON.stringify(PUBLIC_JWKS)
  const { host } = new URL(site)
  const client_id = `${site}/strange`
  const issuer = 'https://id.example.org'
  const startAt = async (set: true | { hosts: string[] }) => {
    const { features, ...yaml } = usher_yaml
    const started = await startUsher({
      clients: {},
      usher: {
        ...yaml,
        features: { ...features, client_id_metadata_documents: set },
        issuer,
        proxy: ['127.0.0.1/32'],
      },
      store: `sqlite:${join(folder, `${host}-${JSON.stringify(set).length}.db`)}`,
      env: { USHER_SECRET: 'x'.repeat(43) },
    })
    onTestFinished(() => started.close())
    return started
  }
  const authenticate = async (at: Usher) => {
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' }
    const client_assertion = await assertion('ES256', client_id, issuer)
    const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
    const body = { ...form, client_assertion, client_assertion_type }
    return (await send(at, '/api/oauth/token', { body, headers })).json.error
  }
  asked.length = 0
  const open = await startAt(true)
  expect([await authenticate(open), asked]).toEqual(['invalid_client', []])
  expect(open.output.join('')).toContain('egress.allow is for documents at features.client_id')
  expect(await authenticate(await startAt({ hosts: [host] }))).toBe('invalid_grant')
  expect(asked).toEqual(['/strange', '/keys'])
})

test('key sets of documents use up the quota of one network, not that of others and of client files', async () => {
  const jwks_uri = `${site}/jwks`
  const web = { ...CLIENTS.web, client_secret_hashes: undefined }
  const filed = { ...web, client_id: 'filed', token_endpoint_auth_method: 'private_key_jwt' }
  const flooded = await startUsher({
    clients: { filed: { ...filed, jwks_uri } },
    usher: { ...usher_yaml, proxy: ['127.0.0.1'] },
  })
  onTestFinished(() => flooded.close())
  const { max } = BOUNDS.keySetsOfNetwork
  const paths = Array.from({ length: max + 1 }, (_, i) => `/flood/${i}`)
  documents['/jwks'] = JSON.stringify(PUBLIC_JWKS)
  for (const path of paths) {
    const keys = `/keys${path}`
    const method = { token_endpoint_auth_method: 'private_key_jwt' }
    documents[keys] = JSON.stringify(PUBLIC_JWKS)
    documents[path] = { ...ASSISTANT, ...method, jwks_uri: site + keys }
  }
  const ask = async (client_id: string, address: string) => {
    const client_assertion = await assertion('ES256', client_id, flooded.issuer)
    const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    const form = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: CALLBACK }
    const body = { ...form, client_assertion, client_assertion_type }
    const headers = { 'x-forwarded-for': address }
    return (await send(flooded, '/api/oauth/token', { body, headers })).json.error
  }
  // The documents are fetched from several networks, and cached for longer than the key sets.
  for (const [i, path] of paths.entries()) await ask(site + path, `203.0.${i % 4}.1`)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 40_000 })
  onTestFinished(() => void vi.useRealTimers())
  const errors = []
  for (const path of paths) errors.push(await ask(site + path, '198.51.100.1'))
  expect(errors.filter(error => error === 'invalid_grant')).toHaveLength(max)
  expect(errors.at(-1)).toBe('temporarily_unavailable')
  const last = site + paths.at(-1)
  expect(await ask('filed', '198.51.100.1')).toBe('invalid_grant')
  expect(await ask(last, '192.0.2.1')).toBe('invalid_grant')
})

test('another node fetches the document itself, and shows the name of the client', async () => {
  const store = `sqlite:${join(folder, 'usher.db')}`
  const secret = { USHER_SECRET: Buffer.alloc(32, 'documents').toString('base64url') }
  const start = () => startUsher({ clients: {}, usher: usher_yaml, store, env: secret })
  const [first, second] = [await start(), await start()]
  await first.addAccount(ADA)
  documents['/assistant'] = ASSISTANT
  const client_id = `${site}/assistant`
  const browser = new Browser(first.issuer)
  await browser.open(authorizationRequest(first, { client_id, redirect_uri: CALLBACK }).url)
  await browser.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
  const { pathname, search } = browser.page.url
  const cookie = await browser.jar.getCookieString(browser.page.url.href)
  const asIfHere = { host: new URL(second.issuer).host, cookie }
  asked.length = 0
  const page = await send(second, pathname + search, { headers: asIfHere })
  expect(page.text).toContain('Assistant')
  expect(asked).toEqual(['/assistant'])
  await Promise.all([first.close(), second.close()])
})

/** Metadata documents, and the reason for which each is refused. */
const REFUSED: [what: string, document: object | string, why: RegExp][] = [
  ['is no JSON', '<html>', /fetch failed/],
  ['is a list', '[]', /not a JSON object/],
  ['is larger than 5 KiB', { ...ASSISTANT, client_name: 'x'.repeat(6000) }, /fetch failed/],
  ['has another client_id', { ...ASSISTANT, client_id: 'https://other.example' }, /does not match/],
  ['has a secret', { ...ASSISTANT, client_secret: 's'.repeat(40) }, /client_secret/],
  ...OPERATORS.map((metadata): [string, object, RegExp] => {
    const [key] = Object.keys(metadata)
    return [`has ${key}`, { ...ASSISTANT, ...metadata }, new RegExp(`${key} is for the operator`)]
  }),
  [
    'has a sector_identifier_uri',
    { ...ASSISTANT, sector_identifier_uri: 'https://localhost/s' },
    /sector/,
  ],
  [
    'has a backchannel_logout_uri',
    { ...ASSISTANT, backchannel_logout_uri: 'https://localhost/b' },
    /backchannel/,
  ],
  ['has a wildcard', { ...ASSISTANT, redirect_uris: ['https://*.example.net/'] }, /wildcard/],
  ['is on plain http', { ...ASSISTANT, redirect_uris: ['http://app.example.net/'] }, /https/],
  [
    'is pairwise with a redirect URI of another host',
    { ...ASSISTANT, subject_type: 'pairwise' },
    /redirect_uris of a pairwise/,
  ],
  [
    'has the name of the provider',
    { ...ASSISTANT, client_name: 'U S H E R' },
    /client_name is the name/,
  ],
  [
    'has a name with a right-to-left override',
    { ...ASSISTANT, client_name: 'Bank\u202eknaB' },
    /client_name/,
  ],
]

test.each(REFUSED)(
  'a document that %s is refused, and nothing else is requested',
  async (what, document, why) => {
    const path = `/${what.replaceAll(' ', '-')}`
    documents[path] = document
    asked.length = 0
    const { status, text } = await begin(site + path)
    expect(status).toBe(400)
    expect(text).toMatch(why)
    expect(asked).toEqual([path])
  },
)

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
    const read = () => findFailure(usher.records, id)
    await expect.poll(read).toBeTruthy()
    const failure = await read()
    if (!failure) throw new Error('nothing is remembered')
    const { wrong } = explainFailure({ failure })
    expect(wrong).toContain(`there is no document at ${client_id}`)
  }
})

test('a document that cannot be fetched now is a 503, on every page and at the token endpoint', async () => {
  documents['/down'] = ASSISTANT
  const client_id = `${site}/down`
  const at = await startUsher({ clients: {}, usher: usher_yaml })
  await at.addAccount(ADA)
  const browser = new Browser(at.issuer)
  const asking = authorizationRequest(at, { client_id, redirect_uri: CALLBACK })
  await browser.open(asking.url)
  await browser.submit({ username: 'ada', password: PASSWORD, decision: 'continue' })
  const page = await signInAndAllow(browser, 'ada')
  const code = page.url.searchParams.get('code') ?? ''
  const redeem = () =>
    send(at, '/api/oauth/token', {
      body: {
        grant_type: 'authorization_code',
        code,
        client_id,
        redirect_uri: CALLBACK,
        code_verifier: asking.code_verifier,
      },
    })
  // The cached document has expired.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
  for (const fault of [503, 429, 'reset'] as const) {
    documents['/down'] = String(fault)
    isDown = fault
    expect((await begin(client_id, at)).status).toBe(503)
    expect(await redeem()).toMatchObject({
      status: 503,
      json: { error: 'temporarily_unavailable' },
    })
    await browser.open('/account/applications')
    expect([browser.page.status, browser.page.text.includes(client_id)]).toEqual([200, true])
  }
  isDown = undefined
  documents['/down'] = ASSISTANT
  vi.useRealTimers()
  expect((await redeem()).json.error).not.toBe('invalid_client')
  await at.close()
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
  const ask = (params: object, at = usher, headers = {}) => {
    documents['/assistant'] = ASSISTANT
    const client = { client_id: `${site}/assistant`, redirect_uri: CALLBACK }
    return send(at, authorizationRequest(at, { ...client, ...params }).url, { headers })
  }

  test.each(WRONG)('leads nowhere before a user has answered: %s', async (_, params, error) => {
    const { status, location, text } = await ask(params)
    expect([status, location]).toEqual([400, undefined])
    expect(text).toContain(error)
    expect(text).not.toContain(CALLBACK)
  })

  test('is sent to the client after the user has cancelled, and in a frame', async () => {
    const browser = new Browser(usher.issuer)
    const client = { client_id: `${site}/assistant`, redirect_uri: CALLBACK }
    await browser.open(authorizationRequest(usher, client).url)
    await browser.submit({ decision: 'cancel' })
    expect(browser.page.params.get('error')).toBe('access_denied')
    const frame = { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate' }
    const { location } = await ask({ prompt: 'none' }, usher, frame)
    expect(location?.searchParams.get('error')).toBe('login_required')
  })

  test('is sent to the client if the operator has listed its host', async () => {
    const hosts = [new URL(site).host]
    const features = { client_id_metadata_documents: { hosts } }
    const listed = await startUsher({ usher: { ...usher_yaml, features } })
    onTestFinished(() => listed.close())
    const { location } = await ask({ prompt: 'none' }, listed)
    expect(location?.searchParams.get('error')).toBe('login_required')
  })
})

test('a redirect is not followed, and no internal address is requested', async () => {
  asked.length = 0
  expect((await begin(`${site}/elsewhere`)).status).toBe(400)
  expect(asked).toEqual(['/elsewhere'])
  const { port } = new URL(site)
  for (const host of ['127.0.0.1', '[::1]']) {
    expect((await begin(`https://${host}:${port}/assistant`)).status).toBe(400)
  }
  for (const id of ['http://localhost/', 'https://ada@localhost/', 'https://localhost/../x']) {
    expect((await begin(id)).status).toBe(400)
  }
  expect(asked).toEqual(['/elsewhere'])
})

test('one network fetches at most 30 documents of a host in a minute, and others continue to work', async () => {
  const proxied = { ...usher_yaml, proxy: ['127.0.0.1/32'] }
  const crowd = await startUsher({ clients: {}, usher: proxied })
  const ask = (client_id: string, ip: string) => {
    const { url } = authorizationRequest(crowd, { client_id, redirect_uri: CALLBACK })
    const headers = { 'x-forwarded-for': ip, 'x-forwarded-proto': 'http' }
    return send(crowd, url, { headers }).then(({ status }) => status)
  }
  documents['/assistant'] = ASSISTANT
  documents['/other'] = ASSISTANT
  expect(await ask(`${site}/assistant`, '192.0.2.1')).toBe(303)
  asked.length = 0
  const all = Array.from({ length: 50 }, (_, i) => ask(`${site}/unknown-${i}`, '192.0.2.1'))
  const statuses = await Promise.all(all)
  expect(asked.length).toBe(29)
  expect(statuses.filter(status => status === 503)).toHaveLength(21)
  expect(await ask(`${site}/assistant`, '192.0.2.1')).toBe(303)
  expect(await ask(`${site}/other`, '192.0.2.1')).toBe(503)
  expect(await ask(`${site}/other`, '198.51.100.1')).toBe(303)
  await crowd.close()
})

test('pages of one network use up its quota of documents, and others see the name of an application', async () => {
  const crowd = await startUsher({ clients: {}, usher: { ...usher_yaml, proxy: ['127.0.0.1/32'] } })
  onTestFinished(() => crowd.close())
  const paths = Array.from({ length: BOUNDS.documentsAtHost.max + 5 }, (_, i) => `/pages/${i}`)
  const open = async (path: string, ip: string) => {
    documents[path] = { ...ASSISTANT, client_name: `Named ${path}` }
    const client_id = site + path
    const browser = new Browser(crowd.issuer)
    const { url } = authorizationRequest(crowd, { client_id, redirect_uri: CALLBACK })
    await browser.open(url, { 'x-forwarded-for': ip })
    expect(textOf(browser.page.text)).toContain(`Named ${path}`)
    return browser
  }
  const browsers = []
  for (const [i, path] of paths.entries()) browsers.push(await open(path, `203.0.${i}.1`))
  const legitimate = await open('/legitimate', '203.0.113.1')
  // The documents are no longer cached.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
  onTestFinished(() => void vi.useRealTimers())
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

test.each(someOf(LOOKING, 3))(
  'addresses of documents that are refused at %s are not kept',
  async (...row) => {
    const [endpoint, parameters] = row
    const on = ['pushed_authorization_requests', 'device_flow', 'ciba']
    const features = { ...usher_yaml.features, ...Object.fromEntries(on.map(name => [name, true])) }
    const crowd = await startUsher({ clients: {}, usher: { ...usher_yaml, features } })
    const chars = 50_000
    async function ask(i: number) {
      const client_id = `https://h${String(i).padEnd(chars, 'h')}.test/x`
      const { json } = await send(crowd, `/api/oauth/${endpoint}`, {
        body: { ...parameters, client_id },
      })
      expect(json.error).toBe('invalid_client')
    }
    const heap = () => {
      collectGarbage()
      return process.memoryUsage().heapUsed
    }
    for (let i = 0; i < 20; i++) await ask(i)
    const before = heap()
    const count = 300
    for (let i = 20; i < 20 + count; i++) await ask(i)
    expect(heap() - before).toBeLessThan((count * chars) / 2)
    await crowd.close()
  },
)

test('a client_id has at most 2,048 bytes, and its host 253 characters', async () => {
  const ofBytes = (count: number) => `${site}/`.padEnd(count, 'x')
  const hostOf = (count: number) => `https://${'a.'.repeat(count / 2)}x/`
  const answers = async (client_id: string) => {
    const { json } = await send(usher, '/api/oauth/token', {
      body: { grant_type: 'authorization_code', code: 'x', client_id },
    })
    return json.error
  }
  asked.length = 0
  for (const client_id of [ofBytes(2048), ofBytes(2049), hostOf(254)]) {
    expect(await answers(client_id)).toBe('invalid_client')
  }
  expect(asked).toEqual([new URL(ofBytes(2048)).pathname])
})

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const MOST = 20
/** Requests at each endpoint that takes a client assertion, with their answer. */
const STORING: [endpoint: string, parameters: Record<string, string>, answer: string][] = [
  ['token', { grant_type: 'authorization_code', code: 'x', redirect_uri: CALLBACK }, '400'],
  ['token', { grant_type: 'refresh_token', refresh_token: 'x' }, '400'],
  ['token', { grant_type: 'unknown' }, '400'],
  ['revoke', { token: 'x' }, '200'],
  ['introspect', { token: 'x' }, '200'],
  [
    'par',
    {
      response_type: 'code',
      redirect_uri: CALLBACK,
      scope: 'openid',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
    },
    '201',
  ],
]
test.each(STORING)(
  'a client with a document has the limit of its network at %s, and uses up none of a client file: %j',
  async (endpoint, parameters, answer) => {
    const keyed = {
      ...ASSISTANT,
      client_id: 'keyed',
      token_endpoint_auth_method: 'private_key_jwt',
      jwks: PUBLIC_JWKS,
    }
    const { client_id: _, ...document } = keyed
    documents['/keyed'] = document
    const crowd = await startUsher({
      clients: { keyed: { ...keyed, client_name: 'Known application' } },
      usher: {
        ...usher_yaml,
        features: { ...usher_yaml.features, pushed_authorization_requests: true },
        proxy: ['127.0.0.1/32'],
        limits: { anonymous: MOST },
      },
    })
    const sign = (client_id: string) => assertion('ES256', client_id, crowd.issuer)
    const ask = async (client_id: string, ip: string, signature?: string) => {
      const client_assertion = signature ?? (await sign(client_id))
      const signed = { client_id, client_assertion, client_assertion_type: ASSERTION_TYPE }
      const { status, headers } = await send(crowd, `/api/oauth/${endpoint}`, {
        headers: { 'x-forwarded-for': ip, 'x-forwarded-proto': 'http' },
        body: { ...parameters, ...signed },
      })
      return `${status} ${headers.get('retry-after') ?? ''}`.trim()
    }
    const document_id = `${site}/keyed`
    const all = []
    for (let i = 0; i < MOST; i++) all.push(await ask(document_id, `2001:db8:1:${i}::1`))
    expect(new Set(all)).toEqual(new Set([answer]))
    const refused = await sign(document_id)
    expect(await ask(document_id, '2001:db8:1:ffff::1', refused)).toBe('429 60')
    // Nothing was stored: the assertion was not used.
    expect(await ask(document_id, '2001:db8:2::1', refused)).toBe(answer)
    // Known clients have no limit, also in a network that has used up its own.
    for (let i = 0; i <= MOST; i++) expect(await ask('keyed', '2001:db8:1::1')).toBe(answer)
    await crowd.close()
  },
)

test('a client with a document does not learn whether a token of another client exists', async () => {
  documents['/keyed'] = {
    ...ASSISTANT,
    token_endpoint_auth_method: 'private_key_jwt',
    jwks: PUBLIC_JWKS,
  }
  documents['/assistant'] = ASSISTANT
  const asked = { client_id: `${site}/assistant`, redirect_uri: CALLBACK }
  const { code, request } = await authorize(usher, asked)
  const { code_verifier } = request
  const form = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, code_verifier }
  const body = { ...form, client_id: asked.client_id }
  const token = String((await send(usher, '/api/oauth/token', { body })).json.access_token)
  const revoke = async (value: string) => {
    const client_assertion = await assertion('ES256', `${site}/keyed`, usher.issuer)
    const signed = { client_assertion, client_assertion_type: ASSERTION_TYPE }
    return send(usher, '/api/oauth/revoke', { body: { token: value, ...signed } })
  }
  expect((await revoke(token)).status).toBe(200)
  expect((await revoke('unknown')).status).toBe(200)
  const bearer = { headers: { authorization: `Bearer ${token}` } }
  expect((await send(usher, '/api/oauth/userinfo', bearer)).status).toBe(200)
})

test('with hosts, documents of other hosts are not fetched; a file with the address of one needs none', async () => {
  documents['/assistant'] = ASSISTANT
  const client_id = `${site}/assistant`
  const pinned = { ...ASSISTANT, client_name: 'Pinned', client_id: `${site}/pinned` }
  const withHosts = (hosts: string[]) =>
    startUsher({
      clients: { pinned },
      usher: { ...usher_yaml, features: { client_id_metadata_documents: { hosts } } },
    })
  const answers = async (hosts: string[]) => {
    const at = await withHosts(hosts)
    const { json } = await send(at, DISCOVERY)
    expect(json.client_id_metadata_document_supported).toBe(true)
    asked.length = 0
    const statuses = [
      (await begin(client_id, at)).status,
      (await begin(pinned.client_id, at)).status,
    ]
    await at.close()
    return [...statuses, asked]
  }
  expect(await answers([])).toEqual([400, 303, []])
  expect(await answers(['localhost'])).toEqual([400, 303, []])
  expect(await answers([new URL(site).host])).toEqual([303, 303, ['/assistant']])
})

/** Documents that have the name of a client file, by what the file or the list of hosts has of their host. */
const NAMESAKES: [what: string, file: object, isListed: boolean, status: number][] = [
  ['nothing', {}, false, 400],
  ['a redirect URI at its host', { redirect_uris: ['SITE/callback'] }, false, 303],
  ['client_uri at its host', { client_uri: 'SITE/about' }, false, 303],
  ['a redirect URI at another port', { redirect_uris: ['https://localhost/callback'] }, false, 400],
  ['its host in hosts', {}, true, 303],
]
test.each(NAMESAKES)(
  'a document with the name of a client file: %s',
  async (_, metadata, isListed, status) => {
    documents['/namesake'] = ASSISTANT
    documents['/provider'] = { ...ASSISTANT, client_name: 'Usher' }
    const own = JSON.parse(JSON.stringify(metadata).replaceAll('SITE', site))
    const vendor = { ...ASSISTANT, client_id: 'vendor', client_name: 'ASSISTANT', ...own }
    const hosts = isListed ? [new URL(site).host] : undefined
    const features = { client_id_metadata_documents: { hosts } }
    const at = await startUsher({ clients: { vendor }, usher: { ...usher_yaml, features } })
    expect((await begin(`${site}/namesake`, at)).status).toBe(status)
    expect((await begin(`${site}/provider`, at)).status).toBe(400)
    await at.close()
  },
)

test('while the feature is off, no document is fetched, and discovery does not list it', async () => {
  const off = await startUsher({ clients: {}, usher: { egress: usher_yaml.egress } })
  documents['/assistant'] = ASSISTANT
  asked.length = 0
  expect((await begin(`${site}/assistant`, off)).status).toBe(400)
  expect(asked).toEqual([])
  const { json } = await send(off, DISCOVERY)
  expect(json).not.toHaveProperty('client_id_metadata_document_supported')
  await off.close()
})
