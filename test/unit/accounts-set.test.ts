// `accounts set` changes only the given fields of the account.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const CLI = `${import.meta.dirname}/../../src/cli.ts`
const folder = mkdtempSync(join(tmpdir(), 'usher-set-'))

function usher(...args: string[]): string {
  const env = { PATH: process.env.PATH, USHER_CONFIG: folder, USHER_STORE: `sqlite:${folder}/u.db` }
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  return execFileSync(process.execPath, [CLI, ...args], {
    env,
    stdio: [...stdio],
    encoding: 'utf8',
  })
}
const show = (): unknown => JSON.parse(usher('accounts', 'show', 'ada', '--json'))

beforeAll(() => {
  writeFileSync(join(folder, 'claims.yaml'), 'claims: {}\n')
  const profile = ['--username', 'ada', '--name', 'Ada', '--email', 'ada@example.org']
  usher('accounts', 'add', ...profile, '--email-verified', '--attributes', '{"level": 3}')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('a new name does not change the verified address and the attributes', () => {
  usher('accounts', 'set', 'ada', '--name', 'Ada Lovelace')
  expect(show()).toMatchObject({
    name: 'Ada Lovelace',
    email: 'ada@example.org',
    email_verified: true,
    attributes: { level: 3 },
  })
})
