// Passwords: argon2id as PHC strings (RFC 9106; OWASP's parameters). One hash
// takes 20 ms of a core and 19 MiB: few run at the same time, and attempts wait
// for their turn (fair-queue.ts), so that a flood of them delays no other
// request for long.

import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { hash } from '@node-rs/argon2'
import type { Context } from 'koa'
import pLimit, { type LimitFunction } from 'p-limit'
import type { Settings } from '../config/load.ts'
import { BOUNDS } from '../oidc/bounds.ts'
import { networkOf } from '../operation/client-info.ts'
import { shareOf } from '../operation/limits.ts'
import type { Account } from './account.ts'
import { FairQueue, QueueFull, RequestGone } from './fair-queue.ts'
import { verify } from './foreign-hash.ts'

/**
 * Counted in code points, as users count them (ASVS 5.0 6.2.1): in bytes, four
 * Chinese characters would be enough.
 */
const MIN_PASSWORD_CHARACTERS = 12
/**
 * Longer passwords are refused when set, and fail like a wrong one at sign-in.
 */
const MAX_PASSWORD_BYTES = BOUNDS.passwords.max
/** Leaves one of the four threads of Node's pool to files and DNS. */
const MAX_CONCURRENT_HASHES = Math.min(availableParallelism(), 3)
/** Attempts read and write beside their hash: one more keeps the threads busy. */
const ATTEMPTS_BESIDE_HASHES = 1

const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const { memoryCost, timeCost } = PARAMETERS
const CURRENT = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=\d+\$/

/**
 * Returns the problem of a new password, as a key of the translations.
 * Undefined if there is none. `guessable`: see `guessableWords`.
 */
export function passwordProblem(password: string, guessable: string[] = []) {
  if (charactersIn(password) < MIN_PASSWORD_CHARACTERS) return 'too_short'
  if (isTooLong(password)) return 'too_long'
  if (isCommon(password)) return 'too_common'
  return isMadeOf(guessable, password) ? 'too_personal' : undefined
}

/** A shorter word stands inside of many others. */
const MIN_WORD_CHARACTERS = 4
/**
 * Characters that a password has beside guessable words (ASVS 5.0 6.2.1,
 * 6.2.11).
 */
const MIN_OTHER_CHARACTERS = 8

/**
 * Returns the words that attackers try first for this account: of its names and
 * address, and of the provider.
 */
export function guessableWords(
  {
    username,
    name = '',
    email = '',
  }: Pick<Account, 'username' | 'name' | 'email'>,
  { issuer, branding }: Pick<Settings, 'issuer' | 'branding'>,
): string[] {
  const { hostname } = new URL(issuer)
  const texts = [username, name, email, branding.name, hostname]
  const words = folded(texts.join(' ')).split(/[^\p{L}\p{N}]+/u)
  return words.filter(word => word.length >= MIN_WORD_CHARACTERS)
}

/** Whether little is left of a password without these words. */
function isMadeOf(words: string[], password: string): boolean {
  // The longest first: one word may stand inside of another.
  const inOrder = words.toSorted((a, b) => b.length - a.length)
  let left = folded(password)
  for (const word of inOrder) left = left.replaceAll(word, '')
  return left.length < MIN_OTHER_CHARACTERS
}

const folded = (text: string) => text.normalize('NFKC').toLowerCase()

/** Returns the code points of a password in the form that is hashed. */
const charactersIn = (password: string) =>
  Array.from(password.normalize('NFC')).length

let commonPasswords: string | undefined

/**
 * Whether the password is in common-passwords.txt: passwords of at least
 * `MIN_PASSWORD_CHARACTERS`, in lower case, one a line. The list stays one
 * text: as 10,000 texts it would take ten times the memory.
 */
function isCommon(password: string): boolean {
  const file = `${import.meta.dirname}/common-passwords.txt`
  commonPasswords ??= `\n${readFileSync(file, 'utf8')}`
  const line = folded(password)
  return !line.includes('\n') && commonPasswords.includes(`\n${line}\n`)
}

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

function hashInTurn<T>(work: () => Promise<T>): Promise<T> {
  limit ??= pLimit(shareOf(MAX_CONCURRENT_HASHES))
  return limit(work)
}

/** The request of an attempt. */
type Attempting = Pick<Context, 'ip' | 'throw'> & {
  socket: { writable: boolean }
}

let turns: FairQueue | undefined

/**
 * Runs an attempt in its turn. Throws 503 if it would wait for too long, before
 * anything is read or counted, and 400 if its client has disconnected.
 */
export async function admit<T>(
  ctx: Attempting,
  attempt: () => Promise<T>,
): Promise<T> {
  turns ??= new FairQueue({
    concurrency: shareOf(MAX_CONCURRENT_HASHES) + ATTEMPTS_BESIDE_HASHES,
    maxWaitMs: BOUNDS.hashes.max * 1000,
  })
  const origin = {
    network: networkOf(ctx.ip),
    isGone: () => !ctx.socket.writable,
  }
  return turns.run(origin, attempt).catch(error => {
    if (error instanceof QueueFull) return ctx.throw(503, BUSY)
    if (error instanceof RequestGone) return ctx.throw(400, GONE)
    throw error
  })
}

const BUSY = {
  expose: true,
  error: 'temporarily_unavailable',
  error_description: 'too many users are signing in at this moment',
}
const GONE = {
  error: 'invalid_request',
  error_description: 'the client has disconnected',
}
