// Recent activity of an account on every kind of store: what is kept, and its limits.

import { expect, test } from 'vitest'
import { keepActivity, recentActivity } from '../../src/account/activity.ts'
import { moveClock } from '../support/fixtures.ts'
import { onEveryStore } from './every-store.ts'
import { fresh } from './store-suite.ts'

const HOME = { network: '203.0.113.0/24', browser: 'Firefox', system: 'Linux' }
const DAY_SECONDS = 24 * 3600

onEveryStore(records => {
  const happen = (account: string, event: 'sign_in_failed' | 'sign_in_succeeded', network = '') =>
    keepActivity(records(), { event, account }, { ...HOME, network })

  test('a thousand failed sign-ins from many networks push nothing else out, and few are kept', async () => {
    const account = fresh()
    await happen(account, 'sign_in_succeeded')
    for (let i = 0; i < 1000; i++) await happen(account, 'sign_in_failed', `10.0.${i}.0/24`)
    const kept = await recentActivity(records(), account)
    expect(kept).toHaveLength(21)
    expect(kept.at(-1)?.event).toBe('sign_in_succeeded')
  })

  test('equal failures of an hour are one entry with their number, a later one is another', async () => {
    const account = fresh()
    for (let i = 0; i < 3; i++) await happen(account, 'sign_in_failed')
    await happen(account, 'sign_in_failed', '10.0.0.0/24')
    moveClock(2 * 3600)
    await happen(account, 'sign_in_failed')
    const counts = (await recentActivity(records(), account)).map(({ count }) => count)
    expect(counts).toEqual([1, 1, 3])
  })

  test('events of two nodes at once are all kept, at most eighty', async () => {
    const account = fresh()
    const all = Array.from({ length: 30 }, () => happen(account, 'sign_in_succeeded'))
    await Promise.all(all)
    expect(await recentActivity(records(), account)).toHaveLength(30)
    for (let i = 0; i < 60; i++) await happen(account, 'sign_in_succeeded')
    expect(await recentActivity(records(), account)).toHaveLength(80)
  })

  test('after ninety days an event is not shown, and the next one removes it', async () => {
    const account = fresh()
    await happen(account, 'sign_in_succeeded')
    moveClock(50 * DAY_SECONDS)
    await happen(account, 'sign_in_succeeded')
    expect(await recentActivity(records(), account)).toHaveLength(2)
    moveClock(41 * DAY_SECONDS)
    expect(await recentActivity(records(), account)).toHaveLength(1)
    await happen(account, 'sign_in_succeeded')
    expect(await recentActivity(records(), account)).toHaveLength(2)
  })

  test('other events, and events without an account, are not kept', async () => {
    const account = fresh()
    await keepActivity(records(), { event: 'tokens_issued', account }, HOME)
    await keepActivity(records(), { event: 'sign_in_failed', name_hash: account }, HOME)
    await keepActivity(records(), { event: 'session_ended', account, upstream: 'corp' }, HOME)
    expect(await recentActivity(records(), account)).toEqual([])
  })
})
