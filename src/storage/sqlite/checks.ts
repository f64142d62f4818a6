// Whether a SQLite file can be trusted with an installation.

import { statfsSync, statSync } from 'node:fs'
import type { Check } from '../store.ts'

/** Bytes. */
const LITTLE_SPACE = 256 * 2 ** 20

export const checkFile = (file: string) => [freeSpace(file), permissions(file)]

function freeSpace(file: string): Check {
  const { bavail, bsize } = statfsSync(file)
  const free = bavail * bsize
  const check = { name: 'disk', found: `${Math.floor(free / 2 ** 20)} MiB free` }
  if (free > LITTLE_SPACE) return { ...check, state: 'ok' }
  return { ...check, state: 'warning', mend: `make room on the disk of ${file}` }
}

function permissions(file: string): Check {
  const mode = statSync(file).mode & 0o777
  const check = { name: 'permissions', found: mode.toString(8) }
  if ((mode & 0o077) === 0) return { ...check, state: 'ok' }
  return { ...check, state: 'warning', mend: `chmod 600 ${file}` }
}
