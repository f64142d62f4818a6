// The longest requests that Usher accepts, and the longest answers that it gives, through each proxy of docs/deploy.

import { readdirSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashSecret } from '../../src/oidc/clients.ts'
import { Browser } from '../support/browser.ts'
import { temporaryFolder } from '../support/folder.ts'
import { authorizationRequest, signInAndAllow } from '../support/journey.ts'
import { freePort } from '../support/ports.ts'
import { startProxy, stopProxy } from '../support/proxies.ts'
import {
  CLAIMS,
  CLIENTS,
  SECRET,
  startUsher,
  UNLIMITED,
  type Usher,
  WEB,
} from '../support/usher.ts'

const PROXIES = readdirSync(join(import.meta.dirname, '../../docs/deploy')).filter(name =>
  /^nginx.*\.conf$|^haproxy/.test(name),
)
const USHER_SECRET = Buffer.alloc(32, 'proxies').toString('base64url')
/** The limit of browsers is higher: 256 kB in Chromium. */
const MAX_HEADER_BYTES = 128 * 1024

/** `fetch` refuses headers of more than 16 kB. */
const longFetch = async (
  url: string | URL | Request,
  { method, headers, body }: RequestInit = {},
) => {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const content = body instanceof URLSearchParams ? body.toString() : undefined
  const options = {
    method,
    maxHeaderSize: MAX_HEADER_BYTES,
    rejectUnauthorized: false,
    headers: {
      ...(headers as Record<string, string>),
      ...(content !== undefined && {
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': String(content.length),
      }),
    },
  }
  httpsRequest(new URL(String(url)), options, resolve)
    .on('error', reject)
    .end(content)
  const answer = await promise
  const fields = new Headers()
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) fields.append(name, value)
  }
  const bytes = await buffer(answer)
  const status = answer.statusCode ?? 0
  const hasBody = status !== 204 && status !== 304
  return new Response(hasBody ? bytes : null, { status, headers: fields })
}

/** As long as a `state` may be, of characters that the answer writes with three each. */
const LONG_STATE = '('.repeat(4096)
const GROUPS = Array.from({ length: 200 }, (_, i) => `CN=Group ${i},OU=Departments`.padEnd(62, 'x'))

describe.each(PROXIES)('%s', name => {
  const folder = temporaryFolder()
  let usher: Usher
  let stop: () => Promise<void>
  let browser: Browser
  let idToken = ''

  beforeAll(async () => {
    const front = await freePort()
    usher = await startUsher({
      env: { USHER_ISSUER: `https://localhost:${front}`, USHER_SECRET },
      store: `sqlite:${folder}/usher.db`,
      usher: {
        proxy: ['127.0.0.1'],
        limits: UNLIMITED,
        compatibility: { implicit: true, hybrid: true },
        features: { pushed_authorization_requests: true },
      },
      claims: {
        claims: { ...CLAIMS.claims, groups: { scope: 'profile', from: 'attributes.groups' } },
      },
      clients: {
        web: {
          ...CLIENTS.web,
          client_secret_hashes: [hashSecret(SECRET)],
          response_types: ['code', 'id_token', 'code id_token token'],
          response_modes: ['query', 'fragment', 'form_post', 'jwt'],
        },
      },
    })
    await usher.addAccount({ username: 'ada', attributes: { groups: GROUPS } })
    const port = Number(new URL(usher.address).port)
    const proxy = await startProxy(name, { folder, front, ports: [port] })
    stop = () => stopProxy(proxy)
    browser = new Browser(usher.issuer, longFetch)
  })
  afterAll(async () => {
    await stop()
    await usher.close()
  })

  /** The URL of an authorization request with the longest state, with characters that need no encoding in it. */
  const longUrl = (params: Record<string, string>) => {
    const { url } = authorizationRequest(usher, { state: LONG_STATE, ...params })
    return String(url).replaceAll('%28', '(')
  }
  const received = ({ url }: { url: URL }) => new URLSearchParams(url.hash.slice(1) || url.search)

  test('the longest state, and the ID token of a user with many groups, in the answer', async () => {
    await browser.open(longUrl({ response_type: 'id_token' }))
    const page = await signInAndAllow(browser, 'ada')
    expect(page.url.href.startsWith(WEB), `${page.status} ${browser.heading}`).toBe(true)
    expect(received(page).get('state')).toBe(LONG_STATE)
    idToken = received(page).get('id_token') ?? ''
    expect(idToken.length).toBeGreaterThan(15_000)
  })

  test.each(['code', 'code id_token token'])(
    'the same for response_type=%s, with prompt=none and the ID token as hint',
    async response_type => {
      const params = { response_type, prompt: 'none', id_token_hint: idToken }
      const page = await browser.open(longUrl(params))
      expect([page.url.origin, received(page).get('error')]).toEqual([new URL(WEB).origin, null])
      expect(received(page).get('state')).toBe(LONG_STATE)
    },
  )

  test('form_post and a signed response', async () => {
    const form = await browser.open(longUrl({ response_mode: 'form_post', prompt: 'none' }))
    expect(form.html.querySelector('input[name=state]')?.getAttribute('value')).toBe(LONG_STATE)
    const signed = await browser.open(longUrl({ response_mode: 'jwt', prompt: 'none' }))
    expect(received(signed).get('response')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
  })

  test('a URL of 45 kB is answered by Usher', async () => {
    const request = `${'a'.repeat(27_000)}.b.c`
    const url = longUrl({ id_token_hint: idToken.slice(0, 14_000), request })
    expect(url.length).toBeGreaterThan(45_000)
    const { headers, status } = await longFetch(url)
    expect([status, headers.has('x-request-id')]).toEqual([303, true])
  })

  test('a pushed request with the longest parameters, and a body of 56 kB', async () => {
    const authorization = `Basic ${Buffer.from(`web:${SECRET}`).toString('base64')}`
    const push = (params: Record<string, string>) =>
      longFetch(`${usher.issuer}/api/oauth/par`, {
        method: 'POST',
        headers: { authorization },
        body: authorizationRequest(usher, params).url.searchParams,
      })
    const accepted = await push({ state: LONG_STATE.slice(0, 2000), id_token_hint: idToken })
    expect(accepted.status).toBe(201)
    const long = await push({ unknown: 'x'.repeat(55_000) })
    expect(await long.json()).toHaveProperty('request_id')
  })

  test('a sign-out by GET and by POST with the ID token', async () => {
    const query = new URLSearchParams({ id_token_hint: idToken, state: 'x' })
    const got = await browser.open(`/api/oauth/logout?${query}`)
    expect([got.status, browser.heading]).toEqual([200, 'Sign out'])
    const posted = await longFetch(`${usher.issuer}/api/oauth/logout`, {
      method: 'POST',
      body: query,
      headers: { accept: 'text/html', cookie: await browser.cookies() },
    })
    expect(posted.status).toBe(200)
  })
})
