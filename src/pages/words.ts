// The texts of the pages, by language; keys are `page.thing`. Each file of
// `locales/`, here and in the operator's folder, is a language.

import {
  ENGLISH,
  type Locales,
  shippedTags,
  shippedWords,
} from '../config/schema/locale.ts'
import { BOUNDS } from '../oidc/bounds.ts'

/**
 * Returns the text of a key. `{name}` in the text is replaced by the value of
 * that name.
 */
export type Translate = (key: string, values?: Record<string, string>) => string

/** The texts and formats of one language. */
export type Words = ReturnType<typeof createWords>

/** The tag and its prefixes, lower case, the longest first (RFC 4647 §3.4). */
const wider = (tag: string) => {
  const parts = tag.toLowerCase().split('-', 4)
  return parts.map((_, i) => parts.slice(0, parts.length - i).join('-'))
}

const DAY_MINUTES = 24 * 60
/** Locales with formats of their own in memory. A format costs some 10 kB. */
const MAX_LOCALES = BOUNDS.locales.max

/**
 * Returns the locale for dates and numbers: a language with the region of the
 * tag, if that is of this language.
 */
function localeOf(lang: string, tag: string): string {
  if (tag === lang) return lang
  try {
    const own = new Intl.Locale(lang)
    const reader = new Intl.Locale(tag)
    const isRegion =
      !own.region && reader.region && reader.language === own.language
    return isRegion
      ? new Intl.Locale(own, { region: reader.region }).toString()
      : lang
  } catch {
    // A reader may send any text as a tag.
    return lang
  }
}
const MINUTE_FORMAT: Intl.DateTimeFormatOptions = {
  weekday: 'long',
  year: 'numeric',
  month: 'long',
  day: 'numeric',
  hour: 'numeric',
  minute: '2-digit',
  timeZone: 'UTC',
  timeZoneName: 'short',
}

const CLOCK_FORMAT: Intl.DateTimeFormatOptions = {
  hour: 'numeric',
  minute: '2-digit',
  timeZone: 'UTC',
  timeZoneName: 'short',
}

/** Scripts that are written from right to left. */
const RTL =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u

/**
 * Returns the languages. `own`: the operator's texts, which replace Usher's.
 */
export function createLanguages(own: Locales = {}) {
  const others = [...shippedTags, ...Object.keys(own)].toSorted()
  const tags = [...new Set([ENGLISH, ...others])]
  const written = new Map(tags.map(tag => [tag.toLowerCase(), tag]))
  const texts: Record<string, Record<string, string>> = {}
  const spoken: Record<string, Words> = {}
  const textsOf = (tag: string) => {
    const layers = [ENGLISH, ...wider(tag).toReversed()].flatMap(
      name => written.get(name) ?? [],
    )
    return Object.assign(
      {},
      ...layers.flatMap(layer => [shippedWords(layer), own[layer]]),
    )
  }
  /**
   * The texts of a language, with the dates and numbers of a reader's locale:
   * `en` for `en-GB`.
   */
  function speak(tag: string, reader = tag): Words {
    const locale = localeOf(tag, reader)
    const known = spoken[locale]
    if (known) return known
    // A reader may send any region.
    if (locale !== tag && Object.keys(spoken).length >= MAX_LOCALES)
      return speak(tag)
    const own = texts[tag] ?? textsOf(tag)
    texts[tag] = own
    const words = createWords(tag, own, locale)
    spoken[locale] = words
    return words
  }

  return {
    tags,
    /**
     * The language of this tag or of a prefix: `de` for `de-CH`, with the dates
     * and numbers of `de-CH`.
     */
    find(tag: string) {
      const [known] = wider(tag).flatMap(name => written.get(name) ?? [])
      return known === undefined ? undefined : speak(known, tag)
    },
    /**
     * The same language with the dates and numbers of the first of these tags
     * that names its region.
     */
    inRegionOf({ lang }: Words, tags: string[]) {
      const regional = tags.find(tag => localeOf(lang, tag) !== lang)
      return speak(lang, regional)
    },
    english: () => speak(ENGLISH),
  }
}

