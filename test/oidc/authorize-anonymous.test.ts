import { expect } from 'vitest'
import { type Attempt, anonymousRequest, createRandom } from '../support/anonymous.ts'
import { EXCHANGING } from '../support/exchange.ts'
import { usher, usherTest } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { KEYED } from '../support/keyed.ts'
import { isWhole, SEED } from '../support/some-of.ts'
import { type Reply, send, talk } from '../support/wire.ts'

const LEAST = 500
const REQUESTS = isWhole ? 4000 : LEAST
const LONGEST = 12_000
const AT_ONCE = 8

const test = usherTest({
  resources: EXCHANGING.resources,
  usher: {
    features: { dynamic_registration: { mode: 'open' } },
    mail: { from: 'id@example.org', smtp: { host: '127.0.0.1', port: 9, tls: 'none' } },
    sign_in: { second_factor: 'optional' },
    sign_up: { email_domains: ['example.org'] },
  },
  clients: { ...EXCHANGING.clients, keyed: KEYED },
})

const MAX_MS = 20_000
/** Returns what is wrong with a response. No request may cause one of these problems. */
function problemOf(path: string, reply: Reply, ms: number): string | undefined {
  const { status, headers, text, location } = reply
  if (status >= 500) return `answers ${status}: ${text.slice(0, 300)}`
  // test/timed measures whether the event loop is blocked.
  if (ms > MAX_MS) return `took ${Math.round(ms)} ms`
  if (headers.has('x-injected')) return 'has an injected header'
  if (status === 307 || status === 308) return `redirects with ${status}`
  if (location && !isSafe(location)) return `redirects to ${location}`
  if (text.includes('<script>alert')) return 'holds a script that was sent to it'
  const type = headers.get('content-type') ?? ''
  if (type.startsWith('text/html') && !headers.get('content-security-policy')) return 'has no CSP'
  const isError = status >= 400 && /json/.test(type) && text !== ''
  return isError ? errorProblem(path, reply) : undefined
}

const isSafe = ({ href, protocol }: URL) =>
  !/evil\.example/.test(href) && ['http:', 'https:', 'com.example.app:'].includes(protocol)

function errorProblem(path: string, { json, text }: Reply): string | undefined {
  const { error, error_uri, request_id } = json
  // CIBA §13 allows the backchannel endpoint no members of our own.
  const isBackchannel = path.startsWith('/api/oauth/backchannel_authentication')
  const parts = isBackchannel ? [error] : [error, error_uri, request_id]
  const whole = parts.every(part => typeof part === 'string' && part)
  return whole ? undefined : `is not a whole error: ${text.slice(0, 300)}`
}

async function attempt({ path, ...options }: Attempt): Promise<string | undefined> {
  const started = performance.now()
  const reply = await send(usher, path, options)
  return problemOf(path, reply, performance.now() - started)
}

/** The number of log lines before the test. */
let mark = 0
test.beforeEach(() => {
  mark = usher.output.length
})
const FAULT = /"stack"|"level":[56]0|\\n\s+at /
const stacks = () => usher.output.slice(mark).filter(line => FAULT.test(line))

