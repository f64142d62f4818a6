// Random bytes, a few at a time: each call of `randomBytes` takes as long as one for hundreds of them.

import { randomBytes } from 'node:crypto'

const STOCK = 4096

/** Answers so many; nobody else is given the same. */
export function createRandom(): (size: number) => Buffer {
  let stock = Buffer.alloc(0)
  return size => {
    if (stock.length < size) stock = randomBytes(STOCK)
    const taken = stock.subarray(0, size)
    stock = stock.subarray(size)
    return taken
  }
}
