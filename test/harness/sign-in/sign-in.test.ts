// A short version of `npm run harness -- sign-in`. It checks responses and ratios, which do not depend on the speed
// of the machine.

import { expect, test, vi } from 'vitest'
import { ON_SQLITE, THREE_ON_REDIS, withDeployment } from '../deployment.ts'
import { FLOOD_SETTINGS, measureFlood } from './flood.ts'
import { GUESSES_SETTINGS, measureGuesses } from './guesses.ts'
import { measureTiming, TIMING_SETTINGS } from './timing.ts'

// Ends a test that hangs. On a busy machine, 1,800 sign-ins with password hashes take minutes.
vi.setConfig({ testTimeout: 600_000 })

test('a failed sign-in takes the same time with and without a check of the password', async () => {
  const results = await withDeployment(ON_SQLITE, TIMING_SETTINGS, deployment =>
    measureTiming(deployment, 10),
  )
  for (const { kind, median } of results) expect(median, kind).toBeGreaterThan(990)
})

test('three nodes check five of 200 concurrent guesses, and the user can sign in', async () => {
  const guesses = await withDeployment(THREE_ON_REDIS, GUESSES_SETTINGS, measureGuesses)
  const { checked, allowed, tried, succeeded } = guesses
  expect(checked).toBeGreaterThan(0)
  expect(checked).toBeLessThanOrEqual(allowed)
  expect(tried).toBeGreaterThan(0)
  expect(succeeded).toBe(tried)
})

test('in a flood of sign-ins every refresh succeeds, and every sign-in gets a response', async () => {
  const results = await withDeployment(ON_SQLITE, FLOOD_SETTINGS, deployment =>
    measureFlood(deployment, 3),
  )
  expect(results).toHaveLength(3)
  for (const { answers } of results) {
    expect(Object.keys(answers).filter(answer => !['400', '503'].includes(answer))).toEqual([])
  }
})
