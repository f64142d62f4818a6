// The library's Adapter contract. The library's own memory adapter passes this suite, too, which shows
// that the suite tests nothing but the contract.

import { randomBytes } from 'node:crypto'
import type { Adapter } from 'oidc-provider'
import { beforeEach, describe, expect, test } from 'vitest'
import { valueUnderGrant } from '../../src/oidc/adapter/grants.ts'
import { fresh } from './store-suite.ts'

export type Adapters = (model: string) => Adapter
/** Models with a `grantId`, which end with their grant. Refresh tokens have their own test. */
export const TOKENS = [
  'AccessToken',
  'AuthorizationCode',
  'DeviceCode',
  'BackchannelAuthenticationRequest',
] as const

/** Makes the calls with which the library revokes a grant. */
export const revoke = (adapters: Adapters, grantId: string) =>
  Promise.all([
    ...TOKENS.map(model => adapters(model).revokeByGrantId(grantId)),
    adapters('Grant').destroy(grantId),
  ])

/** A new id for a model. The id of a token begins with the id of its grant. */
export const idFor = (model: string, id = fresh()) =>
  TOKENS.some(name => name === model) ? valueUnderGrant(id) : id

/** `open` is called before each test, and returns the adapters of an empty store. */
export function adapterSuite(name: string, open: () => Promise<Adapters>): void {
  describe(name, () => {
    let adapters: Adapters
    beforeEach(async () => {
      adapters = await open()
    })

    test.each([...TOKENS, 'Grant', 'Interaction', 'PushedAuthorizationRequest', 'ReplayDetection'])(
      '%s: a saved record is found until it is destroyed',
      async model => {
        const [id, other] = [idFor(model), idFor(model)]
        const payload = {
          jti: id,
          kind: model,
          exp: 4_000_000_000,
          accountId: 'usr_ada',
          clientId: 'web',
          claims: { id_token: { email: null }, list: ['ä', 1, true] },
        }
        await adapters(model).upsert(id, payload, 60)
        await adapters(model).upsert(other, { ...payload, jti: other }, 60)
        expect(await adapters(model).find(id)).toEqual(payload)
        await adapters(model).destroy(id)
        expect(await adapters(model).find(id)).toBeUndefined()
        expect(await adapters(model).find(other)).toMatchObject({ jti: other })
      },
    )

    test('an unknown id, or the id of another model, is not found', async () => {
      const id = idFor('AccessToken')
      await adapters('AccessToken').upsert(id, { jti: id }, 60)
      expect(await adapters('AuthorizationCode').find(id)).toBeUndefined()
      expect(await adapters('AccessToken').find(idFor('AccessToken'))).toBeUndefined()
      expect(await adapters('Session').find(fresh())).toBeUndefined()
      expect(await adapters('Session').findByUid(fresh())).toBeUndefined()
      expect(await adapters('DeviceCode').findByUserCode(fresh())).toBeUndefined()
    })

    test('a second upsert replaces the first', async () => {
      const [model, id] = ['InitialAccessToken', fresh()]
      await adapters(model).upsert(id, { jti: id, kind: model, old: 1 }, 60)
      await adapters(model).upsert(id, { jti: id, kind: model, new: 1 }, 60)
      expect(await adapters(model).find(id)).toEqual({ jti: id, kind: model, new: 1 })
    })

    test('a record without a lifetime is kept', async () => {
      const id = idFor('AccessToken')
      await adapters('AccessToken').upsert(id, { jti: id, kind: 'AccessToken' })
      expect(await adapters('AccessToken').find(id)).toEqual({ jti: id, kind: 'AccessToken' })
    })

    test.each([...TOKENS, 'PushedAuthorizationRequest'])(
      '%s: a consumed record is found with its time of consumption',
      async model => {
        const id = idFor(model)
        await adapters(model).upsert(id, { jti: id, clientId: 'web', exp: 4_000_000_000 }, 60)
        expect(await adapters(model).find(id)).not.toHaveProperty('consumed')
        await adapters(model).consume(id)
        const found = await adapters(model).find(id)
        expect(found).toMatchObject({ jti: id, clientId: 'web' })
        expect(Math.abs(Number(found?.consumed) - Date.now() / 1000)).toBeLessThan(5)
      },
    )

    test('a session is found by its id and by its uid', async () => {
      const uid = randomBytes(16).toString('base64url')
      const id = uid + uid
      const session = { jti: id, uid, exp: 4_000_000_000, accountId: 'usr_ada', loginTs: 1 }
      await adapters('Session').upsert(id, session, 60)
      expect(await adapters('Session').find(id)).toMatchObject(session)
      expect(await adapters('Session').findByUid(uid)).toMatchObject(session)
      await adapters('Session').destroy(id)
      expect(await adapters('Session').find(id)).toBeUndefined()
      expect(await adapters('Session').findByUid(uid)).toBeUndefined()
    })

    test('a device code is found by its user code, with its latest payload', async () => {
      const [id, userCode] = [idFor('DeviceCode'), fresh()]
      await adapters('DeviceCode').upsert(id, { jti: id, userCode }, 60)
      await adapters('DeviceCode').upsert(id, { jti: id, userCode, accountId: 'usr_ada' }, 60)
      const found = await adapters('DeviceCode').findByUserCode(userCode)
      expect(found).toMatchObject({ jti: id, accountId: 'usr_ada' })
      await adapters('DeviceCode').destroy(id)
      expect(await adapters('DeviceCode').findByUserCode(userCode)).toBeUndefined()
    })

    test('revoking a grant ends its own tokens only', async () => {
      const [revoked, kept] = [fresh(), fresh()]
      for (const jti of [revoked, kept]) {
        await adapters('Grant').upsert(jti, { jti, accountId: 'usr_ada', clientId: 'web' }, 60)
      }
      // For the library a token is valid if both the token and its grant are found.
      const upsert = async (model: string, grantId: string) => {
        const id = idFor(model, grantId)
        await adapters(model).upsert(id, { jti: id, grantId }, 60)
        return async () =>
          Boolean((await adapters(model).find(id)) && (await adapters('Grant').find(grantId)))
      }
      const both = [...TOKENS, ...TOKENS]
      const ended = await Promise.all(both.map(model => upsert(model, revoked)))
      const alive = await Promise.all(both.map(model => upsert(model, kept)))
      for (const isValid of ended) expect(await isValid()).toBe(true)
      await revoke(adapters, revoked)
      for (const isValid of ended) expect(await isValid()).toBe(false)
      for (const isValid of alive) expect(await isValid()).toBe(true)
    })
  })
}
