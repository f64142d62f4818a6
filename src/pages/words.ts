// The words people read, by language; keys are `page.thing`. A file of `locales/` is a language, and
// so is one of the operator's.

import { ENGLISH, type Locales, shippedTags, shippedWords } from '../config/schema/locale.ts'

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
  /** The same; of the last day, how long ago it was: the hour is another one where the person is. */
  ago(seconds: number): { iso: string; words: string }
  /** Of a time to come, in how many minutes it is. */
  ahead(seconds: number): { iso: string; words: string }
  number(value: number): string
  /** Of texts by language tag, the one in this language. */
  pick(texts: Record<string, string>): string | undefined
  /** One, two and three. */
  list(items: string[]): string
}

export type Languages = ReturnType<typeof createLanguages>

/** Read when somebody speaks it: each is a few hundredths of a second at the start, and a megabyte. */
const shipped: Locales = {}
function shippedIn(tag: string): Locales[string] {
  shipped[tag] ??= shippedTags.includes(tag) ? shippedWords(tag) : {}
  return shipped[tag]
}

/** The tag and those it is a variety of, lower case, the most special first (RFC 4647 §3.4). */
const wider = (tag: string) => {
  const parts = tag.toLowerCase().split('-', 4)
  return parts.map((_, i) => parts.slice(0, parts.length - i).join('-'))
}

/** Minutes. */
const DAY = 24 * 60

/** Scripts that are written from right to left. */
const RTL = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u

/** `own`: the operator's words, which go before ours. */
export function createLanguages(own: Locales = {}) {
  const others = [...shippedTags, ...Object.keys(own)].toSorted()
  const tags = [...new Set([ENGLISH, ...others])]
  const written = new Map(tags.map(tag => [tag.toLowerCase(), tag]))
  const spoken = new Map<string, Words>()
  const layersOf = (tag: string) =>
    [...wider(tag), ENGLISH].flatMap(name => written.get(name) ?? []).toReversed()
  const speak = (tag: string): Words => {
    const known = spoken.get(tag)
    if (known) return known
    const layers = layersOf(tag).flatMap(layer => [shippedIn(layer), own[layer] ?? {}])
    const words = createWords(tag, Object.assign({}, ...layers))
    spoken.set(tag, words)
    return words
  }
  const find = (tag: string): Words | undefined => {
    const name = wider(tag).find(name => written.has(name))
    return name === undefined ? undefined : speak(written.get(name) ?? name)
  }

  return {
    tags,
    /** The language of this tag, or the one it is a variety of: `de` for `de-CH`. */
    find,
    english: speak(ENGLISH),
  }
}

function createWords(lang: string, words: Record<string, string>): Words {
  const dates = new Intl.DateTimeFormat(lang, { dateStyle: 'long', timeZone: 'UTC' })
  const recent = new Intl.RelativeTimeFormat(lang, { numeric: 'auto' })
  const numbers = new Intl.NumberFormat(lang, { maximumFractionDigits: 20 })
  const lists = new Intl.ListFormat(lang)
  const rules = new Intl.PluralRules(lang)
  const dir = new Intl.Locale(lang).getTextInfo().direction === 'rtl' ? 'rtl' : 'ltr'
  // A name that is written the other way round takes none of the sentence along.
  const isolated = (value = '') =>
    value && RTL.test(value) !== (dir === 'rtl') ? `\u2068${value}\u2069` : value
  const t: Translate = (key, values = {}) => {
    const text = Object.hasOwn(words, key) ? (words[key] ?? '') : ''
    return text.replaceAll(/\{(\w+)\}/g, (_, name: string) => isolated(values[name]))
  }
  const date = (seconds: number) => {
    const time = new Date(seconds * 1000)
    return { iso: time.toISOString(), words: dates.format(time) }
  }
  return {
    lang,
    dir,
    t,
    plural(key, number) {
      const count = numbers.format(number)
      return t(`${key}.${rules.select(number)}`, { count }) || t(`${key}.other`, { count })
    },
    date,
    ago(seconds) {
      const minutes = Math.max(0, Math.floor((Date.now() / 1000 - seconds) / 60))
      if (minutes >= DAY) return date(seconds)
      const hours = Math.floor(minutes / 60)
      const words = hours ? recent.format(-hours, 'hour') : recent.format(-minutes, 'minute')
      return { ...date(seconds), words }
    },
    ahead(seconds) {
      const minutes = Math.max(0, Math.ceil((seconds - Date.now() / 1000) / 60))
      return { ...date(seconds), words: recent.format(minutes, 'minute') }
    },
    pick(texts) {
      const byTag = new Map(Object.entries(texts).map(([tag, text]) => [tag.toLowerCase(), text]))
      return wider(lang)
        .map(tag => byTag.get(tag))
        .find(Boolean)
    },
    number: value => numbers.format(value),
    list: items => lists.format(items),
  }
}
