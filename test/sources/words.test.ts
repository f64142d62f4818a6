// Every text that the pages use exists, and every existing text is used.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import {
  FACTORS as FACTORS_OF_EVENTS,
  USER_EVENTS,
  WITH_FACTOR,
} from '../../src/account/activity.ts'
import { NOTICES } from '../../src/account/mail-queue.ts'
import { CODES, TITLES } from '../../src/pages/error.ts'
import { createLanguages } from '../../src/pages/words.ts'
import { mapOf } from '../../src/store/values.ts'

const PAGES = `${import.meta.dirname}/../../src/pages`
const read = (pattern: string) =>
  globSync(pattern, { cwd: PAGES })
    .toSorted()
    .map(name => ({ name, text: readFileSync(join(PAGES, name), 'utf8') }))
const templates = read('templates/*.eta')
/** A comment of page-data.ts has the call of a template. */
const sources = [
  ...templates,
  ...read('{*,../{account,sign-in,features}/**/*}.ts').filter(
    ({ name }) => name !== 'page-data.ts',
  ),
]

const words = keysOf(parse(readFileSync(join(PAGES, 'locales/en.yaml'), 'utf8')))

function keysOf(tree: unknown, prefix = ''): string[] {
  return Object.entries(mapOf(tree)).flatMap(([key, value]) =>
    typeof value === 'string' ? [prefix + key] : keysOf(value, `${prefix}${key}.`),
  )
}

/** The arguments of every call of `t`. */
const calls = sources.flatMap(({ name, text }) =>
  [...text.matchAll(/\b(?:t|strong|plural)\(([^()]*)/g)].map(([, argument = '']) => ({
    name,
    argument,
  })),
)
/** Whole keys in quotes, without prefixes of composed keys. */
const keys = calls.flatMap(({ name, argument }) =>
  [...argument.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, key = '']) => ({ name, key })),
)
const codes = CODES
/** The titles of the error page. An error without its own text has one of these. */
const situations = [...Object.values(TITLES), 'server_error', 'request']

