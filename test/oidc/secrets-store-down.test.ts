import { expect } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { test, usher } from '../support/fixtures.ts'
import { type Answer, codeForm, tokens } from '../support/journey.ts'
import {
  credentials,
  fieldsOf,
  newTab,
  open,
  removalOf,
  send,
  signedIn,
  textOf,
  words,
} from '../support/people.ts'
import { boundTokens, createProver, type Prover } from '../support/proofs.ts'
import { SECRET } from '../support/usher.ts'

const TOKEN = '/api/oauth/token'
const USERINFO = '/api/oauth/userinfo'

let had: Awaited<ReturnType<typeof tokens>>
let signingIn: Browser
let consenting: Browser
let removing: Browser
let code: string
let prover: Prover
let bound: Answer['body']

// Everything is prepared before the store becomes unavailable, and it stays unavailable.
test.beforeAll(async () => {
  had = await tokens(usher)
  signingIn = (await open(usher)).browser
  consenting = (await open(usher, { client_id: 'post' }, await signedIn(usher))).browser
  removing = newTab(had.browser)
  await removing.open(removalOf())
  prover = await createProver()
  bound = await boundTokens(usher, prover)
  const unredeemed = await open(usher, {}, had.browser)
  code = unredeemed.browser.page.params.get('code') ?? ''
  await usher.store.close()
})

async function timed(answer: Promise<Response>) {
  const started = performance.now()
  const response = await answer
  const text = await response.text()
  expect(performance.now() - started).toBeLessThan(1000)
  return { status: response.status, headers: response.headers, text }
}

const BASIC = `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}`

interface Asked {
  path: string
  form?: Record<string, string>
  headers?: Record<string, string>
}

const ENDPOINTS: Record<string, () => Asked | Promise<Asked>> = {
  'code exchange': () => ({
    path: TOKEN,
    form: codeForm(code, had.request),
  }),
  refresh: () => ({
    path: TOKEN,
    form: { grant_type: 'refresh_token', refresh_token: had.refresh_token },
  }),
  'a refresh with a DPoP proof': async () => ({
    path: TOKEN,
    form: { client_id: 'spa', grant_type: 'refresh_token', refresh_token: bound.refresh_token },
    headers: { dpop: await prover.prove('POST', usher.issuer + TOKEN) },
  }),
  revocation: () => ({ path: '/api/oauth/revoke', form: { token: had.refresh_token } }),
  introspection: () => ({ path: '/api/oauth/introspect', form: { token: had.access_token } }),
  'pushed request': () => ({
    path: '/api/oauth/par',
    form: Object.fromEntries(had.request.url.searchParams),
  }),
  userinfo: () => ({ path: USERINFO, headers: { authorization: `Bearer ${had.access_token}` } }),
  async 'userinfo with a DPoP proof'() {
    const token = bound.access_token
    const dpop = await prover.prove('GET', usher.issuer + USERINFO, { token })
    return { path: USERINFO, headers: { authorization: `DPoP ${token}`, dpop } }
  },
}

test.for(Object.entries(ENDPOINTS))(
  'without a store, %s is unavailable, and refuses no token as invalid',
  async ([, request]) => {
    const { path, form, headers = { authorization: BASIC } } = await request()
    const body = form && new URLSearchParams(form)
    const answer = fetch(new URL(path, usher.issuer), {
      method: form ? 'POST' : 'GET',
      headers,
      ...(body && { body }),
    })
    const { status, headers: answered, text } = await timed(answer)
    expect(status).toBe(503)
    expect(Number(answered.get('retry-after'))).toBeGreaterThan(0)
    expect(answered.get('content-type')).toMatch(/^application\/json/)
    expect(answered.has('www-authenticate')).toBe(false)
    expect(JSON.parse(text)).toMatchObject({
      error: 'temporarily_unavailable',
      error_description: expect.stringContaining('cannot reach its storage'),
      request_id: answered.get('x-request-id'),
    })
  },
)

const PAGES: Record<string, () => Promise<Response>> = {
  'a new request': () => send(signingIn, had.request.url, { method: 'GET' }),
  'a request in a session': () => send(had.browser, had.request.url, { method: 'GET' }),
  'a silent request': () => {
    const { url } = had.request
    return send(had.browser, `${url}&prompt=none`, { method: 'GET' })
  },
  'the sign-in page': () => send(signingIn, signingIn.page.url, { method: 'GET' }),
  'signing in': () =>
    send(signingIn, signingIn.page.url, { form: fieldsOf(signingIn.page, credentials()) }),
  'the consent page': () => send(consenting, consenting.page.url, { method: 'GET' }),
  allowing: () => {
    const form = fieldsOf(consenting.page, { decision: 'allow', scope: 'profile' })
    return send(consenting, consenting.page.url, { form })
  },
  'the account': () => send(had.browser, '/account', { method: 'GET' }),
  'the list of applications': () => send(had.browser, '/account/applications', { method: 'GET' }),
  'removing an application': () => send(removing, removalOf(), { form: fieldsOf(removing.page) }),
  'the list of sessions': () => send(had.browser, '/account/sessions', { method: 'GET' }),
  'another password': () => send(had.browser, '/account/password', { form: {} }),
  'signing out': () => send(had.browser, '/api/oauth/logout', { method: 'GET' }),
}

test.for(Object.entries(PAGES))(
  'without a store, %s is a page that asks the user to wait',
  async ([, request]) => {
    const { status, headers, text } = await timed(request())
    expect(status).toBe(503)
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    expect(headers.get('content-type')).toMatch(/^text\/html/)
    expect(textOf(text)).toContain(words('error.unavailable_text'))
    expect(text).toContain('<code>temporarily_unavailable</code>')
  },
)

test('without a store the process is live, and not ready', async () => {
  const alive = await timed(fetch(new URL('/livez', usher.issuer)))
  expect([alive.status, alive.text]).toEqual([200, '{"status":"alive"}'])
  const ready = await timed(fetch(new URL('/readyz', usher.issuer)))
  expect([ready.status, ready.text]).toEqual([503, '{"status":"degraded"}'])
})

test('without a store, endpoints that do not need it work', async () => {
  for (const path of [
    '/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server',
    '/api/oauth/jwks',
    '/errors',
  ]) {
    const { status } = await timed(fetch(new URL(path, usher.issuer)))
    expect(status, path).toBe(200)
  }
})
