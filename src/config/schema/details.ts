// A file of config/details/: a type of authorization details (RFC 9396),
// described by a JSON Schema (2020-12), and the words in which the consent page
// shows one. The schema may use the keywords whose values a page can show; zod
// validates against it.

import { z } from 'zod'
import type { Detail } from '../../oidc/consents.ts'
import { leavesOf } from '../../store/values.ts'
import { nameLike, words, wordsByLanguage } from './values.ts'

const typeName = nameLike(
  /^[\x21\x23-\x5B\x5D-\x7E]{1,100}$/,
  'a type is 1 to 100 visible ASCII characters',
)
const propertyName = nameLike(
  /^[A-Za-z_][\w-]*$/,
  'a property is named by letters, digits, _ and -',
)

const ATOM = String.raw`(?:\\[dDwWsS]|\\[^\w\s]|\[(?:\\[dDwWsS]|\\[^\w\s]|[^\\[\]])+\]|[^\\^$*+?()[\]{}|])`
const FIXED = `(?:${ATOM}(?:\\{\\d{1,3}\\})?)*`
/**
 * Clients send the text: with one quantifier of variable length, the time to
 * match it is linear.
 */
const SAFE_PATTERN = new RegExp(
  `^\\^${FIXED}(?:${ATOM}(?:[?*+]|\\{\\d{1,3},\\d{0,3}\\}))?${FIXED}\\$$`,
)
const MAX_PATTERN_CHARS = 200
const PATTERN = `must be ^…$ around characters and classes, with at most one quantifier of variable length and ${MAX_PATTERN_CHARS} characters: ^[A-Z]{2}\\d{1,6}$`

function isSafePattern(pattern: string): boolean {
  try {
    const isShort = pattern.length <= MAX_PATTERN_CHARS
    return isShort && SAFE_PATTERN.test(pattern) && Boolean(new RegExp(pattern))
  } catch {
    return false
  }
}

const count = z.int().min(0).optional()
const number = z.number().optional()
const scalar = z.strictObject({
  type: z.enum(['string', 'number', 'integer', 'boolean']),
  title: words(60).optional(),
  description: z.string().optional(),
  enum: z.array(words(100)).min(1).optional(),
  format: z.enum(['date', 'date-time', 'email', 'uri', 'uuid']).optional(),
  pattern: z.string().refine(isSafePattern, PATTERN).optional(),
  minLength: count,
  maxLength: count,
  minimum: number,
  maximum: number,
  exclusiveMinimum: number,
  exclusiveMaximum: number,
  multipleOf: z.number().positive().optional(),
})
const flat = scalar.extend({
  type: z.enum([...scalar.shape.type.options, 'array', 'object']),
  items: scalar.optional(),
  minItems: count,
  maxItems: count,
  uniqueItems: z.boolean().optional(),
  required: z.array(z.string()).default([]),
  additionalProperties: z
    .literal(
      false,
      'must be false: a detail with other properties is refused (RFC 9396 §5)',
    )
    .default(false),
})

// zod ignores maxItems where there are no items.
const hasItems = ({ type, items }: z.output<typeof flat>) =>
  type !== 'array' || items !== undefined

/** The JSON Schema of a property. */
type Property = z.output<typeof flat> & {
  properties?: Record<string, Property>
}

const property: z.ZodType<Property> = z.lazy(() =>
  flat
    .extend({ properties: z.record(propertyName, property).optional() })
    .refine(
      ({ required, properties = {} }) =>
        required.every(name => properties[name]),
      {
        path: ['required'],
        error: 'names a property that is not in properties',
      },
    )
    .refine(hasItems, { path: ['items'], error: 'is needed' }),
)
const schema = property.refine(
  ({ type, properties = {} }) => type === 'object' && !properties.type,
  'is an object, without the property type, which every detail has',
)

/** Schema of a file in details/. */
export const detailSchema = z.strictObject({
  type: typeName,
  resource: z.string(),
  schema,
  description: wordsByLanguage(300),
  labels: z.record(z.string(), wordsByLanguage(100)).default({}),
})

/** A file of details/ with defaults. */
export type DetailFile = z.output<typeof detailSchema>

/** Matches a property in a description. */
export const PLACE = /\{([\w.-]+)\}/

/**
 * A property that holds a value. `path`: `amount.currency`. `isRequired`: every
 * valid detail has it.
 */
type Described = Property & { path: string; isRequired: boolean }

/** Returns all properties of a schema that hold a value, at every depth. */
export function describedIn(
  node: Property,
  above = '',
  isAboveRequired = true,
): Described[] {
  const { properties = {}, required } = node
  return Object.entries(properties).flatMap(([name, property]) => {
    const path = above + name
    const isRequired = isAboveRequired && required.includes(name)
    if (property.type === 'object')
      return describedIn(property, `${path}.`, isRequired)
    return [{ ...property, path, isRequired }]
  })
}

/**
 * Returns the values of a detail with their paths; an empty object is a value.
 */
export const valuesIn = ({ type: _, ...values }: Detail) => leavesOf(values)

/**
 * Returns the schema of zod that validates the properties of a detail, except
 * `type`.
 */
export const propertiesOf = ({ schema }: DetailFile) => z.fromJSONSchema(schema)
