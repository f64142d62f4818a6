// A short run of `npm run compare`.

import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { run } from '../support/command.ts'

// Ends a run that hangs.
vi.setConfig({ testTimeout: 600_000 })

const ROOT = join(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'usher-compared-'))
afterAll(() => rmSync(folder, { recursive: true }))

const SHORT = ['--walks', '4', '--steps', '30', '--seed', '7']
const compare = (other: string, store = 'sqlite') =>
  run(['test/compare/run.ts', other, '--store', store, ...SHORT])

test.each(['sqlite', 'redis'])('a checkout is like itself, on %s', async store => {
  const { stdout, stderr, code } = await compare('.', store)
  expect(code, stdout + stderr).toBe(0)
  expect(stdout).toBe('No difference.\n')
})

test('a checkout with another attribute of cookies differs', async () => {
  cpSync(join(ROOT, 'src'), join(folder, 'src'), { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const file of globSync(join(folder, 'src/**/*.ts'))) {
    const source = readFileSync(file, 'utf8')
    writeFileSync(file, source.replaceAll("sameSite: 'lax'", "sameSite: 'strict'"))
  }
  const { stdout, code } = await compare(folder)
  expect(code).toBe(1)
  expect(stdout).toMatch(/The sides differ: walk \d, step \d+\. To repeat it:\n {2}npm run compare/)
  expect(stdout).toMatch(/^── .*samesite=strict/m)
})
