// A few rounds of each race, on three processes with one Redis. `npm run test:races` plays thousands of rounds
// on every deployment.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Deployment, deploy, THREE_ON_REDIS } from './deployment.ts'
import { PAGE_RACES } from './page-races.ts'
import { playRounds } from './race.ts'
import { SESSION_RACES } from './session-races.ts'
import { TOKEN_RACES } from './token-races.ts'

const races = [...TOKEN_RACES, ...PAGE_RACES, ...SESSION_RACES]

describe.each(['30 s', '0 s'])('with a grace of %s', grace => {
  let deployment: Deployment
  beforeAll(async () => {
    deployment = await deploy(THREE_ON_REDIS, { refresh_token_grace: grace })
  })
  afterAll(() => deployment.stop())

  test.each(races.filter(race => race.grace === grace))(
    '$proves: concurrent requests, $artefact',
    async race => {
      for (const [n, rounds] of [
        [8, 3],
        [50, 1],
      ] as const) {
        const { violations } = await playRounds(race, deployment, n, rounds)
        expect(violations, `${n} callers`).toEqual([])
      }
    },
  )
})
