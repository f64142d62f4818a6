// What is asked in one turn of the event loop, and what becomes of each question.

import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { inTurns } from '../../src/storage/turns.ts'

/** Doubles, and remembers how it was asked; `until`: what it waits for before it answers. */
function doubling(most = 100, until: () => Promise<void> = async () => {}) {
  const asked: number[][] = []
  const ask = inTurns(async (questions: number[]) => {
    asked.push(questions)
    await until()
    if (questions.includes(13)) throw new Error('thirteen')
    return questions.map(question => question * 2)
  }, most)
  return { asked, ask }
}

test('questions of one turn are asked together, each has its own answer, in any order', async () => {
  const { asked, ask } = doubling()
  expect(await Promise.all([3, 1, 2, 1].map(ask))).toEqual([6, 2, 4, 2])
  expect(asked).toEqual([[3, 1, 2, 1]])
})

test('no more than so many at once', async () => {
  const { asked, ask } = doubling(2)
  expect(await Promise.all([1, 2, 3, 4, 5].map(ask))).toEqual([2, 4, 6, 8, 10])
  expect(asked).toEqual([[1, 2], [3, 4], [5]])
})

test('what is asked while an answer is on its way waits for it, and goes together', async () => {
  const first = Promise.withResolvers<void>()
  const { asked, ask } = doubling(100, () =>
    asked.length === 1 ? first.promise : Promise.resolve(),
  )
  const early = ask(1)
  await setImmediate()
  const late = [ask(2), ask(3)]
  await setImmediate()
  expect(asked).toEqual([[1]])
  first.resolve()
  expect(await early).toBe(2)
  expect(await Promise.all(late)).toEqual([4, 6])
  expect(asked).toEqual([[1], [2, 3]])
})

test('what fails fails for those that were asked with it and those that wait, and for nobody after', async () => {
  const { asked, ask } = doubling(2)
  const outcomes = await Promise.allSettled([1, 13, 3].map(ask))
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(asked).toEqual([[1, 13]])
  expect(await ask(4)).toBe(8)
})
