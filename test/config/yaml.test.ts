// YAML features beyond data, and names with a meaning in JavaScript, have no effect.

import { expect, test } from 'vitest'
import { COMPLETE, client, places, read } from '../support/config-folder.ts'
import { cpuTimeOf } from '../support/cpu.ts'

const LAUGHS = ['a: &a [x, x, x, x, x, x, x, x, x]']
for (const [i, name] of [...'bcdefghij'].entries()) {
  LAUGHS.push(`${name}: &${name} [${Array(9).fill(`*${'abcdefghij'[i]}`).join(', ')}]`)
}

test('exponential aliases are refused at once', async () => {
  const took = await cpuTimeOf(async () => {
    const { text } = await read({ 'usher.yaml': LAUGHS.join('\n') })
    expect(text).toMatch(/usher\.yaml.* too many aliases/)
  })
  expect(took).toBeLessThan(1000)
})

test('an unknown alias is reported as such', async () => {
  const reading = await read({ 'usher.yaml': 'branding:\n  name: *ada\n' })
  expect(reading.text).toMatch(/usher\.yaml.* alias/i)
})

test('an alias to itself is refused', async () => {
  expect((await read({ 'usher.yaml': 'listen: &a { port: *a }\n' })).findings).not.toEqual([])
})

test('a normal alias is allowed', async () => {
  const text = 'lifetimes:\n  access_token: &short 5 min\n  id_token: *short\n'
  expect((await read({ 'usher.yaml': text })).settings?.lifetimes.id_token).toBe(300)
})

test.each(['!js/function', '!!js/function', '!!python/object', '!env', '!<tag:example.org,1:x>'])(
  'a value with the tag %s is refused at its position',
  async tag => {
    const reading = await read({ 'usher.yaml': `branding:\n  name: ${tag} "Usher"\n` })
    expect(places(reading)).toEqual(['usher.yaml:2:9'])
  },
)

test('brackets without end are refused in a short report', async () => {
  const { text } = await read({ 'usher.yaml': `proxy: ${'['.repeat(20_000)}` })
  expect(text).not.toBe('')
  expect(text.split('\n').length).toBeLessThan(20)
})

const NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'prototype']

test.each(NAMES)('%s is an unknown key like any other', async name => {
  const reading = await read({
    'usher.yaml': `${name}: 1\nlisten:\n  ${name}: { port: 1 }\n`,
    'claims.yaml': COMPLETE.claims,
    'clients/web.yaml': `${COMPLETE.client}${name}: { client_id: ada }\n`,
  })
  expect(reading.findings.map(({ rule }) => rule)).toEqual(Array(3).fill('unknown-key'))
  expect(Object.prototype).not.toHaveProperty('port')
})

test.each(NAMES)('a scope %s exists only when a claim belongs to it', async name => {
  expect(places(await read({ 'clients/web.yaml': client({ scope: `openid ${name}` }) }))).toEqual([
    expect.stringMatching(/^clients\/web\.yaml:1:\d+ scope$/),
  ])
  const claims = `claims: {}\nscopes:\n  ${name}: { description: See nothing }\n`
  expect((await read({ 'claims.yaml': claims })).findings).not.toEqual([])
})

test.each(NAMES.slice(1))('an attribute %s in allow of a client is like any other', async name => {
  const { settings, findings } = await read({
    'clients/web.yaml': client({ allow: { [name]: ['a'] } }),
  })
  expect(findings).toEqual([])
  expect(settings?.warnings.map(({ rule, key }) => [rule, key])).toEqual([
    ['allow-attribute', `allow.${name}`],
  ])
})

test.each(NAMES)('a claim of the scope %s makes that scope, or is refused', async name => {
  const claims = `claims:\n  level: { scope: ${name}, from: attributes.level }\n`
  const { settings, findings } = await read({ 'claims.yaml': claims })
  if (findings.length) expect(findings[0]?.file).toBe('claims.yaml')
  else expect(Object.keys(settings?.scopes ?? {})).toContain(name)
})

test.each(NAMES)('a claim with the name %s is kept or refused, but not ignored', async name => {
  const claims = `claims:\n  ${name}: { scope: profile, from: name }\n`
  const { settings, findings } = await read({ 'claims.yaml': claims })
  if (findings.length) expect(findings[0]?.file).toBe('claims.yaml')
  else expect(Object.keys(settings?.claims ?? {})).toEqual([name])
})

test('a merge key is refused as an unknown key', async () => {
  const text = 'listen:\n  <<: { port: 3001 }\n'
  expect(places(await read({ 'usher.yaml': text }))).toEqual(['usher.yaml:2:3 listen.<<'])
})

test.each([
  [
    'a key without a colon',
    'workers: 1\nbranding\n  name: X\n',
    '2:1',
    'a `:` is missing after branding',
  ],
  ['the only key without a colon', 'branding\n', '1:1', 'a `:` is missing after branding'],
  [
    'a key without a colon, in a map',
    'sign_in:\n  second_factor\n  by: [username]\n',
    '2:3',
    'a `:` is missing after second_factor',
  ],
  [
    'a key and a value without a colon',
    'workers 1\nproxy: []\n',
    '1:1',
    'a `:` is missing after workers',
  ],
  [
    'a file of one key, without a space',
    'workers:1\n',
    '1:1',
    'a space is missing behind the : of workers',
  ],
  ['an equals sign', 'workers = 1\n', '1:1', 'write a : in place of the = behind workers'],
  [
    'a wide colon',
    'workers\uFF1A 1\nproxy: []\n',
    '1:1',
    'the colon behind workers is another character: write :',
  ],
  ['a word that is no key', 'workers: 1\nhunter2\n', '2:1', 'a `:` is missing after this word'],
  [
    'a hard space',
    'branding:\n\u00A0\u00A0name: X\n',
    '2:1',
    'a space before or in this key is another character: write ordinary spaces',
  ],
  [
    'an apostrophe in a quoted text',
    "branding:\n  name: 'It's'\n",
    '2:13',
    expect.stringMatching(/^something stands behind the quoted text/),
  ],
  [
    'a list that is not closed',
    'proxy: [10.0.0.0/8\nworkers: 1\n',
    '2:1',
    'a [ or a { further up is not closed',
  ],
  ['two commas', 'proxy: [a,, b]\n', '1:11', 'a , is too much here'],
  [
    'a backslash in double quotes',
    'branding:\n  name: "a\\q"\n',
    '2:11',
    expect.stringMatching(/^a \\ in double quotes begins/),
  ],
  [
    'a mark of a merge',
    'workers: 1\n=======\nproxy: []\n',
    '2:1',
    'a mark of a merge: keep one of the two sides',
  ],
  [
    'an asterisk',
    'branding:\n  name: *home\n',
    '2:9',
    expect.stringMatching(/^an alias names no anchor/),
  ],
  [
    'another indentation',
    'branding:\n  name: X\n accent: y\n',
    '3:1',
    'keys of one map begin in one column',
  ],
])('a slip is said in plain words, at its place: %s', async (_, text, place, message) => {
  const { findings } = await read({ 'usher.yaml': text })
  expect(findings.map(({ line, column, message }) => [`${line}:${column}`, message])).toEqual([
    [place, message],
  ])
})
