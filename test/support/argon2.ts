// Takes the place of @node-rs/argon2 in `npm test` and in the whole lists. It computes each hash once: whether a password matches a
// hash never changes, and the tests sign in thousands of times with the same ones.

import { createRequire } from 'node:module'
import type * as Argon2 from '@node-rs/argon2'

const argon2: typeof Argon2 = createRequire(import.meta.url)('@node-rs/argon2')

export const { hash } = argon2

const results = new Map<string, Promise<boolean>>()

/** As `verify` of the package, with the results of before. */
export function verify(phc: string, password: string | Uint8Array): Promise<boolean> {
  const name = JSON.stringify([phc, String(password)])
  const known = results.get(name)
  if (known) return known
  const result = argon2.verify(phc, password)
  results.set(name, result)
  return result
}
