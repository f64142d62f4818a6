// Sessions with concurrent requests: no change is lost or restored, and old ids become invalid.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { moveClock } from '../support/fixtures.ts'
import {
  createLibrary,
  firstVisit,
  type Library,
  resetIdentifier,
  signIn,
  visit,
} from './protocol.ts'

let library: Library
beforeEach(async () => {
  library = await createLibrary()
})
afterEach(() => library.close())

/** Creates a session of Ada. Returns its id. */
async function signedIn(): Promise<string> {
  const { session, save } = firstVisit(library)
  signIn(session, 'usr_ada', 1_700_000_000)
  await save()
  return session.jti
}

async function visitOf(id: string) {
  const found = await visit(library, id)
  if (!found) throw new Error('the session is gone')
  return found
}

/** A request that changes the id, as every resume does. Returns the new id. */
async function replace(id: string): Promise<string> {
  const { session, save } = await visitOf(id)
  resetIdentifier(session)
  await save()
  return session.jti
}

async function signInAgain(id: string): Promise<string> {
  const { session, save } = await visitOf(id)
  signIn(session, 'usr_ada', (session.loginTs ?? 1_700_000_000) + 500)
  resetIdentifier(session)
  await save()
  return session.jti
}

describe('concurrent requests in one session', () => {
  test('fifty that authorise different clients all keep their change', async () => {
    const id = await signedIn()
    const visits = await Promise.all(Array.from({ length: 50 }, () => visitOf(id)))
    for (const [n, { session }] of visits.entries()) {
      session.authorizations = {
        ...session.authorizations,
        [`client${n}`]: { grantId: `grant${n}` },
      }
    }
    await Promise.all(visits.map(({ save }) => save()))
    const { authorizations = {} } = (await visitOf(id)).session
    expect(Object.keys(authorizations)).toHaveLength(50)
  })
})

describe('a replaced cookie value', () => {
  test('leads to the session for a while, for requests in flight', async () => {
    const id = await signedIn()
    const [one, two] = [await visitOf(id), await visitOf(id)]
    resetIdentifier(one.session)
    resetIdentifier(two.session)
    await Promise.all([one.save(), two.save()])
    const { uid } = one.session
    for (const each of [id, one.session.jti, two.session.jti]) {
      expect((await visit(library, each))?.session).toMatchObject({ uid, accountId: 'usr_ada' })
    }
    moveClock(180)
    expect(await visit(library, id)).toBeUndefined()
    expect(await visit(library, one.session.jti)).toBeDefined()
    expect(await visit(library, two.session.jti)).toBeDefined()
  })

  test('leads to the session after a second replacement, too', async () => {
    const id = await signedIn()
    const current = await replace(await replace(id))
    expect(await visit(library, id)).toBeDefined()
    expect((await visitOf(current)).session.accountId).toBe('usr_ada')
    moveClock(180)
    expect(await visit(library, id)).toBeUndefined()
    expect(await visit(library, current)).toBeDefined()
  })

  test('is invalid after a minute, even if its successor has just been replaced', async () => {
    const id = await signedIn()
    const second = await replace(id)
    moveClock(61)
    const third = await replace(second)
    expect(await visit(library, id)).toBeUndefined()
    expect(await visit(library, second)).toBeDefined()
    moveClock(61)
    expect(await visit(library, second)).toBeUndefined()
    expect(await visit(library, third)).toBeDefined()
  })

  test('only a whole cookie value leads to a session, and its uid does not', async () => {
    const id = await signedIn()
    const { uid } = (await visitOf(id)).session
    const others = ['', uid, id + uid, uid + id, id.slice(0, -1), `${id}A`]
    for (const each of others) expect(await visit(library, each), each).toBeUndefined()
  })

  test('is invalid after a sign-in, even if it was replaced just before it', async () => {
    const id = await signedIn()
    const current = await replace(id)
    expect(await visit(library, id)).toBeDefined()
    await signInAgain(current)
    expect(await visit(library, current)).toBeUndefined()
    expect(await visit(library, id)).toBeUndefined()
  })

  test('is invalid after a sign-in, even if a slow request has saved it', async () => {
    const id = await signedIn()
    const slow = await visitOf(id)
    const current = await replace(id)
    await slow.save()
    await signInAgain(current)
    moveClock(60)
    expect(await visit(library, id)).toBeUndefined()
  })

  test('a request from before the sign-in neither restores nor extends it', async () => {
    const planted = firstVisit(library)
    await planted.save()
    const { jti } = planted.session
    const [reviving, renewing] = [await visitOf(jti), await visitOf(jti)]
    const current = await signInAgain(jti)
    resetIdentifier(renewing.session)
    await reviving.save()
    await renewing.save()
    expect(await visit(library, jti)).toBeUndefined()
    expect(await visit(library, renewing.session.jti)).toBeUndefined()
    expect((await visitOf(current)).session.accountId).toBe('usr_ada')
  })

  test('stays valid when a slow request has set the old cookie', async () => {
    const id = await signedIn()
    const slow = await visitOf(id)
    const current = await replace(id)
    await slow.save()
    moveClock(600)
    expect(await visit(library, id)).toBeDefined()
    expect(await visit(library, current)).toBeDefined()
  })
})

test('a sign-out ends the session even if its id no longer leads to it', async () => {
  const { records } = library
  const id = await signedIn()
  const { session, destroy } = await visitOf(id)
  await signInAgain(id)
  await destroy()
  expect((await records.of('Session').read(session.uid)).value).toBeUndefined()
})
