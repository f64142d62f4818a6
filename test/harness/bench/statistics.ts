// Statistics of durations: quantiles, and the difference between two samples.

/** The quantile `share` of the times. */
export function quantile(times: number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

export const median = (times: number[]) => quantile(times, 0.5)

/**
 * The area under the ROC curve: the probability that a time of one sample is longer than a time of the
 * other. 0.5 means that the samples cannot be distinguished.
 */
export function auc(first: number[], second: number[]): number {
  let longer = 0
  for (const a of first) {
    for (const b of second) {
      if (a > b) longer += 1
      if (a === b) longer += 0.5
    }
  }
  const share = longer / (first.length * second.length)
  return Math.max(share, 1 - share)
}
