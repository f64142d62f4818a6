// Passwords: which ones may be set, how they are stored, and how they are verified.

import { readFileSync } from 'node:fs'
import { hash } from '@node-rs/argon2'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  checkPassword,
  guessableWords,
  hashPassword,
  needsRehash,
  passwordProblem,
} from '../../src/sign-in/password.ts'
import { PASSWORD } from '../support/usher.ts'

let phc: string
beforeAll(async () => {
  phc = await hashPassword(PASSWORD)
})

test.each([
  [0, 'too_short'],
  [1, 'too_short'],
  [11, 'too_short'],
  [12, undefined],
  [64, undefined],
  [1024, undefined],
  [1025, 'too_long'],
  [100_000, 'too_long'],
])('a password of %d bytes is %s', (length, problem) => {
  expect(passwordProblem('xylophon'.repeat(length).slice(0, length))).toBe(problem)
})

test.each(['1qaz2wsx3edc', 'PasswordPassword', 'ｑｗｅｒｔｙｕｉｏｐ１２３', '111111111111'])(
  '%s is a common password',
  password => expect(passwordProblem(password)).toBe('too_common'),
)

test('the list of common passwords has thousands that are long enough', () => {
  const list = readFileSync(`${import.meta.dirname}/../../src/sign-in/common-passwords.txt`, 'utf8')
  const entries = list.trimEnd().split('\n')
  expect(new Set(entries).size).toBe(10_000)
  expect(entries.filter(entry => Buffer.byteLength(entry) < 12)).toEqual([])
  expect(entries.filter(entry => passwordProblem(entry) !== 'too_common')).toEqual([])
})

test('a password has at least twelve characters in any script, and at most 1024 bytes', () => {
  expect(passwordProblem('愛愛愛愛')).toBe('too_short')
  expect(passwordProblem('привет')).toBe('too_short')
  expect(passwordProblem('🙂'.repeat(11))).toBe('too_short')
  expect(passwordProblem('e\u0301'.repeat(11))).toBe('too_short')
  expect(passwordProblem('愛'.repeat(12))).toBeUndefined()
  expect(passwordProblem('🙂'.repeat(256))).toBeUndefined()
  expect(passwordProblem('🙂'.repeat(257))).toBe('too_long')
})

describe('a password of words that attackers try first', () => {
  const account = { username: 'ada', name: 'Ada Lovelace', email: 'lovelace.a@engines.example' }
  const provider = { issuer: 'https://login.acme.example', branding: { name: 'Acme Portal' } }
  const words = guessableWords(account, provider as Parameters<typeof guessableWords>[1])

  test.each([
    'Lovelace2026',
    'lovelace-lovelace',
    'acme portal 1',
    'ACME.example!123',
    'EnginesAcme2026',
    'ｌｏｖｅｌａｃｅ１２３４',
  ])('%s is refused', password => {
    expect(passwordProblem(password, words)).toBe('too_personal')
    expect(passwordProblem(password)).toBeUndefined()
  })

  test('is accepted if eight characters are left, and short words do not count', () => {
    expect(words).not.toContain('ada')
    expect(passwordProblem('lovelace pours tea', words)).toBeUndefined()
    expect(passwordProblem('adaadaadaada', words)).toBeUndefined()
  })
})

test('a password is stored as argon2id with its own salt', async () => {
  expect(phc).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect(await hashPassword(PASSWORD)).not.toBe(phc)
})

test('the right password matches, and every other does not', async () => {
  expect(await checkPassword(PASSWORD, phc)).toBe(true)
  for (const wrong of [`${PASSWORD} `, PASSWORD.toUpperCase(), '', PASSWORD.slice(0, -1)]) {
    expect(await checkPassword(wrong, phc)).toBe(false)
  }
})

test('an account without a hash cannot sign in, with any password', async () => {
  expect(await checkPassword(PASSWORD, undefined)).toBe(false)
  expect(await checkPassword('', undefined)).toBe(false)
})

test.each([12, 72, 73, 1024])('the last byte of a password of %d bytes matters', async length => {
  const password = 'x'.repeat(length - 1)
  const made = await hashPassword(`${password}a`)
  expect(await checkPassword(`${password}a`, made)).toBe(true)
  expect(await checkPassword(`${password}b`, made)).toBe(false)
})

test('a password that is too long fails like a wrong one, even if its hash matches', async () => {
  const long = 'x'.repeat(1025)
  expect(await checkPassword(long, await hash(long))).toBe(false)
  expect(await checkPassword(long, await hash(''))).toBe(false)
})

test('composed and decomposed spellings of a password are equal', async () => {
  const password = 'crème brûlée à la Ada'
  expect(password.normalize('NFD')).not.toBe(password.normalize('NFC'))
  const made = await hashPassword(password.normalize('NFD'))
  expect(await checkPassword(password.normalize('NFC'), made)).toBe(true)
  expect(await checkPassword(password.normalize('NFD'), made)).toBe(true)
  expect(await checkPassword('creme brulee a la Ada', made)).toBe(false)
})

test('spaces, zero bytes and emoji are allowed', async () => {
  const made = await hashPassword(' 🙂\u0000 spaces around ')
  expect(await checkPassword(' 🙂\u0000 spaces around ', made)).toBe(true)
  expect(await checkPassword(' 🙂', made)).toBe(false)
  expect(await checkPassword('🙂\u0000 spaces around', made)).toBe(false)
})

test.each([
  ['less memory', { memoryCost: 8192, timeCost: 2, parallelism: 1 }],
  ['fewer passes', { memoryCost: 19_456, timeCost: 1, parallelism: 1 }],
])('a hash with %s needs a rehash', async (_, parameters) => {
  expect(needsRehash(await hash(PASSWORD, parameters))).toBe(true)
})

test('argon2i and foreign hashes need a rehash', async () => {
  expect(needsRehash(await hash(PASSWORD, { algorithm: 1 }))).toBe(true)
  expect(needsRehash('$2b$12$abcdefghijklmnopqrstuv')).toBe(true)
  expect(needsRehash(phc.replace('v=19', 'v=16'))).toBe(true)
})

test('a hash with the current or stronger parameters needs no rehash', async () => {
  expect(needsRehash(phc)).toBe(false)
  const stronger = { memoryCost: 32_768, timeCost: 3, parallelism: 2 }
  expect(needsRehash(await hash(PASSWORD, stronger))).toBe(false)
})
