// What many times have in common, and whether one can tell two kinds of them apart.

/** `share` of them are at most this. */
export function quantile(times: number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

export const median = (times: number[]) => quantile(times, 0.5)

/**
 * How often one of the first is longer than one of the second, or the other way round: the area under
 * the ROC curve. 0.5: they cannot be told apart.
 */
export function auc(first: number[], second: number[]): number {
  let longer = 0
  for (const a of first) for (const b of second) longer += a > b ? 1 : a === b ? 0.5 : 0
  const share = longer / (first.length * second.length)
  return Math.max(share, 1 - share)
}
