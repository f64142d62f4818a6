// The account: its fields, their valid values, and the claims that clients get
// from it.

import { randomInt } from 'node:crypto'
import { z } from 'zod'
import type { ClaimsFile } from '../config/schema/usher.ts'
import {
  emailAddress,
  matching,
  refusing,
  words,
} from '../config/schema/values.ts'
import { tidy, tidyName } from '../oidc/display-text.ts'
import { hashProblem } from './foreign-hash.ts'

declare module 'koa' {
  interface DefaultState {
    /** The account that the page names. */
    account?: Account
  }
}

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz'

/**
 * A new subject identifier: `usr_` and 26 random characters (134 bits). It is
 * never used again.
 */
export function newAccountId(): string {
  return `usr_${Array.from({ length: 26 }, () => ALPHABET[randomInt(36)]).join('')}`
}

/**
 * Returns the same text for all spellings of a username: compatibility forms,
 * case, `ß` and `ss`.
 */
export function foldUsername(username: string): string {
  return username
    .normalize('NFKC')
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
}

/**
 * Returns false for text that cannot be a username. Sign-in then looks up no
 * account.
 */
export const isUsername = (text: string) =>
  text.length <= 256 && /^[^\p{Cc}\p{Cs}]+$/u.test(text)

/**
 * Returns a typed name without invisible characters, which no stored name has;
 * '' for text that is no username.
 */
export function typedName(text: string): string {
  const name = tidy(text.replace(/\p{DI}/gu, '')).normalize('NFC')
  return isUsername(name) ? name : ''
}

/**
 * Only the ends of an address change: a character less inside makes it that of
 * another user.
 */
const tidyEnds = (text: string) =>
  text.includes(tidy(text)) ? tidy(text) : text

/**
 * Fields of an account, with the rules for operators, issuers and directories.
 */
export const profileSchema = z.strictObject({
  username: z
    .string()
    .overwrite(tidy)
    .min(1)
    .max(128)
    .regex(
      /^[^\s\p{C}\p{DI}\u2800\uFFFC]+$/u,
      'no spaces, control or invisible characters',
    ),
  name: z.string().overwrite(tidyName).pipe(words(200)).optional(),
  email: z.string().overwrite(tidyEnds).pipe(emailAddress).optional(),
  email_verified: z.boolean().default(false),
  attributes: z.record(z.string(), z.json()).default({}),
})

/** Fields of an account that an operator sets, with defaults filled in. */
export type Profile = z.output<typeof profileSchema>

const ID = /^usr_[0-9a-z]{26}$/
/** Epoch seconds. */
const time = z.int().min(0).optional()
/** `sub` of the ID tokens of an issuer (OpenID Connect Core §2). */
export const subjectSchema = matching(
  /^[!-~]{1,255}$/,
  'must be 1 to 255 visible ASCII characters',
)
const linkSchema = z.strictObject({ issuer: z.url(), subject: subjectSchema })

const isOnePerIssuer = (links: Link[]) =>
  new Set(links.map(({ issuer }) => issuer)).size === links.length

/** A user of an upstream issuer, who can sign in to an account. */
export type Link = z.output<typeof linkSchema>

/** Schema of an account from another system. */
export const transferSchema = profileSchema.extend({
  id: z
    .string()
    .regex(
      ID,
      'must be usr_ and 26 characters of 0-9a-z; leave it out for a new one',
    )
    .optional(),
  enabled: z.boolean().default(true),
  password_hash: z.string().superRefine(refusing(hashProblem)).optional(),
  /**
   * The password is temporary: it expires then, and the user must change it
   * first.
   */
  change_password_by: time,
  /** When the password was set. Absent: unknown. */
  password_changed: time,
  /** Absent: no upstream issuer. */
  links: z
    .array(linkSchema)
    .refine(isOnePerIssuer, 'has two entries of one issuer')
    .optional(),
  created: time,
  /** Sign-ins up to this time have ended. */
  ended: time,
  updated: time,
})

/** An account from another system, which may lack fields. */
export type Transfer = z.output<typeof transferSchema>

/** A user account. `id` is the `sub` of its tokens. */
export interface Account extends Omit<Transfer, 'password_hash'> {
  id: string
  /** PHC string. Without it the account has no password sign-in. */
  password?: string
  created: number
  updated: number
}

/**
 * The claims of claims.yaml that the account has a value for. The scopes decide
 * which are returned.
 */
export function claimsOf(
  account: Account,
  claims: ClaimsFile['claims'],
): Record<string, unknown> {
  const { username, name, email, email_verified, attributes, updated } = account
  const sources = new Map<string, unknown>([
    ...Object.entries({ username, name, email, updated_at: updated }),
    // The claim describes the address. It is left out without one (OIDC Core
    // §5.1).
    ['email_verified', email === undefined ? undefined : email_verified],
    ...Object.entries(attributes).map(
      ([key, value]) => [`attributes.${key}`, value] as const,
    ),
  ])
  const all = Object.entries(claims).map(([claim, { from }]) => [
    claim,
    withoutEmpty(sources.get(from)),
  ])
  return Object.fromEntries(all.filter(([, value]) => value !== undefined))
}

/**
 * Returns a value without empty texts, lists and maps, at any depth; undefined
 * if nothing is left. A claim with an empty value is left out (OIDC Core
 * §5.3.2).
 */
function withoutEmpty(value: unknown): unknown {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string') return value.trim() ? value : undefined
  if (typeof value !== 'object') return value
  if (Array.isArray(value)) {
    const items = value.map(withoutEmpty).filter(item => item !== undefined)
    return items.length ? items : undefined
  }
  const members = Object.entries(value).map(([name, member]) => [
    name,
    withoutEmpty(member),
  ])
  const found = members.filter(([, member]) => member !== undefined)
  return found.length ? Object.fromEntries(found) : undefined
}

/**
 * An account that cannot be added or changed. The message never quotes the
 * account, which may contain a hash.
 */
export class InvalidAccount extends Error {
  override name = 'InvalidAccount'
}

/** Reason for a refused sign-in with a password, for the log only. */
export type Refusal =
  | 'disabled'
  | 'malformed'
  | 'no_password'
  | 'password_expired'
  | 'unknown'
  | 'wrong_password'

/** The account that a sign-in names, before its password is checked. */
export interface Candidate {
  /**
   * The account, if it is known without a call of the source. Attempts count
   * against it.
   */
  known?: Pick<Account, 'id' | 'ended'>
  /**
   * Asks the source whose name it is, before the password is checked. An
   * account has several names there, and attempts with all of them count
   * against it. Called after the attempt was counted by name.
   */
  identify?:
    | (() => Promise<Pick<Account, 'id' | 'ended'> | undefined>)
    | undefined
  /** Every refusal takes the same time. */
  authenticate(
    password: string,
  ): Promise<{ account?: Account; refusal?: Refusal }>
}
