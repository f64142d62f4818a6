// How findings are worded: for operators, and without a word of what stands in the file.

import { closest, distance } from 'fastest-levenshtein'
import type { z } from 'zod'

/** What to write instead of a key that looks right and is not ours. */
const HINTS: Record<string, string> = {
  response_types: 'not a setting: every client uses response_type=code',
}

/** With the key that was probably meant. */
export function unknownKey(key: string, known: string[]): string {
  if (Object.hasOwn(HINTS, key)) return HINTS[key] ?? ''
  return `unknown key${didYouMean(key, known)}`
}

/** Words to end a message with; none when it is like nothing known. */
export function didYouMean(written: string, known: string[]): string {
  const near = meant(written, known)
  return near ? `; did you mean ${near}?` : ''
}

/** One of `known`, when `written` is a slip of it. */
function meant(written: string, known: string[]): string | undefined {
  const near = known.length ? closest(written, known) : written
  const isSlip = near !== written && distance(near, written) <= Math.max(2, written.length / 3)
  return isSlip ? near : undefined
}

/** The keys that may stand at a path; those of a record are anybody's. */
export function knownKeys(schema: z.ZodType, path: PropertyKey[]): string[] {
  let at: unknown = schema
  for (const key of path) {
    at = Object(unwrap(at).shape)[key] ?? unwrap(at).valueType ?? unwrap(at).element
  }
  return Object.keys(Object(unwrap(at).shape))
}

/** Zod's description of a schema, behind defaults. */
function unwrap(schema: unknown): { shape?: object; valueType?: unknown; element?: unknown } {
  const { def } = Object(schema)
  return def?.innerType ? unwrap(def.innerType) : Object(def)
}

/** For the mistakes that zod describes in its own words. */
export const plainWords: z.core.$ZodErrorMap = issue => {
  if (issue.code === 'invalid_value') {
    const values = issue.values.map(String)
    const hint = typeof issue.input === 'string' ? didYouMean(issue.input, values) : ''
    return `must be ${values.join(' or ')}${hint}`
  }
  if (issue.code !== 'invalid_type') return undefined
  const { expected } = issue
  return issue.input === undefined ? 'is missing' : `must be ${NAMES[expected] ?? `a ${expected}`}`
}
const NAMES: Record<string, string> = {
  array: 'a list',
  int: 'a whole number',
  object: 'a map of keys',
  record: 'a map of keys',
  string: 'text',
  boolean: 'true or false',
}

/** The YAML library's words, less what they quote. */
export function unquoted(code: string, message: string): string {
  if (code === 'TAG_RESOLVE_FAILED') return 'no tags here: put the value in quotes'
  if (code === 'BAD_DIRECTIVE') return 'no directives here'
  return (code === 'UNEXPECTED_TOKEN' ? message.split(': ')[0] : message.split('\n')[0]) ?? ''
}
