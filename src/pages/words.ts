// The words people read, by language; keys are `page.thing`.

import { readYaml } from '../config/document.ts'

/** `{name}` in the words is replaced by the value of that name. */
export type Translate = (key: string, values?: Record<string, string>) => string

/** `t` is empty where there are no words: for keys that are made from data. */
export function createWords() {
  const en = flatten(readYaml(`${import.meta.dirname}/locales/en.yaml`))
  const t: Translate = (key, values = {}) =>
    (en.get(key) ?? '').replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '')
  return { lang: 'en', t }
}

function flatten(tree: unknown, prefix = ''): Map<string, string> {
  const entries = Object.entries(Object(tree)).flatMap(([key, value]): [string, string][] =>
    typeof value === 'string' ? [[prefix + key, value]] : [...flatten(value, `${prefix}${key}.`)],
  )
  return new Map(entries)
}
