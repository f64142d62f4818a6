// Valid redirect URIs: for all clients, and for each kind of client.

import { expect, test } from 'vitest'
import { redirectUriProblem, schemeProblem } from '../../src/config/schema/redirect-uri.ts'

const REFUSED: Record<string, string[]> = {
  wildcards: [
    'https://*.example.org/callback',
    'https://app.example.org/*',
    'https://app.example.org/callback?next=*',
  ],
  fragments: ['https://app.example.org/callback#', 'com.example.app:/callback#x'],
  'user names and passwords': [
    'https://ada@app.example.org/callback',
    'https://ada:secret@app.example.org/callback',
    'https://app.example.org@evil.example/callback',
    'https://@app.example.org/callback',
  ],
  'schemes that run or show something': [
    'javascript:alert(1)',
    'JavaScript:alert(1)',
    'javascript://app.example.org/%0aalert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'blob:https://app.example.org/1',
    'about:blank',
    'ws://app.example.org/',
    'view-source:https://app.example.org/',
  ],
  'schemes that belong to nobody or to others': [
    'myapp:/callback',
    'myapp://callback',
    'ftp://app.example.org/callback',
    'intent:/callback',
    'http:',
    'https:',
    'urn:ietf:wg:oauth:2.0:oob',
  ],
  'URIs that are not absolute': [
    '',
    '/callback',
    'callback',
    '//app.example.org/callback',
    'https://',
    ':',
    'https:app.example.org/callback',
    'https:/app.example.org/callback',
  ],
  'hosts that are compared in another spelling': [
    'https://bücher.example/callback',
    'https://APP.example.org/callback',
    'https://app.example.org%2e/callback',
    'https://１２７.0.0.1/callback',
    'https://2130706433/callback',
    'https://0x7f.0.0.1/callback',
    'https://[::ffff:127.0.0.1]/callback',
    'https://app.example.org:0443/callback',
    'https://app.example.org:99999/callback',
    'https://app。example。org/callback',
    'https://app.exa%6Dple.org/callback',
    'https://app.example.org\\@evil.example/callback',
  ],
  'characters that are not visible ASCII': [
    'https://app.example.org/call back',
    ' https://app.example.org/callback',
    'https://app.example.org/callback\n',
    'java\nscript:alert(1)',
    'https://app.example.org/\u0000',
    'https://app.example.org/\u202Ecallback',
  ],
  'paths that mean another path': [
    'https://app.example.org/../callback',
    'https://app.example.org/a/./callback',
    'https://app.example.org/%2e%2e/callback',
    'https://app.example.org/a/.%2e/callback',
    'https://app.example.org\\callback',
    'https://app.example.org/..?code=1',
  ],
}

const ACCEPTED = [
  'https://app.example.org/',
  'https://app.example.org/callback',
  'https://app.example.org/callback?a=1&b=%20',
  'https://app.example.org:8443/callback',
  'https://app.example.org:443/callback',
  'https://xn--bcher-kva.example/callback',
  'https://a-b.c-d.example.org/.well-known/callback',
  'https://app.example.org/a..b/callback',
  'https://app.example.org/callback;v=1',
  'https://app.example.org/%C3%A9',
  'https://192.0.2.1/callback',
  'https://[2001:db8::1]/callback',
  'http://localhost:4000/callback',
  'http://127.0.0.1/callback',
  'http://127.0.0.1:51004/callback',
  'http://[::1]:51004/callback',
  'com.example.app:/callback',
  'com.example.app://callback',
]

for (const [kind, uris] of Object.entries(REFUSED)) {
  test.each(uris)(`${kind} are refused: %j`, uri => {
    expect(redirectUriProblem(uri)).toEqual(expect.any(String))
  })
}

test.each(ACCEPTED)('%s may be registered', uri => {
  expect(redirectUriProblem(uri)).toBeUndefined()
})

test('the finding suggests the right spelling of a host', () => {
  expect(redirectUriProblem('https://APP.example.org/')).toContain('app.example.org')
  expect(redirectUriProblem('https://127.1/')).toContain('127.0.0.1')
})

const web = { native: false, loopbackIssuer: false }
const native = { native: true, loopbackIssuer: false }
const development = { native: false, loopbackIssuer: true }

test.each([
  'http://app.example.org/callback',
  'http://127.0.0.2/callback',
  'http://localhost.example.org/callback',
  'http://0.0.0.0/callback',
  'http://10.0.0.1/callback',
])('no client can use %s: it is http and not loopback', uri => {
  for (const client of [web, native, development]) expect(schemeProblem(uri, client)).toBeDefined()
})

test.each(['http://localhost:4000/', 'http://127.0.0.1/', 'http://[::1]:4000/'])(
  '%s is for native clients, and for all while the issuer is on loopback',
  uri => {
    expect(schemeProblem(uri, web)).toBeDefined()
    expect(schemeProblem(uri, native)).toBeUndefined()
    expect(schemeProblem(uri, development)).toBeUndefined()
  },
)

test('a custom scheme is for native clients, with any issuer', () => {
  expect(schemeProblem('com.example.app:/callback', native)).toBeUndefined()
  expect(schemeProblem('com.example.app:/callback', web)).toBeDefined()
  expect(schemeProblem('com.example.app:/callback', development)).toBeDefined()
})

test('https is for every client', () => {
  for (const client of [web, native, development]) {
    expect(schemeProblem('https://app.example.org/callback', client)).toBeUndefined()
  }
})
