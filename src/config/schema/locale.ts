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

const trees: Record<string, Tree> = {}

/**
 * Returns the texts of a language that Usher ships. A file is read once: it
 * costs some 20 ms.
 */
function treeOf(lang: string): Tree {
  trees[lang] ??= parseYaml(
    readFileSync(join(FOLDER, `${lang}.yaml`), 'utf8'),
  ) as Tree
  return trees[lang]
}

let made: z.ZodObject | undefined

/** Returns the schema of locales/XX.yaml, created at the first use. */
export const localeSchema = () => (made ??= schemaOf(treeOf(ENGLISH)))

/** Returns the paths of all keys of locales/XX.yaml, without its schema. */
export const localePaths = () => pathsIn(treeOf(ENGLISH))

function pathsIn(tree: Tree, above = ''): string[] {
  if (isPlural(tree)) return PLURALS.map(name => above + name)
  return Object.entries(tree).flatMap(([key, part]) => {
    const path = above + key
    return typeof part === 'string'
      ? [path]
      : [path, ...pathsIn(part, `${path}.`)]
  })
}

/** Returns the texts of a tree by their paths, as `page.thing`. */
export const flatten = (tree: unknown): Record<string, string> =>
  Object.fromEntries(
    leavesOf(mapOf(tree)).map(([path, text]) => [path, String(text)]),
  )

/** Languages that Usher ships. */
export const shippedTags = readdirSync(FOLDER).map(file => parse(file).name)

const shipped: Locales = {}

/** Returns the texts of a language by their paths, if Usher ships it. */
export function shippedWords(lang: string): Record<string, string> {
  shipped[lang] ??= shippedTags.includes(lang) ? flatten(treeOf(lang)) : {}
  return shipped[lang]
}
