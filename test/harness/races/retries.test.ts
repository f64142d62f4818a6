// A few retries of each kind. `npm run test:races` plays 500.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { BEHIND_LINKS, type Deployment, deploy } from './deployment.ts'
import { playRounds } from './race.ts'
import { CLIENTS_AT_ONCE, RETRIES } from './retries.ts'

const ROUNDS = 25

let deployment: Deployment
beforeAll(async () => {
  deployment = await deploy(BEHIND_LINKS, { refresh_token_grace: '30 s' })
})
afterAll(() => deployment.stop())

test.each(RETRIES)('$proves: $artefact', async race => {
  const n = CLIENTS_AT_ONCE.get(race) ?? 1
  const { violations } = await playRounds(race, deployment, n, Math.ceil(ROUNDS / n))
  expect(violations).toEqual([])
})
