// Polls the config folder for changes. Unlike file notifications, this works for mounts and links.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { atOnce, inSlices, type Steps } from './slices.ts'

/** Changes are reported when nothing else changed for this long. */
const SETTLE_MS = 1000

/** Calls `changed`, which never rejects, once for all files that are saved together. Never ends. */
export async function watchFolder(folder: string, changed: () => Promise<void>): Promise<never> {
  let inForce = atOnce(fingerprint(folder))
  for (let last = inForce; ; ) {
    await setTimeout(SETTLE_MS, undefined, { ref: false })
    const seen = await inSlices(fingerprint(folder))
    const isSettled = seen === last
    last = seen
    if (!isSettled || seen === inForce) continue
    inForce = seen
    await changed()
  }
}

/** Returns a text that changes with every file that is read. Hidden files (editors, git) are not read. */
function* fingerprint(path: string, depth = 2): Steps<string> {
  yield
  try {
    const stat = statSync(path)
    const names = depth > 0 && stat.isDirectory() ? readdirSync(path) : []
    const below: string[] = []
    for (const name of names.filter(name => !name.startsWith('.'))) {
      below.push(yield* fingerprint(join(path, name), depth - 1))
    }
    return [path, stat.ino, stat.size, stat.mtimeMs, ...below].join()
  } catch {
    // The reader of the file reports the problem.
    return path
  }
}
