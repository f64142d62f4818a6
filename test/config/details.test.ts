// Files of authorization details types: valid content, dependencies on other files, and the consent page.

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { differences } from '../../src/config/diff.ts'
import { createValidator } from '../../src/features/authorization-details.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { detailWords } from '../../src/sign-in/consent-page.ts'
import { client, type Files, read, resource } from '../support/config-folder.ts'

const FILES = 'https://files.example.org'
const ON = { features: { rich_authorization_requests: true } }

/** A valid type with `changes`. */
const type = (changes: object = {}): object => ({
  type: 'folder',
  resource: FILES,
  description: 'Use {name}',
  schema: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
  ...changes,
})

const withType = (changes: object, files: Files = {}) =>
  read({
    'usher.yaml': ON,
    'clients/web.yaml': client({ authorization_details_types: ['folder'] }),
    'resources/files.yaml': resource(),
    'details/folder.yaml': type(changes),
    ...files,
  })

const refused = async (changes: object, files: Files = {}) =>
  (await withType(changes, files)).findings.map(({ key, rule }) => `${key} ${rule}`)

/** A schema with these properties, and with the required property `name`. */
const schema = (properties: object, more: object = {}) => ({
  schema: {
    type: 'object',
    required: ['name'],
    properties: { name: { type: 'string' }, ...properties },
    ...more,
  },
})
const name = (more: object) => schema({ name: { type: 'string', ...more } })

test('a valid type is in the settings, and its changes are logged', async () => {
  const before = (await withType({})).settings
  const after = (await withType(name({ title: 'Place' }))).settings
  expect(before?.details.folder).toMatchObject({
    resource: FILES,
    schema: { additionalProperties: false },
  })
  if (!before || !after) throw new Error('not read')
  expect(await differences({ ...before, folder: after.folder }, after)).toEqual([
    '+ details.folder.schema.properties.name.title: "Place"',
  ])
})

test.each<[string, object, string[]]>([
  ['no type', { type: undefined }, ['type missing']],
  ['a type with a space', { type: 'a b' }, ['type invalid-format']],
  ['an unknown resource', { resource: `${FILES}/` }, ['resource unknown-resource']],
  ['no schema', { schema: undefined }, ['schema missing']],
  [
    'an unknown property in the sentence',
    { description: 'Use {nmae}' },
    ['description unknown-property'],
  ],
  [
    'an optional property in the sentence',
    schema({}, { required: [] }),
    ['description unknown-property'],
  ],
  [
    'a property of an optional object in the sentence',
    {
      description: '{of.it}',
      ...schema({
        of: { type: 'object', required: ['it'], properties: { it: { type: 'string' } } },
      }),
    },
    ['description unknown-property'],
  ],
  [
    'an object in the sentence',
    { description: '{of}', ...schema({ of: { type: 'object', properties: {} } }) },
    ['description unknown-property'],
  ],
  ['a label for no property', { labels: { nmae: 'Folder' } }, ['labels.nmae unknown-property']],
  [
    'a label for a value that cannot be',
    { labels: { 'name.on': 'An' }, ...name({ enum: ['one'] }) },
    ['labels.name.on unknown-property'],
  ],
  ['a property called type', schema({ type: { type: 'string' } }), ['schema value']],
  [
    'a property with a space',
    schema({ 'a b': { type: 'string' } }),
    ['schema.properties.a b invalid-key'],
  ],
  [
    'a required property that is not described',
    schema({}, { required: ['name', 'nam'] }),
    ['schema.required value'],
  ],
  [
    'other properties',
    schema({}, { additionalProperties: true }),
    ['schema.additionalProperties invalid-value'],
  ],
  [
    'an unknown JSON type',
    schema({ at: { type: 'date' } }),
    ['schema.properties.at.type invalid-value'],
  ],
  [
    'a list without items',
    schema({ all: { type: 'array', maxItems: 2 } }),
    ['schema.properties.all.items value'],
  ],
  ['a reference', name({ $ref: 'https://x' }), ['schema.properties.name.$ref unknown-key']],
  ['no values', name({ enum: [] }), ['schema.properties.name.enum too-small']],
  [
    'a list of lists',
    schema({ all: { type: 'array', items: { type: 'array' } } }),
    ['schema.properties.all.items.type invalid-value'],
  ],
])('%s is a finding with its place', async (_, changes, findings) => {
  expect(await refused(changes)).toEqual(findings)
})

test.each([
  '^[a-z]+$',
  '^\\d{1,6}\\.\\d{2}$',
  '^[A-Z]{2}\\d{2}[A-Z0-9 ]{11,42}$',
  '^[^a\\]]{3}a*\\$$',
])('the pattern %s is accepted', async pattern =>
  expect(await refused(name({ pattern }))).toEqual([]),
)

test.each([
  '(',
  '[z-a]',
  'unanchored',
  '^(a+)+$',
  '^(a|a)*$',
  '^a*a*$',
  '^\\w+@\\w+$',
  `^${'a?'.repeat(30)}$`,
  `^${'a'.repeat(100_000)}$`,
  '^a{1,200}a{1,200}$',
  '^(?=a).*$',
  '^(.)\\1$',
  '^a+?$',
  '^a\\$',
])('a pattern with expensive backtracking is refused (%#)', async pattern => {
  expect(await refused(name({ pattern }))).toEqual(['schema.properties.name.pattern value'])
})

test('a type has one file, and a client names types of its APIs', async () => {
  expect(await refused({}, { 'details/other.yaml': type() })).toEqual(['type same-type'])
  const other = client({ client_id: 'other' })
  const closed = { 'resources/files.yaml': resource({ clients: ['other'] }) }
  expect(await refused({}, { ...closed, 'clients/other.yaml': other })).toEqual([
    'authorization_details_types.0 unknown-client',
  ])
})

