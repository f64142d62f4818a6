// Files and folders on the disk: their content, or what is wrong with them in
// words that end a sentence about the file.

import { isUtf8 } from 'node:buffer'
import {
  type Dirent,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs'
import type { Finding } from './report/finding.ts'

const MAX_FILE_BYTES = 1024 * 1024

/** The problem of a file that does not exist. */
export const NOT_FOUND = 'was not found'

/**
 * Returns the text of a file of at most 1 MiB, or what is wrong with the file.
 * Never throws.
 */
export function readText(file: string): { text?: string; problem?: string } {
  const { bytes, problem } = readBytes(file)
  if (!bytes) return { problem }
  if (!isUtf8(bytes)) return { problem: 'is not UTF-8 text' }
  return { text: new TextDecoder().decode(bytes) }
}

/**
 * Returns the bytes of a file of at most 1 MiB, or what is wrong with the file.
 * Never throws.
 */
export function readBytes(file: string): { bytes?: Buffer; problem?: string } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'is not a file' }
    if (stat.size > MAX_FILE_BYTES) return { problem: 'is larger than 1 MiB' }
    return { bytes: readFileSync(file) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      return { problem: 'cannot be read' }
    const isLink = lstatSync(file, { throwIfNoEntry: false })
    if (isLink) return { problem: 'is a link to a file that does not exist' }
    return { problem: NOT_FOUND }
  }
}

/**
 * Returns the entries of a folder; none if the folder cannot be read, which is
 * a finding if it exists.
 */
export function entriesOf(folder: string, findings: Finding[] = []): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const message = 'cannot be read as a folder'
    if (code !== 'ENOENT')
      findings.push({ file: folder, rule: 'folder', message })
    return []
  }
}
