// Password hashes of other systems, as `accounts import` accepts them. The
// first sign-in checks such a hash and replaces it.
//
//   argon2   $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH      argon2i, argon2d
//   bcrypt   $2b$12$SALTHASH                               2a, 2y
//   scrypt   $scrypt$ln=16,r=8,p=1$SALT$HASH
//   PBKDF2   $pbkdf2-sha256$i=600000$SALT$HASH             sha1, sha512; passlib's $600000$
//
// SALT and HASH are base64 without padding. In scrypt and PBKDF2, passlib's `.`
// stands for `+`.

import {
  pbkdf2,
  type ScryptOptions,
  scrypt,
  timingSafeEqual,
} from 'node:crypto'
import { promisify } from 'node:util'
import { verify as verifyArgon2 } from '@node-rs/argon2'

type Fields = Record<string, string | undefined>

interface Format {
  /** Has a group for each parameter, and `salt` and `digest`. */
  pattern: RegExp
  /** Whether a check takes at most half a second and 128 MiB. */
  isAffordable(fields: Fields): boolean
  /** Whether it can be checked at all; absent: always. */
  isVerifiable?(fields: Fields): boolean
}

const MAX_ITERATIONS: Record<string, number> = {
  sha1: 1.5e6,
  sha256: 2e6,
  sha512: 6e5,
}
const phc = (parameters: string) =>
  new RegExp(
    `^\\$${parameters}\\$(?<salt>[\\w+/.]{1,128})\\$(?<digest>[\\w+/.]{22,86})$`,
  )

const FORMATS: Format[] = [
  {
    pattern: phc(
      'argon2(?:id|i|d)\\$v=19\\$m=(?<m>0|[1-9]\\d{0,6}),t=(?<t>0|[1-9]\\d{0,2}),p=(?<p>0|[1-9]\\d?)',
    ),
    isAffordable: ({ m, t, p }) =>
      isWithin(m, 8, 2 ** 17) &&
      isWithin(p, 1, 16) &&
      isWithin(t, 1, 2 ** 19 / Number(m)),
    // A salt of 8 bytes, and 8 KiB of memory for each lane (RFC 9106 §3.1).
    isVerifiable: ({ m, p, salt = '', digest = '' }) =>
      Number(m) >= 8 * Number(p) &&
      bytes(salt).length >= 8 &&
      isBase64(salt) &&
      isBase64(digest),
  },
  {
    pattern: /^\$2[aby]\$(?<cost>\d\d)\$[./A-Za-z0-9]{53}$/,
    isAffordable: ({ cost }) => isWithin(cost, 4, 13),
  },
  {
    pattern: phc('scrypt\\$ln=(?<ln>\\d\\d?),r=(?<r>\\d\\d?),p=(?<p>\\d\\d?)'),
    isAffordable: ({ ln, r, p }) =>
      isWithin(ln, 1, 17) &&
      isWithin(r, 1, 32) &&
      isWithin(p, 1, 2 ** (20 - Number(ln)) / Number(r)),
    // RFC 7914 §2
    isVerifiable: ({ ln, r }) => Number(ln) < 16 * Number(r),
  },
  {
    pattern: phc(
      'pbkdf2(?:-(?<hash>sha1|sha256|sha512))?\\$(?:i=)?(?<i>\\d{1,7})(?:,l=\\d+)?',
    ),
    isAffordable: ({ hash = 'sha1', i }) =>
      isWithin(i, 1, MAX_ITERATIONS[hash] ?? 0),
  },
]

/**
 * Returns the problem of a hash to be imported, without the hash itself.
 * Undefined if there is none.
 */
export function hashProblem(hash: string): string | undefined {
  const format = FORMATS.find(({ pattern }) => pattern.test(hash))
  if (!format)
    return 'is no hash of a known kind: argon2, bcrypt, scrypt or PBKDF2'
  const fields = fieldsOf(hash)
  if (!format.isAffordable(fields))
    return 'takes too long to check, or too much memory'
  if (format.isVerifiable?.(fields) ?? true) return undefined
  return 'can never be checked: its parameters, salt or hash are not valid'
}

/**
 * Whether the password matches a hash, made here or elsewhere. Rejects for an
 * invalid hash.
 */
export async function verify(hash: string, password: string): Promise<boolean> {
  if (hash.startsWith('$argon2')) return verifyArgon2(hash, password)
  if (hash.startsWith('$2')) return verifyBcrypt(password, hash)
  const { ln, r, p, hash: name = 'sha1', i, salt, digest } = fieldsOf(hash)
  const expected = bytes(digest)
  const options = {
    N: 2 ** Number(ln),
    r: Number(r),
    p: Number(p),
    maxmem: 256 * 2 ** 20,
  }
  const derived = ln
    ? await deriveScrypt(password, bytes(salt), expected.length, options)
    : await promisify(pbkdf2)(
        password,
        bytes(salt),
        Number(i),
        expected.length,
        name,
      )
  return timingSafeEqual(derived, expected)
}

/** Loads the library, which takes 2 MB, only for such a hash. */
async function verifyBcrypt(password: string, hash: string): Promise<boolean> {
  const bcrypt = await import('@node-rs/bcrypt')
  return bcrypt.verify(password, hash)
}

const deriveScrypt = promisify<string, Buffer, number, ScryptOptions, Buffer>(
  scrypt,
)
const bytes = (base64 = '') =>
  Buffer.from(base64.replaceAll('.', '+'), 'base64')
const isBase64 = (text: string) =>
  bytes(text).toString('base64').replaceAll('=', '') === text

function fieldsOf(hash: string): Fields {
  return (
    FORMATS.map(({ pattern }) => pattern.exec(hash)?.groups).find(Boolean) ?? {}
  )
}

const isWithin = (text: string | undefined, least: number, most: number) =>
  Number(text) >= least && Number(text) <= most
