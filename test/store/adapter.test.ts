// Usher's Adapter for the library: the contract of every adapter, and records that are used once.

import type { Adapter } from 'oidc-provider'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
// @ts-expect-error the package has no types for its own adapter; `memoryAdapters` gives it ours
import { createMemoryAdapter } from '../../node_modules/oidc-provider/lib/adapters/memory_adapter.js'
import { alreadyUsed } from '../../src/oidc/adapter/request.ts'
import { moveClock } from '../support/fixtures.ts'
import { type Adapters, adapterSuite, idFor } from './adapter-suite.ts'
import { createLibrary, type Library, RETENTION } from './protocol.ts'
import { fresh } from './store-suite.ts'

const memoryAdapters = (): Adapters => createMemoryAdapter() as (model: string) => Adapter

/** Models that work once, and become tokens. */
const CODES = ['AuthorizationCode', 'DeviceCode', 'BackchannelAuthenticationRequest']
/** Models whose values begin with the id of their grant. */
const TAGGED = ['AuthorizationCode', 'AccessToken']

let library: Library
const adapterOf: Adapters = model => library.adapters(model)
beforeEach(async () => {
  library = await createLibrary()
})
afterEach(() => library.close())

adapterSuite('the library’s memory adapter', async () => memoryAdapters())
adapterSuite('our adapter, outside of a request', async () => adapterOf)
adapterSuite('our adapter, in a request', async () => {
  const request = library.request()
  return model => {
    const adapter = adapterOf(model)
    return {
      upsert: (id, payload, ttl) => request.run(() => adapter.upsert(id, payload, ttl)),
      find: id => request.run(() => adapter.find(id)),
      findByUid: uid => request.run(async () => adapter.findByUid(uid)),
      findByUserCode: code => request.run(async () => adapter.findByUserCode(code)),
      consume: id => request.run(() => adapter.consume(id)),
      destroy: id => request.run(() => adapter.destroy(id)),
      revokeByGrantId: id => request.run(() => adapter.revokeByGrantId(id)),
    }
  }
})

test('find returns a copy that the library can change', async () => {
  for (const model of ['AccessToken', 'Grant', 'Interaction', 'Session']) {
    const [id, uid] = [idFor(model), fresh()]
    const payload = { jti: id, uid, accountId: 'a', clientId: 'b', deep: { kept: true } }
    await adapterOf(model).upsert(id, payload, 60)
    const found = await adapterOf(model).find(id)
    Object.assign(found?.deep ?? {}, { kept: false })
    Object.assign(payload.deep, { kept: false })
    expect(await adapterOf(model).find(id), model).toMatchObject({ deep: { kept: true } })
  }
})

