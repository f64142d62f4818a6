// Quantiles of durations.

/** The quantile `share` of the times. */
export function quantile(times: number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

export const median = (times: number[]) => quantile(times, 0.5)
