// The words of findings: written for operators, with a suggestion, and without
// any value of the file. messages.json has those without a parameter. A warning
// is about a setting that is valid but unsafe: it says the risk, the fix, and
// the clause of the specification.

import { basename } from 'node:path'
import { closest, distance } from 'fastest-levenshtein'
import type { z } from 'zod'
import type { Finding, Locate } from './finding.ts'
import messages from './messages.json' with { type: 'json' }

type Texts = Record<string, string | undefined>
/** Suggestions for keys that other products or other files have. */
const KEYS = new Map(Object.entries(messages.keys))
const TYPES: Texts = messages.types
const FORMATS: Texts = messages.formats

/**
 * Returns the message for an unknown key. `near`: the known key that was
 * probably meant; `elsewhere`: the places where the key is valid.
 */
export function unknownKey(
  key: string,
  near: string | undefined,
  known: string[],
  elsewhere: string[],
): string {
  const hint = KEYS.get(key)
  if (hint) return hint
  if (near) return `unknown key; did you mean ${near}?`
  if (elsewhere.length)
    return `unknown key here; there is ${elsewhere.slice(0, 2).join(' or ')}`
  const isShort = known.length > 0 && known.length < 12
  return isShort
    ? `unknown key; the keys here are: ${known.join(', ')}`
    : 'unknown key'
}

/**
 * Returns the end of a message that suggests a known name; empty if none is
 * similar.
 */
export function didYouMean(written: string, known: string[]): string {
  const near = meant(written, known)
  return near ? `; did you mean ${near}?` : ''
}

/** Returns the known name that was probably misspelt. */
export function meant(written: string, known: string[]): string | undefined {
  if (!known.length) return undefined
  const lower = known.map(name => name.toLowerCase())
  const near = closest(written.toLowerCase(), lower)
  const isSlip =
    distance(near, written.toLowerCase()) <= Math.max(2, written.length / 3)
  const name = known[lower.indexOf(near)]
  return isSlip && name !== written ? name : undefined
}

/** The messages for issues that have no message in the schema. */
export const plainWords: z.core.$ZodErrorMap = issue => {
  switch (issue.code) {
    case 'invalid_value':
      return mustBeOneOf(issue.values.map(String), issue.input)
    case 'invalid_format':
      return FORMATS[issue.format]
    case 'too_small':
      return mustHave(issue.origin, `at least ${issue.minimum}`)
    case 'too_big':
      return mustHave(issue.origin, `at most ${issue.maximum}`)
    case 'invalid_key':
      return issue.issues[0]?.message
    case 'invalid_type':
      return mustBeOfType(issue.expected, issue.input)
    default:
      return undefined
  }
}

function mustBeOneOf(values: string[], input: unknown): string {
  const hint = typeof input === 'string' ? didYouMean(input, values) : ''
  return `must be ${values.join(' or ')}${hint}`
}

function mustHave(origin: string, limit: string): string {
  const isCounted = ['string', 'array'].includes(origin)
  return `must ${isCounted ? 'have' : 'be'} ${limit}`
}

function mustBeOfType(expected: string, input: unknown): string {
  if (input === undefined) return 'is missing'
  const isUnquoted = expected === 'string' && typeof input !== 'object'
  return `must be ${TYPES[expected] ?? `a ${expected}`}${isUnquoted ? ': put it in quotes' : ''}`
}

/** Returns the name of the rule for an issue of zod. */
export function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.message === 'is missing') return 'missing'
  return issue.code === 'custom'
    ? (issue.params?.rule ?? 'value')
    : issue.code.replace('_', '-')
}

/**
 * Replaces `{name}` in a text by the value of this name. A word in capitals,
 * such as ACCOUNT, stays: the reader knows what to write there.
 */
export function fill(text: string, values: Record<string, string>): string {
  return text.replace(
    /\{(\w+)\}/g,
    (placeholder, name: string) => values[name] ?? placeholder,
  )
}

/**
 * Whether a finding is no warning. Warnings are about settings that are valid
 * but unsafe.
 */
export const isProblem = ({ rule }: Finding) =>
  !Object.hasOwn(messages.warnings, rule)

/**
 * Returns the message about a file or a key that is valid and has no effect.
 */
export const noEffect = (reason: string) =>
  fill(messages.warnings['no-effect'], { reason })

/** Returns the message about a key that needs a setting of usher.yaml. */
export const featureOff = (setting: string) =>
  fill(messages.errors['feature-off'], { setting })

const ALL = { ...messages.errors, ...messages.warnings }

/** The rules with a message in messages.json. */
export type RuleName = keyof typeof ALL

/**
 * A warning that accounts can refute: a client is for users with an attribute
 * that no claim has. Only `config check` and `doctor` read the accounts. A
 * running service does not repeat it.
 */
export const isAboutAttribute = ({ rule }: Pick<Finding, 'rule'>) =>
  rule === 'allow-attribute'

/**
 * Returns the message of a rule. `{file}` becomes the name of the file, as
 * commands expect it, and `{name}` the last part of the key.
 */
export function messageOf(rule: RuleName, file: string, key: string): string {
  const [name = ''] = key.split('.').slice(-1)
  return fill(ALL[rule], { file: basename(file, '.yaml'), name })
}

/**
 * Returns a finding for each name at a key, one or a list, that is none of
 * `known`. `{name}` in the message becomes the name.
 */
export function unknownNames(
  at: Locate,
  path: PropertyKey[],
  names: string | string[] = [],
  known: string[],
  [rule, message]: readonly [rule: string, message: string],
): Finding[] {
  return [names].flat().flatMap((name, i) => {
    const place = Array.isArray(names) ? [...path, i] : path
    const text = fill(message, { name: JSON.stringify(name) })
    return known.includes(name)
      ? []
      : at(place, rule, `${text}${didYouMean(name, known)}`)
  })
}

/**
 * Returns the finding about a file that nothing reads: its name is probably
 * misspelt.
 */
export function strayFile(file: string, known: string[]): Finding {
  const message = `nothing reads this${didYouMean(basename(file), known)}`
  return { file, rule: 'stray-file', message }
}
