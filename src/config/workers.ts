// The number of processes, which the primary process of several reads without
// the schemas and rules of the folder: it needs no other setting.

import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'

/** `workers` of usher.yaml. */
export type Workers = number | 'auto'

/** Returns the number of processes. */
export const countOf = (workers: Workers): number =>
  workers === 'auto' ? availableParallelism() : workers

/**
 * Whether usher.yaml asks for several processes. False for a file with a
 * mistake: the one process reports it.
 */
export function hasWorkers(folder: string): boolean {
  try {
    const { workers } = parse(readFileSync(join(folder, 'usher.yaml'), 'utf8'))
    return countOf(workers) > 1
  } catch {
    return false
  }
}
