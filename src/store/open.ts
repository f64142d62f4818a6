// Opens the store a configuration names, with the secrets that open what is in it.

import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { openRecords, type Records } from './records.ts'
import { SqliteStore } from './sqlite.ts'
import type { Store } from './store.ts'

export interface Installation {
  store: Store
  secrets: Uint8Array[]
  records: Records
}

/** `secrets` empty: one is made and kept beside the embedded store. Throws when none of them fits. */
export async function openInstallation(
  location: string,
  secrets: Uint8Array[],
): Promise<Installation> {
  const file = location.slice('sqlite:'.length)
  const known = secrets.length ? secrets : [generatedSecret(file)]
  const store = openStore(file)
  try {
    return { store, secrets: known, records: await openRecords(store, known) }
  } catch (error) {
    await store.close()
    throw error
  }
}

function openStore(file: string): Store {
  try {
    return new SqliteStore(file)
  } catch (cause) {
    throw new Error(`${file} cannot be opened as a store: ${(cause as Error).message}`, { cause })
  }
}

const LENGTH = 32

/** Processes that start together agree on the file that one of them makes. */
function generatedSecret(storeFile: string): Uint8Array {
  if (storeFile === ':memory:') return randomBytes(32)
  const file = join(dirname(storeFile), 'usher.secret')
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  if (!existsSync(file)) {
    // Linked when it is whole: nobody ever reads half a secret.
    const made = `${file}.${process.pid}`
    writeFileSync(made, randomBytes(LENGTH).toString('base64url'), { mode: 0o600 })
    try {
      linkSync(made, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      unlinkSync(made)
    }
  }
  const secret = Buffer.from(readFileSync(file, 'utf8'), 'base64url')
  if (secret.length < LENGTH) throw new Error(`${file} does not hold a secret of ${LENGTH} bytes`)
  return secret
}
