// The most likely mistakes of operators, and their reports. A folder of mistakes/ has the files that
// differ from those in `right`, variables in `environment`, and the expected report. `npm test -- -u` writes
// the report. Read it: it must help an operator.

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { validate } from '../../src/commands/config.ts'
import { formatReport } from '../../src/config/report/finding.ts'
import { PRODUCTION } from '../support/config-folder.ts'

const MISTAKES = join(import.meta.dirname, 'mistakes')
const names = readdirSync(MISTAKES).filter(name => name !== 'right')
const { USHER_SECRET } = PRODUCTION

/** The findings for `right` with the files and variables of `name`. */
async function check(name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'usher-mistake-'))
  try {
    for (const from of ['right', name]) {
      cpSync(join(MISTAKES, from), folder, { recursive: true })
    }
    const file = join(folder, 'environment')
    const env = { USHER_SECRET, ...(existsSync(file) && parseEnv(readFileSync(file, 'utf8'))) }
    const { findings, warnings } = await validate(folder, env)
    const text = [
      ...(findings.length ? [formatReport(findings, 'problem')] : []),
      ...(warnings.length ? [formatReport(warnings, 'warning')] : []),
    ].join('\n')
    return { findings, text: text.replaceAll(folder, 'config') }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('the folder `right` has no errors and no warnings', async () => {
  expect((await check('right')).text).toBe('')
})

test('there are at least thirty mistakes', () => {
  expect(names.length).toBeGreaterThan(30)
})

/** Folders with several mistakes, or with warnings. */
const SEVERAL = ['several', 'unwise']

test.each(names)('%s: the report is the expected one, of few findings', async name => {
  const { text, findings } = await check(name)
  expect(text).not.toBe('')
  expect(text).not.toContain('hunter2')
  await expect(text).toMatchFileSnapshot(join(MISTAKES, name, 'report.txt'))
  if (SEVERAL.includes(name)) return
  expect(findings.length).toBeGreaterThan(0)
  expect(findings.length).toBeLessThan(4)
  for (const { file, rule } of findings) {
    expect(file).toBeTruthy()
    expect(rule).toMatch(/^[a-z]+(-[a-z]+)*$/)
  }
})
