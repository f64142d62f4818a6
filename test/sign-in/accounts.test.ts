// The fields of an account: its subject, the spellings of its username, and valid values.

import { expect, test } from 'vitest'
import { linesIn, readLine } from '../../src/commands/account-lines.ts'
import { foldUsername, newAccountId, profileSchema, typedName } from '../../src/sign-in/account.ts'
import { cpuTimeOf } from '../support/cpu.ts'
import { placesOf } from '../support/some-of.ts'

test('a subject is usr_ and 26 random characters: at every position all are equally frequent', () => {
  const all = Array.from({ length: 3600 }, newAccountId)
  expect(all.filter(id => !/^usr_[0-9a-z]{26}$/.test(id))).toEqual([])
  expect(new Set(all).size).toBe(all.length)
  const ids = all.map(id => id.slice(4))
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

test('a name that is typed, and looked up, has at most 256 characters', () => {
  expect(typedName('x'.repeat(256))).toBe('x'.repeat(256))
  expect(typedName('x'.repeat(257))).toBe('')
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
  const { first, step } = placesOf(8)
  for (let point = 0x21 + first; point < 0x1ffff; point += step) {
    const letter = String.fromCodePoint(point)
    if (/[\s\p{C}]/u.test(letter)) continue
    const folded = foldUsername(letter)
    const others = [letter.toUpperCase(), letter.toLowerCase(), letter.normalize('NFD'), folded]
    if (others.some(other => foldUsername(other) !== folded)) strays.push(letter)
  }
  expect(strays).toEqual([])
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
  { username: 'ada\u0000' },
  { username: 'ada\u202E' },
  { username: 'ada\u3164' },
  { username: 'ada\uD800' },
  { username: 'ada\u00A0x' },
  { username: 'a'.repeat(129) },
  { username: 1815 },
  { username: ['ada'] },
  { username: 'ada', name: '' },
  { username: 'ada', name: '  ' },
  { username: 'ada', name: 'A'.repeat(201) },
  { username: 'ada', name: '\u001B]0;title\u0007' },
  { username: 'ada', email: 'ada' },
  { username: 'ada', email: '@example.org' },
  { username: 'ada', email: 'ada@' },
  { username: 'ada', email: 'ada@corp.example@evil.test' },
  { username: 'ada', email: 'ada lovelace@example.org' },
  { username: 'ada', email: 'ada..lovelace@example.org' },
  { username: 'ada', email: '.ada@example.org' },
  { username: 'ada', email: 'ada@example..org' },
  { username: 'ada', email: 'ada@example.org.' },
  { username: 'ada', email: '"ada@example.org' },
  { username: 'ada', email: 'ad\u200Ba@example.org' },
  { username: 'ada', email: 'ada@example.org\u0000' },
  { username: 'ada', email: '\u212Aate@example.org' },
  { username: 'ada', email: 'ada@\u212Aorp.example' },
  { username: 'ada', email: 'j\u00FCrgen@example.org' },
  { username: 'ada', email: 'ada@b\u00FCcher.example' },
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

test.each([
  'r&d@example.org',
  'first/last@example.org',
  "o'brien+{tag}@example.org",
  'ada@xn--bcher-kva.example',
  'ada@example.xn--p1ai',
  'user@intranet',
  'ada@localhost',
  'a@b',
  '_@sub-domain.example.org',
  '"ada lovelace"@example.org',
  '"a@b"@example.org',
  'ada@[192.0.2.1]',
  'ada@[IPv6:2001:db8::1]',
  `${'a'.repeat(242)}@example.org`,
])('an address may be %s', email => {
  expect(profileSchema.parse({ username: 'ada', email }).email).toBe(email)
})

test('an address is validated in linear time', async () => {
  const texts = ['a.', 'a@', '"\\', ' ', '-', '@['].map(part => part.repeat(100_000))
  const emails = texts.flatMap(text => [text, `a@${text}`, `"${text}`, `a${text}b`])
  const took = await cpuTimeOf(() => {
    for (const email of emails)
      expect(profileSchema.safeParse({ username: 'ada', email }).success).toBe(false)
  })
  expect(took).toBeLessThan(5_000)
})

test.each([
  [{ username: ' ada' }, { username: 'ada' }],
  [{ username: 'ada\n' }, { username: 'ada' }],
  [{ username: '\tada\u00A0' }, { username: 'ada' }],
  [{ username: '\uFEFFa\u200Bd\u00ADa\u2060' }, { username: 'ada' }],
  [
    { username: 'ada', name: ' Ada \n Love\u200Dlace\u3000' },
    { username: 'ada', name: 'Ada Lovelace' },
  ],
  [
    { username: 'ada', email: '\u200B ada@example.org\uFEFF\u2060\n' },
    { username: 'ada', email: 'ada@example.org' },
  ],
])('a profile %j is %j', (profile, expected) => {
  expect(profileSchema.parse(profile)).toMatchObject(expected)
})

const link = (subject: string, issuer = 'https://issuer.example') => ({ issuer, subject })

test.each<[object, string]>([
  [{ email: 'jürgen@example.org' }, 'email: must be an e-mail address in ASCII'],
  [{ username: 'admin\u3164' }, 'username: no spaces, control or invisible characters'],
  [{ name: '\u001B[2J' }, 'name: has no control characters'],
  [{ links: [link('')] }, 'subject: must be 1 to 255 visible ASCII characters'],
  [{ links: [link('a b')] }, 'subject: must be 1 to 255 visible ASCII characters'],
  [{ links: [link('x'.repeat(256))] }, 'subject: must be 1 to 255'],
  [{ links: [link('one'), link('two')] }, 'links: has two entries of one issuer'],
])('an import of %j is refused with its reason', (fields, reason) => {
  const line = JSON.stringify({ username: 'ada', ...fields })
  expect(() => readLine(line)).toThrow(reason)
})

test('an import may have links to several issuers', () => {
  const links = [link('x'.repeat(255)), link('x', 'https://other.example')]
  expect(readLine(JSON.stringify({ username: ' ada\u200B', links }))).toMatchObject({
    username: 'ada',
    links,
  })
})

const TABLE = `username,name,email,email_verified,groups,attributes.site
grace,"Hopper, Grace",grace@example.org,true,finance; board,north

alan,"""Prof"" Turing",,false,,
bob,Bob,,,,,extra
`
const LINES = [
  '',
  '{"username":"grace","name":"Hopper, Grace","email":"grace@example.org","email_verified":true,"attributes":{"groups":["finance","board"],"site":"north"}}',
  '',
  '{"username":"alan","name":"\\"Prof\\" Turing","email_verified":false,"attributes":{}}',
  '{"username":"bob","name":"Bob","column 7":"extra","attributes":{}}',
  '',
]

test.each([
  ['commas', TABLE],
  [
    'semicolons, CRLF and a byte order mark',
    `\uFEFF${TABLE.replace(/,(?! )/g, ';')
      .replace('finance; board', 'finance, board')
      .replaceAll('\n', '\r\n')}`,
  ],
  ['tabs', TABLE.replace(/,(?! )/g, '\t')],
  ['keys in capitals', TABLE.replace('username,name,email,', 'Username,NAME,Email,')],
])('a table with %s becomes lines of JSON, and keeps the numbers of its lines', (_, table) => {
  expect(linesIn(table)).toEqual(LINES)
})

test('lines of JSON stay as they are', () => {
  const lines = '\n{"username": "ada"}\n{"username": "grace", "name": "a;b"}\n'
  expect(linesIn(lines)).toEqual(lines.split('\n'))
  expect(linesIn('')).toEqual([''])
})

test('a table without the column username, and other text, is refused once; a list of JSON for each line', () => {
  for (const text of ['login,mail\nada,a@example.org\n', 'nonsense', 'a, b\n{"username": "ada"}'])
    expect(() => linesIn(text)).toThrow('column username')
  const list = '[{"username": "ada"},\n{}]'
  expect(linesIn(list)).toEqual(list.split('\n'))
})

test.each([
  ['of ten million letters', 'x'.repeat(10_000_000)],
  ['of ten million quotes', '"'.repeat(10_000_000)],
])('a cell %s with a quote that is not closed is a wrong line', (_, cell) => {
  expect(linesIn(`username,name\nada,"${cell}`)).toHaveLength(3)
})

test('a quote that is not closed is a wrong line, and no row is lost silently', () => {
  const lines = linesIn('username,name\nada,"Ada\ngrace,Grace\n')
  expect(lines.at(-1)).toBe('"Ada\ngrace,Grace\n')
  expect(() => readLine(lines.at(-1) ?? '')).toThrow('is not JSON')
})
