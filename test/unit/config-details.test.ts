// Files of authorization details: what may stand in one, and beside which others; what people read.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { judge } from '../../src/commands/config.ts'
import { differences } from '../../src/config/diff.ts'
import { detailWords } from '../../src/features/authorization-details/words.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { client, type Files, places, read, resource, withFolder } from '../support/config-folder.ts'

const FILES = 'https://files.example.org'
const ON = { features: { rich_authorization_requests: true } }

/** A type that is right in every way, and what `changes` make of it. */
const type = (changes: object = {}): object => ({
  type: 'folder',
  resource: FILES,
  description: 'Use {name}',
  fields: { name: { label: 'Folder' } },
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

const refused = (changes: object, files: Files = {}) =>
  withType(changes, files).findings.map(({ key, rule }) => `${key} ${rule}`)
const field = (name: object) => ({ fields: { name: { label: 'Folder', ...name } } })

test('a type that is right is in the settings, and a change of it is told', () => {
  const before = withType({}).settings
  const after = withType({ fields: { name: { label: 'Place' } } }).settings
  expect(before?.details.folder).toMatchObject({
    resource: FILES,
    fields: { name: { list: false } },
  })
  if (!before || !after) throw new Error('not read')
  expect(differences({ ...before, folder: after.folder }, after)).toEqual([
    'details.folder.fields.name.label: "Folder" → "Place"',
  ])
})

const AND = { name: { label: 'Folder' } }
test.each<[string, object, string[]]>([
  ['no type', { type: undefined }, ['type missing']],
  ['a type with a space', { type: 'a b' }, ['type invalid-format']],
  ['a resource that is none', { resource: `${FILES}/` }, ['resource unknown-resource']],
  ['a place for nothing', { description: 'Use {nmae}' }, ['description places']],
  [
    'a place in one language',
    { description: { en: 'Use {name}', de: '{nam} benutzen' } },
    ['description.de places'],
  ],
  ['a place that may be empty', field({ required: false }), ['description places']],
  ['a field called type', { fields: { ...AND, type: AND.name } }, ['fields.type invalid-key']],
  ['a field with a space', { fields: { ...AND, 'a b': AND.name } }, ['fields.a b invalid-key']],
  ['a field below a value', { fields: { ...AND, 'name.x': AND.name } }, ['fields.name.x value']],
  ['an unknown kind', field({ holds: 'date' }), ['fields.name.holds invalid-value']],
  ['a pattern that is none', field({ pattern: '(' }), ['fields.name.pattern value']],
  ['no values', field({ values: {} }), ['fields.name.values value']],
  ['a least text', field({ minimum: 1 }), ['fields.name.minimum no-effect']],
  [
    'a pattern of numbers',
    field({ holds: 'number', pattern: 'x' }),
    ['fields.name.pattern no-effect'],
  ],
  [
    'more than the most',
    field({ holds: 'number', minimum: 2, maximum: 1 }),
    ['fields.name.minimum value'],
  ],
  ['one action', { fields: { ...AND, actions: AND.name } }, ['fields.actions value']],
  [
    'a number for a name',
    { fields: { ...AND, identifier: { label: 'Id', holds: 'number' } } },
    ['fields.identifier value'],
  ],
])('OT5: %s', (_, changes, findings) => {
  expect(refused(changes)).toEqual(findings)
})

test('OT5: a type is described once, and a client names those that there are', () => {
  expect(refused({}, { 'details/other.yaml': type() })).toEqual(['type same-type'])
  const file = client({ authorization_details_types: ['folder', 'foldr'] })
  const reading = withType({}, { 'clients/web.yaml': file })
  expect(places(reading)).toEqual(['clients/web.yaml:1:181 authorization_details_types.1'])
  expect(reading.text).toContain('no file in details/ has this type; did you mean folder?')
  const other = client({ client_id: 'other' })
  const closed = { 'resources/files.yaml': resource({ clients: ['other'] }) }
  expect(refused({}, { ...closed, 'clients/other.yaml': other })).toEqual([
    'authorization_details_types.0 unknown-client',
  ])
})

test('OT5: switched off, or without what it needs, is said', () => {
  expect(refused({}, { 'usher.yaml': {} })).toEqual([
    'authorization_details_types feature-off',
    'type feature-off',
  ])
  const features = { rich_authorization_requests: true, pushed_authorization_requests: false }
  expect(refused({}, { 'usher.yaml': { features } })).toEqual([
    'features.rich_authorization_requests feature-off',
  ])
})

test('OT5: a consent page of the operator that does not show them is refused', async () => {
  const ours = readFileSync(
    join(import.meta.dirname, '../../src/pages/templates/consent.eta'),
    'utf8',
  )
  const check = (template: string) =>
    withFolder({ 'usher.yaml': ON, 'pages/consent.eta': template }, async folder =>
      (await judge(folder, {})).findings.map(({ message }) => message),
    )
  expect(await check(ours)).toEqual([])
  expect(await check(ours.replace(/<% for \(const detail.*?<% } %>\n {4}<% } %>/s, ''))).toEqual([
    'does not show it.details: people would allow what they have not seen',
  ])
})

const { settings } = withType({
  description: { en: 'Use {name} for {days}', fr: 'Utiliser {name} pour {days}' },
  fields: {
    name: { label: 'Folder' },
    days: { label: 'Days', holds: 'number' },
    'for.whom': {
      label: { en: 'With', de: 'Mit' },
      list: true,
      values: { all: { en: 'all', de: 'allen' }, me: 'me' },
    },
  },
})
const { find, english } = createLanguages()
const said = { type: 'folder', name: 'a {days} b', days: 1234.5, for: { whom: ['all', 'me'] } }

test.each<[string, string, string[]]>([
  ['en', 'Use a {days} b for 1,234.5', ['With: all and me']],
  ['fr', 'Utiliser a {days} b pour 1\u202f234,5', ['With: all et me']],
  ['de', 'Use a {days} b for 1.234,5', ['Mit: allen und me']],
])('OT5: in %s people read each value, as its kind is written there', (tag, sentence, facts) => {
  if (!settings) throw new Error('not read')
  const words = detailWords(find(tag) ?? english, settings, said)
  expect(words.sentence.map(({ text }) => text).join('')).toBe(sentence)
  expect(words.facts.map(({ label, value }) => `${label}: ${value}`)).toEqual(facts)
  expect(words.at).toBe('Files')
})

test('OT5: without words there are labels, and without those the names of the fields', () => {
  if (!settings?.details.folder) throw new Error('not read')
  const folder = { ...settings.details.folder, description: { ja: '{name}' }, fields: {} }
  const { sentence, facts } = detailWords(english, { ...settings, details: { folder } }, said)
  expect(sentence).toEqual([{ text: 'folder', isValue: false }])
  expect(facts.map(({ label }) => label)).toEqual(['name', 'days', 'for.whom'])
})