/** The keys of texts with plural forms. */
const plurals = sources.flatMap(({ text }) =>
  [...text.matchAll(/\bplural\('([a-z_.]+)'/g)].map(([, key = '']) => key),
)
const formsOf = (key: string) => [`${key}.one`, `${key}.other`]
/** The errors of the form for a new password. */
const PROBLEMS = [
  'too_short',
  'too_long',
  'too_common',
  'too_personal',
  'unchanged',
  'wrong',
  'differs',
]
/** The errors of a user code, and the results of the device page. */
const DEVICE =
  'unknown expired used form done done_title denied denied_title throttled throttled_title'

/** The results of the answer to a CIBA request. */
const OUTCOMES = ['allowed', 'denied', 'gone', 'withdrawn']

/** The errors of a sign-in, and the results of a change of the sign-in methods. */
const SIGN_IN =
  'failed passkey_failed upstream_failed upstream_old upstream_unavailable upstream_unknown'
/** The errors of a second factor, and its usual names. */
const FACTORS = ['clock', 'wrong', 'passkey_failed', 'passkey_not_added', 'passkey', 'totp']
/** The results of a change of factors. */
const CHANGED = ['added', 'removed', 'renamed', 'unchanged']
/** Whether the protection of an account is enough. */
const VERDICTS = ['enough', 'no_codes', 'no_factor', 'passkey_beside', 'password_only', 'elsewhere']
const SIGN_INS = ['added', 'removed', 'failed', 'taken']

/** The mails. */
const MAILS = ['invitation', 'forgot', 'no_link', 'address', 'sign_up', 'known', 'notice']

const SCOPES = ['openid', 'profile', 'email', 'phone', 'address', 'offline_access', 'other']

test('there are pages, texts and calls of `t`', () => {
  expect(templates.length).toBeGreaterThan(8)
  expect(words.length).toBeGreaterThan(80)
  expect(keys.length).toBeGreaterThan(60)
  expect(codes.length).toBeGreaterThan(15)
  expect(situations.length).toBeGreaterThan(7)
})

test('every key that a page uses has a text', () => {
  const asked = keys.flatMap(({ key }) => (plurals.includes(key) ? formsOf(key) : [key]))
  const missing = asked.filter(key => !words.includes(key))
  expect(missing).toEqual([])
})

test('a composed key begins with one of twelve prefixes', () => {
  const dynamic = calls
    .filter(
      ({ argument }) =>
        !/'[a-z_]+\.[a-z_]+'/.test(argument) && !/^(key\b|`\$\{key\})/.test(argument),
    )
    .map(({ argument }) => argument)
  for (const argument of dynamic)
    expect(argument).toMatch(
      /^['`](scope|errors|error|password|device|requests|sign_in|sign_ins|factors|security|activity|notice|mail)\./,
    )
  expect(dynamic.length).toBeGreaterThanOrEqual(4)
})

test('every situation of the error page has a title, and all others have a text', () => {
  for (const key of ['title', ...Object.values(TITLES)]) expect(words).toContain(`error.${key}`)
  for (const key of ['server_error', 'request']) expect(words).toContain(`error.${key}_text`)
})

test('every scope of the specification has a text, and one key is for all others', () => {
  const scopes = words.filter(key => key.startsWith('scope.'))
  expect(scopes.toSorted()).toEqual(SCOPES.map(scope => `scope.${scope}`).toSorted())
})

test('every text of the file is used on a page', () => {
  const used = new Set([
    ...keys.map(({ key }) => key),
    ...codes.map(code => `errors.${code}`),
    ...['title', ...situations.flatMap(key => [key, `${key}_text`])].map(key => `error.${key}`),
    ...SCOPES.map(scope => `scope.${scope}`),
    ...PROBLEMS.map(problem => `password.${problem}`),
    ...DEVICE.split(' ').map(problem => `device.${problem}`),
    ...OUTCOMES.map(outcome => `requests.${outcome}`),
    ...[...FACTORS, ...CHANGED].map(key => `factors.${key}`),
    ...['passkey', 'totp'].map(type => `factors.remove_${type}`),
    ...VERDICTS.map(verdict => `security.${verdict}`),
    ...['password', 'upstream'].map(method => `activity.sign_in_succeeded_${method}`),
    ...SIGN_IN.split(' ').map(problem => `sign_in.${problem}`),
    ...USER_EVENTS.map(event => `activity.${event}`),
    ...WITH_FACTOR.flatMap(event => FACTORS_OF_EVENTS.map(factor => `activity.${event}_${factor}`)),
    ...NOTICES.map(change => `notice.${change}`),
    ...MAILS.flatMap(key => [`mail.${key}`, `mail.${key}_text`, `mail.${key}_action`]),
    ...SIGN_INS.map(outcome => `sign_ins.${outcome}`),
    ...plurals.flatMap(formsOf),
  ])
  expect(words.filter(key => !used.has(key))).toEqual([])
})

test('every placeholder of a text gets a value where it is used', () => {
  const { t } = createLanguages().english()
  const isPlural = (argument: string) => plurals.some(key => argument.startsWith(`'${key}'`))
  const all = calls.filter(
    ({ argument }) => /'[a-z_]+\.[a-z_]+'/.test(argument) && !isPlural(argument),
  )
  for (const { name, argument } of all) {
    for (const [, key = ''] of argument.matchAll(/'([a-z_]+\.[a-z_]+)'/g)) {
      const wanted = placesIn(key)
      const given = [...argument.matchAll(/[{,]\s*(\w+)\s*(?=[:,}])/g)].map(([, value]) => value)
      expect(given.toSorted(), `${name}: t('${key}')`).toEqual(wanted)
    }
  }
  expect(t('page.signed_in_as', { name: 'Ada' })).toBe('Signed in as Ada')
})

function placesIn(key: string): string[] {
  const tree: unknown = parse(readFileSync(join(PAGES, 'locales/en.yaml'), 'utf8'))
  const text = key.split('.').reduce<unknown>((node, step) => mapOf(node)[step], tree)
  return [...String(text).matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name).toSorted()
}

test('plural forms and numbers follow the language', () => {
  const { plural } = createLanguages().english()
  expect(plural('applications.in_use', 1)).toBe('in 1 browser')
  expect(plural('applications.in_use', 1200)).toBe('in 1,200 browsers')
  expect(plurals.length).toBeGreaterThan(1)
})

test('a key without a text returns nothing, and a value is never parsed as a text', () => {
  const { t } = createLanguages().english()
  expect(t('scope.nowhere')).toBe('')
  expect(t('constructor')).toBe('')
  expect(t('page.signed_in_as', { name: '{name} $& {constructor}' })).toBe(
    'Signed in as {name} $& {constructor}',
  )
  expect(t('page.signed_in_as')).toBe('Signed in as ')
})
