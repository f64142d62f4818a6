// Accounts as lines of JSON, as they travel between installations and come from other systems.

import { didYouMean, plainWords } from '../config/report/wording.ts'
import { type Account, type Transfer, transferSchema } from './account.ts'

/** The reason never quotes the line: there are hashes in it. */
export class WrongLine extends Error {
  override name = 'WrongLine'
}

export function writeLine({ password: password_hash, ...account }: Account): string {
  return `${JSON.stringify({ ...account, password_hash })}\n`
}

/** Throws `WrongLine`. */
export function readLine(line: string): Transfer {
  if (line.includes('\uFFFD')) throw new WrongLine('is not UTF-8')
  const { success, data, error } = transferSchema.safeParse(parse(line), { error: plainWords })
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

type Issue = NonNullable<ReturnType<typeof transferSchema.safeParse>['error']>['issues'][number]

function inWords(issue: Issue): string {
  if (issue.code !== 'unrecognized_keys') return [...issue.path, issue.message].join(': ')
  return issue.keys.map(key => `${key}: unknown key${suggestion(key)}`).join('; ')
}

const KNOWN = Object.keys(transferSchema.shape)
const suggestion = (key: string) =>
  key === 'password' ? '; a hash stands in password_hash' : didYouMean(key, KNOWN)
