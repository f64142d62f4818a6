// Authorization details as people read them: the operator's words with an application's values in them.
// Each value is shown, whatever those words leave out.

import type { Settings } from '../../config/load.ts'
import { type Detail, PLACE, valuesIn } from '../../config/schema/details.ts'
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
  const values = valuesIn(detail)

  function shown(path: string): string {
    const texts = file?.fields[path]?.values ?? {}
    const one = (value: unknown) => {
      if (typeof value === 'number') return number(value)
      if (typeof value === 'boolean') return t(value ? 'detail.yes' : 'detail.no')
      const text = String(value)
      return (Object.hasOwn(texts, text) && inWords(words, texts[text])) || text
    }
    return list([values.get(path) ?? ''].flat().map(one))
  }

  // Between the texts stand the names of the places.
  const parts = (inWords(words, file?.description) || detail.type).split(PLACE)
  const isPlace = (_: string, i: number) => i % 2 === 1
  const said = parts.filter(isPlace)
  return {
    sentence: parts.map((part, i) =>
      isPlace(part, i) ? { text: shown(part), isValue: true } : { text: part, isValue: false },
    ),
    facts: [...values.keys()]
      .filter(path => !said.includes(path))
      .map(path => ({
        label: inWords(words, file?.fields[path]?.label) || path,
        value: shown(path),
      })),
    at: resources[file?.resource ?? '']?.resource_name ?? '',
  }
}
