// A few rounds of each race on three processes with one Redis, and of each kind of retry.
// `npm run harness -- races` plays thousands of rounds on every deployment.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BEHIND_LINKS, type Deployment, deploy, THREE_ON_REDIS } from '../deployment.ts'
import { ALL_RACES, clientsOf, settingsOf } from './experiments.ts'
import { playRounds, type Race } from './race.ts'
import { RETRIES } from './retries.ts'

const RETRY_ROUNDS = 25
const RACE_TURNS = [
  { n: 8, rounds: 3 },
  { n: 50, rounds: 1 },
]

function turnsOf(race: Race) {
  if (!RETRIES.includes(race)) return RACE_TURNS
  const n = clientsOf(race)
  return [{ n, rounds: Math.ceil(RETRY_ROUNDS / n) }]
}

describe.each([
  ['with a grace of 30 s', THREE_ON_REDIS, ALL_RACES.filter(({ grace }) => !grace)],
  ['with a grace of 0 s', THREE_ON_REDIS, ALL_RACES.filter(({ grace }) => grace)],
  ['behind links that lose replies', BEHIND_LINKS, RETRIES],
])('%s', (_, shape, races) => {
  let deployment: Deployment
  beforeAll(async () => {
    deployment = await deploy(shape, settingsOf(races[0] as Race))
  })
  afterAll(() => deployment.stop())

  test.each(races)('$proves: concurrent requests, $artefact', async race => {
    for (const { n, rounds } of turnsOf(race)) {
      const { violations } = await playRounds(race, deployment, n, rounds)
      expect(violations, `${n} callers`).toEqual([])
    }
  })
})
