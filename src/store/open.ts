// Opens the store that a configuration names, with the secrets that decrypt its
// records.

import { randomBytes } from 'node:crypto'
import {
  existsSync,
  linkSync,
  readFileSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { reasonOf } from './reasons.ts'
import { openRecords } from './records.ts'
import { redisReason } from './redis/reasons.ts'
import type { RedisSettings } from './redis/settings.ts'
import type { CurrentRequest } from './request-store.ts'
import { NAMING_KEY } from './seal.ts'
import { openSqliteStore } from './sqlite.ts'
import type { Check, Observer, Store } from './store.ts'

/** See `unlock`. */
export type Installation = Awaited<ReturnType<typeof unlock>>

/** Opens the store at a location, and its records. */
export function openInstallation(
  location: string,
  secrets: Uint8Array[],
  redis?: RedisSettings,
) {
  return openStore(location, redis).then(store =>
    unlock(store, location, secrets),
  )
}

/**
 * Returns a store with its records and the secrets that decrypt them; the first
 * one encrypts. `secrets` empty: one is made and kept beside a new embedded
 * store. Throws when none of them fits, and closes the store.
 */
export async function unlock(
  store: Store,
  location: string,
  secrets: Uint8Array[],
  currentRequest?: CurrentRequest,
) {
  try {
    const file = storeFile(location) ?? ''
    const known = secrets.length
      ? secrets
      : [await generatedSecret(store, file)]
    return {
      store,
      secrets: known,
      records: await openRecords(store, known, currentRequest),
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

/** The path of an embedded store; undefined for the others. */
export const storeFile = (location: string) =>
  /^sqlite:(.*)/s.exec(location)?.[1]

/** The file of the secret that is generated for an embedded store. */
export const secretFile = (storeFile: string) =>
  join(dirname(storeFile), 'usher.secret')

/**
 * False where the file of an embedded store is missing. Opening the store would
 * create it.
 */
export function storeExists(location: string): boolean {
  const file = storeFile(location)
  return !file || existsSync(file)
}

/**
 * Opens the store at a location. Throws with the reason in words, which does
 * not repeat a Redis URL: that may hold a password.
 */
export async function openStore(
  location: string,
  redis?: RedisSettings,
  observe?: Observer,
  replyTimeoutMs?: number,
) {
  const file = storeFile(location)
  try {
    if (file) return await openSqliteStore(file, observe)
    const { openRedisStore } = await import('./redis/store.ts')
    return await openRedisStore(location, redis, observe, replyTimeoutMs)
  } catch (error) {
    const message = reasonOf(error)
    // No `cause`: it can contain the URL, or a command that was sent. ioredis
    // takes the password of a cluster for a part of the host that it does not
    // find.
    const problem = file
      ? sqliteReason(message)
      : redisReason(location, message.replace(/\S*@/g, ''))
    throw new Error(
      `${file ?? 'Redis'} cannot be opened as a store: ${problem}`,
    )
  }
}

/** Throws an error for the operator if a finding is `wrong`. */
export function requireTrust(checks: Check[]) {
  const wrong = checks.filter(({ state }) => state === 'wrong')
  const lines = wrong.map(
    ({ name, found, fix }) => `\n  ${name}: ${found}\n    → ${fix}`,
  )
  if (wrong.length)
    throw new Error(`the store cannot be trusted${lines.join('')}`)
}

/** Messages of SQLite about a file, in words. */
function sqliteReason(message: string): string {
  if (/file is not a database/.test(message))
    return 'it is no SQLite database, or damaged'
  if (/malformed/.test(message))
    return 'it is damaged: restore a backup into another file'
  if (/unable to open/.test(message))
    return 'this user may not read and write it, or its folder'
  if (/readonly/.test(message)) return 'this user may not write it'
  return message
}

const SECRET_BYTES = 32

/** Processes that start together agree on the file that one of them makes. */
async function generatedSecret(
  store: Store,
  storeFile: string,
): Promise<Uint8Array> {
  if (storeFile === ':memory:') return randomBytes(SECRET_BYTES)
  const file = secretFile(storeFile)
  // An installation has its secret already. Another one cannot decrypt it.
  if (!(await store.get(NAMING_KEY)) && !existsSync(file)) {
    // The file is linked when it is complete: no process ever reads half a
    // secret.
    const made = `${file}.${randomBytes(6).toString('hex')}`
    const secret = randomBytes(SECRET_BYTES).toString('base64url')
    writeFileSync(made, secret, { mode: 0o600, flag: 'wx' })
    try {
      linkSync(made, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      unlinkSync(made)
    }
  }
  return readSecret(file)
}

/**
 * Returns the secret in a file. Throws when the file is missing, or has fewer
 * than 32 bytes.
 */
export function readSecret(file: string): Uint8Array {
  if (!existsSync(file)) {
    throw new Error(
      `${file} is missing, which encrypts this store: put it back, or set USHER_SECRET or USHER_SECRET_FILE`,
    )
  }
  const secret = Buffer.from(readFileSync(file, 'utf8'), 'base64url')
  if (secret.length >= SECRET_BYTES) return secret
  throw new Error(`${file} does not hold a secret of ${SECRET_BYTES} bytes`)
}
