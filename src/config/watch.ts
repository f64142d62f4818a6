// Polls the config folder for changes. Unlike file notifications, this works for mounts and links.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Changes are reported when nothing else changed for this long. */
const SETTLE_MS = 1000

/** Calls `changed` once for all files that are saved together. */
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
  }, SETTLE_MS).unref()
}

/** Returns a text that changes with every file that is read. Hidden files (editors, git) are not read. */
function fingerprint(path: string, depth = 2): string {
  try {
    const stat = statSync(path)
    const names = depth > 0 && stat.isDirectory() ? readdirSync(path) : []
    const below = names
      .filter(name => !name.startsWith('.'))
      .map(name => fingerprint(join(path, name), depth - 1))
    return [path, stat.ino, stat.size, stat.mtimeMs, ...below].join()
  } catch {
    // The reader of the file reports the problem.
    return path
  }
}
