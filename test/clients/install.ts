// Installs the client libraries of this folder, while other tests run. They are a package of their own, so that the
// installation of Usher stays small.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = import.meta.dirname
/** npm writes it at the end of an installation. */
const INSTALLED = join(FOLDER, 'node_modules/.package-lock.json')
const WANTED = join(FOLDER, 'package-lock.json')

/** Whether all libraries of the lock file are installed. */
export const isInstalled = () =>
  existsSync(INSTALLED) && statSync(INSTALLED).mtimeMs >= statSync(WANTED).mtimeMs

/** Starts `npm ci` if the lock file is newer than the installation. The returned function waits for its end. */
export function setup(): (() => Promise<unknown>) | undefined {
  if (isInstalled()) return undefined
  console.info('test/clients: npm ci')
  const options = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  const npm = spawn('npm', options, { cwd: FOLDER, stdio: ['ignore', 'ignore', 'inherit'] })
  const exited = once(npm, 'exit')
  return () => exited
}
