// What an account is, and what may stand in one.

import { randomInt } from 'node:crypto'
import { z } from 'zod'
import { hashProblem } from './foreign-hash.ts'

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz'

/**
 * A subject identifier: `usr_` and 26 random characters (134 bits). It says nothing about the
 * person or the time, and is never given to another.
 */
export function newAccountId(): string {
  return `usr_${Array.from({ length: 26 }, () => ALPHABET[randomInt(36)]).join('')}`
}

/** Two spellings of one name fold to the same: compatibility forms, case, `ß` and `ss`. */
export function foldUsername(username: string): string {
  return username.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase().normalize('NFKC')
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

/** Epoch seconds. */
const time = z.int().min(0).optional()

/** An account as it travels between installations, and, as far as they know it, from other systems. */
export const transferSchema = profileSchema.extend({
  id: z
    .string()
    .regex(
      /^usr_[0-9a-z]{26}$/,
      'must be usr_ and 26 characters of 0-9a-z; leave it out for a new one',
    )
    .optional(),
  enabled: z.boolean().default(true),
  password_hash: z
    .string()
    .superRefine((hash, { addIssue }) => {
      const problem = hashProblem(hash)
      if (problem) addIssue(problem)
    })
    .optional(),
  created: time,
  ended: time,
  updated: time,
})

export type Transfer = z.output<typeof transferSchema>

export type Profile = z.output<typeof profileSchema>

const absent = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined)

/** What a directory of others answers: an account of theirs, or null. What else is in it is theirs. */
export const outsiderSchema = z.object({
  account: z
    .object({
      /** Stands for the person for ever. */
      id: z.string().min(1).max(256),
      username: z.string().min(1).max(256),
      name: absent(z.string().max(200)),
      email: absent(z.string().max(254)),
      email_verified: z.boolean().default(false),
      attributes: z.record(z.string(), z.json()).default({}),
      enabled: z.boolean().default(true),
      updated: z.int().min(0).optional(),
    })
    .nullable(),
})

export type Outsider = NonNullable<z.output<typeof outsiderSchema>['account']>

export interface Account extends Profile {
  id: string
  enabled: boolean
  /** PHC string; absent: nobody can sign in with a password. */
  password?: string
  /** Epoch seconds. */
  created: number
  /** Whoever signed in up to then is signed out. */
  ended?: number
  updated: number
}
