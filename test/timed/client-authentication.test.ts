// The duration of a failed client authentication must not reveal which clients exist.

import { expect, onTestFinished, test } from 'vitest'
import { startUsher } from '../support/usher.ts'
import { basic, send } from '../support/wire.ts'

const ROUNDS = 120
const WARM_UP_ROUNDS = 20
const MAX_DIFFERENCE_MS = 2
const BODY = { grant_type: 'refresh_token', refresh_token: 'x' }

test('an unknown client and a wrong secret are refused in the same time', async () => {
  const usher = await startUsher()
  onTestFinished(() => usher.close())
  const times: Record<string, number[]> = { web: [], unknown: [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [client_id, list] of Object.entries(times)) {
      const started = performance.now()
      const headers = basic(client_id, 'wrong')
      const { status } = await send(usher, '/api/oauth/token', { body: BODY, headers })
      if (round >= WARM_UP_ROUNDS) list.push(performance.now() - started)
      expect(status).toBe(401)
    }
  }
  const median = (list: number[] = []) => list.sort((a, b) => a - b)[list.length >> 1] ?? 0
  expect(Math.abs(median(times.web) - median(times.unknown))).toBeLessThan(MAX_DIFFERENCE_MS)
})
