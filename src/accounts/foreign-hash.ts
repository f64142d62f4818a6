// Password hashes of other systems, as `accounts import` takes them. The first sign-in checks such a
// hash and replaces it.
//
//   argon2   $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH      argon2i, argon2d
//   bcrypt   $2b$12$SALTHASH                               2a, 2y
//   scrypt   $scrypt$ln=16,r=8,p=1$SALT$HASH
//   PBKDF2   $pbkdf2-sha256$i=600000$SALT$HASH             sha1, sha512; passlib's $600000$
//
// SALT and HASH are base64 without padding. In scrypt and PBKDF2, passlib's `.` stands for `+`.

import { pbkdf2, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { verify as verifyArgon2 } from '@node-rs/argon2'
import { verify as verifyBcrypt } from '@node-rs/bcrypt'
import type { Records } from '../storage/records.ts'

type Fields = Record<string, string | undefined>

interface Format {
  /** With the groups `parameters` and `rest` (salt and hash), and one for each parameter. */
  pattern: RegExp
  /** Parameters that take no time, to try a salt and hash with. */
  cheapest: string
  /** A salt and hash to try parameters with. */
  sample: string
  /** Whether a check takes at most half a second and 128 MiB. */
  isBearable(fields: Fields): boolean
  /** Throws for a hash that it cannot check. */
  verify(hash: string, password: string, fields: Fields): Promise<boolean>
}

const SAMPLE = `$c29tZXNhbHQ$${'A'.repeat(43)}`
const phc = (parameters: string) =>
  new RegExp(
    `^(?<parameters>\\$${parameters})(?<rest>\\$(?<salt>[\\w+/.]{1,128})\\$(?<digest>[\\w+/.]{22,86}))$`,
  )
const MAX_ITERATIONS: Record<string, number> = {
  sha1: 1_500_000,
  sha256: 2_000_000,
  sha512: 600_000,
}

const FORMATS: Format[] = [
  {
    pattern: phc('argon2(?:id|i|d)\\$v=19\\$m=(?<m>\\d{1,7}),t=(?<t>\\d{1,3}),p=(?<p>\\d{1,2})'),
    cheapest: '$argon2id$v=19$m=8,t=1,p=1',
    sample: SAMPLE,
    isBearable: ({ m, t, p }) =>
      isWithin(m, 8, 2 ** 17) && isWithin(p, 1, 16) && isWithin(t, 1, 2 ** 19 / Number(m)),
    verify: (hash, password) => verifyArgon2(hash, password),
  },
  {
    pattern: /^(?<parameters>\$2[aby]\$(?<cost>\d\d)\$)(?<rest>[./A-Za-z0-9]{53})$/,
    cheapest: '$2b$04$',
    sample: 'C'.repeat(21) + '.'.repeat(32),
    isBearable: ({ cost }) => isWithin(cost, 4, 13),
    verify: (hash, password) => verifyBcrypt(password, hash),
  },
  {
    pattern: phc('scrypt\\$ln=(?<ln>\\d\\d?),r=(?<r>\\d\\d?),p=(?<p>\\d\\d?)'),
    cheapest: '$scrypt$ln=1,r=1,p=1',
    sample: SAMPLE,
    isBearable: ({ ln, r, p }) =>
      isWithin(ln, 1, 17) &&
      isWithin(r, 1, 32) &&
      isWithin(p, 1, 2 ** (20 - Number(ln)) / Number(r)),
    verify: (_hash, password, { ln, r, p, salt, digest }) =>
      derives(digest, length => {
        const options = { N: 2 ** Number(ln), r: Number(r), p: Number(p), maxmem: 256 * 2 ** 20 }
        const derive = promisify<string, Buffer, number, object, Buffer>(scrypt)
        return derive(password, bytes(salt), length, options)
      }),
  },
  {
    pattern: phc('pbkdf2(?:-(?<hash>sha1|sha256|sha512))?\\$(?:i=)?(?<i>\\d{1,7})(?:,l=\\d+)?'),
    cheapest: '$pbkdf2$1',
    sample: SAMPLE,
    isBearable: ({ hash = 'sha1', i }) => isWithin(i, 1, MAX_ITERATIONS[hash] ?? 0),
    verify: (_hash, password, { hash = 'sha1', i, salt, digest }) =>
      derives(digest, length => promisify(pbkdf2)(password, bytes(salt), Number(i), length, hash)),
  },
]

/** What is wrong with a hash that is to be imported, without repeating it. */
export async function hashProblem(hash: string): Promise<string | undefined> {
  const { format, fields } = formatOf(hash)
  if (!format) return 'is no hash of a known kind: argon2, bcrypt, scrypt or PBKDF2'
  if (!format.isBearable(fields)) return 'takes too long to check, or too much memory'
  const { parameters = '', rest = '' } = fields
  const tried = await Promise.all([
    triedOnce(parameters + format.sample),
    canBeVerified(format.cheapest + rest),
  ])
  return tried.every(Boolean)
    ? undefined
    : 'can never be checked: its parameters, salt or hash are not valid'
}

const parametersTried = new Map<string, Promise<boolean>>()

/** Of thousands of hashes, nearly all have the same parameters, whose check takes time. */
function triedOnce(hash: string): Promise<boolean> {
  const tried = parametersTried.get(hash) ?? canBeVerified(hash)
  parametersTried.set(hash, tried)
  return tried
}

function canBeVerified(hash: string): Promise<boolean> {
  const { format, fields } = formatOf(hash)
  return Promise.try(() => format?.verify(hash, '', fields)).then(
    outcome => outcome !== undefined,
    () => false,
  )
}

/** Whether the password is that of a hash made here or elsewhere. */
export async function verify(hash: string, password: string): Promise<boolean> {
  const { format, fields } = formatOf(hash)
  return (await format?.verify(hash, password, fields)) ?? false
}

/** Checking these takes another time than checking one made here, which would tell who has one. */
export async function noteForeignHashes(records: Records): Promise<void> {
  if (!(await areForeignHashes(records))) await records.save('Passwords', 'foreign', {})
}

/** Whether there may be some. The note stays after the last one is replaced. */
export async function areForeignHashes(records: Records): Promise<boolean> {
  return (await records.read('Passwords', 'foreign')).value !== undefined
}

function formatOf(hash: string): { format?: Format; fields: Fields } {
  const format = FORMATS.find(({ pattern }) => pattern.test(hash))
  return { format, fields: format?.pattern.exec(hash)?.groups ?? {} }
}

async function derives(digest: string | undefined, derive: (length: number) => Promise<Buffer>) {
  const expected = bytes(digest)
  return timingSafeEqual(await derive(expected.length), expected)
}

const bytes = (base64 = '') => Buffer.from(base64.replaceAll('.', '+'), 'base64')

const isWithin = (text: string | undefined, least: number, most: number) =>
  Number(text) >= least && Number(text) <= most
