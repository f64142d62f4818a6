// Requests that wait for the next turn of the event loop.

import { expect, test } from 'vitest'
import { nextTurn } from '../../src/store/turns.ts'

test('requests that arrive in one turn go on together, step by step', async () => {
  const steps: string[] = []
  async function handle(request: string) {
    await nextTurn()
    steps.push(`${request} is read`)
    await undefined
    steps.push(`${request} is answered`)
  }
  await Promise.all(['one', 'two'].map(handle))
  expect(steps).toEqual(['one is read', 'two is read', 'one is answered', 'two is answered'])
})

test('each turn is waited for: a request that arrives later waits for another one', async () => {
  const first = nextTurn()
  await first
  let isOver = false
  setImmediate(() => {
    isOver = true
  })
  await nextTurn()
  expect(isOver).toBe(true)
})