test('a feature that is off, or lacks another, is a finding', async () => {
  expect(await refused({}, { 'usher.yaml': {} })).toEqual([
    'authorization_details_types feature-off',
  ])
  const features = { rich_authorization_requests: true, pushed_authorization_requests: false }
  expect(await refused({}, { 'usher.yaml': { features } })).toEqual([
    'features.rich_authorization_requests feature-off',
  ])
})

test.each<[string, object, unknown, unknown]>([
  ['type string', { type: 'string' }, 'a', 1],
  ['type number', { type: 'number' }, 1.5, '1.5'],
  ['type integer', { type: 'integer' }, 2, 1.5],
  ['type boolean', { type: 'boolean' }, false, 0],
  ['type array', { type: 'array', items: { type: 'string' } }, ['a'], 'a'],
  ['type object', { type: 'object', properties: { b: { type: 'string' } } }, { b: 'c' }, 'c'],
  ['enum', { type: 'string', enum: ['a', 'b'] }, 'b', 'c'],
  ['enum of one', { type: 'string', enum: ['a'] }, 'a', 'b'],
  ['format date', { type: 'string', format: 'date' }, '2028-02-29', '2027-02-29'],
  ['format date-time', { type: 'string', format: 'date-time' }, '2027-01-01T00:00:00Z', '2027'],
  ['format email', { type: 'string', format: 'email' }, 'a@example.org', 'a.example.org'],
  ['format uri', { type: 'string', format: 'uri' }, 'urn:a:b', 'a'],
  ['format uuid', { type: 'string', format: 'uuid' }, randomUUID(), 'a'],
  ['pattern', { type: 'string', pattern: '^a+$' }, 'aa', 'ab'],
  ['minLength', { type: 'string', minLength: 2 }, 'ab', 'a'],
  ['maxLength', { type: 'string', maxLength: 2 }, 'ab', 'abc'],
  ['minimum', { type: 'number', minimum: 0 }, 0, -0.1],
  ['maximum', { type: 'integer', maximum: 5 }, 5, 6],
  ['exclusiveMinimum', { type: 'number', exclusiveMinimum: 0 }, 0.1, 0],
  ['exclusiveMaximum', { type: 'number', exclusiveMaximum: 5 }, 4.9, 5],
  ['multipleOf', { type: 'number', multipleOf: 0.01 }, 0.07, 0.075],
  ['items', { type: 'array', items: { type: 'integer', minimum: 1 } }, [1, 2], [1, 0]],
  ['minItems', { type: 'array', items: { type: 'string' }, minItems: 2 }, ['a', 'b'], ['a']],
  ['maxItems', { type: 'array', items: { type: 'string' }, maxItems: 1 }, ['a'], ['a', 'b']],
  [
    'uniqueItems',
    { type: 'array', items: { type: 'string' }, uniqueItems: true },
    ['a'],
    ['a', 'a'],
  ],
  [
    'required',
    {
      type: 'object',
      required: ['b'],
      properties: { b: { type: 'string' }, c: { type: 'string' } },
    },
    { b: 'x' },
    { c: 'x' },
  ],
  ['properties', { type: 'object', properties: { b: { type: 'string' } } }, { b: 'x' }, { c: 'x' }],
])('the keyword %s is enforced', async (_, property, valid, invalid) => {
  const file = (await withType(schema({ a: property }))).settings?.details.folder
  if (!file) throw new Error('not read')
  const validate = createValidator(file)
  const detail = { type: 'folder', name: 'x' }
  expect(validate({ ...detail, a: valid })).toBeUndefined()
  expect(validate({ ...detail, a: invalid })).toMatch(/^(a[ .]|there is no property a\.)/)
})

const { settings } = await withType({
  description: { en: 'Use {name} for {days}', fr: 'Utiliser {name} pour {days}' },
  labels: {
    'for.whom': { en: 'With', de: 'Mit' },
    'for.whom.all': { en: 'all', de: 'allen' },
    'for.whom.me': 'me',
  },
  schema: {
    type: 'object',
    required: ['name', 'days'],
    properties: {
      name: { type: 'string' },
      days: { type: 'number', title: 'Days' },
      for: {
        type: 'object',
        properties: {
          whom: { type: 'array', items: { type: 'string', enum: ['all', 'me'] } },
        },
      },
    },
  },
})
const { find, english } = createLanguages()
const FOLDER = { type: 'folder', name: 'a {days} b', days: 1234.5, for: { whom: ['all', 'me'] } }

test.each<[string, string, string[]]>([
  ['en', 'Use a {days} b for 1,234.5', ['With: all and me']],
  ['fr', 'Utiliser a {days} b pour 1\u202f234,5', ['With: all et me']],
  ['de', 'Use a {days} b for 1.234,5', ['Mit: allen und me']],
])('in %s the page shows each value in the format of the language', (tag, sentence, facts) => {
  if (!settings) throw new Error('not read')
  const words = detailWords(find(tag) ?? english(), settings, FOLDER)
  expect(words.sentence.map(({ text }) => text).join('')).toBe(sentence)
  expect(words.facts.map(({ label, value }) => `${label}: ${value}`)).toEqual(facts)
  expect(words.at).toBe('Files')
})

test('without a sentence the page shows labels, then titles, then names', () => {
  if (!settings?.details.folder) throw new Error('not read')
  const folder = { ...settings.details.folder, description: { ja: '{name}' }, labels: {} }
  const { sentence, facts } = detailWords(english(), { ...settings, details: { folder } }, FOLDER)
  expect(sentence).toEqual([{ text: 'folder', isValue: false }])
  expect(facts.map(({ label }) => label)).toEqual(['name', 'Days', 'for.whom'])
})
