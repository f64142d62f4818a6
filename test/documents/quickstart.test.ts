// Runs the commands of docs/quickstart.md against the service as `npm start` starts it.

import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linkProject } from '../support/documents.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type Service, startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = temporaryFolder()
let service: Service

beforeAll(async () => {
  service = await startService({ USHER_STORE: `sqlite:${join(folder, 'usher.db')}` })
})
afterAll(() => service.stop())

test('the commands of the quickstart work as described and leave nothing behind', async () => {
  const blocks = [
    ...readFileSync(join(ROOT, 'docs/quickstart.md'), 'utf8').matchAll(/```sh journey\n(.*?)```/gs),
  ]
  expect(blocks.length).toBe(8)
  const script = blocks.map(([, block]) => block).join('\n')
  // Runs in a folder like that of the project.
  linkProject(folder, 'config')
  const before = readdirSync(folder).toSorted()
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder,
    env: service.env,
  })
  const lines = stdout.split('\n')
  expect(lines[0]).toMatch(/^usr_[0-9a-z]{26}$/)
  expect(lines).toContain('<h1>Sign in</h1>')
  expect(lines).toContain('<h1>Allow access</h1>')
  expect(stdout).toMatch(/callback\?code=[\w-]+&state=af0ifjsldkj&iss=/)
  const claims = '"preferred_username":"ada","name":"Ada Lovelace","email":"ada@example.org"'
  expect(stdout.split(claims).length).toBe(3)
  expect(stdout.trimEnd()).toMatch(/\n401$/)
  expect(readdirSync(folder).toSorted()).toEqual(before)
})
