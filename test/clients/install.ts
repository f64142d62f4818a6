// Installs the client libraries of this folder before its tests run. They are a package of their own, so that
// the installation of Usher stays small.

import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = import.meta.dirname
const INSTALLED = join(FOLDER, 'node_modules/.package-lock.json')
const WANTED = join(FOLDER, 'package-lock.json')

/** Runs `npm ci` if the lock file is newer than the installation. Throws if npm fails. */
export function setup(): void {
  if (existsSync(INSTALLED) && statSync(INSTALLED).mtimeMs >= statSync(WANTED).mtimeMs) return
  console.info('test/clients: npm ci')
  const options = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync('npm', options, { cwd: FOLDER, stdio: ['ignore', 'ignore', 'inherit'] })
}
