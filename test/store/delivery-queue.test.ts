// The queue of logout tokens on every store: each delivery is taken by one node, and none is lost.

import { setTimeout } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import type { SessionRecord } from '../../src/oidc/adapter/session-record.ts'
import { createSessions, type SignOut, signOutQueue } from '../../src/oidc/adapter/sessions.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { onEveryStore } from './every-store.ts'
import { fresh } from './store-suite.ts'

afterEach(() => vi.useRealTimers())
const pass = (seconds: number) =>
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 })

onEveryStore(one => {
  const clients = [
    { client_id: 'wiki', sid: 'w' },
    { client_id: 'chat', sid: 'c' },
  ]
  /** The end of a session puts these into the queue; its repetition does so again. */
  const leave = (uid: string) => {
    const { enqueue } = signOutQueue(one())
    return Promise.all(clients.map(client => enqueue({ uid, accountId: 'usr_ada', ...client })))
  }
  async function endSession(session: Pick<SessionRecord, 'accountId' | 'authorizations'>) {
    const { save, end } = createSessions(one())
    const uid = fresh()
    const exp = Date.now() / 1000 + 60
    await save({ uid, jti: fresh(), exp, ...session }, 60)
    await end(uid)
    return uid
  }
  /** Takes all due deliveries at every node at the same time. `isAgain` returns whether to retry one. */
  async function take(
    queue: 'new' | 'again',
    isAgain: (signOut: SignOut) => boolean = () => false,
  ) {
    const taken: SignOut[] = []
    const deliver = async (signOut: SignOut) => {
      taken.push(signOut)
      return isAgain(signOut)
    }
    await Promise.all([1, 2, 3, 4].map(() => signOutQueue(one()).deliverDue(queue, deliver)))
    return taken
  }

  test('each delivery is taken once, with its applications, by any number of nodes', async () => {
    const uids = Array.from({ length: 20 }, fresh)
    for (const uid of [...uids, ...uids]) await leave(uid)
    const taken = await take('new')
    const named = taken.map(({ uid, client_id, sid }) => `${uid} ${client_id} ${sid}`)
    const expected = uids.flatMap(uid => [`${uid} wiki w`, `${uid} chat c`])
    expect(named.toSorted()).toEqual(expected.toSorted())
    expect(await take('new')).toEqual([])
  })

  test('failed deliveries are retried when they are due, and no others', async () => {
    await leave(fresh())
    await take('new', ({ client_id }) => client_id === 'chat')
    expect(await take('again')).toEqual([])
    pass(61)
    expect(await take('again')).toMatchObject([{ client_id: 'chat', attempt: 2 }])
    expect(await take('again')).toEqual([])
  })

  test('of what one node delivers at the same time, the oldest comes first', async () => {
    const uids = Array.from({ length: 20 }, fresh)
    for (const [i, uid] of uids.entries()) {
      pass(i / 100 - 10)
      await signOutQueue(one()).enqueue({ uid, accountId: 'usr_ada', client_id: 'wiki', sid: 'w' })
      vi.useRealTimers()
    }
    const taken: string[] = []
    await signOutQueue(one()).deliverDue('new', async ({ uid }) => {
      taken.push(uid)
      return false
    })
    expect(taken).toEqual(uids)
  })

  test('a node makes at most 50 deliveries at the same time', async () => {
    await take('new')
    await Promise.all(Array.from({ length: 30 }, () => leave(fresh())))
    const fifty = Promise.withResolvers<void>()
    let current = 0
    let most = 0
    let all = 0
    await signOutQueue(one()).deliverDue('new', async () => {
      all++
      most = Math.max(most, ++current)
      if (current === 50) fifty.resolve(setTimeout(100))
      await fifty.promise
      current--
      return false
    })
    expect([all, most]).toEqual([60, 50])
  })

  test('one that is announced is due when its change is confirmed, or after half a minute', async () => {
    const { announce, confirm } = signOutQueue(one())
    const [wiki, chat] = clients.map(client => ({ uid: fresh(), accountId: 'usr_ada', ...client }))
    if (!wiki || !chat) throw new Error('no clients')
    await announce(wiki)
    await announce(chat)
    expect(await take('new')).toEqual([])
    await confirm(wiki)
    expect(await take('new')).toMatchObject([{ client_id: 'wiki' }])
    await confirm(wiki)
    expect(await take('new')).toEqual([])
    pass(31)
    expect(await take('new')).toMatchObject([{ client_id: 'chat' }])
  })

  test('the claim of a node is renewed while a receiver is slow', async () => {
    await leave(fresh())
    vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] })
    const slow = Promise.withResolvers<boolean>()
    const taken = Promise.withResolvers<void>()
    let count = 0
    const delivery = signOutQueue(one()).deliverDue('new', () => {
      if (++count === 2) taken.resolve()
      return slow.promise
    })
    await taken.promise
    for (let i = 0; i < 6; i++) {
      vi.advanceTimersByTime(10_000)
      // The renewals of this time are written.
      await vi.waitFor(async () => {
        const entries = await one().of<{ due: number }>('SignOut').list('sign-outs', 'new')
        for (const { due } of entries) expect(due).toBeGreaterThan(Date.now() / 1000 + 20)
      }, PATIENCE_MS)
      expect(await take('new')).toEqual([])
    }
    slow.resolve(false)
    await delivery
    expect(await one().of('SignOut').list('sign-outs', 'new')).toEqual([])
  })

  test('a delivery waits for days until a node runs', async () => {
    await leave(fresh())
    pass(6 * 24 * 3600)
    expect(await take('new')).toHaveLength(2)
  })

  test('a delivery of a node that dies is taken by another node', async () => {
    await leave(fresh())
    let taken = 0
    await new Promise<void>(all => {
      const die = () => new Promise<never>(() => ++taken === 2 && all())
      void signOutQueue(one()).deliverDue('new', die)
    })
    expect(await take('new')).toEqual([])
    pass(31)
    expect(await take('new')).toHaveLength(2)
  })

  test('the end of a session adds a delivery for each application, and none for the account', async () => {
    const authorizations = { wiki: { sid: 'w' }, chat: { sid: 'c' }, 'usher-account': { sid: 'a' } }
    const uid = await endSession({ accountId: 'usr_ada', authorizations })
    const taken = await take('new')
    const inOrder = taken.toSorted((a, b) => b.client_id.localeCompare(a.client_id))
    expect(inOrder).toMatchObject(clients.map(client => ({ uid, ...client })))
    expect(taken).toHaveLength(2)
  })

  test('a session without applications, or without an account, adds no delivery', async () => {
    await endSession({ accountId: 'usr_ada', authorizations: {} })
    await endSession({ authorizations: { wiki: { sid: 'w' } } })
    expect(await take('new')).toEqual([])
  })
})
