// How findings are worded: for operators, with what to write instead, and without a word of what
// stands in the file.

import { closest, distance } from 'fastest-levenshtein'
import type { z } from 'zod'

/** What to write instead of a key that is right elsewhere and not ours. */
// biome-ignore format: a table
const HINTS: Record<string, string> = {
  jwks_uri: 'nothing is fetched for a file: put the public keys into jwks',
  secret: 'secrets stand in no file: USHER_SECRET, or a client’s client_secret_hashes',
  clients: 'clients are files of their own: clients/NAME.yaml',
  resources: 'APIs are files of their own: resources/NAME.yaml',
  id: 'unknown key; did you mean client_id?',
  name: 'unknown key; did you mean client_name or branding.name?',
}

/** With the key that was probably meant; `elsewhere` is where it would be right. */
export function unknownKey(key: string, known: string[], elsewhere: string[]): string {
  if (Object.hasOwn(HINTS, key)) return HINTS[key] ?? ''
  const near = meant(key, known)
  if (near) return `unknown key; did you mean ${near}?`
  if (elsewhere.length) return `unknown key here; there is ${elsewhere.slice(0, 2).join(' or ')}`
  const isShort = known.length > 0 && known.length < 12
  return isShort ? `unknown key; what can stand here: ${known.join(', ')}` : 'unknown key'
}

/** Words to end a message with; none when it is like nothing known. */
export function didYouMean(written: string, known: string[]): string {
  const near = meant(written, known)
  return near ? `; did you mean ${near}?` : ''
}

/** One of `known`, when `written` is a slip of it. */
export function meant(written: string, known: string[]): string | undefined {
  if (!known.length) return undefined
  const lower = known.map(name => name.toLowerCase())
  const near = closest(written.toLowerCase(), lower)
  const isSlip = distance(near, written.toLowerCase()) <= Math.max(2, written.length / 3)
  const name = known[lower.indexOf(near)]
  return isSlip && name !== written ? name : undefined
}

/** For the mistakes that zod describes in its own words. */
export const plainWords: z.core.$ZodErrorMap = issue => {
  const { code, input } = issue
  if (code === 'invalid_value') {
    const values = issue.values.map(String)
    const hint = typeof input === 'string' ? didYouMean(input, values) : ''
    return `must be ${values.join(' or ')}${hint}`
  }
  if (code === 'invalid_format') return FORMATS[issue.format]
  if (code === 'too_small') return `must ${VERBS[issue.origin] ?? 'be'} at least ${issue.minimum}`
  if (code === 'too_big') return `must ${VERBS[issue.origin] ?? 'be'} at most ${issue.maximum}`
  if (code === 'invalid_key') return issue.issues[0]?.message
  if (code !== 'invalid_type') return undefined
  if (input === undefined) return 'is missing'
  const quote = issue.expected === 'string' && typeof input !== 'object' ? ': put it in quotes' : ''
  return `must be ${TYPES[issue.expected] ?? `a ${issue.expected}`}${quote}`
}
// biome-ignore format: a table
const TYPES: Record<string, string> = {
  array: 'a list: [one, another]',
  int: 'a whole number',
  object: 'a map of keys',
  record: 'a map of keys',
  string: 'text',
  boolean: 'true or false',
}
/** With a number of characters or items; a number itself is. */
const VERBS: Record<string, string> = { string: 'have', array: 'have' }
const FORMATS: Record<string, string> = {
  url: 'must be a whole web address: https://app.example.org/',
  email: 'must be an e-mail address: ada@example.org',
}

/** What kind of mistake zod has found, as a name. */
export function ruleOf({ code, message, ...issue }: z.core.$ZodIssue): string {
  if (message === 'is missing') return 'missing'
  if (code === 'custom') return 'params' in issue ? String(issue.params?.rule ?? 'value') : 'value'
  return code.replace('_', '-')
}

/** The YAML library's words, less what they quote, and what to do. */
export function unquoted(code: string, message: string): string {
  if (code === 'TAG_RESOLVE_FAILED') return 'no tags here: put the value in quotes'
  if (code === 'BAD_DIRECTIVE') return 'no directives here'
  if (/^Missing closing ["']/.test(message)) return 'Missing closing quote of a text further up'
  const said = (code === 'UNEXPECTED_TOKEN' ? message.split(': ')[0] : message.split('\n')[0]) ?? ''
  return Object.hasOwn(MENDS, code) ? `${said}: ${MENDS[code]}` : said
}
const MENDS: Record<string, string> = {
  TAB_AS_INDENT: 'indent with spaces',
  BAD_INDENT: 'keys of one map begin in one column',
  BAD_SCALAR_START: 'put the value in quotes',
  MULTIPLE_DOCS: 'delete the line ---',
  MULTILINE_IMPLICIT_KEY: 'every line is key: value, with a space behind the colon',
  BLOCK_AS_IMPLICIT_KEY: 'put a text with ": " in it into quotes',
}
