// An interaction is answered once and resumed once.

import type { Adapter } from 'oidc-provider'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { alreadyUsed } from '../../src/oidc/adapter/request.ts'
import { createLibrary, type Library } from './protocol.ts'
import { fresh } from './store-suite.ts'

let library: Library
let interactions: Adapter
beforeAll(async () => {
  library = await createLibrary()
  interactions = library.adapters('Interaction')
})
afterAll(() => library.close())

const USED = alreadyUsed('Interaction')
const ADA = { login: { accountId: 'usr_ada', amr: ['pwd'] } }
const GRACE = { login: { accountId: 'usr_grace', amr: ['pwd'] } }

/** Saves an interaction as the authorization endpoint does. Returns its id, and `save` for an answer. */
async function begin() {
  const jti = fresh()
  const save = (change: object = {}) => interactions.upsert(jti, { jti, ...change }, 60)
  await save()
  return { jti, save, find: () => interactions.find(jti) }
}

describe('the answer to an interaction', () => {
  test('is accepted once; a double click does no harm', async () => {
    const { save, find } = await begin()
    await save({ result: ADA })
    await save({ result: structuredClone(ADA) })
    expect(await find()).toMatchObject({ result: ADA })
  })

  test('is refused if it differs from the first one, and then changes nothing', async () => {
    const { save, find } = await begin()
    await save({ result: ADA })
    for (const result of [GRACE, { error: 'access_denied' }, undefined]) {
      await expect(save({ result })).rejects.toEqual(USED)
    }
    expect(await find()).toMatchObject({ result: ADA })
  })

  test('is accepted once if different answers arrive at the same time', async () => {
    for (let round = 0; round < 3; round++) {
      const { save, find } = await begin()
      const answers = Array.from({ length: 8 }, (_, n) => ({ login: { accountId: `usr_${n}` } }))
      const saved = await Promise.allSettled(answers.map(result => save({ result })))
      const winners = answers.filter((_, i) => saved[i]?.status === 'fulfilled')
      expect(winners).toHaveLength(1)
      expect(await find()).toMatchObject({ result: winners[0] })
    }
  })

  test('is the same with an undefined member, which JSON omits', async () => {
    const { save } = await begin()
    const result = { error: 'access_denied', error_description: undefined }
    await save({ result })
    await expect(save({ result })).resolves.toBeUndefined()
  })
})

describe('the end of an interaction', () => {
  test('is reached by one of 50 concurrent resumes, and the others fail', async () => {
    for (let round = 0; round < 3; round++) {
      const { jti, find } = await begin()
      const ends = await Promise.allSettled(
        Array.from({ length: 50 }, () => interactions.destroy(jti)),
      )
      const losers = ends.filter(end => end.status === 'rejected')
      expect(losers).toHaveLength(49)
      for (const { reason } of losers) expect(reason).toEqual(USED)
      expect(await find()).toBeUndefined()
    }
  })

  test('is final: nothing is written after it, not even by an earlier request', async () => {
    const { jti, save, find } = await begin()
    await interactions.destroy(jti)
    for (const change of [{}, { result: ADA }]) {
      await expect(save(change)).rejects.toEqual(USED)
    }
    expect(await find()).toBeUndefined()
  })

  test('fails for an unknown interaction', async () => {
    await expect(interactions.destroy(fresh())).rejects.toEqual(USED)
  })
})
