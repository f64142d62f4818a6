import { UnsecuredJWT } from 'jose'
import { expect, onTestFinished } from 'vitest'
import { Browser } from '../support/browser.ts'
import { browser, test, usher } from '../support/fixtures.ts'
import {
  authorizationRequest,
  authorize,
  push,
  redeem,
  signInAndAllow,
} from '../support/journey.ts'
import { startReceiver } from '../support/receiver.ts'
import { SECRET, WEB } from '../support/usher.ts'
import { basic, type Reply, send, sendAs } from '../support/wire.ts'

const PAR = '/api/oauth/par'

test.beforeAll(async () => {
  await authorize(usher, { browser })
})

const errorOf = ({ location, text }: Reply) =>
  location?.searchParams.get('error') ?? /<code>(\w+)<\/code>/.exec(text)?.[1]

test('a pushed request leads to a code once', async () => {
  const { answer, ...request } = await push(usher)
  expect(answer).toMatchObject({ status: 201, json: { expires_in: expect.any(Number) } })
  expect(answer.json.expires_in).toBeLessThanOrEqual(60)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const page = await browser.open(request.url)
  expect(page.params.get('state')).toBe(request.state)
  expect((await redeem(usher, page.params.get('code') ?? '', request)).status).toBe(200)
  expect(errorOf(await sendAs(browser, usher, request.url))).toBe('invalid_request_uri')
})

test('only one of many concurrent uses of one request_uri gets a code', async () => {
  for (let round = 0; round < 2; round++) {
    const { url } = await push(usher)
    const answers = await Promise.all(Array.from({ length: 16 }, () => sendAs(browser, usher, url)))
    expect(answers.filter(({ location }) => location?.searchParams.has('code'))).toHaveLength(1)
    expect(answers.filter(({ status }) => status >= 500)).toEqual([])
    const errors = answers.map(errorOf).filter(error => error !== undefined)
    expect(new Set(errors)).toEqual(new Set(['invalid_request_uri']))
  }
})

test('only one of two sign-ins that begin with one request_uri gets a code', async () => {
  const { url } = await push(usher)
  const [first, second] = [new Browser(usher.issuer), new Browser(usher.issuer)]
  await first.open(url)
  await second.open(url)
  const pages = [await signInAndAllow(first, 'ada'), await signInAndAllow(second, 'ada')]
  expect(pages.map(page => page.params.has('code'))).toEqual([true, false])
  expect(pages[1]?.params.get('error') ?? pages[1]?.text).toContain('invalid_request_uri')
})

test('a request_uri is refused for another client', async () => {
  const { url } = await push(usher)
  url.searchParams.set('client_id', 'post')
  const answer = await sendAs(browser, usher, url)
  expect(answer.location?.searchParams.has('code') ?? false).toBe(false)
  expect(answer.location?.href.startsWith(WEB) ?? false).toBe(false)
})

test('a pushed request needs client authentication', async () => {
  const body = [...authorizationRequest(usher).url.searchParams] as [string, string][]
  const open = await send(usher, PAR, { body })
  expect(open).toMatchObject({ status: 401, json: { error: 'invalid_client' } })
  const wrong = await send(usher, PAR, { body, headers: basic('web', `${SECRET}x`) })
  expect(wrong).toMatchObject({ status: 401, json: { error: 'invalid_client' } })
  const other = await send(usher, PAR, { body, headers: basic('first', SECRET) })
  expect(other.status).toBe(400)
})

test.each([
  ['another redirect_uri', { redirect_uri: 'https://evil.example/callback' }],
  ['no code_challenge', { code_challenge: undefined }],
  ['the method plain', { code_challenge_method: 'plain' }],
  ['the response type token', { response_type: 'token' }],
  ['the response mode fragment', { response_mode: 'fragment' }],
  ['a request_uri in it', { request_uri: 'urn:ietf:params:oauth:request_uri:x' }],
])('a pushed request with %s is refused at the PAR endpoint', async (_, params) => {
  const { answer } = await push(usher, params)
  expect(answer.status).toBe(400)
  expect(answer.json.request_uri).toBeUndefined()
})

test.each([
  ['scope', 'openid profile offline_access'],
  ['redirect_uri', 'https://evil.example/callback'],
  ['state', 'planted'],
  ['prompt', 'none'],
  ['response_mode', 'form_post'],
])('a parameter beside a request_uri has no effect: %s', async (name, value) => {
  const request = await push(usher, { client_id: 'first', scope: 'openid' })
  request.url.searchParams.set(name, value)
  await browser.open(request.url)
  const page = await signInAndAllow(browser, 'ada')
  expect(page.url.href.startsWith('https://first.example.org/callback?')).toBe(true)
  expect(page.params.get('state')).toBe(request.state)
  const { body } = await redeem(usher, page.params.get('code') ?? '', request)
  expect(body.scope).toBe('openid')
  expect(body).not.toHaveProperty('refresh_token')
})

test('a request_uri of another server is refused, and not fetched', async () => {
  const { port, connections, close } = await startReceiver('elsewhere')
  onTestFinished(close)
  const uris = [
    `http://127.0.0.1:${port}/request.jwt`,
    `https://127.0.0.1:${port}/request.jwt`,
    'urn:ietf:params:oauth:request_uri:',
    'urn:ietf:params:oauth:request_uri:unknown',
    'urn:ietf:params:oauth:request_uri:__proto__',
    'urn:example:x',
  ]
  for (const request_uri of uris) {
    const answer = await send(usher, authorizationRequest(usher, { request_uri }).url)
    expect(errorOf(answer)).toMatch(/^(invalid_request_uri|request_uri_not_supported)$/)
  }
  expect(connections()).toBe(0)
})

test('request objects of a client without keys are refused, signed or not', async () => {
  const { url } = authorizationRequest(usher)
  const claims = Object.fromEntries(url.searchParams)
  const request = new UnsecuredJWT(claims).setIssuer('web').setAudience(usher.issuer).encode()
  for (const object of [request, `${request}c2lnbmF0dXJl`, 'a.b.c', 'nonsense']) {
    url.searchParams.set('request', object)
    expect(errorOf(await send(usher, url))).toBe('invalid_request_object')
  }
})
