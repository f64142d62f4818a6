// What may stand in details/NAME.yaml: a type of authorization details (RFC 9396), the fields that one
// of them has, and what people read of it. And whether what a client asks for is such a one.

import { z } from 'zod'
import { words, wordsByLanguage } from './values.ts'

/** One thing that a client asks for, as it goes over the wire. */
export type Detail = { type: string; [field: string]: unknown }

/** Names in a path: `amount.currency` is a field of an object in the detail. */
const DEEPEST = 4
/** Of a list, and of the list that a request is. */
const MOST_VALUES = 20
export const MOST_DETAILS = 10

const typeName = z
  .string()
  .regex(/^[\x21\x23-\x5B\x5D-\x7E]{1,100}$/, 'a type is 1 to 100 visible ASCII characters')
  .refine(name => !(name in Object.prototype), 'is a name that JavaScript keeps for itself')
const path = z
  .string()
  .regex(
    /^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*){0,3}$/,
    'a field is a name, or up to four joined by dots: amount.currency',
  )
  .refine(path => path !== 'type', 'every detail has its `type` by itself')
const pattern = z.string().refine(isPattern, 'is no regular expression of JavaScript')

const FEW = 'must have at least one: a text is only what stands here'
// biome-ignore format: a table
const field = z.strictObject({
  label: wordsByLanguage(60).describe('What people read before its value, where `description` does not put that in'),
  required: z.boolean().default(true).describe('false: a detail may go without it'),
  holds: z.enum(['text', 'number', 'boolean']).default('text').describe('What a value of it is; true and false are shown as yes and no'),
  list: z.boolean().default(false).describe(`true: not one value, but a list of 1 to ${MOST_VALUES}, each once`),
  values: z.record(words(100), wordsByLanguage(100).describe('What people read for this one')).refine(values => Object.keys(values).length > 0, FEW).optional().describe('The texts that it may be; absent: any'),
  pattern: pattern.optional().describe('A regular expression that a text matches as a whole'),
  max_length: z.int().min(1).max(500).default(100).describe('How long a text may be, in characters'),
  minimum: z.number().optional().describe('The least that a number may be'),
  maximum: z.number().optional().describe('The most that a number may be'),
})

// biome-ignore format: a table
export const detailSchema = z.strictObject({
  type: typeName.describe('What clients call it; it never changes'),
  resource: z.string().describe('The API it is for, as its file in resources/ calls itself: its tokens alone carry such details'),
  description: wordsByLanguage(300).describe('What people read on the consent page; {NAME} is the value of that one of `fields`: Pay {amount} to {recipient}'),
  fields: z.record(path, field).describe('What one of them says, and all it may say; people are shown each'),
})

export type DetailFile = z.output<typeof detailSchema>
type Field = DetailFile['fields'][string]

/** Where a value is put into a description. */
export const PLACE = /\{([\w.-]+)\}/

/** What a detail says: each value by its path, and whatever else stands there, too. */
export function valuesIn({ type: _, ...fields }: Detail): Map<string, unknown> {
  const walk = (map: object, above: string[]): [string, unknown][] =>
    Object.entries(map).flatMap(([name, value]) => {
      // A name with a dot in it is not the path that it looks like.
      const path = [...above, name.replaceAll('.', '?')]
      const isMap = Object(value) === value && !Array.isArray(value)
      const isWalked = isMap && path.length < DEEPEST && Object.keys(value).length > 0
      return isWalked ? walk(value, path) : [[path.join('.'), value]]
    })
  return new Map(walk(fields, []))
}

/** What is wrong with a detail of this type, for those who make the client. */
export function detailProblem({ fields }: DetailFile, detail: Detail): string | undefined {
  const values = valuesIn(detail)
  const unknown = [...values.keys()].find(path => !Object.hasOwn(fields, path))
  if (unknown !== undefined) return `there is no field ${harmless(unknown)}`
  for (const [path, field] of Object.entries(fields)) {
    const value = values.get(path)
    const problem = values.has(path) ? valueProblem(field, value) : field.required && 'is missing'
    if (problem) return `${path} ${problem}`
  }
  return undefined
}

function valueProblem(field: Field, value: unknown): string | undefined {
  if (!field.list) return singleProblem(field, value)
  if (!Array.isArray(value) || !value.length || value.length > MOST_VALUES) {
    return `is a list of 1 to ${MOST_VALUES} values`
  }
  if (new Set(value).size < value.length) return 'has a value twice'
  return value.map(single => singleProblem(field, single)).find(Boolean)
}

function singleProblem(field: Field, value: unknown): string | undefined {
  const { holds, minimum = -Infinity, maximum = Infinity } = field
  if (holds === 'boolean') return typeof value === 'boolean' ? undefined : 'is true or false'
  if (holds === 'text') return textProblem(field, value)
  // With an exponent it is larger or smaller than people could be shown.
  if (typeof value !== 'number' || String(value).includes('e')) return 'is a number'
  if (value < minimum) return `is at least ${minimum}`
  return value > maximum ? `is at most ${maximum}` : undefined
}

function textProblem({ values, pattern, max_length }: Field, value: unknown): string | undefined {
  if (typeof value !== 'string') return 'is a text'
  if (value.length > max_length) return `is longer than ${max_length} characters`
  if (values && !Object.hasOwn(values, value)) return `is one of ${Object.keys(values).join(', ')}`
  // What turns the line round, or cannot be seen, is not what people believe to read.
  if (!/^\P{C}+$/u.test(value) || value.trim() !== value) {
    return 'is a text without control characters, or spaces at its ends'
  }
  const isOther = pattern !== undefined && !new RegExp(`^(?:${pattern})$`, 'u').test(value)
  return isOther ? 'is not of the form that it has to have' : undefined
}

function isPattern(text: string): boolean {
  try {
    return Boolean(new RegExp(`^(?:${text})$`, 'u'))
  } catch {
    return false
  }
}

/** A name of the client's choice, as an error description can have it (RFC 6749 §5.2). */
const harmless = (name: string) => name.replace(/[^\x20-\x7E]|["\\]/g, '?').slice(0, 60)
