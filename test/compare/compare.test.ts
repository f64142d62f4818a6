// A short run of `npm run compare`.

import { cpSync, globSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { run } from '../support/command.ts'
import { temporaryFolder } from '../support/folder.ts'

// Ends a run that hangs.
vi.setConfig({ testTimeout: 600_000 })

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()

const SHORT = ['--walks', '4', '--steps', '30', '--seed', '7']
const compare = (other: string, store: string) =>
  run(['test/compare/run.ts', other, '--store', store, ...SHORT])

/** Creates a checkout whose sources have `other` in place of `text`. */
function checkoutWith(text: string, other: string): string {
  const checkout = mkdtempSync(join(folder, 'checkout-'))
  cpSync(join(ROOT, 'src'), join(checkout, 'src'), { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(checkout, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'))
  for (const file of globSync(join(checkout, 'src/**/*.ts'))) {
    const source = readFileSync(file, 'utf8')
    if (source.includes(text)) writeFileSync(file, source.replaceAll(text, other))
  }
  return checkout
}

test('a checkout is like itself, on Redis', async () => {
  const { stdout, stderr, code } = await compare('.', 'redis')
  expect(code, stdout + stderr).toBe(0)
  expect(stdout).toBe('No difference.\n')
})

test('a checkout with another help is alike in every walk on SQLite, and differs in a command', async () => {
  const { stdout, code } = await compare(checkoutWith('add an account;', 'add a user;'), 'sqlite')
  expect(code).toBe(1)
  expect(stdout).toContain('The sides differ: usher help.')
})

test('a checkout with another attribute of cookies differs', async () => {
  const checkout = checkoutWith("sameSite: 'lax'", "sameSite: 'strict'")
  const { stdout, code } = await compare(checkout, 'sqlite')
  expect(code).toBe(1)
  expect(stdout).toMatch(/The sides differ: walk \d, step \d+\. To repeat it:\n {2}npm run compare/)
  expect(stdout).toMatch(/^── .*samesite=strict/m)
})
