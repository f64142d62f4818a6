// Password hashes of other systems, with examples from their documentation and test suites.

import { expect, test } from 'vitest'
import { hashProblem, verify } from '../../src/sign-in/foreign-hash.ts'
import { checkPassword, needsRehash } from '../../src/sign-in/password.ts'
import { cpuTimeOf } from '../support/cpu.ts'
import { DEAREST } from '../support/foreign-hashes.ts'

const b64 = (text: string, encoding: BufferEncoding = 'utf8') =>
  Buffer.from(text, encoding).toString('base64').replaceAll('=', '')
const RFC6070 = b64('4b007901b765489abead49d926f721d065a429c1', 'hex')
const RFC7914 = b64(
  '4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56' +
    'a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d',
  'hex',
)

// biome-ignore format: a table
const KNOWN: [kind: string, password: string, hash: string][] = [
  ['argon2id, phc-winner-argon2', 'password', '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc'],
  ['argon2i, phc-winner-argon2', 'password', '$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA'],
  ['bcrypt 2a, crypt_blowfish', 'U*U', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'],
  ['bcrypt 2y, crypt_blowfish', 'U*U*', '$2y$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK'],
  ['scrypt, passlib', 'password', '$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E'],
  ['PBKDF2-SHA256, RFC 7914 §11', 'Password', `$pbkdf2-sha256$i=80000$${b64('NaCl')}$${RFC7914}`],
  ['PBKDF2-SHA1 as passlib writes it, RFC 6070', 'password', `$pbkdf2$4096$${b64('salt')}$${RFC6070.replaceAll('+', '.')}`],
]

test.each(KNOWN)('%s: only the right password matches', async (_, password, hash) => {
  expect(hashProblem(hash)).toBeUndefined()
  expect(await checkPassword(password, hash)).toBe(true)
  expect(await checkPassword(`${password} `, hash)).toBe(false)
  expect(await checkPassword('', hash)).toBe(false)
})

test.each(KNOWN.filter(([kind]) => !kind.startsWith('argon2id')))(
  '%s is replaced at the next sign-in',
  (_, __, hash) => {
    expect(needsRehash(hash)).toBe(true)
  },
)

const S = 'c29tZXNhbHQ'
const H = 'A'.repeat(43)

// biome-ignore format: a table
test.each([
  `$argon2id$v=19$m=131073,t=1,p=1$${S}$${H}`, `$argon2id$v=19$m=9999999,t=1,p=1$${S}$${H}`,
  `$argon2id$v=19$m=65536,t=9,p=1$${S}$${H}`, `$argon2id$v=19$m=65536,t=1,p=17$${S}$${H}`,
  `$argon2id$v=19$m=65536,t=0,p=1$${S}$${H}`, `$argon2id$v=19$m=65536,t=1,p=0$${S}$${H}`,
  `$2b$14$${'a'.repeat(53)}`, `$2b$31$${'a'.repeat(53)}`, `$2b$03$${'a'.repeat(53)}`,
  `$scrypt$ln=18,r=8,p=1$${S}$${H}`, `$scrypt$ln=17,r=8,p=2$${S}$${H}`, `$scrypt$ln=17,r=32,p=1$${S}$${H}`,
  `$scrypt$ln=0,r=8,p=1$${S}$${H}`, `$scrypt$ln=14,r=0,p=1$${S}$${H}`,
  `$pbkdf2-sha256$2000001$${S}$${H}`, `$pbkdf2-sha512$i=600001$${S}$${H}`, `$pbkdf2-sha256$0$${S}$${H}`,
])('%s is refused because it would take too long or cannot be verified', hash => {
  expect(hashProblem(hash)).toMatch(/takes too long/)
})

// biome-ignore format: a table
test.each([
  '', 'correct horse battery staple', '$1$salt$hash', '$5$rounds=5000$salt$hash', '{SSHA}abc', `$2x$10$${'a'.repeat(53)}`,
  `$argon2id$v=19$m=065536,t=2,p=1$${S}$${H}`, `$argon2id$v=19$m=65536,t=02,p=1$${S}$${H}`, `$argon2id$v=19$m=65536,t=2,p=01$${S}$${H}`,
  '$2b$10$short', `$2b$10$${'a'.repeat(54)}`, `$argon2id$v=16$m=65536,t=2,p=1$${S}$${H}`, `$argon2id$m=65536,t=2,p=1$${S}$${H}`,
  `$argon2id$v=19$m=65536,t=2,p=1$${S}$${H}\n`, `$pbkdf2-md5$6400$${S}$${H}`, `pbkdf2_sha256$6400$${S}$${H}`,
  `$scrypt$ln=16,r=8,p=1$${S}$short`, `$scrypt$ln=16,r=8,p=1$$${H}`, `$pbkdf2-sha256$1e6$${S}$${H}`,
])('%j is no known hash', hash => {
  expect(hashProblem(hash)).toMatch(/no hash of a known kind/)
})

const SHORT = 'eA'
// biome-ignore format: a table
test.each([
  ['less memory than its lanes need', `$argon2id$v=19$m=15,t=1,p=2$${S}$${H}`],
  ['less memory than its lanes need', `$argon2id$v=19$m=64,t=2,p=16$${S}$${H}`],
  ['a salt of one byte', `$argon2id$v=19$m=65536,t=2,p=1$${SHORT}$${H}`],
  ['a point in base64', `$argon2id$v=19$m=65536,t=2,p=1$c29tZX.hbHQ$${H}`],
  ['bits beyond the last byte', `$argon2id$v=19$m=65536,t=2,p=1$${S}$${'A'.repeat(42)}B`],
  ['a cost that its block size forbids', `$scrypt$ln=17,r=1,p=1$${S}$${H}`],
])('a hash with %s cannot be verified: %s', async (_, hash) => {
  expect(hashProblem(hash)).toMatch(/can never be checked/)
  await expect(verify(hash, 'a password')).rejects.toThrow()
})

test.each([
  ['the least memory for its lanes', `$argon2id$v=19$m=128,t=1,p=16$${S}$${H}`],
  ['a salt of eight bytes', `$argon2id$v=19$m=8,t=1,p=1$${'A'.repeat(11)}$${H}`],
  ['the highest cost for its block size', `$scrypt$ln=15,r=1,p=1$${S}$${H}`],
])('a hash with %s can be verified: %s', async (_, hash) => {
  expect(hashProblem(hash)).toBeUndefined()
  expect(await checkPassword('a password', hash)).toBe(false)
})

test('checking the parameters of ten thousand hashes takes as long as verifying one', async () => {
  const hashes = Array.from({ length: 10_000 }, (_, i) => {
    const salt = Buffer.from(`a salt of number ${i}`).toString('base64url').replaceAll(/[-_]/g, 'A')
    return `$pbkdf2-sha256$2000000$${salt}$${H}`
  })
  const took = await cpuTimeOf(() => {
    for (const hash of hashes) expect(hashProblem(hash)).toBeUndefined()
  })
  expect(took).toBeLessThan(10_000)
})

// test/timed measures them.
test.each(DEAREST)('%s has the most expensive parameters that are accepted', hash => {
  expect(hashProblem(hash)).toBeUndefined()
})
