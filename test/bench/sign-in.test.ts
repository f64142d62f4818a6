// A short version of what `npm run test:sign-in` measures. The demands are answers and ratios, which do
// not depend on the speed of the machine.

import { expect, test, vi } from 'vitest'
import { ON_SQLITE, THREE_ON_REDIS } from '../races/deployment.ts'
import { measureAlike } from './alike.ts'
import { measureFlood } from './flood.ts'
import { measureGuesses } from './guesses.ts'

// Ends a test that hangs. 1,800 sign-ins with password hashes take minutes beside other work.
vi.setConfig({ testTimeout: 600_000 })

test('a failed sign-in takes as long, whether it was looked at or not', async () => {
  const results = await measureAlike(10)
  // What hashes nothing, and does not wait, is done in a tenth of the time.
  const least = (results[0]?.median ?? 0) * 0.4
  for (const { kind, median } of results) expect(median, kind).toBeGreaterThan(least)
})

test('of 200 guesses over three nodes five are looked at, and the owner gets in meanwhile', async () => {
  const { looked, allowed, tried, in: got } = await measureGuesses(THREE_ON_REDIS)
  expect(looked).toBeGreaterThan(0)
  expect(looked).toBeLessThanOrEqual(allowed)
  expect(tried).toBeGreaterThan(0)
  expect(got).toBe(tried)
})

test('in a flood of sign-ins every token is renewed, and every sign-in answered', async () => {
  const results = await measureFlood(ON_SQLITE, 3)
  expect(results).toHaveLength(3)
  for (const { answers } of results) {
    expect(Object.keys(answers).filter(answer => !['400', '503'].includes(answer))).toEqual([])
  }
})
