// Looks at the folder, so that what is saved is taken in. Looking works where notifications do not:
// mounts, links.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Milliseconds for which nothing may change before what was saved is taken in. */
const SETTLE = 1000

/** Calls `changed` once for what was saved together. */
export function watchFolder(folder: string, changed: () => void): void {
  let inForce = fingerprint(folder)
  let last = inForce
  setInterval(() => {
    const seen = fingerprint(folder)
    const isSettled = seen === last
    last = seen
    if (!isSettled || seen === inForce) return
    inForce = seen
    changed()
  }, SETTLE).unref()
}

/** Changes whenever a file does that is read: none lies deeper, or is called `.…` (editors, git). */
function fingerprint(path: string, depth = 2): string {
  try {
    const stat = statSync(path)
    const names = depth > 0 && stat.isDirectory() ? readdirSync(path) : []
    const below = names
      .filter(name => !name.startsWith('.'))
      .map(name => fingerprint(join(path, name), depth - 1))
    return [path, stat.ino, stat.size, stat.mtimeMs, ...below].join()
  } catch {
    // What cannot be looked at is told by whoever reads it.
    return path
  }
}
