// So much in a time and no more: for what anybody can cause, and what must not fill a disk or a store.

/** Answers whether there is room for one more; afterwards `tell` hears how many had none. */
export function createQuota(most: number, seconds: number, tell: (over: number) => void) {
  let count = 0
  const begin = () => {
    const over = count - most
    count = 0
    if (over > 0) tell(over)
  }
  return (): boolean => {
    if (count++ === 0) setTimeout(begin, seconds * 1000).unref()
    return count <= most
  }
}
