// The words people read, by language; keys are `page.thing`. A file of `locales/` is a language.

import { readdirSync } from 'node:fs'
import { join, parse } from 'node:path'
import { readYaml } from '../config/document.ts'

/** `{name}` in the words is replaced by the value of that name. */
export type Translate = (key: string, values?: Record<string, string>) => string

export interface Words {
  /** BCP 47. */
  lang: string
  dir: 'ltr' | 'rtl'
  /** Empty where there are no words: for keys that are made from data. */
  t: Translate
  /** The words of `key.one`, `key.other` or another form that the language has for this `{count}`. */
  plural(key: string, count: number): string
  /** The day of a time in epoch seconds (UTC), for programs and for people. */
  date(seconds: number): { iso: string; words: string }
}

export type Languages = ReturnType<typeof createLanguages>

/** What is missing in another language is said in this one. */
const ENGLISH = 'en'
const LOCALES = join(import.meta.dirname, 'locales')

export function createLanguages() {
  const english = readWords(ENGLISH)
  const others = readdirSync(LOCALES).map(file => parse(file).name)
  const spoken = new Map(
    [ENGLISH, ...others.toSorted()].map(lang => [
      lang,
      createWords(lang, new Map([...english, ...readWords(lang)])),
    ]),
  )

  return {
    tags: [...spoken.keys()],

    /** The language of this tag, or the one it is a variety of: `de` for `de-CH`. */
    find: (tag: string): Words | undefined =>
      spoken.get(tag) ?? spoken.get(tag.toLowerCase().split('-')[0] ?? ''),

    english: createWords(ENGLISH, english),
  }
}

function createWords(lang: string, words: Map<string, string>): Words {
  const dates = new Intl.DateTimeFormat(lang, { dateStyle: 'long', timeZone: 'UTC' })
  const numbers = new Intl.NumberFormat(lang)
  const rules = new Intl.PluralRules(lang)
  const t: Translate = (key, values = {}) =>
    (words.get(key) ?? '').replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '')
  return {
    lang,
    dir: new Intl.Locale(lang).getTextInfo().direction === 'rtl' ? 'rtl' : 'ltr',
    t,
    plural(key, number) {
      const count = numbers.format(number)
      return t(`${key}.${rules.select(number)}`, { count }) || t(`${key}.other`, { count })
    },
    date(seconds) {
      const time = new Date(seconds * 1000)
      return { iso: time.toISOString(), words: dates.format(time) }
    },
  }
}

const readWords = (lang: string) => flatten(readYaml(join(LOCALES, `${lang}.yaml`)))

function flatten(tree: unknown, prefix = ''): Map<string, string> {
  const entries = Object.entries(Object(tree)).flatMap(([key, value]): [string, string][] =>
    typeof value === 'string' ? [[prefix + key, value]] : [...flatten(value, `${prefix}${key}.`)],
  )
  return new Map(entries)
}
