// The words of the pages in the languages we ship. What English has words for is what there can be
// words for: in an operator's locales/XX.yaml as well.

import { readdirSync, readFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { didYouMean } from '../report/wording.ts'
import { mapOf, words } from './values.ts'

/** Texts by `page.thing`, by language tag (BCP 47). */
export type Locales = Record<string, Record<string, string>>

interface Tree {
  [key: string]: string | Tree
}

/** What has no words in another language is said in this one. */
export const ENGLISH = 'en'
const FOLDER = join(import.meta.dirname, '../../pages/locales')
const LONGEST = 2000

/** Of CLDR: each language has its own of these for a number of things. */
const PLURALS = ['zero', 'one', 'two', 'few', 'many', 'other']
const isPlural = (tree: Tree) => Object.keys(tree).every(key => PLURALS.includes(key))

export const placesIn = (text: string) => [...new Set(text.match(/\{\w+\}/g))].toSorted()

/** A text with places for the values that the English one has, at least for those that are needed. */
function textLike(english: string, needed = placesIn(english)) {
  const known = placesIn(english)
  return words(LONGEST)
    .superRefine((text, ctx) => {
      const places = placesIn(text)
      const strange = places.find(place => !known.includes(place))
      const absent = needed.find(place => !places.includes(place))
      const message = strange
        ? `nothing is put in for ${strange}${didYouMean(strange, known)}`
        : absent && `has no ${absent}, which is put in here`
      if (message) ctx.addIssue({ code: 'custom', message, params: { rule: 'places' } })
    })
    .describe(`In English: ${english}`)
}

function schemaOf(tree: Tree): z.ZodObject {
  const parts = isPlural(tree)
    ? PLURALS.map(form => [form, textLike(String(tree.other), [])] as const)
    : Object.entries(tree).map(
        ([key, part]) => [key, typeof part === 'string' ? textLike(part) : schemaOf(part)] as const,
      )
  return z.strictObject(Object.fromEntries(parts.map(([key, part]) => [key, part.optional()])))
}

const readOurs = (lang: string): Tree =>
  parseYaml(readFileSync(join(FOLDER, `${lang}.yaml`), 'utf8'))

let made: z.ZodObject | undefined

/** Of locales/XX.yaml; made when there is such a file to read. */
export const localeSchema = () => (made ??= schemaOf(readOurs(ENGLISH)))

export function flatten(tree: unknown, prefix = ''): Record<string, string> {
  const entries = Object.entries(mapOf(tree)).flatMap(([key, value]) =>
    typeof value === 'string'
      ? [[prefix + key, value]]
      : Object.entries(flatten(value, `${prefix}${key}.`)),
  )
  return Object.fromEntries(entries)
}

/** A file of ours is a language. */
export const shippedTags = readdirSync(FOLDER).map(file => parse(file).name)

export const shippedWords = (lang: string) => flatten(readOurs(lang))
