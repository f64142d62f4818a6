// When each client of the folder last got a token: noted in memory, written at most once an hour.

import { afterEach, expect, vi } from 'vitest'
import { createClientUses, readClientUses } from '../../src/operation/client-uses.ts'
import { moveClock, usher, usherTest } from '../support/fixtures.ts'
import { refresh, tokens } from '../support/journey.ts'

const test = usherTest({})
afterEach(() => void vi.restoreAllMocks())

const HOUR_SECONDS = 3600
const useOf = async (clientId: string) => (await readClientUses(usher.records, [clientId]))[0]
const seconds = () => Math.floor(Date.now() / 1000)

/** Runs a round of the delivery queue. Returns how many records it wrote. */
async function writesOfRound(): Promise<number> {
  const write = vi.spyOn(usher.store, 'write')
  await usher.deliver('again')
  const { length } = write.mock.calls
  write.mockRestore()
  return length
}

test('a token is a use, which the next round writes, once an hour', async () => {
  expect(await useOf('web')).toBeUndefined()
  const first = await tokens(usher)
  expect(await useOf('web')).toBeUndefined()
  expect(await writesOfRound()).toBe(1)
  const at = (await useOf('web')) ?? 0
  expect(Math.abs(seconds() - at)).toBeLessThan(60)
  const second = await refresh(usher, first.refresh_token)
  expect(second.status).toBe(200)
  expect(await writesOfRound()).toBe(0)
  moveClock(HOUR_SECONDS)
  expect((await refresh(usher, second.body.refresh_token)).status).toBe(200)
  expect(await writesOfRound()).toBe(1)
  expect(await useOf('web')).toBe(seconds())
})

test('two processes write one time; a round that fails is repeated; other clients are not noted', async () => {
  const clients = [{ client_id: 'a' }] as Parameters<typeof createClientUses>[1]['clients']
  const [one, two] = [1, 2].map(() => createClientUses(usher.records, { clients }))
  const round = (uses = one) => uses?.deliver(undefined, 'again')
  for (const uses of [one, two]) for (const id of ['a', 'stranger', undefined]) uses?.note(id)
  const write = vi.spyOn(usher.store, 'write')
  write.mockRejectedValueOnce(new Error('gone'))
  await expect(round(one)).rejects.toThrow('gone')
  await round(one)
  expect(await useOf('a')).toBeDefined()
  await round(two)
  expect(write).toHaveBeenCalledTimes(2)
  expect(await useOf('stranger')).toBeUndefined()
})
