// Every key of every file with invalid values.

import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { mapOf } from '../../src/store/values.ts'
import { COMPLETE, client, type Files, read } from '../support/config-folder.ts'
import { someOf } from '../support/some-of.ts'

const API = `client_id: api
client_name: API
redirect_uris:
  - https://api.example.org/callback
client_secret_hashes:
  - sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
`
const FILES = {
  'usher.yaml': COMPLETE.usher,
  'claims.yaml': COMPLETE.claims,
  'clients/web.yaml': COMPLETE.client,
  'clients/api.yaml': API,
  'resources/files.yaml': COMPLETE.resource.replace(
    'introspected_by:\n  - web',
    'introspected_by:\n  - api',
  ),
}
type Name = keyof typeof FILES

const WRONG: Record<string, unknown> = {
  null: null,
  true: true,
  number: 1.5,
  negative: -1,
  string: 'Ada Lovelace',
  empty: '',
  list: [['x']],
  map: { x: { y: 1 } },
}

/** Every path to a key or item in a document. */
function pathsOf(node: unknown, path: string[] = []): string[][] {
  const children = Object.entries(mapOf(node))
  return children.flatMap(([key, child]) => [[...path, key], ...pathsOf(child, [...path, key])])
}

/** Keys that accept any text. */
const FREE_TEXT = [
  'listen.host',
  'branding.name',
  'scopes.hr.description',
  'client_name',
  'redis.username',
  'redis.password_file',
  'redis.sentinel_password_file',
  'redis.tls.ca',
  'redis.tls.cert',
  'redis.tls.key',
  'metrics.host',
  'resource_name',
  'scopes.files:read.description',
  'scopes.files:write.description',
]

function withValue(name: Name, path: string[], value: unknown): Files {
  const document = mapOf(parse(FILES[name]))
  const parent = path.slice(0, -1).reduce((node, key) => mapOf(node[key]), document)
  parent[path.at(-1) ?? ''] = value
  return { ...FILES, [name]: document }
}

const KEYS = (Object.keys(FILES) as Name[]).flatMap(name =>
  pathsOf(parse(FILES[name])).map(path => ({ name, key: path.join('.'), path })),
)

test('the keys below are all keys of the schemas', () => {
  expect(KEYS.length).toBeGreaterThan(55)
})

test.each(KEYS)('$name refuses every wrong value of $key, at $key', async ({ name, key, path }) => {
  const original = path.reduce<unknown>((node, step) => mapOf(node)[step], parse(FILES[name]))
  for (const [kind, value] of someOf(Object.entries(WRONG), 3)) {
    if (typeof original === 'boolean' && kind === 'true') continue
    if (FREE_TEXT.includes(key) && kind === 'string') continue
    if (key === 'redis.key_prefix' && kind === 'empty') continue
    const { findings } = await read(withValue(name, path, value))
    const nearby = findings.filter(finding => finding.file === name && finding.line !== undefined)
    expect(nearby, `${key}: ${kind}`).not.toEqual([])
    expect(
      nearby.some(finding => finding.key === key || finding.key?.startsWith(`${key}.`)),
      `${key}: ${kind} is reported at ${nearby.map(finding => finding.key)}`,
    ).toBe(true)
  }
})

test.each(['0 s', '-1 s', '10', '10 minutes', '1e3 s', ' 1 s'])(
  '"%s" is not a duration, and the finding shows the format',
  async duration => {
    const { text } = await read({ 'usher.yaml': { lifetimes: { access_token: duration } } })
    expect(text).toContain('a duration is a number and a unit: 60 s, 10 min, 12 h, 14 d')
  },
)

test('the time to add a second factor can be none', async () => {
  const { settings } = await read({ 'usher.yaml': { sign_in: { second_factor_grace: '0 s' } } })
  expect(settings?.sign_in.second_factor_grace).toBe(0)
})

test.each([
  ['1 s', 1],
  ['90s', 90],
  ['10 min', 600],
  ['12h', 43_200],
  ['14 d', 1_209_600],
])('%s is %d seconds', async (duration, seconds) => {
  const { settings } = await read({ 'usher.yaml': { lifetimes: { session: duration } } })
  expect(settings?.lifetimes.session).toBe(seconds)
})

test.each(['sub', 'iss', 'acr', 'sid'])(
  'the claim %s belongs to the protocol and cannot be set',
  async claim => {
    const { text } = await read({
      'claims.yaml': { claims: { [claim]: { scope: 'profile', from: 'name' } } },
    })
    expect(text).toContain(`claims.${claim}: is set by the protocol`)
  },
)

test.each(['id', 'password', 'attributes', 'nickname', 'constructor', '__proto__'])(
  'a claim cannot come from %s',
  async from => {
    const { text } = await read({ 'claims.yaml': { claims: { level: { scope: 'hr', from } } } })
    expect(text).toContain('claims.level.from: a claim comes from username')
  },
)

test.each(['offline_access', 'a b', 'a"b', 'a\\b', '', 'ü'])(
  'no claim can belong to the scope "%s"',
  async scope => {
    const { findings } = await read({
      'claims.yaml': { claims: { level: { scope, from: 'name' } } },
    })
    expect(findings[0]?.key).toBe('claims.level.scope')
  },
)

test('a text for a scope without claims is a finding', async () => {
  const scopes = { hr: { description: 'See your department' } }
  expect((await read({ 'claims.yaml': { claims: {}, scopes } })).findings[0]?.key).toBe('scopes.hr')
})

test('clients can request a scope of claims.yaml', async () => {
  const claims = { claims: { department: { scope: 'hr', from: 'attributes.department' } } }
  const files = { 'claims.yaml': claims, 'clients/web.yaml': client({ scope: 'openid hr' }) }
  expect(Object.keys((await read(files)).settings?.scopes ?? {})).toEqual([
    'openid',
    'offline_access',
    'hr',
  ])
})

test.each([
  [{ announce: '59 s' }, 'must be shorter than keys.rotate_every, and at least 1 min'],
  [
    { announce: '2 h', rotate_every: '2 h' },
    'must be shorter than keys.rotate_every, and at least 1 min',
  ],
  [{ announce: '1 min', rotate_every: '2 min' }, undefined],
])('keys: %j', async (keys, message) => {
  const { findings } = await read({ 'usher.yaml': { keys } })
  expect(findings[0]?.message).toBe(message)
})

test('names and translations keep the joiners of their script', async () => {
  const name = 'ویکی\u200Cپدیا'
  const text = 'می\u200Cخواهید'
  const { settings, text: report } = await read({
    'clients/wiki.yaml': client({ client_name: name, 'client_name#si': 'ශ\u0DCA\u200Dරී' }),
    'locales/fa.yaml': { sign_in: { title: text } },
    'usher.yaml': { branding: { name } },
  })
  expect(report).toBe('')
  expect([settings?.clients[0]?.client_name, settings?.branding.name]).toEqual([name, name])
  const { findings } = await read({
    'clients/wiki.yaml': client({ client_name: 'Wi\u200Cki' }),
    'locales/fa.yaml': { sign_in: { title: 'a\u202Eb' } },
  })
  expect(findings.map(({ message }) => message)).toEqual([
    'has no control characters, line breaks or invisible characters',
    'has no control characters, line breaks or invisible characters',
  ])
})
