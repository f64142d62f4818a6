import { describe, expect } from 'vitest'
import { test, usher } from '../support/fixtures.ts'
import { authorizationRequest } from '../support/journey.ts'
import { type Reply, send, talk } from '../support/wire.ts'

const CANARY = 'canary.example'
const DISCOVERY = '/.well-known/openid-configuration'

let host: string
let paths: string[]
test.beforeAll(async () => {
  host = new URL(usher.issuer).host
  const { url } = authorizationRequest(usher)
  paths = [
    DISCOVERY,
    `${url.pathname}${url.search}`,
    '/api/oauth/authorize',
    '/api/oauth/logout',
    '/api/oauth/userinfo',
    '/account',
    '/errors',
    '/interaction/x',
    '/nowhere',
  ]
})

function expectNoCanary({ headers, text }: Reply) {
  expect(text).not.toContain('canary')
  expect(JSON.stringify([...headers])).not.toContain('canary')
}

test.each([
  CANARY,
  `${CANARY}:80`,
  '127.0.0.1',
  'localhost',
  'localhost:1',
  'localhost.',
  '[::1]',
  'localhost@canary.example',
  'canary.example#',
  'canary.example/',
  'a b',
  '%00',
  'x'.repeat(5000),
])('the host "%.30s" is not that of the issuer: 421, before any handler', async other => {
  for (const path of paths) {
    for (const accept of ['text/html', 'application/json']) {
      const answer = await send(usher, path, { headers: { host: other, accept } })
      expect(answer.status).toBe(421)
      expect(answer.location).toBeUndefined()
      expect(answer.headers.get('set-cookie')).toBeNull()
      expect(JSON.stringify([...answer.headers])).not.toContain('canary')
    }
  }
})

test('the name of the host may be written in any case', async () => {
  const answer = await send(usher, DISCOVERY, { headers: { host: host.toUpperCase() } })
  expect(answer).toMatchObject({ status: 200, json: { issuer: usher.issuer } })
})

test.each<[string, string]>([
  ['X-Forwarded-Host', CANARY],
  ['X-Forwarded-Host', `localhost, ${CANARY}`],
  ['X-Forwarded-Proto', 'https'],
  ['X-Forwarded-Port', '4711'],
  ['X-Forwarded-For', CANARY],
  ['Forwarded', `host=${CANARY};proto=https;for=${CANARY}`],
  ['X-Original-URL', `/${CANARY}`],
  ['X-Host', CANARY],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['Origin', `https://${CANARY}`],
  ['Referer', `https://${CANARY}/`],
])('%s: %s changes nothing', async (name, value) => {
  for (const path of paths) {
    const plain = await send(usher, path)
    const answer = await send(usher, path, { headers: { [name]: value } })
    expect([path, answer.status]).toEqual([path, plain.status])
    if (name !== 'Origin') expectNoCanary(answer)
    if (answer.location) expect(answer.location.origin).toBe(usher.issuer)
    if (path === DISCOVERY) expect(answer.json).toEqual(plain.json)
  }
})

test('X-Original-URL leads to no other handler', async () => {
  const answer = await send(usher, '/livez', { headers: { 'X-Original-URL': '/account' } })
  expect(answer.json).toEqual({ status: 'alive' })
})

test.each([
  [CANARY, CANARY],
  ['canary.example:8443', 'canary.example:8443'],
  ['x'.repeat(5000), 'x'.repeat(100)],
  ['<b>"canary"</b>', '?b??canary??/b?'],
  ['caf\u00e9 canary', 'caf??canary'],
])(
  'the host that was received is shown in the answer and in the log: "%.30s"',
  async (sent, shown) => {
    const ask = () => send(usher, DISCOVERY, { headers: { host: sent } })
    const { status, json } = await ask()
    expect(status).toBe(421)
    expect(json.error_description).toBe(
      `the issuer is ${usher.issuer}, and the request is for the host "${shown}"`,
    )
    // The number of log lines for failed requests is limited for each second.
    const line = async () => {
      const start = usher.output.length
      await ask()
      return usher.output.slice(start).map(text => JSON.parse(text))[0]
    }
    await expect.poll(line).toMatchObject({ refused: 'host', host: shown })
  },
)

test('an invalid forwarded address is in no log line', async () => {
  await send(usher, DISCOVERY, { headers: { 'x-forwarded-for': 'pretended.example' } })
  expect(usher.output.join('')).not.toContain('pretended')
})

describe('bytes that fetch would not send', () => {
  const requests: [string, string[], RegExp][] = [
    ['an absolute URL', [`GET http://${CANARY}${DISCOVERY} HTTP/1.1`, 'Host: HOST'], /^(400|421)$/],
    ['our own absolute URL', [`GET http://HOST${DISCOVERY} HTTP/1.1`, 'Host: HOST'], /^(200|400)$/],
    ['two hosts', [`GET ${DISCOVERY} HTTP/1.1`, 'Host: HOST', `Host: ${CANARY}`], /^(400|421)$/],
    ['two hosts, ours last', [`GET / HTTP/1.1`, `Host: ${CANARY}`, 'Host: HOST'], /^(400|421)$/],
    ['our host twice', [`GET ${DISCOVERY} HTTP/1.1`, 'Host: HOST', 'Host: HOST'], /^(400|421)$/],
    ['no host', [`GET ${DISCOVERY} HTTP/1.1`], /^(400|421)$/],
    ['no host in HTTP/1.0', [`GET ${DISCOVERY} HTTP/1.0`], /^(400|421)$/],
    ['an empty host', [`GET ${DISCOVERY} HTTP/1.1`, 'Host:'], /^(400|421)$/],
    ['an asterisk', ['OPTIONS * HTTP/1.1', 'Host: HOST'], /^(400|404|421)$/],
    ['no slash', ['GET account HTTP/1.1', 'Host: HOST'], /^400$/],
    ['CONNECT', [`CONNECT ${CANARY}:443 HTTP/1.1`, 'Host: HOST'], /^(4\d\d|closed)$/],
    ['TRACE', ['TRACE /api/oauth/token HTTP/1.1', 'Host: HOST', `X: ${CANARY}`], /^40[045]$/],
  ]

  test.each(requests)('%s', async (_, lines, expected) => {
    const bytes = [...lines, 'Connection: close', '', ''].join('\r\n').replaceAll('HOST', host)
    const heard = await talk(usher, bytes)
    expect(/^HTTP\/1\.1 (\d+)/.exec(heard)?.[1] ?? 'closed').toMatch(expected)
    expect(heard.replace(/the host \\"canary.example\\"/, '')).not.toContain('canary')
  })
})
