// The glossary: documents, messages and comments use the field's terms.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import glossary from '../glossary.json' with { type: 'json' }
import { pages } from '../support/documents.ts'

const ROOT = join(import.meta.dirname, '../..')
const { words } = glossary

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

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

/** Pages, and files that operators and developers copy. */
const FILES = ['Dockerfile', 'config/**/*.yaml', 'docs/**/*.{yaml,json,conf,service,ts}']
const copied = globSync(FILES, { cwd: ROOT, exclude: ['**/node_modules/**'] })
const documents = [...pages, ...copied.map(path => [path, read(path)] as const)]

test.each(documents)('%s uses the words of the glossary', (path, text) => {
  expect(wrong(path, text)).toEqual([])
})

const sources = globSync('src/**/*.{ts,lua,eta,json}', { cwd: ROOT }).concat(
  'src/pages/locales/en.yaml',
)

/** Exports without a docstring on the line above. */
function undocumented(path: string): string[] {
  if (!path.endsWith('.ts')) return []
  const lines = read(path).split('\n')
  return lines.flatMap((line, index) =>
    /^export (async )?(function|class|interface|type|const) \w/.test(line) &&
    !/\*\/$/.test(lines[index - 1] ?? '')
      ? [`${path}:${index + 1} ${line}`]
      : [],
  )
}

const findings = sources.flatMap(path => [...wrong(path, read(path)), ...undocumented(path)])

test('src uses the words of the glossary, and each of its exports has a docstring', () => {
  expect(findings).toEqual([])
})
