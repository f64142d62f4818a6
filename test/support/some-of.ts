// Long lists of attacks and orders: `npm test` takes a part of each, and another part every day, so that each
// entry has its turn. `ALL=1 npm test` takes all of them, as `.ci/run` does. `FUZZ_SEED=N` repeats the part of a day.

const DAY_MS = 24 * 3600 * 1000

/** Chooses the parts. Default: the number of the day. */
export const SEED = Number(process.env.FUZZ_SEED ?? Math.floor(Date.now() / DAY_MS))

/** Whether lists are taken as a whole. */
export const isWhole = process.env.ALL === '1'

/** Prints which part is taken. Called by vitest before the first test of `npm test`. */
export function setup(): void {
  const lists = isWhole ? 'whole' : `the part of FUZZ_SEED=${SEED}`
  process.stderr.write(`Long lists: ${lists} (test/support/some-of.ts)\n`)
}

/** Returns one of `parts` parts of the list. */
export function someOf<T>(list: T[], parts = 10): T[] {
  const { first, step } = placesOf(parts)
  return list.filter((_, i) => i % step === first)
}

/** Returns one entry of the list, another one each week: of stores, on which all of a file runs. */
export function oneOf<T>(list: T[]): T[] {
  return isWhole ? list : list.filter((_, i) => i === Math.floor(SEED / 7) % list.length)
}

/** Returns the first place and the step of a loop over one of `parts` parts, or over the whole. */
export function placesOf(parts: number, isPart = !isWhole): { first: number; step: number } {
  return isPart ? { first: SEED % parts, step: parts } : { first: 0, step: 1 }
}

/**
 * As `placesOf`, for orders of store operations. The callers make an order, which is the same on each store: on SQLite
 * `ALL=1` takes a part, too.
 */
export const placesOn = (store: string, parts: number) =>
  placesOf(parts, !isWhole || store === 'SQLite')
