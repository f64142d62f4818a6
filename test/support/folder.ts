// A folder of a test file.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** Makes a folder that is removed after all tests of the file, and after what it starts has been stopped. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'usher-test-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
