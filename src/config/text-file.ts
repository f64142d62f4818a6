// Files that operators point at. Only what is a file is opened: reading a pipe would wait for ever.

import { lstatSync, readFileSync, statSync } from 'node:fs'

const LARGEST = 1024 * 1024

/** Its text, or what is the matter with it; never throws. */
export function readText(file: string): { text?: string; problem?: string } {
  const { bytes, problem } = readBytes(file)
  try {
    return { text: bytes && new TextDecoder('utf-8', { fatal: true }).decode(bytes), problem }
  } catch {
    return { problem: 'is not UTF-8 text' }
  }
}

/** The same for what is no text. */
export function readBytes(file: string): { bytes?: Buffer; problem?: string } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'is not a file' }
    if (stat.size > LARGEST) return { problem: 'is larger than 1 MiB' }
    return { bytes: readFileSync(file) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return { problem: 'cannot be read' }
    const isLink = lstatSync(file, { throwIfNoEntry: false })
    return { problem: isLink ? 'is a link that leads nowhere' : 'is not there' }
  }
}
