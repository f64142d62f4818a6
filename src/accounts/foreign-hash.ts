// Hashes that other systems have made of passwords, as they may be imported. A sign-in checks one,
// and puts one of ours in its place.
//
//   argon2   $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH      argon2i, argon2d
//   bcrypt   $2b$12$SALTHASH                               2a, 2y
//   scrypt   $scrypt$ln=16,r=8,p=1$SALT$HASH
//   PBKDF2   $pbkdf2-sha256$i=600000$SALT$HASH             sha1, sha512; passlib's $600000$
//
// SALT and HASH are base64 without padding; passlib's `.` for `+` is read as well.

import { pbkdf2, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { verify } from '@node-rs/bcrypt'
import type { Records } from '../storage/records.ts'

type Fields = Record<string, string | undefined>

interface Format {
  pattern: RegExp
  /** Whether a check stays near half a second and 128 MiB: nobody signs in with what takes longer. */
  isBearable(fields: Fields): boolean
  /** Absent: `password.ts` checks it as it checks ours. */
  matches?(password: string, hash: string, fields: Fields): Promise<boolean>
}

const ENDS = '\\$(?<salt>[\\w+/.]{1,128})\\$(?<digest>[\\w+/.]{22,86})$'
/** Iterations. */
const PBKDF2: Record<string, number> = { sha1: 1_500_000, sha256: 2_000_000, sha512: 600_000 }

const FORMATS: Format[] = [
  {
    pattern: new RegExp(
      `^\\$argon2(id|i|d)\\$v=19\\$m=(?<m>\\d{1,7}),t=(?<t>\\d{1,3}),p=(?<p>\\d{1,2})${ENDS}`,
    ),
    isBearable: ({ m, t, p }) =>
      isWithin(m, 8, 2 ** 17) && isWithin(p, 1, 16) && isWithin(t, 1, 2 ** 19 / Number(m)),
  },
  {
    pattern: /^\$2[aby]\$(?<cost>\d\d)\$[./A-Za-z0-9]{53}$/,
    isBearable: ({ cost }) => isWithin(cost, 4, 13),
    matches: (password, hash) => verify(password, hash),
  },
  {
    pattern: new RegExp(`^\\$scrypt\\$ln=(?<ln>\\d\\d?),r=(?<r>\\d\\d?),p=(?<p>\\d\\d?)${ENDS}`),
    isBearable: ({ ln, r, p }) =>
      isWithin(ln, 1, 17) &&
      isWithin(r, 1, 32) &&
      isWithin(p, 1, 2 ** (20 - Number(ln)) / Number(r)),
    matches: checkScrypt,
  },
  {
    pattern: new RegExp(
      `^\\$pbkdf2(-(?<hash>sha1|sha256|sha512))?\\$(i=)?(?<i>\\d{1,7})(,l=\\d+)?${ENDS}`,
    ),
    isBearable: ({ hash = 'sha1', i }) => isWithin(i, 1, PBKDF2[hash] ?? 0),
    matches: checkPbkdf2,
  },
]

/** What is wrong with a hash that is to be imported; it is not repeated. */
export function hashProblem(hash: string): string | undefined {
  const { format, fields } = formatOf(hash)
  if (!format) return 'is no hash of a kind that is known here: argon2, bcrypt, scrypt or PBKDF2'
  return format.isBearable(fields) ? undefined : 'takes too long to check, or too much memory'
}

/** Their checks take another time than that of one of ours, which would tell who has one (LG1). */
export async function noteForeignHashes(records: Records): Promise<void> {
  if (!(await areForeignHashes(records))) await records.save('Passwords', 'foreign', {})
}

/** Whether there may be some: what was noted stays. */
export async function areForeignHashes(records: Records): Promise<boolean> {
  return (await records.read('Passwords', 'foreign')).value !== undefined
}

/** Undefined for a hash that is one of argon2. */
export function checkForeign(password: string, hash: string): Promise<boolean> | undefined {
  const { format, fields } = formatOf(hash)
  return format?.matches?.(password, hash, fields)
}

function formatOf(hash: string): { format?: Format; fields: Fields } {
  const format = FORMATS.find(({ pattern }) => pattern.test(hash))
  return { format, fields: format?.pattern.exec(hash)?.groups ?? {} }
}

async function checkScrypt(password: string, _hash: string, { ln, r, p, salt, digest }: Fields) {
  const expected = bytes(digest)
  const [N, blockSize] = [2 ** Number(ln), Number(r)]
  const options = { N, r: blockSize, p: Number(p), maxmem: 256 * 2 ** 20 }
  const found = await promisify<string, Buffer, number, object, Buffer>(scrypt)(
    password,
    bytes(salt),
    expected.length,
    options,
  )
  return timingSafeEqual(found, expected)
}

async function checkPbkdf2(password: string, _hash: string, { hash, i, salt, digest }: Fields) {
  const expected = bytes(digest)
  const found = await promisify(pbkdf2)(
    password,
    bytes(salt),
    Number(i),
    expected.length,
    hash ?? 'sha1',
  )
  return timingSafeEqual(found, expected)
}

const bytes = (base64 = '') => Buffer.from(base64.replaceAll('.', '+'), 'base64')

const isWithin = (text: string | undefined, least: number, most: number) =>
  Number(text) >= least && Number(text) <= most
