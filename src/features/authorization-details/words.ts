// Authorization details on the pages: the operator's sentence with the client's values in it, and every
// other value with its label.

import type { Settings } from '../../config/load.ts'
import { type Detail, describedIn, PLACE, valuesIn } from '../../config/schema/details.ts'
import type { DetailInWords } from '../../pages/page-data.ts'
import { inWords } from '../../pages/scope-words.ts'
import type { Words } from '../../pages/words.ts'

export function detailWords(
  words: Words,
  { details, resources }: Pick<Settings, 'details' | 'resources'>,
  detail: Detail,
): DetailInWords {
  const { t, number, list } = words
  const file = details[detail.type]
  const values = new Map(valuesIn(detail))

  const label = (path: string) => inWords(words, file?.labels[path])

  function shown(path: string): string {
    const one = (value: unknown) => {
      if (typeof value === 'number') return number(value)
      if (typeof value === 'boolean') return t(value ? 'detail.yes' : 'detail.no')
      return label(`${path}.${value}`) || String(value)
    }
    return list([values.get(path) ?? ''].flat().map(one))
  }

  function nameOf(path: string): string {
    const described = file && describedIn(file.schema).find(property => property.path === path)
    return label(path) || described?.title || path
  }

  // PLACE splits a sentence into texts and, between them, the names of properties.
  const parts = (inWords(words, file?.description) || detail.type).split(PLACE)
  const isPlace = (_: string, i: number) => i % 2 === 1
  const said = parts.filter(isPlace)
  return {
    sentence: parts.map((part, i) =>
      isPlace(part, i) ? { text: shown(part), isValue: true } : { text: part, isValue: false },
    ),
    facts: [...values.keys()]
      .filter(path => !said.includes(path))
      .map(path => ({ label: nameOf(path), value: shown(path) })),
    at: resources[file?.resource ?? '']?.resource_name ?? '',
  }
}
