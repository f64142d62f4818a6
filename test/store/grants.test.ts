// The end of grants by revocation, by withdrawal of consent and by sign-out. An ended grant stays ended.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { revokeGrant } from '../../src/oidc/adapter/grants.ts'
import { createSessions } from '../../src/oidc/adapter/sessions.ts'
import { Consents } from '../../src/oidc/consents.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { idFor, revoke } from './adapter-suite.ts'
import { createLibrary, firstVisit, type Library, signIn, type Visit, visit } from './protocol.ts'
import { fresh } from './store-suite.ts'

let library: Library
beforeEach(async () => {
  library = await createLibrary()
})
afterEach(() => library.close())

const find = (model: string, id: string) => library.adapters(model).find(id)
const upsert = (model: string, id: string, payload: object) =>
  library.adapters(model).upsert(id, { ...payload, jti: id }, 60)

interface Given {
  account?: string
  client?: string
  scope?: string
  hasRefreshToken?: boolean
  /** The request that creates the grant. */
  visit?: Visit
}

/** Creates a grant with an access token. `isAlive` returns whether the token is valid. */
async function grant(given: Given = {}) {
  const { account = 'usr_ada', client = 'web', scope = 'openid', hasRefreshToken, visit } = given
  const grantId = fresh()
  const token = idFor('AccessToken', grantId)
  const payload = {
    accountId: account,
    clientId: client,
    exp: 4_000_000_000,
    openid: { scope },
  }
  const write = () => upsert('Grant', grantId, payload)
  await (visit ? visit.request.run(write) : write())
  if (visit)
    visit.session.authorizations = { ...visit.session.authorizations, [client]: { grantId } }
  await upsert('AccessToken', token, { grantId })
  if (hasRefreshToken) {
    await upsert('RefreshToken', library.refreshTokens.first(grantId), { grantId })
  }
  const isAlive = async () =>
    Boolean((await find('AccessToken', token)) && (await find('Grant', grantId)))
  return { grantId, write, isAlive }
}

describe('a revoked grant', () => {
  test('is not restored by a write in flight', async () => {
    for (const end of [
      (id: string) => library.adapters('Grant').destroy(id),
      (id: string) => revokeGrant(library.records, id),
    ]) {
      const { grantId, write } = await grant()
      await end(grantId)
      await write()
      expect(await find('Grant', grantId)).toBeUndefined()
    }
  })

  test('two grants that are revoked in one request both end', async () => {
    const both = [await grant(), await grant()]
    await library.request().run(async () => {
      for (const { grantId } of both) await revoke(library.adapters, grantId)
    })
    for (const { isAlive } of both) expect(await isAlive()).toBe(false)
  })
})

