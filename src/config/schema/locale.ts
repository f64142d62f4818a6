// Texts of the pages, and the schema of an operator's locales/XX.yaml. The
// English texts define which keys there are.

import { readdirSync, readFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { leavesOf, mapOf } from '../../store/values.ts'
import { didYouMean } from '../report/wording.ts'
import { refusing, words } from './values.ts'

/** Texts by `page.thing`, by language tag (BCP 47). */
export type Locales = Record<string, Record<string, string>>

type Tree = { [key: string]: string | Tree }

/** The language of texts that another language does not have. */
export const ENGLISH = 'en'
const FOLDER = join(import.meta.dirname, '../../pages/locales')
const MAX_TEXT_CHARS = 2000

/** Plural categories (CLDR). Each language uses some of them. */
const PLURALS = ['zero', 'one', 'two', 'few', 'many', 'other']
const isPlural = (tree: Tree) =>
  Object.keys(tree).every(key => PLURALS.includes(key))

/** Returns the placeholders of a text, sorted, each once. */
export const placesIn = (text: string) =>
  [...new Set(text.match(/\{\w+\}/g))].toSorted()

/**
 * A text with the placeholders of the English one. Those in `needed` must
 * occur.
 */
function textLike(english: string, needed = placesIn(english)) {
  const known = placesIn(english)
  const problemOf = (text: string) => {
    const places = placesIn(text)
    const strange = places.find(place => !known.includes(place))
    if (strange)
      return `there is no value for ${strange}${didYouMean(strange, known)}`
    const absent = needed.find(place => !places.includes(place))
    return absent && `must contain ${absent}`
  }
  const text = words(MAX_TEXT_CHARS).superRefine(refusing(problemOf, 'places'))
  return text.describe(`In English: ${english}`)
}

function schemaOf(tree: Tree): z.ZodObject {
  if (isPlural(tree)) {
    const form = textLike(String(tree.other), []).optional()
    return z.strictObject(Object.fromEntries(PLURALS.map(name => [name, form])))
  }
  const parts = Object.entries(tree).map(([key, part]) => {
    const schema = typeof part === 'string' ? textLike(part) : schemaOf(part)
    return [key, schema.optional()]
  })
  return z.strictObject(Object.fromEntries(parts))
}

const readOurs = (lang: string): Tree =>
  parseYaml(readFileSync(join(FOLDER, `${lang}.yaml`), 'utf8'))

let made: z.ZodObject | undefined

/** Returns the schema of locales/XX.yaml, created at the first use. */
export const localeSchema = () => (made ??= schemaOf(readOurs(ENGLISH)))

/** Returns the texts of a tree by their paths, as `page.thing`. */
export const flatten = (tree: unknown): Record<string, string> =>
  Object.fromEntries(
    leavesOf(mapOf(tree)).map(([path, text]) => [path, String(text)]),
  )

/** Languages that Usher ships. */
export const shippedTags = readdirSync(FOLDER).map(file => parse(file).name)

const shipped: Locales = {}

/**
 * Returns the texts of a language, if Usher ships it. A file is read once: it
 * costs some 20 ms.
 */
export function shippedWords(lang: string): Record<string, string> {
  shipped[lang] ??= shippedTags.includes(lang) ? flatten(readOurs(lang)) : {}
  return shipped[lang]
}