test(`no anonymous request causes a 5xx, a stack trace or a delay (seed ${SEED})`, async () => {
  const random = createRandom(SEED)
  const problems: string[] = []
  const ends = performance.now() + LONGEST
  let sent = 0
  const work = async () => {
    const isOver = () => sent >= (performance.now() < ends ? REQUESTS : LEAST)
    while (!isOver() && problems.length < 20) {
      sent++
      const request = anonymousRequest(random)
      const problem = await attempt(request).catch(error => `broke off: ${error}`)
      if (problem) problems.push(`${problem}\n${JSON.stringify(request).slice(0, 1000)}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  expect(problems).toEqual([])
  expect(stacks()).toEqual([])
  expect(sent).toBeGreaterThanOrEqual(LEAST)
})

test.each<[string, Attempt]>([
  ['a resume of nothing', { path: `/api/oauth/authorize/${'x'.repeat(43)}` }],
  ['a sign-out without a session', { path: '/api/oauth/logout/confirm', body: { logout: 'yes' } }],
  ['a sign-out that is over', { path: '/api/oauth/logout/success?client_id=nobody' }],
  ['a hint that is no token', { path: '/api/oauth/logout?id_token_hint=a.b.c' }],
  ['an interaction of %ff', { path: '/interaction/%ff' }],
  ['a query that cannot be decoded', { path: '/api/oauth/authorize?client_id=%ff&state=%' }],
  ['ten thousand parameters', { path: `/api/oauth/authorize?${'a=&'.repeat(2500)}` }],
  ['ten thousand fields', { path: '/api/oauth/token', body: Array(10_000).fill(['a', 'b']) }],
  ['a megabyte', { path: '/api/oauth/token', body: { code: 'x'.repeat(1_000_000) } }],
  ['a megabyte of sign-in', { path: '/interaction/x', body: { password: 'x'.repeat(1_000_000) } }],
  [
    'deep JSON',
    {
      path: '/api/oauth/par',
      body: '['.repeat(50_000),
      headers: { 'content-type': 'application/json' },
    },
  ],
  [
    'an unknown charset',
    {
      path: '/api/oauth/token',
      body: 'a=b',
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=nonsense' },
    },
  ],
  ['a form that is packed', { path: '/account', body: { a: 'b' }, headers: { te: 'gzip' } }],
])('%s is answered with a client error', async (_, request) => {
  expect(await attempt(request)).toBeUndefined()
  expect(stacks()).toEqual([])
})

test.each<[string, Record<string, string>]>([
  ['__proto__', JSON.parse('{"__proto__":"x"}')],
  ['claims that are no JSON', { claims: '{' }],
  ['claims that are a list', { claims: '[1]' }],
  [
    'an acr that is no text',
    { claims: '{"id_token":{"acr":{"essential":true,"value":{"toString":1}}}}' },
  ],
  ['claims of null', { claims: '{"userinfo":null,"id_token":null}' }],
  ['a hint that is no token', { id_token_hint: 'a.b.c' }],
  ['a surrogate without its other half', { state: '\ud800' }],
  ['a state of control characters', { state: '\0\r\n\t\x1b[31m' }],
  ['locales that are none', { ui_locales: 'x-\0 ../../etc/passwd' }],
])('a request with %s gets a complete response', async (_, params) => {
  const request = authorizationRequest(usher, { prompt: 'none', ...params })
  const problem = await attempt({ path: request.url.pathname + request.url.search })
  expect(problem).toBeUndefined()
  expect(stacks()).toEqual([])
})

test('bytes that are not an HTTP request cause no 5xx and no fault', async () => {
  const { host } = new URL(usher.issuer)
  const head = `POST /api/oauth/token HTTP/1.1\r\nHost: ${host}\r\n`
  const form = `${head}Content-Type: application/x-www-form-urlencoded\r\n`
  const lines = [
    '',
    '\r\n\r\n',
    '\0\0\0\0',
    'GET\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    'GET / HTTP/1.1\r\nHost\r\n\r\n',
    `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}\r\nCookie: ${'x'.repeat(20_000)}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}\r\n${'X: y\r\n'.repeat(3000)}\r\n`,
    `GET /\xff\xfe HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}\r\nX: a\0b\r\n\r\n`,
    `${form}Content-Length: 100\r\n\r\ngrant_type=`,
    `${form}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde`,
    `${form}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${form}Content-Length: -1\r\n\r\n`,
    `${form}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    `${form}Transfer-Encoding: chunked\r\n\r\n5\r\nabc`,
    `${form}Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n`,
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  ]
  const heard = await Promise.all(lines.map(bytes => talk(usher, bytes, 1500)))
  expect(heard.filter(text => /^HTTP\/1\.1 4/.test(text)).length).toBeGreaterThan(5)
  expect(heard.filter(text => /^HTTP\/1\.1 5/.test(text))).toEqual([])
  expect(stacks()).toEqual([])
  expect((await send(usher, '/livez')).status).toBe(200)
})

test('a connection that is closed during a request leaves nothing behind', async () => {
  const { host } = new URL(usher.issuer)
  const form = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 50\r\n\r\n'
  const paths = ['/api/oauth/token', '/api/oauth/authorize', '/api/oauth/par', '/interaction/x']
  const bytes = paths.map(path => `POST ${path} HTTP/1.1\r\nHost: ${host}\r\n${form}a=b`)
  await Promise.all(bytes.flatMap(text => Array.from({ length: 10 }, () => talk(usher, text, 20))))
  expect((await send(usher, '/readyz')).status).toBe(200)
  expect(stacks()).toEqual([])
})

test('bytes that are not an HTTP request do not reach the log', async () => {
  const { host } = new URL(usher.issuer)
  const secret = 'client_secret=canary-secret-of-web'
  const head = `POST /api/oauth/token HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n`
  const type = 'Content-Type: application/x-www-form-urlencoded\r\n'
  await talk(usher, `${head}${type}\r\n22\r\n${secret}\r\nzz\r\n`, 300)
  expect(written()).not.toContain('canary')
  expect(written()).toContain('"method":"POST"')
})

/** The log since the test began. Bytes that were logged as numbers are decoded to text. */
function written(): string {
  const lines = usher.output.slice(mark).join('')
  const bytes = [...lines.matchAll(/"data":\[([\d,]+)\]/g)].map(([, list = '']) => list)
  return lines + bytes.map(list => Buffer.from(list.split(',').map(Number)).toString()).join('')
}
