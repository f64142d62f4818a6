// Work on one record runs in order, and a failure reaches the right callers.

import { expect, test } from 'vitest'
import { SerialQueue } from '../../src/store/records.ts'
import { StoreUnavailable } from '../../src/store/store.ts'

/** Work that ends when the test says so. */
function createWork(log: string[], name: string) {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const run = () => {
    log.push(name)
    return promise
  }
  return { run, resolve, reject }
}

const nextTurn = () => new Promise(resolve => setImmediate(resolve))

test('work on one name runs one at a time, in order', async () => {
  const queue = new SerialQueue()
  const log: string[] = []
  const first = createWork(log, 'first')
  const second = createWork(log, 'second')
  const results = [queue.run('a', first.run), queue.run('a', second.run)]
  await nextTurn()
  expect(log).toEqual(['first'])
  first.resolve('1')
  await nextTurn()
  expect(log).toEqual(['first', 'second'])
  second.resolve('2')
  expect(await Promise.all(results)).toEqual(['1', '2'])
})

test('work on two names runs at the same time', async () => {
  const queue = new SerialQueue()
  const log: string[] = []
  void queue.run('a', createWork(log, 'a').run)
  void queue.run('b', createWork(log, 'b').run)
  await nextTurn()
  expect(log).toEqual(['a', 'b'])
})

test('a name is busy until its last work has ended', async () => {
  const queue = new SerialQueue()
  const work = [createWork([], 'first'), createWork([], 'second')]
  const results = work.map(({ run }) => queue.run('a', run))
  expect([queue.isBusy('a'), queue.isBusy('b')]).toEqual([true, false])
  work[0]?.resolve('')
  await results[0]
  expect(queue.isBusy('a')).toBe(true)
  work[1]?.resolve('')
  await results[1]
  expect(queue.isBusy('a')).toBe(false)
})

test('an error reaches its caller alone', async () => {
  const queue = new SerialQueue()
  const failed = queue.run('a', () => Promise.reject(new Error('mine')))
  const next = queue.run('a', async () => 'done')
  await expect(failed).rejects.toThrow('mine')
  expect(await next).toBe('done')
})

test('an unavailable store fails everything that waits, and nothing that comes later', async () => {
  const queue = new SerialQueue()
  let runs = 0
  const failed = queue.run('a', () => Promise.reject(new StoreUnavailable('away')))
  const waiting = [1, 2].map(() => queue.run('a', async () => ++runs))
  const results = await Promise.allSettled([failed, ...waiting])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(runs).toBe(0)
  expect(queue.isBusy('a')).toBe(false)
  expect(await queue.run('a', async () => ++runs)).toBe(1)
})
