// The words of the glossary: documents, messages and comments use the field's terms.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import glossary from '../glossary.json' with { type: 'json' }
import { pages } from '../support/documents.ts'

const ROOT = join(import.meta.dirname, '../..')
const { words, pending } = glossary

/** Words in capitals are names of constants. */
const patterns = Object.entries(words).map(([word, use]) => ({
  pattern: new RegExp(`\\b${word}\\b`, word === word.toUpperCase() ? '' : 'i'),
  hint: `${word}: use ${use}`,
}))

const wrong = (path: string, text: string) =>
  text
    .split('\n')
    .flatMap((line, index) =>
      patterns
        .filter(({ pattern }) => pattern.test(line))
        .map(({ hint }) => `${path}:${index + 1} ${hint}`),
    )

const isPending = (path: string) => pending.some(place => path.startsWith(place))

/** Generated from descriptions in src/config/schema and src/commands. */
const isGenerated = (path: string) => path.startsWith('docs/reference/') && pending.length > 0

const documents = [...pages].filter(([path]) => !isGenerated(path) && !path.startsWith('test/'))

test.each(documents)('%s uses the words of the glossary', (path, text) => {
  expect(wrong(path, text)).toEqual([])
})

const sources = globSync('src/**/*.{ts,lua,eta}', { cwd: ROOT }).concat('src/pages/locales/en.yaml')

test('src uses the words of the glossary', () => {
  const found = sources
    .filter(path => !isPending(path))
    .flatMap(path => wrong(path, readFileSync(join(ROOT, path), 'utf8')))
  expect(found).toEqual([])
})

test('every pending folder still has something to fix; otherwise take it off the list', () => {
  const found = sources.flatMap(path => [
    ...wrong(path, readFileSync(join(ROOT, path), 'utf8')),
    ...undocumented(path),
  ])
  expect(pending.filter(place => !found.some(line => line.startsWith(place)))).toEqual([])
})

/** Exports without a docstring on the line above. */
function undocumented(path: string): string[] {
  if (!path.endsWith('.ts')) return []
  const lines = readFileSync(join(ROOT, path), 'utf8').split('\n')
  return lines.flatMap((line, index) =>
    /^export (async )?(function|class|interface|type|const) \w/.test(line) &&
    !/\*\/$/.test(lines[index - 1] ?? '')
      ? [`${path}:${index + 1} ${line}`]
      : [],
  )
}

test('every exported function, class, type and constant has a docstring', () => {
  const found = sources.filter(path => !isPending(path)).flatMap(undocumented)
  expect(found).toEqual([])
})
