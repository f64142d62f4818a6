// Schemas of values that several files have.

import { z } from 'zod'
import { displayTextProblem } from '../../oidc/display-text.ts'

/**
 * Returns a refinement from a function that returns what is wrong with a value.
 */
export const refusing =
  <T>(problemOf: (value: T) => string | undefined, rule = 'value') =>
  (value: T, ctx: z.core.$RefinementCtx) => {
    const message = problemOf(value)
    if (message) ctx.addIssue({ code: 'custom', message, params: { rule } })
  }

/** A map of keys that may be absent: each key has a default, or is optional. */
export const section = <S extends z.ZodRawShape>(shape: S) =>
  z.strictObject(shape).prefault({} as z.input<z.ZodObject<S>>)

/**
 * Text that the parameters and the Basic header of OAuth can carry (RFC 6749
 * A).
 */
export const VSCHARS = /^[\x20-\x7E]+$/

/** Text that matches a pattern. */
export const matching = (pattern: RegExp, message: string) =>
  z.string().regex(pattern, message)

const LOCAL = "[\\w!#$%&'*+/=?^`{|}~-]+"
const ADDRESS = new RegExp(
  `^(${LOCAL}(\\.${LOCAL})*|"([ !#-[\\]-~]|\\\\[ -~])*")@([\\w-]+(\\.[\\w-]+)*|\\[[!-Z^-~]+\\])$`,
)

/**
 * An e-mail address: addr-spec of RFC 5322 §3.4.1, in ASCII, without comments.
 */
export const emailAddress = z.email({ pattern: ADDRESS }).max(254)

const isFree = (name: string) => !(name in Object.prototype)

/** A name that can be the key of an object. */
export const nameLike = (pattern: RegExp, message: string) =>
  matching(pattern, message).refine(
    isFree,
    'is a name that JavaScript keeps for itself',
  )

/**
 * Roughly the rule for `words`, for editors: a pattern of JSON Schema cannot
 * look at neighbours.
 */
const WORDS_PATTERN =
  '^[^\\p{Cc}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}\\u200B\\u202A-\\u202E\\u2060\\u2066-\\u2069\\uFEFF]+$'

/**
 * Text that pages show. The JSON Schema for editors has the members of `meta`.
 */
export const words = (maxLength: number) =>
  z
    .string()
    .superRefine(refusing(text => displayTextProblem(text, maxLength)))
    .meta({ maxLength, pattern: WORDS_PATTERN })

const isPlainUrl = (text: string) => {
  const { username, password } = URL.parse(text) ?? {}
  return !username && !password && /^[^\s\p{C}\\]+$/u.test(text)
}

/**
 * An address that pages link to. Without user name: users would take it for the
 * host.
 */
export const webUrl = z
  .url({ protocol: /^https?$/ })
  .refine(isPlainUrl, 'has no user name, password, spaces or backslashes')

/** The name of a scope (RFC 6749 §3.3). */
export const scopeName = nameLike(
  /^[\x21\x23-\x5B\x5D-\x7E]+$/,
  'a scope has no spaces, quotes or backslashes (RFC 6749 §3.3)',
)

let names: Intl.DisplayNames | undefined
/** Created at the first use: most folders name no language. */
const languageNames = () =>
  (names ??= new Intl.DisplayNames('en', {
    type: 'language',
    fallback: 'none',
  }))

/**
 * Returns what is wrong with a language tag (BCP 47); undefined if it is valid.
 */
export function tagProblem(tag: string): string | undefined {
  try {
    const [canonical = ''] = Intl.getCanonicalLocales(tag)
    if (languageNames().of(canonical))
      return canonical === tag ? undefined : `is written ${canonical}`
  } catch {
    // The tag has no valid syntax.
  }
  return 'is no language tag, such as de or pt-BR'
}

/** A language tag (BCP 47). */
export const languageTag = z.string().superRefine(refusing(tagProblem))

/** Text that pages show: one text, or one for each language. */
export const wordsByLanguage = (maxLength: number) =>
  z.union(
    [words(maxLength), z.record(languageTag, words(maxLength))],
    `a text of at most ${maxLength} characters, or one for each language: { en: …, de: … }`,
  )

/** Scopes by name, with the sentence on the consent page. */
export const scopesByName = z.record(
  scopeName,
  z.strictObject({ description: wordsByLanguage(200) }),
)

const DURATION = 'a duration is a number and a unit: 60 s, 10 min, 12 h, 14 d'
const UNITS = { s: 1, min: 60, h: 3600, d: 86_400 }
const WRITTEN = /^[1-9]\d{0,5} ?(s|min|h|d)$/
/** A duration, or 0 s. */
export const WRITTEN_OR_NONE = /^(0|[1-9]\d{0,5}) ?(s|min|h|d)$/

/**
 * Returns the seconds of `10 min` or `14 d`; undefined if the text is no
 * duration.
 */
export const readDuration = (text: string) =>
  WRITTEN.test(text) ? seconds(text) : undefined

/** Whether a text is a day or a time in UTC, such as `2026-12-01T00:00Z`. */
export const isTime = (text: string) =>
  /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z)?$/.test(text) &&
  !Number.isNaN(Date.parse(text))

/** A duration such as `10 min` or `14 d`, as seconds. */
export const duration = (longest: string, written = WRITTEN) =>
  z
    .string(DURATION)
    .regex(written, { error: DURATION, abort: true })
    .refine(text => seconds(text) <= seconds(longest), `is at most ${longest}`)
    .transform(seconds)

/** Returns the seconds of a valid duration. */
export const seconds = (text: string) =>
  Number.parseInt(text, 10) *
  UNITS[text.replace(/[\d ]/g, '') as keyof typeof UNITS]

/** The path of a file, relative to the config folder. */
export const path = z.string().min(1)

/** A colour as six hexadecimal digits. */
export const colour = z
  .string('a colour is six digits, in quotes: "#1d4ed8"')
  .regex(/^#[\da-f]{6}$/i, 'a colour is six digits: "#1d4ed8"')

/** Epoch seconds as `2026-12-01 12:00 UTC`. */
export const timeOf = (seconds: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`
