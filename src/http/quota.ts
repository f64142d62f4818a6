// So much in a time and no more: for what anybody can cause, and what must not fill a disk or a store.

let processes = 1

/** What a machine allows is shared by the processes that it runs (`workers`). */
export function shareAmong(workers: number) {
  processes = workers
}

export const shareOf = (most: number) => Math.ceil(most / processes)

/** Answers whether there is room for one more; afterwards `tell` hears how many had none. */
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
