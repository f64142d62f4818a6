// The queue in which sign-ins wait for their turn, filled by a test of the same process.

import { admit } from '../../src/sign-in/password.ts'

/** More than wait on a machine with four hashing threads and the shortest expected work. */
const MORE_THAN_ENOUGH = 5000

/** Fills the queue from one network. Returns the function that ends the work in it. */
export function fillQueue(ip: string): () => Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const request = {
    ip,
    socket: { writable: true },
    throw: () => {
      throw new Error('the queue is full')
    },
  }
  const all = Array.from({ length: MORE_THAN_ENOUGH }, () =>
    admit(request, () => promise).catch(() => {}),
  )
  return () => {
    resolve()
    return Promise.all(all)
  }
}
