// Fixed-window rate limiter, per process.

let processes = 1

/** Limits of a machine are shared by the processes that it runs (`workers`). */
export function shareAmong(workers: number) {
  processes = workers
}

export const shareOf = (most: number) => Math.ceil(most / processes)

/**
 * Returns a function that answers whether the quota has room for one more. `tell` gets the number of
 * refusals after each window.
 */
export function createQuota(most: number, seconds: number, tell: (over: number) => void) {
  const ours = shareOf(most)
  let count = 0
  const begin = () => {
    const over = count - ours
    count = 0
    if (over > 0) tell(over)
  }
  return (): boolean => {
    if (count++ === 0) setTimeout(begin, seconds * 1000).unref()
    return count <= ours
  }
}
