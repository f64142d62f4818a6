// The words of findings: written for operators, with a suggestion, and without any value of the file.

import { closest, distance } from 'fastest-levenshtein'
import type { z } from 'zod'

/** Suggestions for keys that other products or other files have. */
const HINTS: Record<string, string> = {
  secret: 'no file contains secrets: use USHER_SECRET, or client_secret_hashes of a client',
  clients: 'each client has its own file: clients/NAME.yaml',
  resources: 'each API has its own file: resources/NAME.yaml',
  id: 'unknown key; did you mean client_id?',
  name: 'unknown key; did you mean client_name or branding.name?',
}

/**
 * Returns the message for an unknown key. `near`: the known key that was probably meant; `elsewhere`: the
 * places where the key is valid.
 */
export function unknownKey(
  key: string,
  near: string | undefined,
  known: string[],
  elsewhere: string[],
): string {
  if (Object.hasOwn(HINTS, key)) return HINTS[key] ?? ''
  if (near) return `unknown key; did you mean ${near}?`
  if (elsewhere.length) return `unknown key here; there is ${elsewhere.slice(0, 2).join(' or ')}`
  const isShort = known.length > 0 && known.length < 12
  return isShort ? `unknown key; the keys here are: ${known.join(', ')}` : 'unknown key'
}

/** Returns the end of a message that suggests a known name; empty if none is similar. */
export function didYouMean(written: string, known: string[]): string {
  const near = meant(written, known)
  return near ? `; did you mean ${near}?` : ''
}

/** Returns the known name that was probably misspelt. */
export function meant(written: string, known: string[]): string | undefined {
  if (!known.length) return undefined
  const lower = known.map(name => name.toLowerCase())
  const near = closest(written.toLowerCase(), lower)
  const isSlip = distance(near, written.toLowerCase()) <= Math.max(2, written.length / 3)
  const name = known[lower.indexOf(near)]
  return isSlip && name !== written ? name : undefined
}

/** The messages for issues that have no message in the schema. */
export const plainWords: z.core.$ZodErrorMap = issue => {
  const { code, input } = issue
  if (code === 'invalid_value') {
    const values = issue.values.map(String)
    const hint = typeof input === 'string' ? didYouMean(input, values) : ''
    return `must be ${values.join(' or ')}${hint}`
  }
  if (code === 'invalid_format') return FORMATS[issue.format]
  if (code === 'too_small' || code === 'too_big') {
    const limit = code === 'too_small' ? `at least ${issue.minimum}` : `at most ${issue.maximum}`
    return `must ${['string', 'array'].includes(issue.origin) ? 'have' : 'be'} ${limit}`
  }
  if (code === 'invalid_key') return issue.issues[0]?.message
  if (code !== 'invalid_type') return undefined
  if (input === undefined) return 'is missing'
  const quote = issue.expected === 'string' && typeof input !== 'object' ? ': put it in quotes' : ''
  return `must be ${TYPES[issue.expected] ?? `a ${issue.expected}`}${quote}`
}
const TYPES: Record<string, string> = {
  array: 'a list: [one, another]',
  int: 'a whole number',
  object: 'a map of keys',
  record: 'a map of keys',
  string: 'text',
  boolean: 'true or false',
}
const FORMATS: Record<string, string> = {
  url: 'must be a complete URL: https://app.example.org/',
  email: 'must be an e-mail address in ASCII: ada@example.org',
}

/** Returns the name of the rule for an issue of zod. */
export function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.message === 'is missing') return 'missing'
  return issue.code === 'custom' ? (issue.params?.rule ?? 'value') : issue.code.replace('_', '-')
}

/** Returns an error of the YAML parser without quotations from the file, and the fix. */
export function plainYamlError(code: string, message: string): string {
  if (/^Missing closing ["']/.test(message)) return 'Missing closing quote of a text further up'
  const said = (code === 'UNEXPECTED_TOKEN' ? message.split(': ')[0] : message.split('\n')[0]) ?? ''
  return FIXES[code] ?? said
}
const FIXES: Record<string, string | undefined> = {
  TAG_RESOLVE_FAILED: 'no tags here: put the value in quotes',
  BAD_DIRECTIVE: 'no directives here',
  MULTIPLE_DOCS: 'a file has one document: delete the line ---',
  BLOCK_AS_IMPLICIT_KEY:
    'check the indentation of this line and the next; put a text with ": " in it into quotes',
  TAB_AS_INDENT: 'indent with spaces, not with tabs',
  BAD_INDENT: 'keys of one map begin in one column',
  BAD_SCALAR_START: 'put the value in quotes: it begins with a special character',
  MULTILINE_IMPLICIT_KEY: 'every line is key: value, with a space behind the colon',
}
