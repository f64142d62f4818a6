// The patches of docs/upstream.md apply to the library as it is installed.

import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const text = readFileSync(join(ROOT, 'docs/upstream.md'), 'utf8')
const patches = globSync('upstream/*.patch', { cwd: join(ROOT, 'docs') }).toSorted()

test('the page has each patch, for the version that is installed', () => {
  const library = readFileSync(join(ROOT, 'node_modules/oidc-provider/package.json'), 'utf8')
  expect(text).toContain(`for version ${JSON.parse(library).version}`)
  expect(patches.length).toBeGreaterThanOrEqual(4)
  expect(patches.filter(path => !text.includes(`](${path})`))).toEqual([])
})

test.each(patches)('%s applies', path => {
  // Not in the repository: git would look for the files among its own.
  const folder = mkdtempSync(join(tmpdir(), 'usher-upstream-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(join(ROOT, 'node_modules/oidc-provider/lib'), join(folder, 'lib'), { recursive: true })
  const patch = join(ROOT, 'docs', path)
  const apply = () => execFileSync('git', ['apply', patch], { cwd: folder, stdio: 'pipe' })
  expect(apply).not.toThrow()
  expect(apply).toThrow('patch does not apply')
})
