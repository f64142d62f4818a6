// The operator's words for the pages: locales/XX.yaml has some of a language, or all of another one.

import { parse } from 'node:path'
import { type FileResult, readFile } from './files.ts'
import type { Finding } from './report/finding.ts'
import { ENGLISH, flatten, type Locales, shippedTags, shippedWords } from './schema/locale.ts'
import { tagProblem } from './schema/values.ts'

/** The operator's words; what is wrong, and what they leave in English, goes to the reports. */
export function readLocales(files: string[], findings: Finding[], warnings: Finding[]): Locales {
  const locales: Locales = {}
  for (const file of files) {
    const tag = parse(file).name
    const problem = tagProblem(tag)
    if (problem) findings.push({ file, rule: 'language', message: `the name ${problem}` })
    const read = readFile(file, 'locale')
    findings.push(...read.findings)
    locales[tag] = flatten(read.value)
    const isNew = !problem && !shippedTags.includes(tag.split('-')[0] ?? '')
    if (isNew && read.value) warnings.push(...untranslated(read, locales[tag]))
  }
  return locales
}

function untranslated({ file }: FileResult<object>, given: Record<string, string>): Finding[] {
  const missing = Object.keys(shippedWords(ENGLISH)).filter(key => !(key in given))
  const [first] = missing
  if (!first) return []
  const message = `${missing.length} texts are said in English, the first is ${first}: translate them too, src/pages/locales/en.yaml has them all`
  return [{ file, rule: 'untranslated', message }]
}
