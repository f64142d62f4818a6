// Prints at the start of `npm test` which part of the long lists it takes.

import { isWhole, SEED } from './some-of.ts'

/** Called by vitest before the first test. */
export function setup(): void {
  const lists = isWhole ? 'whole' : `the part of FUZZ_SEED=${SEED}`
  process.stderr.write(`Long lists: ${lists} (test/support/some-of.ts)\n`)
}