describe('the end of a session', () => {
  async function signedIn(account = 'usr_ada') {
    const first = firstVisit(library)
    signIn(first.session, account, 1_700_000_000)
    await first.save()
    const found = await visit(library, first.session.jti)
    if (!found) throw new Error('the session is gone')
    return found
  }

  test('against the first refresh token: either the token is issued and its grant stays, or neither', async () => {
    const issued: boolean[] = []
    for (let round = 0; round < 40; round++) {
      const leaving = await signedIn()
      const { grantId, isAlive } = await grant({ visit: leaving })
      await leaving.save()
      const token = library.refreshTokens.first(grantId)
      const [, issuing] = await Promise.allSettled([
        leaving.destroy(),
        upsert('RefreshToken', token, { grantId }),
      ])
      const isIssued = issuing.status === 'fulfilled'
      expect(await isAlive()).toBe(isIssued)
      issued.push(isIssued)
    }
    expect(issued).toContain(true)
  })

  test('ends grants that were replaced or lost in the session', async () => {
    const first = await signedIn()
    const { jti } = first.session
    const made = [await grant({ visit: first }), await grant({ visit: first, client: 'spa' })]
    await first.save()
    // Two concurrent requests for the same client.
    const both = [await visit(library, jti), await visit(library, jti)]
    for (const each of both) made.push(await grant({ visit: each }))
    for (const each of both) await each?.save()
    const forgetting = await visit(library, jti)
    if (forgetting) forgetting.session.authorizations = {}
    await forgetting?.save()
    const leaving = await visit(library, jti)
    expect(leaving?.session.authorizations).toEqual({})
    await leaving?.destroy()
    for (const { isAlive } of made) expect(await isAlive()).toBe(false)
  })

  test('ends grants from other channels, and none can be added afterwards', async () => {
    const { session, destroy } = await signedIn()
    const sessions = createSessions(library.records)
    const [early, late] = [await grant(), await grant()]
    expect(await sessions.adopt(session.uid, { [early.grantId]: 4_000_000_000 })).toBe(true)
    await destroy()
    expect(await early.isAlive()).toBe(false)
    expect(await sessions.adopt(session.uid, { [late.grantId]: 4_000_000_000 })).toBe(false)
  })

  /** Lets every read, save or removal of the store fail until the spy is restored. */
  function failEach(operation: 'read' | 'save' | 'remove') {
    const fail = () => Promise.reject(new StoreUnavailable('cut'))
    const { store } = library
    if (operation === 'read') return vi.spyOn(store, 'getMany').mockImplementation(fail)
    const { write } = store
    const field = operation === 'save' ? 'value' : 'tombstone'
    return vi
      .spyOn(store, 'write')
      .mockImplementation(change => (field in change ? fail() : write(change)))
  }

  test.each(['read', 'save', 'remove'] as const)(
    'a sign-out that failed at its %s is completed by the next request with the cookie',
    async operation => {
      const { records } = library
      for (const endsSession of [true, false]) {
        const leaving = await signedIn()
        const late = await visit(library, leaving.session.jti)
        leaving.session.authorizations = { wiki: { sid: 'w' } }
        const { grantId } = await grant({ visit: leaving })
        await leaving.save()
        const spy = failEach(operation)
        await expect(leaving.destroy()).rejects.toBeInstanceOf(StoreUnavailable)
        spy.mockRestore()
        // A request in flight cannot add anything to the session.
        await late?.save()
        const again = await visit(library, leaving.session.jti, { endsSession })
        expect(again !== undefined).toBe(endsSession)
        await again?.destroy()
        expect(await visit(library, leaving.session.jti)).toBeUndefined()
        expect(await find('Grant', grantId)).toBeUndefined()
        const { uid } = leaving.session
        expect(await records.of('SignOut').list('sign-outs', 'new')).toContainEqual(
          expect.objectContaining({ uid }),
        )
      }
    },
  )

  test('ends all sessions of the account, if they are ended together, and no others', async () => {
    const ada = [await signedIn(), await signedIn()]
    const grace = await signedIn('usr_grace')
    const online = await grant({ visit: ada[1] })
    const offline = await grant({ visit: ada[1], client: 'spa', hasRefreshToken: true })
    await ada[1]?.save()
    await createSessions(library.records).endAll('usr_ada')
    for (const { session } of ada) expect(await visit(library, session.jti)).toBeUndefined()
    expect(await visit(library, grace.session.jti)).toBeDefined()
    expect(await online.isAlive()).toBe(false)
    expect(await offline.isAlive()).toBe(true)
  })

  test('a session is ended when its id was replaced just before', async () => {
    const { session } = await signedIn()
    const leaving = await visit(library, session.jti)
    const other = await visit(library, session.jti)
    if (!leaving || !other) throw new Error('the session is gone')
    Object.assign(other.session, { oldId: session.jti, jti: fresh() })
    await other.save()
    await leaving.destroy()
    expect(await visit(library, other.session.jti)).toBeUndefined()
  })
})

test('a withdrawal that failed half-way leaves no access to an application that is not listed', async () => {
  for (const failing of [1, 2]) {
    const account = `usr_${failing}`
    const consents = new Consents(library.records)
    await consents.decide(account, 'web', { scopes: ['openid'], declined: [], version: 0 })
    const { isAlive } = await grant({ account, hasRefreshToken: true })
    const { write } = library.store
    let writes = 0
    const spy = vi.spyOn(library.store, 'write').mockImplementation(async changes => {
      writes++
      if (writes === failing) throw new StoreUnavailable('cut')
      return write.call(library.store, changes)
    })
    const outcome = await Promise.allSettled([consents.withdraw(account, 'web')])
    spy.mockRestore()
    expect(outcome).toMatchObject([{ status: 'rejected' }])
    const isListed = (await consents.list(account)).length > 0
    expect((await isAlive()) && !isListed).toBe(false)
    await consents.withdraw(account, 'web')
    expect([await isAlive(), await consents.list(account)]).toEqual([false, []])
  }
})
