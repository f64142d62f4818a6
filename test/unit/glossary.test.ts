// The words of the glossary: documents, messages and comments use the field's terms.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import glossary from '../glossary.json' with { type: 'json' }
import { pages } from '../support/documents.ts'

const ROOT = join(import.meta.dirname, '../..')
const { words, remaining } = glossary

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

/** Generated from descriptions in src/config/schema and src/commands, where they are counted. */
const isGenerated = (path: string) => path.startsWith('docs/reference/')

const documents = [...pages].filter(([path]) => !isGenerated(path) && !path.startsWith('test/'))

test.each(documents)('%s uses the words of the glossary', (path, text) => {
  expect(wrong(path, text)).toEqual([])
})

const sources = globSync('src/**/*.{ts,lua,eta}', { cwd: ROOT }).concat('src/pages/locales/en.yaml')

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

const findings = sources.flatMap(path => [
  ...wrong(path, readFileSync(join(ROOT, path), 'utf8')),
  ...undocumented(path),
])

/** `remaining` in glossary.json: findings that a folder may still have. It only goes down. */
const allowed = new Map(Object.entries(remaining))
const folderOf = (line: string) => line.split(/[/:]/).slice(0, 2).join('/')

test('src uses the words of the glossary, and each of its exports has a docstring', () => {
  const folders = Map.groupBy(findings, folderOf)
  const over = [...folders].filter(([folder, lines]) => lines.length > (allowed.get(folder) ?? 0))
  expect(over.flatMap(([, lines]) => lines)).toEqual([])
})