/** Returns the formats of a locale. The first one of a process takes 5 MB. */
function createFormats(locale: string) {
  return {
    dates: new Intl.DateTimeFormat(locale, {
      dateStyle: 'long',
      timeZone: 'UTC',
    }),
    minutes: new Intl.DateTimeFormat(locale, MINUTE_FORMAT),
    clocks: new Intl.DateTimeFormat(locale, CLOCK_FORMAT),
    recent: new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }),
    numbers: new Intl.NumberFormat(locale, { maximumFractionDigits: 20 }),
    lists: new Intl.ListFormat(locale),
    rules: new Intl.PluralRules(locale),
  }
}

/** `locale`: for dates and numbers. */
function createWords(
  lang: string,
  words: Record<string, string>,
  locale: string,
) {
  let made: ReturnType<typeof createFormats> | undefined
  const formats = () => (made ??= createFormats(locale))
  const { direction: dir = 'ltr' } = new Intl.Locale(lang).getTextInfo()
  // Isolates a value of the other direction, so that it does not reorder the
  // sentence.
  const isolated = (value = '') =>
    value && RTL.test(value) !== (dir === 'rtl')
      ? `\u2068${value}\u2069`
      : value
  const t: Translate = (key, values = {}) => {
    const text = Object.hasOwn(words, key) ? (words[key] ?? '') : ''
    return text.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      isolated(values[name]),
    )
  }
  const date = (seconds: number) => {
    const time = new Date(seconds * 1000)
    return { iso: time.toISOString(), words: formats().dates.format(time) }
  }
  function ago(seconds: number) {
    const minutes = Math.max(0, Math.floor((Date.now() / 1000 - seconds) / 60))
    if (minutes >= DAY_MINUTES) return date(seconds)
    const hours = Math.floor(minutes / 60)
    const { recent } = formats()
    const words = hours
      ? recent.format(-hours, 'hour')
      : recent.format(-minutes, 'minute')
    return { ...date(seconds), words }
  }
  const pick = (texts: Record<string, string>) => {
    const byTag = new Map(
      Object.entries(texts).map(([tag, text]) => [tag.toLowerCase(), text]),
    )
    const found = wider(lang).map(tag => byTag.get(tag))
    return found.find(Boolean)
  }
  return {
    /** BCP 47. */
    lang,
    dir,
    /** Returns an empty text for an unknown key, which may come from data. */
    t,

    /**
     * The text of `key.one`, `key.other` or another plural form of the
     * language, with `{count}`.
     */
    plural(key: string, number: number) {
      const { numbers, rules } = formats()
      const count = numbers.format(number)
      return (
        t(`${key}.${rules.select(number)}`, { count }) ||
        t(`${key}.other`, { count })
      )
    },

    /** The day (UTC) of a time in epoch seconds, as ISO 8601 and as text. */
    date,

    /** A time in epoch seconds as text, with its minute and time zone (UTC). */
    minute: (seconds: number) =>
      formats().minutes.format(new Date(seconds * 1000)),

    /**
     * Like `date`. For the last 24 hours, the text says how long ago: the
     * user's time zone is unknown.
     */
    ago,

    /**
     * Like `ago`, below the heading of its day: the text has the hour and the
     * minute (UTC).
     */
    time(seconds: number) {
      const { iso } = date(seconds)
      const isRecent = Date.now() / 1000 - seconds < DAY_MINUTES * 60
      const clock = formats().clocks.format(new Date(seconds * 1000))
      return { iso, words: isRecent ? ago(seconds).words : clock }
    },

    /** Like `date`. The text says in how many minutes the time is. */
    ahead(seconds: number) {
      const minutes = Math.max(0, Math.ceil((seconds - Date.now() / 1000) / 60))
      return {
        ...date(seconds),
        words: formats().recent.format(minutes, 'minute'),
      }
    },

    /** Returns the text in this language, from texts by language tag. */
    pick,

    /**
     * Returns an operator's text in this language or in English; empty if
     * neither exists.
     */
    textOf: (text: string | Record<string, string> = '') =>
      typeof text === 'string' ? text : pick(text) || text.en || '',

    number: (value: number) => formats().numbers.format(value),

    /** Joins items: one, two and three. */
    list: (items: string[]) => formats().lists.format(items),
  }
}