describe.each([...CODES, 'PushedAuthorizationRequest'])('%s', model => {
  test('one of 50 concurrent uses succeeds, and the others get an error', async () => {
    for (let round = 0; round < 3; round++) {
      const grantId = fresh()
      const jti = idFor(model, grantId)
      await adapterOf(model).upsert(jti, { jti, grantId, exp: 4_000_000_000 }, 60)
      const uses = await Promise.allSettled(
        Array.from({ length: 50 }, () =>
          library.request().run(() => adapterOf(model).consume(jti)),
        ),
      )
      expect(uses.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      for (const use of uses) {
        if (use.status === 'fulfilled') continue
        expect(use.reason).toEqual(alreadyUsed(model))
      }
    }
  })

  test('a missing, destroyed or expired record cannot be consumed, and an attempt does not create it', async () => {
    const [missing, destroyed, expired] = [idFor(model), idFor(model), idFor(model)]
    await adapterOf(model).upsert(destroyed, { jti: destroyed }, 60)
    await adapterOf(model).destroy(destroyed)
    await adapterOf(model).upsert(expired, { jti: expired }, 60)
    moveClock(RETENTION + 200)
    for (const jti of [missing, destroyed, expired]) {
      await expect(adapterOf(model).consume(jti)).rejects.toEqual(alreadyUsed(model))
      expect(await adapterOf(model).find(jti)).toBeUndefined()
    }
  })

  test('a consumed record stays consumed when it is saved again', async () => {
    const jti = idFor(model)
    await adapterOf(model).upsert(jti, { jti }, 60)
    await adapterOf(model).consume(jti)
    await adapterOf(model).upsert(jti, { jti, saved: 'again' }, 60)
    expect(await adapterOf(model).find(jti)).toMatchObject({
      saved: 'again',
      consumed: expect.any(Number),
    })
    await expect(adapterOf(model).consume(jti)).rejects.toEqual(alreadyUsed(model))
  })
})

test.each(CODES)('%s: a second use ends the grant', async model => {
  const [grantId, other] = [fresh(), fresh()]
  const jti = idFor(model, grantId)
  const grant = { accountId: 'usr_ada', clientId: 'web' }
  await adapterOf('Grant').upsert(grantId, { ...grant, jti: grantId }, 60)
  await adapterOf('Grant').upsert(other, { ...grant, jti: other }, 60)
  await adapterOf(model).upsert(jti, { jti, grantId, exp: 4_000_000_000 }, 60)
  await adapterOf(model).consume(jti)
  expect(await adapterOf('Grant').find(grantId)).toBeDefined()
  await expect(adapterOf(model).consume(jti)).rejects.toEqual(alreadyUsed(model))

  expect(await adapterOf('Grant').find(grantId)).toBeUndefined()
  expect(await adapterOf('Grant').find(other)).toBeDefined()
})

test('a code or token with the tag of another grant is not found', async () => {
  for (const model of TAGGED) {
    const jti = idFor(model)
    await adapterOf(model).upsert(jti, { jti, grantId: fresh() }, 60)
    expect(await adapterOf(model).find(jti)).toBeUndefined()
  }
})

test('a pushed request can still be used at the end of a long interaction', async () => {
  const jti = fresh()
  await adapterOf('PushedAuthorizationRequest').upsert(jti, { jti, exp: 1 }, 60)
  moveClock(RETENTION)
  // The library decides by `exp` whether the request may still begin an interaction.
  expect(await adapterOf('PushedAuthorizationRequest').find(jti)).toEqual({ jti, exp: 1 })
  await adapterOf('PushedAuthorizationRequest').consume(jti)
  await expect(adapterOf('PushedAuthorizationRequest').consume(jti)).rejects.toThrow()
})

describe('a user code', () => {
  test('leads to one device code during its lifetime', async () => {
    const userCode = fresh()
    const ids = Array.from({ length: 50 }, () => idFor('DeviceCode'))
    const claims = await Promise.allSettled(
      ids.map(jti => adapterOf('DeviceCode').upsert(jti, { jti, userCode }, 60)),
    )
    const winners = ids.filter((_, i) => claims[i]?.status === 'fulfilled')
    expect(winners).toHaveLength(1)
    const found = await adapterOf('DeviceCode').findByUserCode(userCode)
    expect(found).toMatchObject({ jti: winners[0] })
    for (const jti of ids.filter(id => id !== winners[0])) {
      expect(await adapterOf('DeviceCode').find(jti)).toBeUndefined()
    }
  })

  test('can be issued again after its lifetime', async () => {
    const [first, second] = [idFor('DeviceCode'), idFor('DeviceCode')]
    const userCode = fresh()
    await adapterOf('DeviceCode').upsert(first, { jti: first, userCode }, 60)
    moveClock(180)
    await adapterOf('DeviceCode').upsert(second, { jti: second, userCode }, 60)
    const found = await adapterOf('DeviceCode').findByUserCode(userCode)
    expect(found).toMatchObject({ jti: second })
  })
})

describe('an interaction', () => {
  const USED = alreadyUsed('Interaction')
  const save = (jti: string, change: object = {}) =>
    adapterOf('Interaction').upsert(jti, { jti, ...change }, 60)

  test('has the same answer with an undefined member, which JSON omits', async () => {
    const jti = fresh()
    await save(jti)
    const result = { error: 'access_denied', error_description: undefined }
    await save(jti, { result })
    await expect(save(jti, { result })).resolves.toBeUndefined()
  })

  test('is over when it has ended: nothing is written after it, not even by an earlier request', async () => {
    const jti = fresh()
    await save(jti)
    await adapterOf('Interaction').destroy(jti)
    for (const change of [{}, { result: { login: { accountId: 'usr_ada' } } }]) {
      await expect(save(jti, change)).rejects.toEqual(USED)
    }
    expect(await adapterOf('Interaction').find(jti)).toBeUndefined()
    await expect(adapterOf('Interaction').destroy(fresh())).rejects.toEqual(USED)
  })
})
