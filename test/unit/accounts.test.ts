// The fields of an account: its subject, the spellings of its username, and valid values.

import { expect, test } from 'vitest'
import { foldUsername, newAccountId, profileSchema } from '../../src/accounts/account.ts'

test('a subject is usr_ and 26 characters that differ each time', () => {
  const ids = Array.from({ length: 2000 }, newAccountId)
  for (const id of ids) expect(id).toMatch(/^usr_[0-9a-z]{26}$/)
  expect(new Set(ids).size).toBe(ids.length)
})

test('a subject is random: at every position all characters are equally frequent', () => {
  const ids = Array.from({ length: 3600 }, () => newAccountId().slice(4))
  for (let place = 0; place < 26; place++) {
    const counts = new Map<string, number>()
    for (const id of ids) counts.set(id.charAt(place), (counts.get(id.charAt(place)) ?? 0) + 1)
    expect(counts.size).toBe(36)
    // 100 of each are expected. A deviation of ten standard deviations never happens.
    for (const count of counts.values()) expect(Math.abs(count - 100)).toBeLessThan(99)
  }
})

test.each([
  ['Ada', 'ada'],
  ['ADA', 'ada'],
  ['Ａｄａ', 'ada'],
  ['ﬁnn', 'finn'],
  ['grace\u0301', 'gracé'],
  ['GRACÉ', 'gracé'],
  ['groß', 'gross'],
  ['GROSS', 'groß'],
  ['groẞ', 'gross'],
  ['ΣΑΣ', 'σας'],
  ['σασ', 'σας'],
  ['Ⅷ', 'viii'],
  ['①', '1'],
  ['ADA@EXAMPLE.ORG', 'ada@example.org'],
])('%s and %s are one username', (one, other) => {
  expect(foldUsername(one)).toBe(foldUsername(other))
})

test.each([
  ['ada', 'аda'],
  ['ada', 'ada1'],
  ['ada', 'adá'],
  ['grace', 'grace.'],
  ['ılker', 'xlker'],
])('%s and %s are two usernames', (one, other) => {
  expect(foldUsername(one)).not.toBe(foldUsername(other))
})

test('a Turkish i is folded the same in every locale, and İ is not lost', () => {
  expect(foldUsername('ILKER')).toBe('ilker')
  expect(foldUsername('İLKER')).toBe(foldUsername('i\u0307lker'))
})

test('no letter folds to another name in upper case, in lower case, decomposed or folded twice', () => {
  const strays: string[] = []
  for (let point = 0x21; point < 0x1ffff; point++) {
    const letter = String.fromCodePoint(point)
    if (/[\s\p{C}]/u.test(letter)) continue
    const folded = foldUsername(letter)
    const others = [letter.toUpperCase(), letter.toLowerCase(), letter.normalize('NFD'), folded]
    if (others.some(other => foldUsername(other) !== folded)) strays.push(letter)
  }
  expect(strays).toEqual([])
})

test('folding is idempotent', () => {
  for (const name of [
    'Ada',
    'groß',
    'İlker',
    'ılker',
    'ﬁnn',
    'ΣΑΣ',
    'ŉ',
    'ǰ',
    'ΐ',
    'ﬃ',
    '㎒',
    'ϓ',
  ]) {
    const folded = foldUsername(name)
    expect(foldUsername(folded), name).toBe(folded)
    expect(foldUsername(name.toUpperCase()), name).toBe(folded)
    expect(foldUsername(name.normalize('NFD')), name).toBe(folded)
  }
})

test('a profile has a username, and no fields that were not given', () => {
  expect(profileSchema.parse({ username: 'ada' })).toEqual({
    username: 'ada',
    email_verified: false,
    attributes: {},
  })
})

test.each([
  { username: 'ada', name: 'Ada Lovelace', email: 'ada@example.org', email_verified: true },
  { username: 'ada@example.org' },
  { username: 'Ada.Lovelace-1815_x' },
  { username: '愛' },
  { username: 'a'.repeat(128), name: 'A'.repeat(200) },
  { username: 'ada', attributes: { department: 'Engines', level: 3, tags: ['a'], boss: null } },
])('a profile may be %j', profile => {
  expect(profileSchema.parse(profile)).toMatchObject(profile)
})

test.each([
  {},
  { username: '' },
  { username: 'ada lovelace' },
  { username: 'ada\t' },
  { username: ' ada' },
  { username: 'ada\n' },
  { username: 'ada\u0000' },
  { username: 'ada\u202E' },
  { username: 'ada\u200B' },
  { username: 'ada\uD800' },
  { username: 'ada\u00A0x' },
  { username: 'a'.repeat(129) },
  { username: 1815 },
  { username: ['ada'] },
  { username: 'ada', name: '' },
  { username: 'ada', name: '  ' },
  { username: 'ada', name: 'A'.repeat(201) },
  { username: 'ada', email: 'ada' },
  { username: 'ada', email: 'ada@localhost' },
  { username: 'ada', email: 'Ada <ada@example.org>' },
  { username: 'ada', email: `${'a'.repeat(250)}@example.org` },
  { username: 'ada', email_verified: 'true' },
  { username: 'ada', attributes: [] },
  { username: 'ada', attributes: { f: () => 1 } },
  { username: 'ada', id: 'usr_ada' },
  { username: 'ada', enabled: true },
  { username: 'ada', password: '$argon2id$' },
  { username: 'ada', created: 1 },
])('a profile may not be %j', profile => {
  expect(profileSchema.safeParse(profile).success).toBe(false)
})
