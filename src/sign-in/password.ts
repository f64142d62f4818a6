// Passwords: argon2id as PHC strings (RFC 9106; OWASP's parameters). A limit of
// concurrent hashes keeps a flood of sign-ins from delaying other requests. One
// hash takes 20 ms of a core and 19 MiB.

import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { hash } from '@node-rs/argon2'
import pLimit, { type LimitFunction } from 'p-limit'
import { BOUNDS } from '../oidc/bounds.ts'
import { shareOf } from '../operation/limits.ts'
import { verify } from './foreign-hash.ts'

const MIN_PASSWORD_BYTES = 12
/**
 * Longer passwords are refused when set, and fail like a wrong one at sign-in.
 */
const MAX_PASSWORD_BYTES = BOUNDS.passwords.max
/**
 * Leaves one core to requests, and one of the four threads of Node's pool to
 * files and DNS.
 */
const MAX_CONCURRENT_HASHES = Math.max(
  1,
  Math.min(availableParallelism() - 1, 3),
)
const MAX_WAITING_ATTEMPTS = BOUNDS.hashes.max

const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const { memoryCost, timeCost } = PARAMETERS
const CURRENT = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=\d+\$/

/**
 * Returns the problem of a new password, as a key of the translations.
 * Undefined if there is none.
 */
export function passwordProblem(password: string) {
  if (Buffer.byteLength(password) < MIN_PASSWORD_BYTES) return 'too_short'
  if (isTooLong(password)) return 'too_long'
  return isCommon(password) ? 'too_common' : undefined
}

/** Passwords of at least `MIN_PASSWORD_BYTES`, in lower case. */
const COMMON = new Set(
  readFileSync(`${import.meta.dirname}/common-passwords.txt`, 'utf8').split(
    '\n',
  ),
)
const isCommon = (password: string) =>
  COMMON.has(password.normalize('NFKC').toLowerCase())

/** Whether the password is longer than 1024 bytes. */
export const isTooLong = (password: string) =>
  Buffer.byteLength(password) > MAX_PASSWORD_BYTES

/** Returns a PHC string. Waits for a free hashing thread. */
export function hashPassword(password: string): Promise<string> {
  return hashInTurn(() => hash(password.normalize('NFC'), PARAMETERS))
}

/**
 * Whether the password matches. Takes as long without a hash as for a wrong
 * password.
 */
export async function checkPassword(
  password: string,
  phc: string | undefined,
): Promise<boolean> {
  const tried = password.normalize('NFC')
  if (phc && !isTooLong(password)) return hashInTurn(() => verify(phc, tried))
  await hashPassword('')
  return false
}

/**
 * Returns true for a hash with weaker parameters than today's. The next sign-in
 * replaces it.
 */
export function needsRehash(phc: string): boolean {
  const [, memory, time] = CURRENT.exec(phc) ?? []
  return Number(memory ?? 0) < memoryCost || Number(time ?? 0) < timeCost
}

let limit: LimitFunction | undefined
let admitted = 0

function hashInTurn<T>(work: () => Promise<T>): Promise<T> {
  limit ??= pLimit(shareOf(MAX_CONCURRENT_HASHES))
  return limit(work)
}

/**
 * Runs an attempt. Throws 503 if too many wait already, before anything is read
 * or counted.
 */
export async function admit<T>(attempt: () => Promise<T>): Promise<T> {
  if (
    admitted >=
    shareOf(MAX_CONCURRENT_HASHES) + shareOf(MAX_WAITING_ATTEMPTS)
  ) {
    throw Object.assign(
      new Error('too many passwords are waiting to be checked'),
      BUSY,
    )
  }
  admitted++
  return attempt().finally(() => admitted--)
}

const BUSY = {
  status: 503,
  expose: true,
  error: 'temporarily_unavailable',
  error_description: 'too many users are signing in at this moment',
}
