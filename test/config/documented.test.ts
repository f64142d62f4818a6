// The client files in docs/applications are valid, and have no warnings in production.

import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { readFolder } from '../../src/config/load.ts'
import { COMPLETE, PRODUCTION, withFolder } from '../support/config-folder.ts'

const ROOT = join(import.meta.dirname, '../..')
const BLOCK = /^```yaml (?:client|wiki)\n(.*?)^```/gms
const files = globSync('docs/applications/*.md', { cwd: ROOT }).flatMap(path =>
  [...readFileSync(join(ROOT, path), 'utf8').matchAll(BLOCK)].map(([, yaml = '']) => {
    return { name: basename(path, '.md'), yaml }
  }),
)

test('docs/applications has client files', () => expect(files.length).toBeGreaterThan(10))

test.each(files)('the client file of $name has no warning', async ({ yaml }) => {
  const folder = { 'usher.yaml': 'proxy: [10.0.0.1]', 'claims.yaml': COMPLETE.claims }
  const reading = await withFolder({ ...folder, 'clients/one.yaml': yaml }, path =>
    readFolder(PRODUCTION, path),
  )
  expect(reading.warnings).toEqual([])
})
