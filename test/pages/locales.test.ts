// Every language has all texts with the same placeholders, and texts of the operator take precedence.

import { globSync, readFileSync } from 'node:fs'
import { join, parse as parsePath } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { placesIn, shippedTags, shippedWords } from '../../src/config/schema/locale.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { places, read } from '../support/config-folder.ts'

const FORM = /\.(zero|one|two|few|many|other)$/
const english = shippedWords('en')
/** The key `scope.other` is no plural form: it is for scopes of any other name. */
const isForm = (key: string) => FORM.test(key) && key !== 'scope.other'
const singular = (words: object) => Object.keys(words).filter(key => !isForm(key))
const counted = (words: object) => [
  ...new Set(
    Object.keys(words)
      .filter(isForm)
      .map(key => key.replace(FORM, '')),
  ),
]

/** Texts that are the same in both languages. */
const ALIKE = [
  'de account.name',
  'de device.code',
  'de factors.passkey',
  'de factors.passkeys',
  'de profile.name',
  'fr account.nav_applications',
  'fr account.nav_sessions',
  'fr device.code',
  'fr error.application',
  'fr error.description',
  'fr sessions.applications',
  'es error.code',
  'es detail.no',
]

test('there are six languages, each with its file', () => {
  const files = globSync(join(import.meta.dirname, '../../src/pages/locales/*'))
  expect(files.map(file => parsePath(file).name).toSorted()).toEqual(shippedTags.toSorted())
  expect(createLanguages().tags).toEqual(['en', 'de', 'es', 'fr', 'ja', 'pt'])
})

describe.each(shippedTags.filter(tag => tag !== 'en'))('%s', lang => {
  const words = shippedWords(lang)

  test('has all texts of English, and no others', () => {
    expect(singular(words).toSorted()).toEqual(singular(english).toSorted())
    expect(counted(words).toSorted()).toEqual(counted(english).toSorted())
  })

  test('has the plural forms that it needs, and no others', () => {
    const { pluralCategories } = new Intl.PluralRules(lang).resolvedOptions()
    for (const key of counted(words)) {
      const forms = Object.keys(words).filter(form => form.replace(FORM, '') === key)
      const kinds = forms.map(form => form.slice(key.length + 1))
      expect(kinds, key).toContain('other')
      for (const kind of kinds) expect(pluralCategories, key).toContain(kind)
      if (pluralCategories.includes('one')) expect(kinds, key).toContain('one')
    }
  })

  test('has every placeholder', () => {
    for (const key of singular(words))
      expect(placesIn(words[key] ?? ''), key).toEqual(placesIn(english[key] ?? ''))
    for (const key of Object.keys(words).filter(isForm)) {
      const known = placesIn(english[key.replace(FORM, '.other')] ?? '')
      for (const place of placesIn(words[key] ?? '')) expect(known, key).toContain(place)
    }
  })

  test('is not English', () => {
    const same = Object.keys(words).filter(key => words[key] === english[key])
    expect(same.filter(key => !ALIKE.includes(`${lang} ${key}`))).toEqual([])
  })

  test('has the order of en.yaml, so that they can be compared', () => {
    const keysOf = (tag: string) =>
      Object.keys(shippedWords(tag)).map(key => (isForm(key) ? key.replace(FORM, '') : key))
    expect([...new Set(keysOf(lang))]).toEqual([...new Set(keysOf('en'))])
  })
})

test('a regional variant falls back to its language, and an unknown language is not found', () => {
  const { find } = createLanguages()
  expect(find('de-AT')?.lang).toBe('de')
  expect(find('PT-br')?.lang).toBe('pt')
  expect(find('tlh')).toBeUndefined()
  expect(find('')).toBeUndefined()
  expect(find('-'.repeat(10_000))).toBeUndefined()
})

test('numbers, days and lists have the format of the language', () => {
  const { find } = createLanguages({ ar: {} })
  expect(find('de')?.date(0).words).toBe('1. Januar 1970')
  expect(find('ja')?.date(0)).toEqual({ iso: '1970-01-01T00:00:00.000Z', words: '1970年1月1日' })
  const minutesAgo = (minutes: number) => Date.now() / 1000 - minutes * 60 - 1
  expect(find('en')?.ago(minutesAgo(5)).words).toBe('5 minutes ago')
  expect(find('de')?.ago(minutesAgo(61)).words).toBe('vor 1 Stunde')
  expect(find('fr')?.ago(minutesAgo(-3)).words).toBe('cette minute-ci')
  const yesterday = minutesAgo(24 * 60)
  expect(find('de')?.ago(yesterday)).toEqual(find('de')?.date(yesterday))
  expect(find('de')?.number(1234.5)).toBe('1.234,5')
  expect(find('es')?.list(['a', 'b', 'c'])).toBe('a, b y c')
  expect(find('ar')?.dir).toBe('rtl')
})

test('texts of the operator take precedence; a regional variant inherits the texts of its language', async () => {
  const { settings } = await read({
    'locales/de.yaml': 'sign_in: { title: Einloggen }\n',
    'locales/de-CH.yaml': 'sign_in: { cancel: Schliessen }\n',
    'locales/en.yaml': 'sign_in: { title: Log in }\n',
  })
  const { find, tags, english } = createLanguages(settings?.locales)
  expect(tags).toEqual(['en', 'de', 'de-CH', 'es', 'fr', 'ja', 'pt'])
  const texts = ['title', 'cancel', 'password'].map(key => find('de-ch')?.t(`sign_in.${key}`))
  expect(texts).toEqual(['Einloggen', 'Schliessen', 'Passwort'])
  expect(find('de')?.t('sign_in.cancel')).toBe('Abbrechen')
  expect(english().t('sign_in.title')).toBe('Log in')
})

test('a new language is one file, and its missing texts are in English', async () => {
  const { settings } = await read({ 'locales/ar.yaml': 'sign_in: { title: تسجيل الدخول }\n' })
  const arabic = createLanguages(settings?.locales).find('ar-EG')
  expect(arabic?.t('sign_in.title')).toBe('تسجيل الدخول')
  expect(arabic?.t('sign_in.cancel')).toBe('Cancel')
})

test.each([
  ['de', 'sign_in:\n  to_continue: weiter', 'locales/de.yaml:2:3 sign_in.to_continue'],
  ['de', 'sign_in: Anmelden', 'locales/de.yaml:1:1 sign_in'],
  ['de', 'sign_in: { title: 5 }', 'locales/de.yaml:1:12 sign_in.title'],
  ['de', 'sign_in: { title: "" }', 'locales/de.yaml:1:12 sign_in.title'],
  ['DE', '', 'locales/DE.yaml'],
  ['de_CH', '', 'locales/de_CH.yaml'],
])('%s.yaml with %j is refused with its position', async (name, text, place) => {
  const reading = await read({ [`locales/${name}.yaml`]: text })
  expect(places(reading)).toEqual([place])
})

test('the JSON Schema for editors has the English texts', () => {
  const file = join(import.meta.dirname, '../../config/schema/locale.json')
  const { properties } = parse(readFileSync(file, 'utf8'))
  expect(properties.sign_in.properties.title.description).toBe('In English: Sign in')
})
