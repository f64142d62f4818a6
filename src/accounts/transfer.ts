// Accounts as lines of JSON: exported to another installation, or imported from another system.

import { z } from 'zod'
import { didYouMean, plainWords } from '../config/report/wording.ts'
import { type Account, profileSchema } from './account.ts'
import { hashProblem } from './foreign-hash.ts'

/** Epoch seconds. */
const time = z.int().min(0).optional()

const transferSchema = profileSchema.extend({
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
    .superRefine(async (hash, { addIssue }) => {
      const problem = await hashProblem(hash)
      if (problem) addIssue(problem)
    })
    .optional(),
  created: time,
  ended: time,
  updated: time,
})

/** An account from another system, which may lack fields. */
export type Transfer = z.output<typeof transferSchema>

/** An invalid line. The message never quotes it, because it may contain a hash. */
export class WrongLine extends Error {
  override name = 'WrongLine'
}

/** Returns an account as a line of JSON. */
export function writeLine({ password: password_hash, ...account }: Account): string {
  return `${JSON.stringify({ ...account, password_hash })}\n`
}

/** Returns the account of a line. Rejects with `WrongLine` for an invalid one. */
export async function readLine(line: string): Promise<Transfer> {
  if (line.includes('\uFFFD')) throw new WrongLine('is not UTF-8')
  const options = { error: plainWords }
  const { success, data, error } = await transferSchema.safeParseAsync(parse(line), options)
  if (success) return data
  throw new WrongLine(error.issues.map(inWords).join('; '))
}

function parse(line: string): unknown {
  try {
    // Some systems begin a file with a byte order mark.
    return JSON.parse(line.replace(/^\uFEFF/, ''))
  } catch {
    throw new WrongLine('is not JSON: one object a line, and nothing else')
  }
}

function inWords(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'unrecognized_keys') return [...issue.path, issue.message].join(': ')
  return issue.keys.map(key => `${key}: unknown key${suggestion(key)}`).join('; ')
}

const KNOWN = Object.keys(transferSchema.shape)
const suggestion = (key: string) =>
  key === 'password' ? '; a hash stands in password_hash' : didYouMean(key, KNOWN)
