// The account: its fields, their valid values, and the claims that clients get from it.

import { randomInt } from 'node:crypto'
import { z } from 'zod'
import type { ClaimsFile } from '../config/schema/usher.ts'

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz'

/** A new subject identifier: `usr_` and 26 random characters (134 bits). It is never used again. */
export function newAccountId(): string {
  return `usr_${Array.from({ length: 26 }, () => ALPHABET[randomInt(36)]).join('')}`
}

/** Returns the same text for all spellings of a username: compatibility forms, case, `ß` and `ss`. */
export function foldUsername(username: string): string {
  return username.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase().normalize('NFKC')
}

/** Returns false for text that cannot be a username. Sign-in then looks up no account. */
export function isUsername(text: string): boolean {
  return text.length <= 256 && /^[^\p{Cc}\p{Cs}]+$/u.test(text)
}

/** Fields of an account that an operator sets. */
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

/** Fields of an account that an operator sets, with defaults filled in. */
export type Profile = z.output<typeof profileSchema>

/** A user account. `id` is the `sub` of its tokens. */
export interface Account extends Profile {
  id: string
  enabled: boolean
  /** PHC string. Without it the account has no password sign-in. */
  password?: string
  /** Epoch seconds. */
  created: number
  /** Epoch seconds. Sign-ins up to this time have ended. */
  ended?: number
  updated: number
}

/** Whether a sign-in at `signedIn` (epoch seconds) is still valid; without it, whether a new one would be. */
export function isAdmitted({ enabled, ended = 0 }: Account, signedIn?: number): boolean {
  return enabled && (signedIn === undefined || signedIn > ended)
}

const SOURCES: Record<string, (account: Account) => unknown> = {
  username: account => account.username,
  name: account => account.name,
  email: account => account.email,
  // The claim describes the address. It is left out without one (OIDC Core §5.1).
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
