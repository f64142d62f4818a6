// The words people read, by language; keys are `page.thing`.

import { readYaml } from '../config/files.ts'

/** `{name}` in the words is replaced by the value of that name. */
export type Translate = (key: string, values?: Record<string, string>) => string

export interface Words {
  lang: string
  /** Empty where there are no words: for keys that are made from data. */
  t: Translate
}

export function createWords(): Words {
  const en = flatten(readYaml(`${import.meta.dirname}/locales/en.yaml`))
  return {
    lang: 'en',
    t(key, values = {}) {
      const words = en.get(key)
      if (words === undefined) return ''
      return words.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '')
    },
  }
}

function flatten(tree: unknown, prefix = ''): Map<string, string> {
  const entries = Object.entries(Object(tree)).flatMap(([key, value]): [string, string][] =>
    typeof value === 'string'
      ? [[prefix + key, value]]
      : [...flatten(value, `${prefix}${key}.`).entries()],
  )
  return new Map(entries)
}
