import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { FairQueue, QueueFull, RequestGone } from '../../src/sign-in/fair-queue.ts'

const from = (network: string, isGone = () => false) => ({ network, isGone })

/** One place, and work of 25 ms until some was measured: four may wait. */
const newQueue = (concurrency = 1) => new FairQueue({ concurrency, maxWaitMs: 100 })

/** Fills the place of a queue. Returns the function that frees it. */
function hold(queue: FairQueue) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const held = queue.run(from('holder'), () => promise)
  return () => {
    resolve()
    return held
  }
}

/** Waits with names as work. Returns those that ran, in order, and the outcomes. */
function waitAll(queue: FairQueue, names: string[]) {
  const ran: string[] = []
  const outcomes = names.map(name =>
    queue
      .run(from(name.charAt(0)), async () => void ran.push(name))
      .then(
        () => 'ran',
        error => error,
      ),
  )
  return { ran, outcomes: Promise.all(outcomes) }
}

test('work returns its result, and its error', async () => {
  const queue = newQueue()
  expect(await queue.run(from('a'), async () => 1)).toBe(1)
  const failing = queue.run(from('a'), async () => Promise.reject(new Error('no')))
  await expect(failing).rejects.toThrow('no')
  expect(await queue.run(from('a'), async () => 2)).toBe(2)
})

test('as much work runs at the same time as there are places', async () => {
  const queue = newQueue(2)
  const release = [hold(queue), hold(queue)]
  const { ran, outcomes } = waitAll(queue, ['a'])
  await setImmediate()
  expect(ran).toEqual([])
  await release[0]?.()
  expect(await outcomes).toEqual(['ran'])
  await release[1]?.()
})

test('networks take turns, and the requests of one stay in order', async () => {
  const queue = newQueue()
  const release = hold(queue)
  const { ran, outcomes } = waitAll(queue, ['a1', 'a2', 'b1', 'c1'])
  await release()
  await outcomes
  expect(ran).toEqual(['a1', 'b1', 'c1', 'a2'])
})

test('work that would wait for too long is refused', async () => {
  const queue = newQueue()
  const release = hold(queue)
  const { ran, outcomes } = waitAll(queue, ['a1', 'a2', 'a3', 'a4', 'a5'])
  await release()
  expect(await outcomes).toEqual(['ran', 'ran', 'ran', 'ran', expect.any(QueueFull)])
  expect(ran).toHaveLength(4)
})

test('a flood from one network makes room for others, last come first', async () => {
  const queue = newQueue()
  const release = hold(queue)
  const { ran, outcomes } = waitAll(queue, ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'd1', 'e1'])
  await release()
  const refused = expect.any(QueueFull)
  expect(await outcomes).toEqual(['ran', refused, refused, refused, 'ran', 'ran', 'ran', refused])
  expect(ran).toEqual(['a1', 'b1', 'c1', 'd1'])
})

test('work whose request has ended does not run, and takes no turn', async () => {
  const queue = newQueue()
  const release = hold(queue)
  let hasRun = false
  const gone = queue.run(
    from('a', () => true),
    async () => {
      hasRun = true
    },
  )
  const { ran, outcomes } = waitAll(queue, ['b1'])
  await Promise.all([release(), expect(gone).rejects.toThrow(RequestGone)])
  expect(await outcomes).toEqual(['ran'])
  expect(ran).toEqual(['b1'])
  expect(hasRun).toBe(false)
})

test('the expected wait follows how long the work takes', async () => {
  const queue = newQueue()
  for (let i = 0; i < 60; i++) await queue.run(from('a'), async () => {})
  const release = hold(queue)
  // Work is expected to take 5 ms at least: twenty may wait, where four might before.
  const { outcomes } = waitAll(
    queue,
    Array.from({ length: 30 }, (_, i) => `a${i}`),
  )
  await release()
  const ran = (await outcomes).filter(outcome => outcome === 'ran')
  expect(ran.length).toBeGreaterThanOrEqual(20)
  expect(ran.length).toBeLessThan(30)
})
