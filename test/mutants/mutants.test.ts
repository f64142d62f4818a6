// The list of mutants fits the source: `npm run mutants` skips a row whose text has changed.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
const rows: { file: string; text: string; becomes: string }[] = parse(
  readFileSync(join(import.meta.dirname, 'mutants.yaml'), 'utf8'),
)
const withoutIndentation = (text: string) => text.replaceAll(/^\s+/gm, '')

test('each mutant quotes a text that occurs once in its file', () => {
  const occurrences = ({ file, text }: { file: string; text: string }) =>
    withoutIndentation(readFileSync(join(ROOT, file), 'utf8')).split(withoutIndentation(text))
      .length - 1
  const stale = rows.filter(row => occurrences(row) !== 1)
  expect(stale.map(({ file, text }) => `${file}: ${text}`)).toEqual([])
})

test('at least 200 mutants are listed, half of them in oidc/, store/ and sign-in/', () => {
  expect(rows.length).toBeGreaterThanOrEqual(200)
  const core = rows.filter(({ file }) => /^src\/(oidc|store|sign-in)\//.test(file))
  expect(core.length).toBeGreaterThanOrEqual(rows.length / 2)
})
