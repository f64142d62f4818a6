// Passwords: argon2id as PHC strings (RFC 9106; OWASP's parameters). Those of other systems are checked
// and replaced (foreign-hash.ts).

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hash, verify } from '@node-rs/argon2'
import { checkForeign } from './foreign-hash.ts'
import { hashInTurn } from './hashing.ts'

/** Bytes. */
const SHORTEST_PASSWORD = 12
/** Longer ones are refused when set, and fail like any wrong one when tried (LG3). */
const LONGEST_PASSWORD = 1024

const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const { memoryCost, timeCost, parallelism } = PARAMETERS
const OURS = `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$`
const CURRENT = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=\d+\$/

/** What is wrong with a new password, as a key of the words; undefined when nothing is. */
export function passwordProblem(
  password: string,
): 'too_short' | 'too_long' | 'too_common' | undefined {
  if (Buffer.byteLength(password) < SHORTEST_PASSWORD) return 'too_short'
  if (isTooLong(password)) return 'too_long'
  return isCommon(password) ? 'too_common' : undefined
}

let common: Set<string> | undefined

/** Those that people choose most, of the length it takes here, in small letters. */
function isCommon(password: string): boolean {
  common ??= new Set(
    readFileSync(`${import.meta.dirname}/common-passwords.txt`, 'utf8').split('\n'),
  )
  return common.has(password.normalize('NFKC').toLowerCase())
}

export const isTooLong = (password: string) => Buffer.byteLength(password) > LONGEST_PASSWORD

export function hashPassword(password: string): Promise<string> {
  return hashInTurn(() => hash(password.normalize('NFC'), PARAMETERS))
}

/** Of no password, for an unknown name to be checked against: random bytes in place of a hash. */
const random = (bytes: number) => randomBytes(bytes).toString('base64').replaceAll('=', '')
const NOBODY = `${OURS}${random(16)}$${random(32)}`

/** Takes the same time with no hash at all as with a wrong password for one of ours (LG1). */
export async function checkPassword(password: string, phc: string | undefined): Promise<boolean> {
  const tooLong = isTooLong(password)
  const tried = tooLong ? '' : password.normalize('NFC')
  const kept = phc ?? NOBODY
  const matches = await hashInTurn(() => checkForeign(tried, kept) ?? verify(kept, tried))
  return matches && phc !== undefined && !tooLong
}

/** False for a hash that takes another time to check than those made here. */
export const isOurs = (phc: string) => phc.startsWith(OURS)

/** True for a hash made with weaker parameters than today's: made anew at the next sign-in (LG2). */
export function needsRehash(phc: string): boolean {
  const [, memory, time] = CURRENT.exec(phc) ?? []
  return Number(memory ?? 0) < memoryCost || Number(time ?? 0) < timeCost
}
