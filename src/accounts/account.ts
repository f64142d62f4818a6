// The account: its fields, their valid values, and the claims that clients get from it.

import { randomInt } from 'node:crypto'
import { z } from 'zod'
import type { ClaimsFile } from '../config/schema/usher.ts'

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz'

/** A new subject identifier: `usr_` and 26 random characters (134 bits). It is never used again. */
export function newAccountId(): string {
  return `usr_${Array.from({ length: 26 }, () => ALPHABET[randomInt(36)]).join('')}`
}

/** Two spellings of one name fold to the same: compatibility forms, case, `ß` and `ss`. */
export function foldUsername(username: string): string {
  return username.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase().normalize('NFKC')
}

/** False for what no account can be called, wherever accounts are kept: nothing is looked up by it. */
export function isUsername(text: string): boolean {
  return text.length <= 256 && /^[^\p{Cc}\p{Cs}]+$/u.test(text)
}

/** What an operator can say of an account. */
export const profileSchema = z.strictObject({
  username: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[^\s\p{C}]+$/u, 'no spaces or control characters'),
  name: z.string().trim().min(1).max(200).optional(),
  email: z.email().max(254).optional(),
  email_verified: z.boolean().default(false),
  attributes: z.record(z.string(), z.json()).default({}),
})

export type Profile = z.output<typeof profileSchema>

export interface Account extends Profile {
  id: string
  enabled: boolean
  /** PHC string. Without it nobody can sign in with a password. */
  password?: string
  /** Epoch seconds. */
  created: number
  /** Sign-ins up to then have ended. */
  ended?: number
  updated: number
}

/** Whether a sign-in at `signedIn` (epoch seconds) still stands; without it, whether one would. */
export function isAdmitted({ enabled, ended = 0 }: Account, signedIn?: number): boolean {
  return enabled && (signedIn === undefined || signedIn > ended)
}

const SOURCES: Record<string, (account: Account) => unknown> = {
  username: account => account.username,
  name: account => account.name,
  email: account => account.email,
  // Says something about the address, and nothing without one (OIDC Core §5.1).
  email_verified: account => (account.email === undefined ? undefined : account.email_verified),
  updated_at: account => account.updated,
}

/** The claims of claims.yaml that the account has a value for. The scopes decide which are returned. */
export function claimsOf(account: Account, sources: ClaimsFile['claims']): Record<string, unknown> {
  const claims = Object.entries(sources).flatMap(([claim, { from }]) => {
    const attribute = /^attributes\.(.+)$/.exec(from)?.[1]
    const value = attribute ? ownValue(account.attributes, attribute) : SOURCES[from]?.(account)
    return value === undefined || value === null ? [] : [[claim, value] as const]
  })
  return Object.fromEntries(claims)
}

function ownValue(attributes: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined
}
