// Work that a timer or a request does when nothing has happened since: it does not grow with entries that were
// removed before.

import { join } from 'node:path'
import { StatementSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createRegisteredClients } from '../../src/features/registration/registered-clients.ts'
import { createSessions, signOutQueue } from '../../src/oidc/adapter/sessions.ts'
import { queueAuditEvent, takeAuditEvents } from '../../src/operation/operator-events.ts'
import { openRecords, type Records } from '../../src/store/records.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startCounted } from './every-store.ts'
import { fresh, now } from './store-suite.ts'

const OLD_ENTRIES = 250
const folder = temporaryFolder()

interface Stage {
  store: Store
  /** Commands so far; in SQLite statements and the rows that they returned. */
  count(): Promise<number>
  stop(): Promise<unknown>
}

async function onSqlite(): Promise<Stage> {
  const statements = (['all', 'run'] as const).map(name => vi.spyOn(StatementSync.prototype, name))
  const costOf = ({ value }: { value?: unknown }) => (Array.isArray(value) ? 1 + value.length : 1)
  return {
    store: await openSqliteStore(join(folder, 'usher.db')),
    async count() {
      const costs = statements.flatMap(({ mock }) => mock.results.map(costOf))
      return costs.reduce((sum, cost) => sum + cost, 0)
    },
    stop: async () => void vi.restoreAllMocks(),
  }
}

const onRedis = () => startCounted('commandstats', /cmdstat_(?!info)[^:]+:calls=(\d+)/g)

const STAGES: [string, () => Promise<Stage>][] = [
  ['SQLite', onSqlite],
  ['Redis', onRedis],
]

interface Work {
  /** Adds an entry, for example to the queue. */
  add(): Promise<unknown>
  /** Removes all entries, as the product does. */
  finish(): Promise<unknown>
  /** What a timer or a request does afterwards. */
  round(): Promise<unknown>
}

/** By name: a timer, or a request that walks an index. One of each kind of queue and list. */
const WORK: Record<string, (records: Records) => Work> = {
  'the delivery of logout tokens'(records) {
    const { enqueue, deliverDue } = signOutQueue(records)
    const deliver = async () => {
      await deliverDue('new', async () => false)
      await deliverDue('again', async () => false)
    }
    const add = () => enqueue({ uid: fresh(), accountId: 'usr_ada', client_id: 'wiki', sid: 's' })
    return { add, finish: () => deliver().then(deliver), round: deliver }
  },
  'audit events of the command line'(records) {
    const take = () => takeAuditEvents(records, () => {})
    const add = () => queueAuditEvent(records, 'keys_rotated')
    return { add, finish: () => take().then(take), round: take }
  },
  'the sessions of an account'(records) {
    const { save, listOfAccount, endAll } = createSessions(records)
    const accountId = fresh()
    const session = () => ({ uid: fresh(), jti: fresh(), exp: now() + 3600, accountId })
    // Not a sign-in, which would end the oldest of many.
    const add = () => save(session(), 3600)
    return { add, finish: () => endAll(accountId), round: () => listOfAccount(accountId) }
  },
  'registered clients'(records) {
    const { add, list, remove } = createRegisteredClients(records)
    const ids: string[] = []
    const register = () => {
      const client_id = fresh()
      ids.push(client_id)
      return add({ client: { client_id }, since: now(), invitation: 'one' })
    }
    return { add: register, finish: () => Promise.all(ids.map(remove)), round: list }
  },
  'the limit of clients that registered without an invitation'(records) {
    const { add, isFull } = createRegisteredClients(records)
    const register = () =>
      add({ client: { client_id: fresh() }, since: now() - 3 * 3600, lastUsed: now() })
    return { add: register, finish: async () => {}, round: () => isFull() }
  },
  'the check of the store': records => ({
    add: async () => records.of('Probe').save(fresh(), {}, { ttl: 60 }),
    finish: async () => {},
    round: () => records.check(),
  }),
}

describe.each(STAGES)('%s', (_, start) => {
  let stage: Stage
  let records: Records
  beforeAll(async () => {
    stage = await start()
    records = await openRecords(stage.store, [Buffer.alloc(32, 'idle')])
  })
  afterAll(async () => {
    await stage.store.close()
    await stage.stop()
  })

  async function costOf(round: () => Promise<unknown>): Promise<number> {
    const before = await stage.count()
    await round()
    return (await stage.count()) - before
  }

  test.each(Object.entries(WORK))(
    '%s: a round costs the same before and after many entries',
    async (...row) => {
      const [, prepare] = row
      const { add, finish, round } = prepare(records)
      await round()
      const before = await costOf(round)
      for (let i = 0; i < OLD_ENTRIES; i += 50) await Promise.all(Array.from({ length: 50 }, add))
      await finish()
      expect(await costOf(round)).toBe(before)
    },
  )
})
